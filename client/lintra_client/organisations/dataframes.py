"""A data frame as rows: by column name, and a column of the frame that says whose facts a row states.

Nothing here needs pandas: a frame is whatever has `columns`, `dtypes` and `itertuples` as pandas' has.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from lintra_client.organisations.mapping import AS_IT_IS, FileMapping
from lintra_client.organisations.sent_table import read_sent
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.csv_values import DAYS
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.fields.person_names import person_name
from lintra_protocol.fields.schema import Column

_FITTING = {"real": "iufO", "integer": "iufO", "boolean": "biufO", "category": "OUT"}
"""Kinds of NumPy's types that a column of a frame may have, by the kind of the task's column; O is any object.

A column in days since 1970 may hold moments as well."""


@runtime_checkable
class TypedFrame(Protocol):
    """What is needed of a data frame."""

    @property
    def columns(self) -> Iterable[object]:
        """The names of its columns."""
        ...

    @property
    def dtypes(self) -> Iterable[object]:
        """The types of its columns, in the same order."""
        ...

    def itertuples(self, index: bool = True, name: str | None = None) -> Iterable[tuple[object, ...]]:
        """Return its rows."""
        ...


def rows_of_frame(
    frame: TypedFrame, columns: Sequence[Column], without: str | None = None, mapping: FileMapping = AS_IT_IS
) -> Iterator[FloatArray]:
    """Return the rows of a frame, each of shape `(d,)`: a level by its number, what is missing as NaN.

    `frame` has the task's columns, in any order. `without` is a column of the frame that is no part of the rows;
    `mapping` is what the sender says of the others. All cells are looked at before the first row is returned.

    Raises:
        InvalidRowError: other columns, one whose type holds no value of the task's column, or a cell that does not fit.
        InvalidTableError: cells can be read in two ways, and the mapping does not say in which.
    """
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise InvalidRowError("the frame has two columns of the same name: rename one of them")
    found = mapping.apply(dict(zip(names, frame.dtypes, strict=True)), [each.name for each in columns], without)
    for column, dtype in zip(columns, found.values(), strict=True):
        # A column of another type would be missing in every row, silently.
        if getattr(dtype, "kind", "O") not in _fitting(column):
            raise InvalidRowError(f"column {column.name!r}: a column of {dtype} holds no values of kind {column.kind}")
    rows = list(frame.itertuples(index=False, name=None))
    cells = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ())
    return iter(np.column_stack([each.values for each in read_sent(columns, cells, mapping, without)]))


def sources_of_frame(frame: TypedFrame, column: str) -> Callable[[int], object]:
    """Return who stands in a column of a frame, by the number of the row, as it is spelled there.

    Raises:
        InvalidRowError: the frame has not exactly one column of this name, or a row has no usable name in it.
    """
    names = [str(name) for name in frame.columns]
    if names.count(column) != 1:
        raise InvalidRowError(f"the frame has columns {', '.join(names)}; sources stand in {column!r}, once")
    place = names.index(column)
    values = [row[place] for row in frame.itertuples(index=False, name=None)]
    require_names(values, column)
    return values.__getitem__


def require_names(spelled: Iterable[object], column: str) -> None:
    """Check that every row of a table names somebody, before any row is sent.

    Raises:
        InvalidRowError: one does not (see `person_name`); the detail names row and column.
    """
    for number, value in enumerate(spelled, 1):
        try:
            person_name(value)
        except ValueError as error:
            raise InvalidRowError(f"row {number}, column {column!r}: {error}") from None


def _fitting(column: Column) -> str:
    return _FITTING[column.kind] + ("M" if column.unit == DAYS and column.kind != "category" else "")
