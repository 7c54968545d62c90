"""The rows of an organisation as one array, and whose they are: from an array, a data frame or columns by name.

Columns are read whole, not row by row: a file may have a million rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from lintra_client.organisations.mapping import AS_IT_IS, FileMapping
from lintra_client.organisations.sent_table import Cells, read_sent
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidRowError, InvalidTableError
from lintra_protocol.fields.person_names import PersonNames, person_name
from lintra_protocol.tables.sent_columns import SentColumn
from lintra_protocol.task import Task


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


def values_of(
    task: Task, rows: Rows, person: str | None, mapping: FileMapping = AS_IT_IS, *, strict: bool
) -> tuple[FloatArray, list[SentColumn]]:
    """Return checked rows in the user's units, shape `(n, d)`, NaN for what is missing, and how columns were read.

    `rows` are an array, of which nothing had to be read, a data frame, or columns by name, with the task's columns and
    that of the persons. `person` is the column that says whose row each is, which is no part of the rows; `mapping` is
    what the sender says of the others.

    Raises:
        InvalidRowError: other columns, columns of different lengths, a cell that is neither missing nor of its column's
            kind or, if `strict`, a missing value.
        InvalidTableError: cells can be read in two ways, and the mapping does not say in which.
    """
    schema = task.schema_arrays
    if isinstance(rows, np.ndarray):
        return schema.rows(rows, strict=strict), []
    read = read_sent(task.columns, _by_name(rows), mapping, person)
    return schema.rows(np.column_stack([each.values for each in read]), strict=strict, first=1), read


def persons_of(
    rows: Rows, person: str | Sequence[object] | None, count: int, *, ask: bool = False
) -> tuple[IntArray, list[str], int]:
    """Return whose row each is, shape `(n,)`, numbered from 0, the persons' names, and how many spellings were joined.

    Spellings of one name (`person_name`) are one person. Without `person` each row is another, who has no name.
    `person` is a column's name, or for each row a name; `count` is n. `ask` says whether names that differ in capitals
    only are asked about.

    Raises:
        InvalidRowError: nobody stands in a row, or there is not one name for each.
        InvalidTableError: names differ in capitals only, and `ask`.
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
    if ask and names.alike:
        raise InvalidTableError(
            f"{names.alike:,} names{where} differ from others in capitals only, and count as the same persons'\n"
            "  answer --same-persons if they are, or write other names for different persons",
            asks=True,
        )
    return numbers, list(known), names.joined


def _by_name(rows: RowTable | Mapping[str, Cells]) -> Mapping[str, Cells]:
    if isinstance(rows, Mapping):
        return rows
    names = [str(name) for name in rows.columns]
    if len(set(names)) < len(names):
        raise InvalidRowError("the frame has two columns of the same name: rename one of them")
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
