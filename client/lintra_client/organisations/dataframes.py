"""A data frame as rows: by column name, and a column of the frame that says whose facts a row states.

Nothing here needs pandas: a frame is whatever has `columns`, `dtypes` and `itertuples` as pandas' has.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import Protocol, runtime_checkable

from lintra_protocol.encoding.csv_values import DAYS, days_of, sent_number
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.fields.person_names import person_name
from lintra_protocol.fields.schema import Column, is_missing

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
    frame: TypedFrame, columns: Sequence[Column], without: str | None = None
) -> Iterator[dict[str, object]]:
    """Return the rows of a frame by column name, read as they are sent; what pandas calls missing is None.

    `frame` has exactly the task's columns, in any order. `without` is a column of the frame that is no part of the
    rows.

    Raises:
        InvalidRowError: other columns, or one whose type holds no value of the task's column; nothing was read yet.
    """
    names = [str(name) for name in frame.columns]
    known = {column.name: column for column in columns}
    if without in known:
        raise InvalidRowError(f"column {without!r} belongs to the task, so that it cannot name the sources")
    if sorted(name for name in names if name != without) != sorted(known):
        raise InvalidRowError(f"the frame has columns {', '.join(names)}; the task has {', '.join(known)}")
    for name, dtype in zip(names, frame.dtypes, strict=True):
        # A column of another type would be missing in every row, silently.
        if name != without and getattr(dtype, "kind", "O") not in _fitting(known[name]):
            raise InvalidRowError(f"column {name!r}: a column of {dtype} holds no values of kind {known[name].kind}")
    return (
        {name: _sent(value, known[name]) for name, value in zip(names, row, strict=True) if name != without}
        for row in frame.itertuples(index=False, name=None)
    )


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


def _sent(value: object, column: Column) -> object:
    """Return a value as `Schema` reads it: of a column of dates the days, None for what is missing."""
    found = None if is_missing(value) else value
    if column.unit != DAYS or column.kind == "category":
        return found
    if isinstance(found, str):
        return sent_number(found, column.kind, column.unit)
    return days_of(found) if isinstance(found, date) else found
