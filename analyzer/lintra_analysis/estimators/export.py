"""The table of an estimate in files: the columns of its CSV for NumPy (.npz) and as Parquet (`lintra[frames]`)."""

import io
from importlib.util import find_spec

import numpy as np

from lintra_analysis.estimators.table import Estimate
from lintra_analysis.estimators.tabular import csv_cell
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError, install_command

INSTALL = f"Parquet needs pyarrow, which is not installed; {install_command('frames')}"


def lines_of(estimate: Estimate) -> tuple[list[str], list[list[str]]]:
    """Return the heading of an estimate's table and its lines, every cell as its CSV spells it."""
    own = estimate.table()
    return list(own.columns), [[csv_cell(cell) for cell in line] for line in own.rows]


def columns_of(estimate: Estimate) -> dict[str, FloatArray | list[str]]:
    """Return an estimate's table by column.

    A column of numbers is an array of shape `(k,)` with NaN where a cell is empty; any other is a list of k words.
    """
    header, lines = lines_of(estimate)
    return {name: _column([line[place] for line in lines]) for place, name in enumerate(header)}


def npz_of(estimate: Estimate) -> bytes:
    """Return a file that `numpy.load(file, allow_pickle=False)` reads: the estimate's own, or its table.

    Of a table it holds the names in `columns`, and each column under its own place, "0", "1" and so on, since not every
    name is one of a file.
    """
    own = estimate.npz()
    if own is not None:
        return own
    columns = columns_of(estimate)
    held = {str(place): np.asarray(column) for place, column in enumerate(columns.values())}
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **held, columns=np.array(list(columns)))
    return file.getvalue()


def has_parquet() -> bool:
    """Return whether Parquet can be written here, without loading what writes it."""
    return find_spec("pyarrow") is not None


def parquet_of(estimate: Estimate) -> bytes:
    """Return a Parquet file: the estimate's own, or its table.

    Raises InvalidAnalysisError if pyarrow is not installed.
    """
    own = estimate.parquet()
    if own is not None:
        return own
    try:
        from pyarrow import Table, parquet
    except ModuleNotFoundError:
        raise InvalidAnalysisError(INSTALL) from None
    file = io.BytesIO()
    parquet.write_table(Table.from_pydict(columns_of(estimate)), file)
    return file.getvalue()


def _column(cells: list[str]) -> FloatArray | list[str]:
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells], np.float64)
    except ValueError:
        return cells
