"""Reads a file of rows: its columns, their kinds, which cells are missing, and what only its owner can say.

How cells are read follows from the rules of `lintra_protocol.tables.columns`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import is_printable
from lintra_protocol.errors import InvalidTableError, install_command
from lintra_protocol.fields.schema import MAX_NAME
from lintra_protocol.tables.columns import LARGEST, mark_of_file, read_column
from lintra_protocol.tables.numbers import DecimalMark
from lintra_protocol.tables.readings import ColumnReport, Reading, questions_in_words
from lintra_protocol.tables.text_file import read_csv

FileKind = Literal["real", "integer", "boolean", "date", "category"]


@dataclass(frozen=True)
class Readings:
    """What the owner of a file says of its columns.

    Attributes:
        columns: by name, how to read them.
        keep: names of the columns that are used; None for all.
        guess: whether a question is answered as the report guesses it.

    >>> from lintra_analysis import Readings
    >>> Readings.from_options(["plz=category"], ["income=-99"], [], [], guess=False).columns["income"].missing
    ('-99',)
    """

    columns: Mapping[str, Reading] = field(default_factory=dict)
    keep: tuple[str, ...] | None = None
    guess: bool = False

    @classmethod
    def from_options(
        cls, as_: Sequence[str], missing: Sequence[str], drop: Sequence[str], keep: Sequence[str], *, guess: bool
    ) -> "Readings":
        """Return what the options of a command say: `NAME=READING` and `NAME=CODE`, and names.

        Raises:
            InvalidTableError: an option has no `=`, or a reading is unknown.
        """
        ways = dict(_pair("--as", text) for text in as_) | dict.fromkeys(drop, "drop")
        codes: dict[str, tuple[str, ...]] = {}
        for name, code in (_pair("--missing", text) for text in missing):
            codes[name] = (*codes.get(name, ()), code)
        columns = {name: Reading(ways.get(name), codes.get(name, ())) for name in ways.keys() | codes.keys()}
        return cls(columns, tuple(keep) or None, guess)


def _pair(option: str, text: str) -> tuple[str, str]:
    name, mark, value = text.rpartition("=")
    if not mark or not name:
        raise InvalidTableError(f"{option} takes COLUMN=VALUE, got {text!r}")
    return name, value


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
    unit: str = ""

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
        reports: how every column of the file was read.
        note: what its owner should check of the file as a whole.
    """

    columns: tuple[FileColumn, ...]
    num_rows: int
    left_out: dict[str, str]
    reports: tuple[ColumnReport, ...] = ()
    note: str = ""

    def __repr__(self) -> str:
        return f"FileTable({self.num_rows} rows, {len(self.columns)} columns)"

    def remarks(self) -> Iterator[str]:
        """Yield what the owner should hear: what columns lose, and which readings were guessed."""
        if self.note:
            yield self.note
        for report in self.reports:
            if report.question:
                taken = "it was left out" if report.kind == "left out" else f"it was read as {report.kind}"
                yield f"{report.name}: guessed, since {report.question}; {taken}"
            if report.lost:
                yield f"{report.name}: {report.lost}"
            if report.missing_codes and report.kind != "category":
                yield f"{report.name}: {', '.join(map(repr, report.missing_codes))} count as missing"

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


@dataclass(frozen=True, repr=False)
class FileCells:
    """The cells of a file or a data frame, as texts.

    Attributes:
        names: of the columns.
        columns: the cells of each.
        typed: names of columns that hold numbers, not texts: their decimal mark is known.
        mark: the decimal mark of the texts, if that is known.
        note: what its owner should check of the file as a whole.
    """

    names: tuple[str, ...]
    columns: tuple[Sequence[str], ...]
    typed: frozenset[str]
    mark: DecimalMark | None
    note: str = ""

    @classmethod
    def of(cls, rows: Any) -> "FileCells":
        """Return the cells of a CSV or Parquet file, or of a data frame of pandas.

        Raises:
            InvalidTableError: it cannot be read, it has no rows, or a column has no name of its own.
        """
        if hasattr(rows, "columns"):
            return cls._of_frame(rows)
        file = Path(rows)
        if file.suffix.lower() in {".parquet", ".pq"}:
            return cls._of_frame(_parquet(file))
        return cls.of_text(file.read_bytes(), file.name)

    @classmethod
    def of_text(cls, content: bytes, name: str) -> "FileCells":
        """Return the cells of a CSV file from its bytes; raise InvalidTableError as `of` does."""
        names, lines, text = read_csv(content, name)
        columns = tuple(zip(*lines, strict=True))
        return cls(
            _checked_names(names, columns), columns, frozenset(), mark_of_file(columns, text.separator), text.note
        )

    @classmethod
    def _of_frame(cls, frame: Any) -> "FileCells":
        names = tuple(str(name) for name in frame.columns)
        gone = frame.isna()
        columns = tuple(
            tuple("" if empty else _as_text(cell) for cell, empty in zip(frame[name], gone[name], strict=True))
            for name in frame.columns
        )
        kinds = [getattr(dtype, "kind", "O") for dtype in frame.dtypes]
        typed = frozenset(name for name, kind in zip(names, kinds, strict=True) if kind in "iufb")
        texts = [cells for name, cells in zip(names, columns, strict=True) if name not in typed]
        return cls(_checked_names(names, columns), columns, typed, mark_of_file(texts, ","))

    def read(self, readings: Readings, beside: Sequence[str] = ()) -> tuple[list[ColumnReport], list[list[float]]]:
        """Return how each column is read that is not `beside`, and its values.

        Raises:
            InvalidTableError: a reading names a column that is not there.
        """
        for name in (*sorted(readings.columns.keys() | set(readings.keep or ())), *beside):
            if name not in self.names:
                raise InvalidTableError(f"the file has no column {name!r}; it has {', '.join(self.names)}")
        reports, values = [], []
        for name, cells in zip(self.names, self.columns, strict=True):
            if name in beside:
                continue
            dropped = readings.keep is not None and name not in readings.keep
            reading = Reading("drop") if dropped else readings.columns.get(name, Reading())
            report, numbers = read_column(name, cells, reading, self.mark, typed=name in self.typed)
            reports.append(report)
            values.append(numbers)
        return reports, values


def read_table(file: Path, readings: Readings = Readings()) -> FileTable:
    """Read a CSV file with a first line of names, or a Parquet file (which needs the extra `frames`)."""
    return read_table_beside(file, (), readings)[0]


def read_table_beside(
    file: Path,
    beside: Sequence[str],
    readings: Readings = Readings(),
) -> tuple[FileTable, dict[str, tuple[str, ...]]]:
    """Read a file likewise, and some of its columns as texts, which are then no part of the table.

    `beside` holds names of columns that say whose rows these are, such as an organisation or a person.

    Raises:
        InvalidTableError: as `table_of`; or one of these columns is not there, or empty in some row.
    """
    cells = FileCells.of(file)
    reports, values = cells.read(readings, beside)
    named = zip(cells.names, cells.columns, strict=True)
    texts = {name: _given(name, column) for name, column in named if name in beside}
    return table_of(reports, values, len(cells.columns[0]), readings, cells.note), texts


def read_columns(rows: Any, readings: Readings = Readings()) -> tuple[ColumnReport, ...]:
    """Return how each column of a file or a data frame is read, and what is open; see `ColumnReport`.

    `rows` is the path of a CSV or Parquet file, or a data frame of pandas; `readings` is what its owner says of it.

    >>> from lintra_analysis import read_columns
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"share": ["53%", "41%", "8%"], "smokes": ["yes", "no", "no"]})
    >>> [(column.name, column.kind, column.unit) for column in read_columns(frame)]
    [('share', 'integer', '%'), ('smokes', 'boolean', '')]
    """
    return tuple(FileCells.of(rows).read(readings)[0])


def table_of(
    reports: Sequence[ColumnReport], values: Sequence[Sequence[float]], num_rows: int, readings: Readings, note: str
) -> FileTable:
    """Return the table of what was read.

    Raises:
        InvalidTableError: a question is open, or no column can be collected; the detail says which and what to do.
    """
    if not readings.guess and (open_ := [report for report in reports if report.question]):
        raise InvalidTableError(asked_of(open_), asks=True)
    columns = [
        FileColumn(report.name, report.kind, np.array(numbers, np.float64), report.levels, report.unit)
        for report, numbers in zip(reports, values, strict=True)
        if report.kind != "left out"
    ]
    left_out = {report.name: report.why for report in reports if report.kind == "left out"}
    if not columns:
        raise InvalidTableError(f"no column of the file can be collected: {reasons(left_out)}")
    return FileTable(tuple(columns), num_rows, left_out, tuple(reports), note)


def asked_of(reports: Sequence[ColumnReport]) -> str:
    """Return what is open in some columns, each with the options that answer it."""
    lines = questions_in_words((report.name, report.question, report.options) for report in reports)
    return "\n".join([*lines, "  or take every guess: --accept-guesses"])


def _checked_names(names: Sequence[str], columns: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the names of columns; a first one without a name is the index that a data frame wrote."""
    names = ("Unnamed: 0", *names[1:]) if len(names) > 1 and not names[0] else tuple(names)
    for number, name in enumerate(names, 1):
        if not name:
            raise InvalidTableError(f"column {number} of {len(names)} has no name")
        if not (name and is_printable(name) and len(name) <= MAX_NAME):
            raise InvalidTableError(f"a column needs a printable name of at most {MAX_NAME} characters, got {name!r}")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InvalidTableError(f"two columns are called {twice[0]!r}")
    if not columns or not columns[0]:
        raise InvalidTableError("the file has no rows under its line of names")
    return names


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


def _parquet(file: Path) -> Any:
    try:
        import pandas as pd
        from pyarrow import ArrowException
    except ModuleNotFoundError:
        raise InvalidTableError(f"reading Parquet needs pandas and pyarrow; {install_command('frames')}") from None
    try:
        return pd.read_parquet(file)
    except FileNotFoundError:
        raise
    except (ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # Some complaints of a damaged file run over many lines, or say nothing.
        complaint = (str(error) or type(error).__name__).splitlines()[0]
        raise InvalidTableError(f"{file.name} is no Parquet file that can be read: {complaint}") from None


def _as_text(cell: object) -> str:
    """Return a cell of a frame as a file would have it: 7 also where a gap in the column made it 7.0."""
    whole = isinstance(cell, float) and cell.is_integer() and abs(cell) < LARGEST
    return str(int(cell) if whole else cell)  # type: ignore[call-overload]
