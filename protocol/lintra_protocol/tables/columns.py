"""What the cells of one column mean: its kind, unit and missing values, and a question where two readings are open.

The rules, in the order in which they are applied:

1. A cell that says nothing (`SURELY_MISSING`) is missing. One of `MAYBE_MISSING` is missing in a column of numbers or
   dates, and a level in a column of texts.
2. A column whose other cells are all numbers holds numbers. Units are one and the same in every cell. The decimal mark
   is the one that the cells decide. Zeros and ones are a boolean.
3. A column whose other cells are all dates holds days since 1970-01-01. Of `1/2/2020` the column decides the order.
4. Two words for yes and no are a boolean.
5. A column of which half of the cells or more are numbers or dates is never a category.
6. All else is a category.

Where a rule leaves two readings open, the report has a question, and the values are those of the likelier reading. A
`Reading` answers it.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from lintra_protocol.encoding.csv_values import DAYS
from lintra_protocol.encoding.documents import is_printable
from lintra_protocol.errors import InvalidTableError
from lintra_protocol.fields.schema import MAX_NAME, OTHER
from lintra_protocol.tables.dates import WrittenDate, day_order, written_date
from lintra_protocol.tables.numbers import DecimalMark, WrittenNumber, decimal_mark, units, written_number

Kind = Literal["real", "integer", "boolean", "date", "category", "left out"]

READINGS = (
    "number", "number-point", "number-comma", "yes-no", "date", "date-day-first", "date-month-first",
    "category", "category-merged", "drop",
)  # fmt: skip
"""What `--as COLUMN=READING` takes; `-point`, `-comma`: the decimal mark; `-merged`: spellings of a level are one."""

SURELY_MISSING = frozenset({"", "na", "n/a", "nan", "null", "#n/a", "k.a."})
MAYBE_MISSING = frozenset({"none", "nil", "unknown", "missing", "?", ".", "-"})
CODES = (-9.0, -99.0, -999.0, 99.0, 999.0, 9999.0)
"""Numbers that often mean that nothing was answered."""

MAX_LEVELS = 12
"""Most levels that a category of a file gets, `OTHER` not counted; every level but the first costs a column."""

LEAST_COVERED = 80
"""Per cent of the cells that the levels of a category cover; with less the column is left out."""

LARGEST = 1e15
"""No larger number is collected: a document holds 18 digits before the point, a float 15 in all."""

_TRUTH = {
    "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "ja": 1.0, "nein": 0.0, "oui": 1.0, "non": 0.0,
    "si": 1.0, "s\u00ed": 1.0, "s\u00ec": 1.0,
}  # fmt: skip
_IDENTIFIER = re.compile(r"(?:^|[^a-z])(?:id|nr|no|code|zip|plz|postcode|number)(?:$|[^a-z])|(?:Id|ID|Nr|Code)$")
_MOST_UNITS = 4


@dataclass(frozen=True)
class Reading:
    """How the author of a task wants a column to be read: the answer to its question.

    Attributes:
        way: one of `READINGS`; None to decide by the cells.
        missing: texts of cells that mean that a value is missing, besides those that always do.
    """

    way: str | None = None
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.way is not None and self.way not in READINGS:
            raise InvalidTableError(f"a column can be read as {', '.join(READINGS)}, got {self.way!r}")


@dataclass(frozen=True)
class ColumnReport:
    """How a column was read, in terms that its owner can check.

    Attributes:
        name: of the column.
        kind: what it holds; "left out" if it cannot be collected.
        unit: of its numbers; empty if there is none.
        decimal_mark: of its numbers; empty where no cell has one.
        levels: of a category, the most frequent first and `OTHER` last.
        missing_codes: texts that were taken for missing values, the empty cell apart.
        examples: up to three different cells.
        why: why it is read so, or why it is left out.
        lost: what the reading loses, such as "3 cells are no numbers"; empty if nothing.
        question: what only its owner can know; empty if nothing is open.
        options: answers to the question, as `--as` or `--missing` takes them.
    """

    name: str
    kind: Kind
    unit: str = ""
    decimal_mark: str = ""
    levels: tuple[str, ...] = ()
    missing_codes: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    why: str = ""
    lost: str = ""
    question: str = ""
    options: tuple[str, ...] = ()


Values = list[float]
"""A number for each row: NaN if it is missing; for a category the number of the level."""


def read_column(
    name: str, cells: Sequence[str], reading: Reading, comma_file: bool = False
) -> tuple[ColumnReport, Values]:
    """Return how a column is read, and its values; a column that is left out has none.

    Args:
        name: of the column.
        cells: one for each row, as they stand in the file.
        reading: what its owner says of it.
        comma_file: whether the rest of the file writes decimal commas, so that `1,234` and `1.234` are open.
    """
    found = _Column(name, cells, reading, comma_file)
    report, values = found.read()
    return replace(report, examples=tuple(dict.fromkeys(found.given))[:3]), values


class _Column:
    """The cells of one column on their way to values."""

    def __init__(self, name: str, cells: Sequence[str], reading: Reading, comma_file: bool) -> None:
        self.name, self.way, self.comma_file = name, reading.way, comma_file
        self.cells = [unicodedata.normalize("NFC", cell).strip() for cell in cells]
        self.codes = frozenset(reading.missing)
        self.given = [cell for cell in self.cells if not self.is_missing(cell, SURELY_MISSING)]
        maybe = MAYBE_MISSING if not self.codes & MAYBE_MISSING else frozenset[str]()
        self.clear = [cell for cell in self.given if cell.lower() not in maybe]
        """Cells that are missing neither in a column of texts nor in one of numbers."""

    def is_missing(self, cell: str, words: frozenset[str]) -> bool:
        return cell in self.codes or cell.lower() in words

    def read(self) -> tuple[ColumnReport, Values]:
        if self.way == "drop":
            return self.left_out("it was dropped"), []
        if not self.given:
            return self.left_out("it is empty"), []
        if len(set(self.given)) == 1 and len(self.given) == len(self.cells):
            return self.left_out("it is the same in every row"), []
        if self.way is not None:
            return self._as_told(self.way)
        words = {cell.lower() for cell in self.clear}
        if words and len(words) <= 2 and words <= _TRUTH.keys():
            return self._truth()
        numbers = {cell: written_number(cell) for cell in dict.fromkeys(self.clear)}
        numeric = sum(numbers[cell] is not None for cell in self.clear)
        if numeric and 2 * numeric >= len(self.clear) and len(units([n for n in numbers.values() if n])) <= _MOST_UNITS:
            return self._numbers({cell: number for cell, number in numbers.items() if number is not None})
        dates = {cell: written_date(cell) for cell in dict.fromkeys(self.clear)}
        dated = sum(dates[cell] is not None for cell in self.clear)
        if dated and 2 * dated >= len(self.clear):
            return self._dates({cell: written for cell, written in dates.items() if written is not None})
        return self._category(merged=None)

    def _as_told(self, way: str) -> tuple[ColumnReport, Values]:
        if way.startswith("category"):
            return self._category(merged=way == "category-merged")
        if way == "yes-no":
            known = any(cell.lower() in _TRUTH for cell in self.clear)
            return self._truth() if known else (self.left_out("none of its cells says yes or no"), [])
        if way.startswith("number"):
            numbers = {
                cell: number for cell in dict.fromkeys(self.clear) if (number := written_number(cell)) is not None
            }
            return self._numbers(numbers) if numbers else (self.left_out("none of its cells is a number"), [])
        dates = {cell: written for cell in dict.fromkeys(self.clear) if (written := written_date(cell)) is not None}
        return self._dates(dates) if dates else (self.left_out("none of its cells is a date"), [])

    # --- numbers -----------------------------------------------------------------------------------------------

    def _numbers(self, numbers: dict[str, WrittenNumber]) -> tuple[ColumnReport, Values]:
        open_: list[tuple[str, tuple[str, ...]]] = []
        found = [numbers[cell] for cell in self.clear if cell in numbers]
        mark, contradiction = decimal_mark(found)
        ambiguous = next((cell for cell in self.clear if cell in numbers and numbers[cell].ambiguous_mark), None)
        told: DecimalMark | None = {"number-point": ".", "number-comma": ","}.get(self.way or "")  # type: ignore[assignment]
        if told is None and contradiction:
            open_.append(
                ("some cells have a decimal point and others a decimal comma", ("number-point", "number-comma"))
            )
        elif (
            told is None
            and mark is None
            and ambiguous is not None
            and (self.comma_file or numbers[ambiguous].ambiguous_mark == ",")
        ):
            text = f"{ambiguous!r} may have a decimal mark or one between thousands"
            open_.append((text, ("number-point", "number-comma")))
        decimal = told or mark or ("," if self.comma_file else ".")
        values = {cell: value for cell, number in numbers.items() if (value := number.value(decimal)) is not None}
        if not values:
            return self.left_out("none of its cells is a number"), []
        known = units([numbers[cell] for cell in self.clear if cell in values])
        unit = max(known, key=lambda each: (each != "", known[each]))
        if len(known) > 1 and self.way is None:
            names = " and ".join(repr(each or "no unit") for each in sorted(known))
            open_.append((f"its cells have several units: {names}", ("number", "category", "drop")))
        floats = [values.get(cell, math.nan) for cell in self.cells]
        if self.way is None and _counts_rows(floats):
            if _is_rising(floats):
                return self.left_out("it numbers the rows, as identifiers do"), []
            open_.append(("every row has another whole number, as identifiers do", ("number", "drop")))
        elif self.way is None:
            open_ += self._doubts_of_numbers(numbers, values)
        others = [cell for cell in self.clear if cell not in values]
        if others and self.way is None:
            first = f"the first is {others[0][:40]!r} in row {self.cells.index(others[0]) + 1}"
            open_.append((f"{len(others)} of its cells are no number, {first}", ("number", "category", "drop")))
        if max((abs(value) for value in values.values()), default=0.0) > LARGEST:
            return self.left_out(f"its numbers are beyond {LARGEST:g}; choose a larger unit"), []
        report = ColumnReport(
            self.name,
            _kind_of(values.values()),
            unit=unit,
            decimal_mark=decimal if any(number.digits.count(decimal) for number in numbers.values()) else "",
            missing_codes=self._codes_in(values),
            why="its cells are numbers",
            lost=f"{len(others)} cells are no numbers and count as missing" if others else "",
        )
        return _asking(report, open_), floats

    def _doubts_of_numbers(
        self, numbers: dict[str, WrittenNumber], values: dict[str, float]
    ) -> list[tuple[str, tuple[str, ...]]]:
        open_: list[tuple[str, tuple[str, ...]]] = []
        cells = [cell for cell in self.clear if cell in values]
        if (bracketed := [cell for cell in cells if numbers[cell].in_parentheses]) and not any(
            "." in cell or "," in cell or numbers[cell].unit for cell in cells
        ):
            open_.append((f"{bracketed[0]!r} may be a negative number or a remark", ("number", "category", "drop")))
        if zeros := [cell for cell in cells if re.fullmatch(r"0\d+", cell)]:
            open_.append((f"{zeros[0]!r} has leading zeros, as codes have", ("number", "category", "drop")))
        elif all(re.fullmatch(r"\d+E\d+", cell) for cell in cells):
            open_.append((f"{cells[0]!r} may be a number or a code", ("number", "category", "drop")))
        elif _IDENTIFIER.search(self.name) or _IDENTIFIER.search(self.name.lower()):
            whole = {value for value in values.values() if value == round(value)}
            if len(whole) > MAX_LEVELS and len(whole) == len(set(values.values())):
                text = "its name is that of an identifier or a code, and its cells are whole numbers"
                open_.append((text, ("number", "category", "drop")))
        if codes := _codes(Counter(values[cell] for cell in cells)):
            text = f"{' and '.join(f'{code:g}' for code in codes)} may mean that the value is missing"
            open_.append((text, (*(f"missing {code:g}" for code in codes), "number")))
        return open_

    # --- dates, yes and no, levels -----------------------------------------------------------------------------

    def _dates(self, dates: dict[str, WrittenDate]) -> tuple[ColumnReport, Values]:
        order, contradiction = day_order(list(dates.values()))
        open_: list[tuple[str, tuple[str, ...]]] = []
        orders = ("date-day-first", "date-month-first")
        if self.way in orders:
            order = "day-first" if self.way == orders[0] else "month-first"
        elif contradiction:
            open_.append(("some cells have the day first and others the month", (*orders, "drop")))
        elif order is None and (some := next((cell for cell in dates if dates[cell].mark), None)):
            open_.append((f"{some!r} may have the day or the month first", orders))
        values = {
            cell: days for cell, written in dates.items() if (days := written.days(order or "day-first")) is not None
        }
        for text, cells in (
            ("is no day of the calendar", [cell for cell in dates if cell not in values]),
            ("has a year of two digits", [cell for cell in dates if dates[cell].short_year]),
            ("has a time of day, which is left aside", [cell for cell in dates if dates[cell].has_time]),
            ("is no date", [cell for cell in self.clear if cell not in dates]),
        ):
            if cells and self.way is None:
                open_.append((f"{cells[0][:40]!r} {text}", ("date", "category", "drop")))
        lost = sum(cell not in values for cell in self.clear)
        report = ColumnReport(
            self.name,
            "date",
            unit=DAYS,
            missing_codes=self._codes_in(values),
            why="its cells are dates",
            lost=f"{lost} cells are no dates and count as missing" if lost else "",
        )
        return _asking(report, open_), [values.get(cell, math.nan) for cell in self.cells]

    def _truth(self) -> tuple[ColumnReport, Values]:
        values = [_TRUTH.get(cell.lower(), math.nan) for cell in self.cells]
        codes = self._codes_in(dict.fromkeys(self.clear, 0.0))
        lost = sum(cell.lower() not in _TRUTH for cell in self.clear)
        text = f"{lost} cells say neither yes nor no and count as missing" if lost else ""
        return ColumnReport(self.name, "boolean", missing_codes=codes, why="its cells say yes or no", lost=text), values

    def _category(self, *, merged: bool | None) -> tuple[ColumnReport, Values]:
        open_: list[tuple[str, tuple[str, ...]]] = []
        codes = {cell for cell in self.given if re.fullmatch(r"[A-Z]{2}", cell)}
        absent = [cell for cell in self.cells if cell == "NA" and cell not in self.codes]
        if self.way is None and absent and codes and codes == set(self.given):
            open_.append(("'NA' may be one of its codes of two letters or mean missing", ("missing NA", "category")))
        counts = Counter(self.given)
        spellings: dict[str, str] = {}
        for cell, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            spellings.setdefault(_folded(cell), cell)
        alike = [cell for cell in counts if spellings[_folded(cell)] != cell]
        if alike and merged is None:
            pair = f"{alike[0]!r} and {spellings[_folded(alike[0])]!r}"
            open_.append((f"levels differ in case or spaces only: {pair}", ("category-merged", "category")))
        if alike and merged is not False:
            counts = Counter(spellings[_folded(cell)] for cell in self.given)
        if self.way is None and len(counts) > max(MAX_LEVELS, len(self.cells) // 2):
            return self.left_out("almost every row has a text of its own in it, as names and identifiers do"), []
        fitting = {cell for cell in counts if is_printable(cell) and len(self.name) + len(cell) <= MAX_NAME - 2}
        # The most frequent first; ties in the order of the alphabet, so that a file gives one answer.
        levels = sorted(fitting - {OTHER}, key=lambda cell: (-counts[cell], cell))
        kept = sum(counts[cell] for cell in levels[:MAX_LEVELS])
        if self.way is None and len(levels) > MAX_LEVELS and 100 * kept < LEAST_COVERED * len(self.given):
            reason = f"its {MAX_LEVELS} most frequent values cover {100 * kept / len(self.given):.0f} % of the cells"
            return self.left_out(f"{reason}; read it with --as {self.name}=category to have it all the same"), []
        levels = [*levels[:MAX_LEVELS], OTHER]
        if len(levels) < 2:
            return self.left_out("none of its values can be the name of a level"), []
        number = {level: float(position) for position, level in enumerate(levels)}
        read_as = self.cells if merged is False else [spellings.get(_folded(cell), cell) for cell in self.cells]
        values = [number.get(cell, len(levels) - 1.0) for cell in read_as]
        others = len(self.given) - kept
        lost = f"{others} cells are none of the most frequent levels and count as {OTHER}" if others else ""
        report = ColumnReport(
            self.name,
            "category",
            levels=tuple(levels),
            missing_codes=self._codes_in(()),
            why="its cells are texts",
            lost=lost,
        )
        return _asking(report, open_), values

    # --- shared ------------------------------------------------------------------------------------------------

    def left_out(self, why: str) -> ColumnReport:
        return ColumnReport(self.name, "left out", why=why)

    def _codes_in(self, values: object) -> tuple[str, ...]:
        """Return the texts that count as missing: in numbers and dates those of `MAYBE_MISSING`, too."""
        words = {cell for cell in self.cells if cell and cell not in self.given}
        if isinstance(values, dict):
            words |= set(self.given) - set(self.clear)
        return tuple(sorted(words))


def _asking(report: ColumnReport, open_: Sequence[tuple[str, tuple[str, ...]]]) -> ColumnReport:
    """Return a report with all that is open as one question; the options are those of the first."""
    if not open_:
        return report
    return replace(report, question="; ".join(text for text, _ in open_), options=open_[0][1])


def _folded(cell: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", cell).casefold().split())


def _kind_of(values: object) -> Kind:
    known = set(values)  # type: ignore[call-overload]
    if known <= {0.0, 1.0}:
        return "boolean"
    return "integer" if all(value == round(value) and abs(value) < 2**53 for value in known) else "real"


def _counts_rows(values: Sequence[float]) -> bool:
    """Return whether whole numbers, each of them once, leave hardly one out: of their range half are there."""
    whole = len(values) > 3 and all(value == value and value == round(value) for value in values)
    if not whole or len(set(values)) < len(values):
        return False
    width = max(values) - min(values)
    return width == len(values) - 1 or (len(values) >= 50 and width < 2 * len(values))


def _is_rising(values: Sequence[float]) -> bool:
    return all(before < after for before, after in pairwise(values))


def _codes(counts: Counter[float]) -> list[float]:
    """Return the codes that stand in at least three rows, outside the other values' range by over half of it."""
    others = [value for value in counts if value not in CODES]
    if len(others) < 2:
        return []
    lower, upper = min(others), max(others)
    far = (upper - lower) / 2
    return [code for code in CODES if counts[code] >= 3 and not lower - far <= code <= upper + far]
