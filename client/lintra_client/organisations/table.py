"""The rows of an organisation as one array: from an array, a data frame, a CSV file or a Parquet file.

Columns are read whole, not row by row: a file may have a million rows.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.csv_values import DAYS, days_of, sent_level, sent_number
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.fields.person_names import PersonNames, person_name
from lintra_protocol.fields.schema import OTHER, Column, is_missing
from lintra_protocol.tables.text_file import read_csv
from lintra_protocol.task import Task

Cells = Sequence[object] | NDArray[Any]
PARQUET = {".parquet", ".pq"}


@runtime_checkable
class RowTable(Protocol):
    """What is needed of a data frame: columns that can be taken by name, as pandas' can."""

    @property
    def columns(self) -> Iterable[object]:
        """The names of its columns."""
        ...

    def __getitem__(self, name: str) -> Any:
        """Return one column."""
        ...


Rows = FloatArray | RowTable | Mapping[str, Cells]
"""All rows: an array of shape `(n, d)` in the task's order, a data frame, or columns by name."""


def values_of(task: Task, rows: Rows, person: str | None, *, strict: bool) -> FloatArray:
    """Return checked rows in the user's units, shape `(n, d)`; NaN for what is missing.

    `rows` are an array, a data frame, or columns by name, with exactly the task's columns and that of the persons.
    `person` is the column that says whose row each is, which is no part of the rows.

    Raises:
        InvalidRowError: other columns, columns of different lengths, a cell that is neither missing nor of its column's
            kind or, if `strict`, a missing value.
    """
    schema = task.schema_arrays
    if isinstance(rows, np.ndarray):
        return schema.rows(rows, strict=strict)
    columns = _by_name(rows)
    if person in schema.names:
        raise InvalidRowError(f"column {person!r} belongs to the task, so that it cannot name the persons")
    if sorted(name for name in columns if name != person) != sorted(schema.names):
        raise InvalidRowError(f"the file has columns {', '.join(columns)}; the task has {', '.join(schema.names)}")
    if len({len(cells) for cells in columns.values()}) > 1:
        raise InvalidRowError("the columns have different numbers of rows")
    numbers = [_numbers(column, columns[column.name]) for column in task.columns]
    return schema.rows(np.column_stack(numbers), strict=strict, first=1)


def persons_of(rows: Rows, person: str | Sequence[object] | None, count: int) -> tuple[IntArray, list[str], int]:
    """Return whose row each is, shape `(n,)`, numbered from 0, the persons' names, and how many spellings were joined.

    Spellings of one name (`person_name`) are one person. Without `person` each row is another, who has no name.
    `person` is a column's name, or for each row a name; `count` is n.

    Raises:
        InvalidRowError: nobody stands in a row, or there is not one name for each.
    """
    if person is None:
        return np.arange(count), [], 0
    named: Cells = person if not isinstance(person, str) else _persons_column(rows, person)
    if len(named) != count:
        raise InvalidRowError(f"{len(named)} persons for {count} rows")
    if isinstance(named, np.ndarray) and named.dtype.kind in "iu":
        # A whole number has one spelling, so that a million rows need no look at each.
        own, places = np.unique(named, return_inverse=True)
        return places.astype(np.int64), [person_name(value) for value in own.tolist()], 0
    where = f", column {person!r}" if isinstance(person, str) else ""
    names, known = PersonNames(), dict[str, int]()
    numbers = np.empty(count, np.int64)
    for place, value in enumerate(named):
        try:
            numbers[place] = known.setdefault(names.of(value), len(known))
        except ValueError as error:
            raise InvalidRowError(f"row {place + 1}{where}: {error}") from None
    return numbers, list(known), names.joined


def read_table(file: Path) -> Mapping[str, Cells]:
    """Return the columns of a CSV or Parquet file by name, cells as they are written.

    Raises:
        InvalidRowError: it is neither, a column's name stands twice, or a line has another number of cells.
    """
    if file.suffix.lower() in PARQUET:
        return _parquet(file)
    header, rows, _ = read_csv(file.read_bytes(), file.name)
    if len(set(header)) < len(header):
        raise InvalidRowError(f"{file.name} names a column twice")
    return dict(zip(header, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(header, ())


def _parquet(file: Path) -> Mapping[str, Cells]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise InvalidRowError("a Parquet file needs pyarrow, which is not installed here; use CSV") from None
    try:
        table = parquet.read_table(file)
    except (OSError, ArrowException) as error:
        raise InvalidRowError(f"{file.name} is no Parquet file: {error}") from None
    columns = [column.to_numpy(zero_copy_only=False) for column in table.itercolumns()]
    return dict(zip(table.column_names, columns, strict=True))


def _by_name(rows: RowTable | Mapping[str, Cells]) -> dict[str, Cells]:
    if isinstance(rows, Mapping):
        return dict(rows)
    names = [str(name) for name in rows.columns]
    if len(set(names)) < len(names):
        raise InvalidRowError("the frame names a column twice")
    return {name: np.asarray(rows[name]) for name in names}


def _persons_column(rows: Rows, name: str) -> Cells:
    if isinstance(rows, np.ndarray) or name not in _by_name(rows):
        raise InvalidRowError(f"there is no column {name!r} that could say whose row each is")
    # As it is: an array of a frame's whole numbers with a gap holds floats, which lose the digits of long identifiers,
    # and one of a list holds numbers in place of the booleans in it.
    cells: Cells = rows[name]
    if isinstance(rows, Mapping):
        return cells
    as_array = np.asarray(cells)
    return as_array if as_array.dtype.kind in "iu" else cells


def _numbers(column: Column, cells: Cells) -> FloatArray:
    """Return a column's cells as numbers, a level as its own; NaN for what is missing."""
    if column.kind == "category":
        levels = {level: float(number) for number, level in enumerate(column.levels)}
        read = (levels[level] if (level := str(cell)) in levels else _unknown_level(column, cell) for cell in cells)
    else:
        held = np.asarray(cells)
        if held.dtype.kind in "biuf":
            return held.astype(np.float64)
        read = (_number(column, cell) for cell in cells)
    numbers = np.empty(len(cells))
    for row, number in enumerate(read):
        if number is None:
            wanted = f"one of {column.levels_in_words()}" if column.kind == "category" else "a number"
            raise InvalidRowError(f"row {row + 1}, column {column.name!r}: not {wanted}", row=row, column=column.name)
        numbers[row] = number
    return numbers


def _unknown_level(column: Column, cell: object) -> float | None:
    """Return the number of a cell that is no level: of the reserved one, NaN if it is missing; None for any other."""
    if OTHER in column.levels:
        return float(column.levels.index(OTHER))
    return math.nan if is_missing(cell) or sent_level(str(cell), column.levels) is None else None


def _number(column: Column, cell: object) -> float | None:
    """Return a cell of numbers as one; NaN if it is missing, None for any other."""
    if isinstance(cell, str):
        found = sent_number(cell, column.kind, column.unit)
        return None if isinstance(found, str) else found
    if is_missing(cell):
        return math.nan
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[s]").item()
    if isinstance(cell, date) and column.unit == DAYS:
        return days_of(cell)
    return float(cell) if isinstance(cell, bool | np.bool_ | int | float | np.integer | np.floating) else None
