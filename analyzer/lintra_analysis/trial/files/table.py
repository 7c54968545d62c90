"""Reads a file of rows: its columns, their kinds, and which cells are missing.

The kind of a column follows from its cells by fixed rules. A column of dates counts days since 1970-01-01. A category
has a level for each of its most frequent values and one, `OTHER`, for the rest and for what is missing.
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.csv_values import MISSING, days_in, number_in, truth_in
from lintra_protocol.errors import InvalidTableError
from lintra_protocol.fields.schema import MAX_NAME, OTHER

MAX_LEVELS = 12
"""Most levels that a category of a file gets, `OTHER` not counted; every level but the first costs a column."""

LEAST_NUMBERED = 50
"""Fewer whole numbers that all differ are not taken for identifiers."""

LARGEST = 1e15
"""No larger number is collected: a document holds 18 digits before the point, a float 15 in all."""

_POINTED = re.compile(r"^(\s*[+-]?\d*),(\d+(?:[eE][+-]?\d+)?\s*)$")

_UNREAD = (
    (
        re.compile(r"^[+-]?\d{1,3}([.,' \u2019\u00a0\u202f])\d{3}(\1\d{3})*([.,]\d+)?$"),
        "numbers with marks between thousands, such as {!r}, are not read; take the marks out",
    ),
    (
        re.compile(r"^[€$£¥]\s?[+-]?\d[\d.,]*$|^[+-]?\d[\d.,]*(\s?[%€$£¥]|\s[^\W\d]{1,5})$"),
        "numbers with a unit, such as {!r}, are not read; write the unit into the column's name",
    ),
    (re.compile(r"^[+-]?\d+,\d+$"), "numbers with a decimal comma, such as {!r}, are not read here; write 1.5"),
    (re.compile(r"^\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\b"), "dates such as {!r} are not read; write them as 2020-12-31"),
)
"""What looks like a number or a date and may mean several things."""

FileKind = Literal["real", "integer", "boolean", "date", "category"]


@dataclass(frozen=True, eq=False, repr=False)
class FileColumn:
    """One column of a file; `repr` shows no cell.

    `values` has shape `(n,)`; NaN where a number is missing, the number of the level for a category. `levels` are those
    of a category, the most frequent first and `OTHER` last; empty otherwise.
    """

    name: str
    kind: FileKind
    values: FloatArray
    levels: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"FileColumn({self.name!r}, {self.kind})"

    @property
    def missing(self) -> int:
        """Return how many numbers are missing; a category misses none, since `OTHER` takes them."""
        return int(np.isnan(self.values).sum())


@dataclass(frozen=True, eq=False, repr=False)
class FileTable:
    """The rows of a file as numbers, and what had to be left out.

    Attributes:
        columns: those that can be collected.
        num_rows: n.
        left_out: for each column that cannot be collected, why.
    """

    columns: tuple[FileColumn, ...]
    num_rows: int
    left_out: dict[str, str]

    def __repr__(self) -> str:
        return f"FileTable({self.num_rows} rows, {len(self.columns)} columns)"

    def column(self, name: str) -> FileColumn:
        """Return the column of a name.

        Raises:
            InvalidTableError: there is none, or it cannot be collected; the detail says which and why.
        """
        for column in self.columns:
            if column.name == name:
                return column
        if name in self.left_out:
            raise InvalidTableError(f"column {name!r} cannot be used: {self.left_out[name]}")
        known = ", ".join(column.name for column in self.columns)
        raise InvalidTableError(f"the file has no column {name!r}; it has {known}")

    def keep(self, names: Sequence[str]) -> "FileTable":
        """Return the table of some columns only, in that order (see `column` for errors)."""
        return FileTable(tuple(self.column(name) for name in names), self.num_rows, {})

    def rows(self, places: IntArray) -> "FileTable":
        """Return the table of the rows at some places, shape `(k,)`."""
        columns = tuple(replace(column, values=column.values[places]) for column in self.columns)
        return FileTable(columns, len(places), self.left_out)

    def block(self) -> FloatArray:
        """Return all rows, shape `(n, d)`; a missing number is NaN."""
        return np.column_stack([column.values for column in self.columns])

    def complete(self) -> tuple[FloatArray, int]:
        """Return the rows in which no number is missing, shape `(k, d)`, and how many others there are."""
        block = self.block()
        whole = ~np.isnan(block).any(axis=1)
        return block[whole], int((~whole).sum())


def read_table(file: Path) -> FileTable:
    """Read a CSV file with a first line of names, or a Parquet file (which needs the extra `frames`)."""
    return read_table_beside(file, ())[0]


def read_table_beside(file: Path, beside: Sequence[str]) -> tuple[FileTable, dict[str, tuple[str, ...]]]:
    """Read a file likewise, and some of its columns as texts, which are then no part of the table.

    `beside` holds names of columns that say whose rows these are, such as an organisation or a person.

    Raises:
        InvalidTableError: as `read_table`; or one of these columns is not there, or empty in some row.
    """
    names, cells = _parquet(file) if file.suffix.lower() in {".parquet", ".pq"} else _csv(file)
    for name in names:
        if not (name and name.isprintable() and len(name) <= MAX_NAME):
            raise InvalidTableError(f"a column needs a printable name of at most {MAX_NAME} characters, got {name!r}")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InvalidTableError(f"two columns are called {twice[0]!r}")
    if not cells:
        raise InvalidTableError("the file has no rows under its line of names")
    columns, left_out, texts = [], {}, {}
    for name, column in zip(names, zip(*cells, strict=True), strict=True):
        if name in beside:
            texts[name] = _given(name, column)
            continue
        try:
            columns.append(typed_column(name, column))
        except _UnusableError as reason:
            left_out[name] = str(reason)
    if absent := [name for name in beside if name not in texts]:
        raise InvalidTableError(f"the file has no column {absent[0]!r}; it has {', '.join(names)}")
    if not columns:
        raise InvalidTableError(f"no column of the file can be collected: {reasons(left_out)}")
    return FileTable(tuple(columns), len(cells), left_out), texts


def _given(name: str, column: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of a column that has one in every row."""
    texts = tuple(cell.strip() for cell in column)
    if "" in texts:
        raise InvalidTableError(f"row {texts.index('') + 1} has nothing in column {name!r}, which says whose it is")
    return texts


def reasons(left_out: Mapping[str, str]) -> str:
    """Return the names of columns and why they were left out, those of one reason together."""
    names: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        names.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(map(repr, each))}: {reason}" for reason, each in names.items())


class _UnusableError(Exception):
    """A column cannot be collected; the text says why."""


def typed_column(name: str, cells: Sequence[str]) -> FileColumn:
    """Tell the kind of a column from its cells, and return it as numbers."""
    stripped = [cell.strip() for cell in cells]
    given = [cell for cell in stripped if cell.lower() not in MISSING]
    if not given:
        raise _UnusableError("it is empty")
    if len(set(given)) == 1 and len(given) == len(stripped):
        raise _UnusableError("it is the same in every row")
    for parse, kind_of in ((number_in, _kind_of_numbers), (truth_in, _kind_of_numbers), (days_in, _kind_of_days)):
        parsed = [math.nan if cell.lower() in MISSING else parse(cell) for cell in stripped]
        if None not in parsed:
            values = np.array(parsed, np.float64)
            if parse is number_in and _numbers_the_rows(values):
                raise _UnusableError("it numbers the rows, as identifiers do")
            if np.nanmax(np.abs(values)) > LARGEST:
                raise _UnusableError(f"its numbers are beyond {LARGEST:g}; choose a larger unit")
            return FileColumn(name, kind_of(values[~np.isnan(values)]), values)
    _refuse_spoiled_numbers(stripped, given)
    return _category(name, stripped)


def _refuse_spoiled_numbers(cells: Sequence[str], given: Sequence[str]) -> None:
    """Refuse numbers or dates spoiled by cells that are none, up to half of them, and numbers written in other ways.

    As a category they would lose their values, and nobody would notice. `cells` are those of all rows, without spaces
    around them; `given` holds the cells that are not missing.
    """
    for parse, what, hint in _SPOILED:
        others = [cell for cell in given if parse(cell) is None]
        if 2 * len(others) <= len(given):
            first = f"the first is {others[0][:40]!r} in row {cells.index(others[0]) + 1}"
            raise _UnusableError(f"{len(others)} of its cells are no {what}, {first}; {hint}")
    for pattern, complaint in _UNREAD:
        unread = {cell for cell in given if pattern.match(cell)}
        if len(unread) > MAX_LEVELS and 2 * len(unread) > len(set(given)):
            raise _UnusableError(complaint.format(min(unread)))


_SPOILED: tuple[tuple[Callable[[str], float | None], str, str], ...] = (
    (number_in, "number", "empty a cell that means missing, and where numbers are levels write all of them as words"),
    (days_in, "date", "write dates as 2020-12-31 and empty a cell that means missing"),
)


def _numbers_the_rows(values: FloatArray) -> bool:
    """Return whether whole numbers, each of them once, leave hardly one out: at least 50, of which half are there."""
    if values.size < LEAST_NUMBERED or np.isnan(values).any() or (values != np.rint(values)).any():
        return False
    return np.unique(values).size == values.size and float(np.ptp(values)) < 2 * values.size


def _kind_of_numbers(known: FloatArray) -> FileKind:
    if set(np.unique(known)) <= {0.0, 1.0}:
        return "boolean"
    whole = bool((known == np.rint(known)).all() and np.abs(known).max() < 2**53)
    return "integer" if whole else "real"


def _kind_of_days(_: FloatArray) -> FileKind:
    return "date"


def _category(name: str, cells: Sequence[str]) -> FileColumn:
    counts = Counter(cell for cell in cells if cell.lower() not in MISSING)
    if len(counts) > max(MAX_LEVELS, len(cells) // 2):
        raise _UnusableError("almost every row has a text of its own in it, as names and identifiers do")
    fitting = {cell for cell in counts if cell.isprintable() and len(name) + len(cell) <= MAX_NAME - 2}
    # The most frequent first; ties in the order of the alphabet, so that a file gives one answer.
    levels = sorted(fitting - {OTHER}, key=lambda cell: (-counts[cell], cell))
    levels = [*levels[:MAX_LEVELS], OTHER]
    if len(levels) < 2:
        raise _UnusableError("none of its values can be the name of a level")
    number = {level: float(position) for position, level in enumerate(levels)}
    values = np.array([number.get(cell, len(levels) - 1.0) for cell in cells], np.float64)
    return FileColumn(name, "category", values, tuple(levels))


def _csv(file: Path) -> tuple[list[str], list[list[str]]]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        try:
            first = lines.readline()
            lines.seek(0)
            separator = _separator(first)
            reader = csv.reader(lines, delimiter=separator)
            names = [name.strip() for name in next(reader, [])]
            rows = [cells for cells in reader if cells]
        except (csv.Error, UnicodeDecodeError) as error:
            raise InvalidTableError(
                f"{file.name} is no CSV file in UTF-8: {error}; save it as CSV with the encoding UTF-8"
            ) from None
    if separator == ";":
        rows = _with_points(rows)
    for number, cells in enumerate(rows, 1):
        if len(cells) != len(names):
            raise InvalidTableError(f"row {number} has {len(cells)} cells, the first line has {len(names)} names")
    return names, rows


def _separator(first: str) -> str:
    """Return what separates the names in the first line: commas, or semicolons or tabs where there is no comma."""
    return next((mark for mark in (",", ";", "\t") if mark in first), ",")


def _with_points(rows: list[list[str]]) -> list[list[str]]:
    """Return the cells of a file with semicolons, with 1,5 as 1.5, unless a number in it has a point."""
    cells = [cell for row in rows for cell in row]
    if any("." in cell and number_in(cell.strip()) is not None for cell in cells):
        return rows
    return [[_POINTED.sub(r"\1.\2", cell) for cell in row] for row in rows]


def _parquet(file: Path) -> tuple[list[str], list[list[str]]]:
    try:
        import pandas as pd
        from pyarrow import ArrowException
    except ModuleNotFoundError:
        raise InvalidTableError("reading Parquet needs pandas and pyarrow: pip install 'lintra[frames]'") from None
    try:
        frame = pd.read_parquet(file)
    except FileNotFoundError:
        raise
    except (ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # Some complaints of a damaged file run over many lines, or say nothing.
        complaint = (str(error) or type(error).__name__).splitlines()[0]
        raise InvalidTableError(f"{file.name} is no Parquet file that can be read: {complaint}") from None
    names = [str(name) for name in frame.columns]
    columns = [["" if gone else str(cell) for cell, gone in zip(frame[c], frame[c].isna(), strict=True)] for c in frame]
    return names, [list(cells) for cells in zip(*columns, strict=True)]
