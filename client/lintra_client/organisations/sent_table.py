"""A sender's table: read from a CSV or Parquet file, and its columns in the terms of a task."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lintra_client.organisations.mapping import AS_IT_IS, FileMapping
from lintra_protocol.errors import InvalidRowError, InvalidTableError
from lintra_protocol.fields.schema import Column
from lintra_protocol.tables.columns import mark_of_file
from lintra_protocol.tables.numbers import DecimalMark
from lintra_protocol.tables.readings import BY_CELLS, questions_in_words
from lintra_protocol.tables.sent_columns import SentColumn, read_sent_column
from lintra_protocol.tables.text_file import read_csv

Cells = Sequence[object] | NDArray[Any]
PARQUET = {".parquet", ".pq"}


class TableFile(dict[str, Cells]):
    """The columns of a file by name, cells as they are written; what its owner should check; its decimal mark."""

    note: str = ""
    mark: DecimalMark | None = None

    @property
    def num_rows(self) -> int:
        """Return how many rows the file has."""
        return len(next(iter(self.values()), ()))


def read_table(file: Path) -> TableFile:
    """Return the columns of a CSV or Parquet file.

    Raises:
        InvalidRowError: it is neither, a column's name stands twice, or a line has another number of cells.
    """
    if file.suffix.lower() in PARQUET:
        return _parquet(file)
    header, rows, text_format = read_csv(file.read_bytes(), file.name)
    if len(set(header)) < len(header):
        raise InvalidRowError(f"{file.name} has two columns of the same name: rename one of them")
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in header]
    table = TableFile(zip(header, columns, strict=True))
    table.note, table.mark = text_format.note, mark_of_file(columns, text_format.separator)
    return table


def read_sent(
    columns: Sequence[Column], table: Mapping[str, Cells], mapping: FileMapping = AS_IT_IS, person: str | None = None
) -> list[SentColumn]:
    """Return the columns of a table as a task's columns, in its order.

    `table` has columns by name, and `person` is the one that says whose row each is; `mapping` is what the sender says.

    Raises:
        InvalidRowError: other columns, columns of different lengths, or a cell that does not fit.
        InvalidTableError: cells can be read in two ways, and the mapping does not say in which.
    """
    cells = mapping.apply(table, [column.name for column in columns], person)
    if len({len(each) for each in cells.values()}) > 1:
        raise InvalidRowError("the columns have different numbers of rows")
    mark = table.mark if isinstance(table, TableFile) else None
    read = [
        read_sent_column(
            column,
            cells[column.name],
            mapping.readings.get(column.name, BY_CELLS),
            mapping.others.get(column.name),
            mark,
        )
        for column in columns
    ]
    if open_ := [(each.column.name, text, options) for each in read for text, options in each.questions]:
        raise InvalidTableError("\n".join(questions_in_words(open_)), asks=True)
    return read


def _parquet(file: Path) -> TableFile:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise InvalidRowError("a Parquet file needs pyarrow, which is not installed here; use CSV") from None
    try:
        table = parquet.read_table(file)
    except (OSError, ArrowException) as error:
        raise InvalidRowError(f"{file.name} is no Parquet file: {error}") from None
    if len(set(table.column_names)) < len(table.column_names):
        raise InvalidRowError(f"{file.name} has two columns of the same name: rename one of them")
    columns = [column.to_numpy(zero_copy_only=False) for column in table.itercolumns()]
    return TableFile(zip(table.column_names, columns, strict=True))
