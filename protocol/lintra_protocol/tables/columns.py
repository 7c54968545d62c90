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
`Reading` answers the questions that offer it, and no others: `number-comma` says that the cells are numbers and what
their mark is; whether -99 is one of them is said by the missing codes alone.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from lintra_protocol.encoding.csv_values import DAYS
from lintra_protocol.encoding.documents import is_printable
from lintra_protocol.fields.code_book import folded
from lintra_protocol.fields.schema import MAX_NAME, OTHER
from lintra_protocol.tables.dates import WrittenDate, written_date
from lintra_protocol.tables.doubts import (
    MAX_LEVELS,
    OR_NUMBER,
    SURELY_CODED,
    Question,
    counts_rows,
    doubts_of_numbers,
    has_three_decimals,
    is_rising,
    mark_of_column,
    missing_codes,
    missing_dates,
    names_rows,
    order_of_column,
)
from lintra_protocol.tables.numbers import (
    DecimalMark,
    WrittenNumber,
    decorated_numbers,
    number_with_unit,
    units,
    values_of,
    written_number,
)
from lintra_protocol.tables.readings import (
    MAYBE_MISSING,
    NO_CODE,
    SURELY_MISSING,
    TRUTH,
    ColumnReport,
    Kind,
    Reading,
    Values,
    text_of,
)

T = TypeVar("T")
LEAST_COVERED = 80
"""Per cent of the cells that the levels of a category cover; with less the column is left out."""

LARGEST = 1e15
"""No larger number is collected: a document holds 18 digits before the point, a float 15 in all."""

_TRUTH_OR_DIGIT = TRUTH | {"1": 1.0, "0": 0.0}
_MOST_UNITS = 4
_SHOWN = 40
_NUMBERS_ROWS = "every row has another whole number, as identifiers do"


def read_column(
    name: str, cells: Sequence[str], reading: Reading, file_mark: DecimalMark | None = None, *, typed: bool = False
) -> tuple[ColumnReport, Values]:
    """Return how a column is read, and its values; a column that is left out has none.

    Args:
        name: of the column.
        cells: one for each row, as they stand in the file.
        reading: what its owner says of it.
        file_mark: the decimal mark of the rest of the file, if that is known (see `mark_of_file`).
        typed: whether the cells were numbers of a program, so that a point in them is the decimal one.
    """
    column = _Column(name, cells, reading, file_mark, typed)
    report, values = column.read()
    open_ = [question for question in column.open if not reading.answers(question[1])]
    if open_:
        # The options are those of the first; the next call asks what is then still open.
        report = replace(report, question="; ".join(text for text, _ in open_), options=open_[0][1])
    missing = len(cells) - len(column.given) if report.levels else sum(value != value for value in values)
    return replace(report, missing=missing, examples=tuple(dict.fromkeys(column.given))[:3]), values


def mark_of_file(columns: Iterable[Sequence[str]], separator: str) -> DecimalMark | None:
    """Return the decimal mark of a file, which most of the columns that show one have; None if there is none such.

    Without a cell that shows it, semicolons between cells do: programs write them where the comma is taken.
    """
    counts = Counter[DecimalMark]()
    for cells in columns:
        numbers = map(written_number, {cell.strip() for cell in cells if "," in cell or "." in cell})
        counts.update({mark for number in numbers if number is not None and (mark := number.tells) is not None})
    if not counts:
        return "," if separator == ";" else None
    return None if counts["."] == counts[","] else "." if counts["."] > counts[","] else ","


class _Column:
    """The cells of one column on their way to values, and what is open about them."""

    def __init__(
        self, name: str, cells: Sequence[str], reading: Reading, file_mark: DecimalMark | None, typed: bool
    ) -> None:
        self.name, self.reading, self.way, self.file_mark, self.typed = name, reading, reading.way, file_mark, typed
        self.open: list[Question] = []
        self.cells = [text_of(cell) for cell in cells]
        self.codes = frozenset(code.strip() for code in reading.missing) - {NO_CODE}
        self.numeric_codes = frozenset().union(*map(values_of, self.codes))
        missing = {cell for cell in set(self.cells) if cell.lower() in SURELY_MISSING or self.is_code(cell)}
        self.given = [cell for cell in self.cells if cell not in missing]
        self.clear = [cell for cell in self.given if cell.lower() not in MAYBE_MISSING]
        """Cells that are missing neither in a column of texts nor in one of numbers."""

    def is_code(self, cell: str) -> bool:
        """Return whether a cell is a code for a missing value; -99.0 is the code -99, too."""
        return cell in self.codes or bool(self.numeric_codes and self.numeric_codes & values_of(cell))

    def read(self) -> tuple[ColumnReport, Values]:
        if self.way == "drop":
            return self.left_out("it was dropped")
        if not self.given:
            return self.left_out("it is empty")
        if len(set(self.given)) == 1 and len(self.given) == len(self.cells):
            return self.left_out("it is the same in every row")
        if self.way is not None:
            return self._as_said(self.way)
        words = {cell.lower() for cell in self.clear}
        if words and words <= TRUTH.keys() and len({TRUTH[word] for word in words}) == len(words) <= 2:
            return self._yes_or_no(words)
        if words == {"1"} and len(self.given) == len(self.clear):
            return self._yes_or_no(words)
        numbers = self._parsed(written_number)
        share = sum(cell in numbers for cell in self.clear)
        if share and 2 * share >= len(self.clear) and len(units(numbers.values())) <= _MOST_UNITS:
            return self._numbers(numbers)
        dates = self._parsed(written_date)
        share = sum(cell in dates for cell in self.clear)
        if share and 2 * share >= len(self.clear):
            return self._dates(dates)
        return self._category()

    def _as_said(self, way: str) -> tuple[ColumnReport, Values]:
        if way.startswith("category"):
            return self._category()
        if way == "yes-no":
            return self._yes_or_no({cell.lower() for cell in self.clear})
        if way.startswith("number"):
            return self._numbers(self._parsed(number_with_unit))
        return self._dates(self._parsed(written_date))

    def _parsed(self, parse: Callable[[str], T | None]) -> dict[str, T]:
        """Return each different cell that can be parsed, with its parts."""
        return {cell: parts for cell in dict.fromkeys(self.clear) if (parts := parse(cell)) is not None}

    # --- numbers -----------------------------------------------------------------------------------------------

    def _numbers(self, numbers: dict[str, WrittenNumber]) -> tuple[ColumnReport, Values]:
        decimal, self.open = mark_of_column("number-point" if self.typed else self.way, numbers, self.file_mark)
        decimals = bool(self.open) and has_three_decimals(numbers, self.file_mark)
        self.open = [] if decimals else self.open
        values = {cell: value for cell, number in numbers.items() if (value := number.value(decimal)) is not None}
        if not values:
            return self.left_out("none of its cells is a number")
        known = units([numbers[cell] for cell in values])
        names = " and ".join(repr(each or "no unit") for each in sorted(known))
        if len(known.keys() - {""}) > 1:
            several = f"its cells have several units: {names}"
            self.open = [] if self.way else [(several, ("category", "drop"))]
            return self.left_out(several)
        if len(known) > 1:
            self.open.append((f"its cells have several units: {names}", OR_NUMBER))
        if max(abs(value) for value in values.values()) > LARGEST:
            return self.left_out(f"its numbers are beyond {LARGEST:g}; choose a larger unit")
        if others := self._others(values):
            first = f"the first is {others[0][:_SHOWN]!r} in row {self.cells.index(others[0]) + 1}"
            self.open.append((f"{len(others)} of its cells are no number, {first}", OR_NUMBER))
        if len(set(values.values())) == 1:
            return self.left_out("every number in it is the same")
        floats = [values.get(cell, math.nan) for cell in self.cells]
        if counts_rows(floats):
            if is_rising(floats) and self.way is None:
                return self.left_out("it numbers the rows, as identifiers do")
            self.open.append((_NUMBERS_ROWS, ("number", "drop")))
        elif names_rows(self.name, floats):
            self.open.append((_NUMBERS_ROWS, ("number", "drop")))
        else:
            self.open += doubts_of_numbers(self.name, numbers, values)
        self._ask_for_codes(values)
        lost = [f"{len(others)} cells are no numbers and count as missing"] * bool(others)
        if decimals:
            example = f"the point in cells such as {next(iter(values))!r} is read as a decimal mark"
            lost.append(f"{example}; if it stands between thousands, say --as {self.name}=number-comma")
        report = ColumnReport(
            self.name,
            _kind_of(values.values()),
            unit=max(known, key=lambda each: (each != "", known[each])),
            decimal_mark=decimal if any(decimal in numbers[cell].digits for cell in values) else "",
            missing_codes=self._missing_texts(values),
            why="its cells are numbers",
            lost="; ".join(lost),
        )
        return report, floats

    def _ask_for_codes(self, values: Mapping[str, float]) -> None:
        if NO_CODE in self.reading.missing:
            return
        codes = missing_codes(Counter(values[cell] for cell in self.clear if cell in values))
        if any(cell[0] in "+(" for cell in values):  # signs are meant here
            codes = [code for code in codes if not SURELY_CODED < code < 0]
        if codes:
            names = [f"{code:g}" for code in codes]
            text = f"{' and '.join(names)} may mean that the value is missing"
            self.open.append((text, (*(f"missing {name}" for name in names), f"missing {NO_CODE}")))

    # --- dates, yes and no, levels -----------------------------------------------------------------------------

    def _dates(self, dates: dict[str, WrittenDate]) -> tuple[ColumnReport, Values]:
        order, self.open = order_of_column(self.way, dates)
        values = {cell: days for cell, written in dates.items() if (days := written.days(order)) is not None}
        short = [cell for cell in dates if dates[cell].short_year]
        timed = sum(cell in values and dates[cell].has_time for cell in self.clear)
        for text, cells in (
            ("is no day of the calendar", [cell for cell in dates if cell not in values and cell not in short]),
            ("has a year of two digits, its century is open", short),
            ("has a time of day, which is left aside", [cell for cell in values if dates[cell].has_time]),
            ("is no date", [cell for cell in self.clear if cell not in dates]),
        ):
            if cells:
                self.open.append((f"{cells[0][:_SHOWN]!r} {text}", ("date", "category", "drop")))
        if not values:
            return self.left_out("none of its cells is a date with a year of four digits")
        if NO_CODE not in self.reading.missing and (gone := missing_dates(Counter(self.clear), values)):
            options = (*(f"missing {cell}" for cell in gone), f"missing {NO_CODE}")
            self.open.append((f"{' and '.join(gone)} may mean that there is no date", options))
        others = self._others(values)
        lost = [f"{len(others)} cells are no dates and count as missing"] * bool(others)
        lost += [f"the time of day of {timed} cells is left aside"] * bool(timed)
        report = ColumnReport(
            self.name,
            "date",
            unit=DAYS,
            missing_codes=self._missing_texts(values),
            why="its cells are dates",
            lost="; ".join(lost),
        )
        return report, [values.get(cell, math.nan) for cell in self.cells]

    def _yes_or_no(self, words: set[str]) -> tuple[ColumnReport, Values]:
        """Read words for yes and no; where there is one word only, the empty cell stands for the other one."""
        truth = {word: _TRUTH_OR_DIGIT[word] for word in words if word in _TRUTH_OR_DIGIT}
        if not truth:
            return self.left_out("none of its cells says yes or no")
        values = [truth.get(cell.lower(), math.nan) for cell in self.cells]
        others = [cell for cell in self.clear if cell.lower() not in truth]
        lost = [f"{len(others)} cells say neither yes nor no and count as missing"] * bool(others)
        if len(set(truth.values())) == 1 and not others:
            (only,) = set(truth.values())
            empty = self.cells.count("")
            text = f"its only word is {self.clear[0]!r}: an empty cell may mean the opposite, or be missing"
            self.open.append((text, ("yes-no", "category", "drop")))
            values = [1.0 - only if cell == "" else value for cell, value in zip(self.cells, values, strict=True)]
            lost = [f"{empty} empty cells count as {'no' if only else 'yes'}"]
        elif maybe := sorted(set(self.given) - set(self.clear)):
            text = f"{maybe[0]!r} may be an answer or mean that the value is missing"
            self.open.append((text, ("yes-no", "category", "drop")))
        report = ColumnReport(
            self.name,
            "boolean",
            missing_codes=self._missing_texts(dict.fromkeys(self.clear, 0.0)),
            why="its cells say yes or no",
            lost="; ".join(lost),
        )
        return report, values

    def _category(self) -> tuple[ColumnReport, Values]:
        given, kept_apart = self._level_cells(), self.way == "category"
        counts = Counter(given)
        if decorated := decorated_numbers(list(counts)):
            self.open.append((f"{decorated[0][:_SHOWN]!r} may be a number with something beside it", OR_NUMBER))
        if len(words := {cell.lower() for cell in self.clear}) > 2 and words <= TRUTH.keys():
            self.open.append(("its cells say yes and no in several ways", ("yes-no", "category", "drop")))
        spellings: dict[str, str] = {}
        for cell, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            spellings.setdefault(_look(cell), cell)
        alike = [cell for cell in counts if spellings[_look(cell)] != cell]
        if alike and not kept_apart:
            counts = Counter(spellings[_look(cell)] for cell in given)
        if self.way is None and len(counts) > max(MAX_LEVELS, len(self.cells) // 2):
            return self.left_out("almost every row has a text of its own in it, as names and identifiers do")
        fitting = {cell for cell in counts if is_printable(cell) and len(self.name) + len(cell) <= MAX_NAME - 2}
        # The most frequent first; ties in the order of the alphabet, so that a file gives one answer.
        levels = sorted(fitting - {OTHER}, key=lambda cell: (-counts[cell], cell))
        covered = sum(counts[cell] for cell in levels[:MAX_LEVELS])
        if self.way is None and len(levels) > MAX_LEVELS and 100 * covered < LEAST_COVERED * len(given):
            reason = f"its {MAX_LEVELS} most frequent values cover {100 * covered / len(given):.0f} % of the cells"
            return self.left_out(f"{reason}; read it with --as {self.name}=category to have it all the same")
        levels = [*levels[:MAX_LEVELS], OTHER]
        if len(levels) < 2:
            return self.left_out("none of its values can be the name of a level")
        if alike:
            pair = f"{alike[0]!r} and {spellings[_look(alike[0])]!r}"
            self.open.append((f"levels differ in case or spaces only: {pair}", ("category-merged", "category")))
        number = {level: float(position) for position, level in enumerate(levels)}
        read_as = self.cells if kept_apart else [spellings.get(_look(cell), cell) for cell in self.cells]
        others = len(given) - covered
        report = ColumnReport(
            self.name,
            "category",
            levels=tuple(levels),
            missing_codes=tuple(sorted(set(self.cells) - set(given) - {""})),
            why="its cells are texts",
            lost=f"{others} cells are none of the most frequent levels and count as {OTHER}" if others else "",
        )
        return report, [number.get(cell, len(levels) - 1.0) for cell in read_as]

    def _level_cells(self) -> list[str]:
        """Return the cells that are levels: NA among codes of two letters is one, if the owner says category."""
        if "NA" not in self.cells or "NA" in self.codes or not self.given:
            return self.given
        if not all(re.fullmatch(r"[A-Z]{2}", cell) for cell in set(self.given)):
            return self.given
        self.open.append(("'NA' may be one of its codes of two letters or mean missing", ("missing NA", "category")))
        if self.way is None:
            return self.given
        given = set(self.given) | {"NA"}
        return [cell for cell in self.cells if cell in given]

    # --- shared ------------------------------------------------------------------------------------------------

    def left_out(self, why: str) -> tuple[ColumnReport, Values]:
        return ColumnReport(self.name, "left out", why=why), []

    def _others(self, values: Mapping[str, float]) -> list[str]:
        """Return the cells that have no value and yet do not say that it is missing."""
        return [cell for cell in self.clear if cell not in values]

    def _missing_texts(self, values: Mapping[str, float]) -> tuple[str, ...]:
        """Return the texts, the empty one apart, that count as missing among numbers and dates."""
        return tuple(sorted(set(self.cells) - values.keys() - set(self.clear) - {""}))


def _look(cell: str) -> str:
    """Return what two spellings of a level have in common."""
    return folded(cell).replace("\u2019", "'")


def _kind_of(values: Iterable[float]) -> Kind:
    known = set(values)
    if known <= {0.0, 1.0}:
        return "boolean"
    return "integer" if all(value == round(value) and abs(value) < 2**53 for value in known) else "real"
