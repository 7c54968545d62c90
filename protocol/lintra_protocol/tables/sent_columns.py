"""The cells of a column of a sender's table as a task means them; what is open is asked, what does not fit is refused.

The task says what the column holds, so that only these questions are left: which mark is the decimal one, which number
of a date is the day, whether a cell without a unit is in that of the others, whether -99 is a number, and whether a
text is a level that the task does not have. Nothing is missing but an empty cell, the words of `SURELY_MISSING`, those
of `MAYBE_MISSING` among numbers and dates, and the codes that the task or the sender lists.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.encoding.csv_values import DAYS, days_if_date
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.fields.code_book import Codes
from lintra_protocol.fields.schema import OTHER, Column, is_missing
from lintra_protocol.tables.dates import WrittenDate, written_date
from lintra_protocol.tables.doubts import (
    CODES,
    SURELY_CODED,
    Question,
    mark_of_column,
    missing_codes,
    missing_dates,
    order_of_column,
)
from lintra_protocol.tables.numbers import DecimalMark, WrittenNumber, units, values_of, written_number
from lintra_protocol.tables.readings import BY_CELLS, MAYBE_MISSING, NO_CODE, SURELY_MISSING, TRUTH, Reading, text_of

T = TypeVar("T")
_SHOWN = 40
_MOST_ASKED = 20
_DECIMALS = 1e-12
_FAR, _MOST_CODES, _ENOUGH = 10, 3, 5
"""A number is far beyond a bound at ten times the distance of both bounds; three different ones may be codes. Fewer
than five numbers do not tell whether some are codes, or most of them are in another unit."""


@dataclass(frozen=True)
class SentColumn:
    """What a sender's cells are in the terms of the task."""

    column: Column
    values: NDArray[np.float64]
    """Shape `(n,)`: NaN where a value is missing; for a category the numbers of levels, missing values as `OTHER`."""
    missing: int
    """How many cells say that their value is missing."""
    translated: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Texts that the code book takes for a level, with the level and how many cells there are."""
    others: Mapping[str, int] = field(default_factory=dict)
    """Texts that the sender confirmed to be of no other level, and how many cells there are."""
    questions: Sequence[Question] = ()
    """What only the sender can say."""

    def levels(self) -> dict[str, int]:
        """Return how many rows have each level of a category."""
        return {level: int((self.values == number).sum()) for number, level in enumerate(self.column.levels)}

    def moved(self) -> int:
        """Return how many numbers lie beyond a bound, and are moved there."""
        lower, upper = float(self.column.lower), float(self.column.upper)
        return int(((self.values < lower) | (self.values > upper)).sum())


def read_sent_column(
    column: Column,
    cells: Sequence[object] | NDArray[Any],
    reading: Reading = BY_CELLS,
    others: Mapping[str, int] | None = None,
    file_mark: DecimalMark | None = None,
) -> SentColumn:
    """Return what the cells of a column are.

    Args:
        column: of the task.
        cells: of shape `(n,)`, one for each row: texts of a file, or numbers, dates, booleans and None of a data frame.
        reading: what the sender says of the column.
        others: texts that the sender confirms to be of no level, and how many cells there are of each.
        file_mark: the decimal mark of the rest of the file, if that is known.

    Raises:
        InvalidRowError: a cell is neither missing nor of the column's kind; the detail names row, column and type, and
            not the cell.
    """
    written = Counter(cell for cell in cells if isinstance(cell, str)) if _may_hold_texts(cells) else Counter[str]()
    texts = Counter[str]()
    for text, count in written.items():
        texts[text_of(text)] += count
    if column.kind == "category":
        reader: _Texts = _Levels(column, reading, texts, others or {})
    elif column.unit == DAYS:
        reader = _Days(column, reading, texts)
    elif column.kind == "boolean":
        reader = _Truths(column, reading, texts)
    else:
        reader = _Numbers(column, reading, texts, file_mark)
    values = _values(reader, cells, written)
    missing = np.isnan(values)
    if OTHER in column.levels:
        values[missing] = column.levels.index(OTHER)
    questions = reader.questions + reader.doubts(values)
    return SentColumn(column, values, int(missing.sum()), reader.translated, reader.others, questions)


def _may_hold_texts(cells: Sequence[object] | NDArray[Any]) -> bool:
    return not isinstance(cells, np.ndarray) or cells.dtype.kind in "OUT"


def _values(reader: "_Texts", cells: Sequence[object] | NDArray[Any], written: Iterable[str]) -> NDArray[np.float64]:
    """Return the values of all cells, shape `(n,)`; refuses the first cell that does not fit."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in reader.arrays:
        numbers: NDArray[np.float64] = cells.astype(np.float64)
        numbers[np.isin(numbers, list(reader.listed_numbers))] = np.nan
        return numbers
    meaning = {text: reader.value(text) for text in written}
    read = [meaning[cell] if isinstance(cell, str) else reader.value(cell) for cell in cells]
    for row, value in enumerate(read):
        if value is None:
            cell, column = cells[row], reader.column
            kind = "str" if isinstance(cell, str) else type(cell).__name__
            words = f"row {row + 1}, column {column.name!r}: expected {reader.expected}, got {kind}"
            raise InvalidRowError(words, row=row, column=column.name)
    return np.array(read, np.float64)


class _Texts:
    """What the different texts of a column mean; `values` holds those that mean something, NaN what is missing."""

    expected = "a number"
    arrays = "iuf"
    """Kinds of arrays whose numbers need no look each."""
    missing_words = SURELY_MISSING | MAYBE_MISSING

    def __init__(self, column: Column, reading: Reading, texts: Mapping[str, int]) -> None:
        self.column, self.reading, self.texts = column, reading, texts
        self.questions: list[Question] = []
        self.translated: dict[str, tuple[str, int]] = {}
        self.others: dict[str, int] = {}
        self.codes = Codes(column.levels, column.code_book)
        self.listed = (self.codes.missing | {code.strip() for code in reading.missing}) - {NO_CODE}
        self.listed_numbers = frozenset().union(*map(values_of, self.listed))
        self.values = {text: math.nan for text in texts if self.says_missing(text)}

    def says_missing(self, text: str) -> bool:
        if text in self.listed or bool(self.listed_numbers and self.listed_numbers & values_of(text)):
            return True
        return text.lower() in self.missing_words

    def rest(self) -> list[str]:
        return [text for text in self.texts if text not in self.values]

    def parsed(self, parse: Callable[[str], T | None]) -> dict[str, T]:
        return {text: parts for text in self.rest() if (parts := parse(text)) is not None}

    def value(self, cell: object) -> float | None:
        """Return a cell's value, NaN if it is missing, None if it does not fit."""
        if isinstance(cell, str):
            return self.values.get(text_of(cell))
        if is_missing(cell):
            return math.nan
        value = self.typed(cell)
        return math.nan if value is not None and value in self.listed_numbers else value

    def typed(self, cell: object) -> float | None:
        """Return the value of a cell that is no text; None if it does not fit."""
        if isinstance(cell, bool | np.bool_) or not isinstance(cell, int | float | np.integer | np.floating):
            return None
        try:
            value = float(cell)
        except OverflowError:
            return None
        return value if math.isfinite(value) else None

    def ask(self, text: str, options: Sequence[str]) -> None:
        """Add a question that the reading leaves open; the task has decided what kind of column it is."""
        if not self.reading.answers(options):
            self.questions.append((text, tuple(way for way in options if way.startswith(("number", "date")))))

    def doubts(self, values: NDArray[np.float64]) -> list[Question]:
        """Return what is open about the values: codes for missing ones that nobody listed."""
        if NO_CODE in self.reading.missing:
            return []
        lower, upper = float(self.column.lower), float(self.column.upper)
        numbers, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        seen = Counter(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
        # A bound tells more than other rows do; 7, 8 and 9 may well lie beyond one.
        beyond = {value for value in CODES & seen.keys() if not lower <= value <= upper}
        codes = set(missing_codes(seen)) | {value for value in beyond if value > 9 or value <= SURELY_CODED}
        far = {value for value in seen if abs(value - (lower + upper) / 2) > _FAR * (upper - lower)}
        codes |= far if len(far) <= _MOST_CODES and seen.total() >= _ENOUGH else set()
        outside = sum(count for value, count in seen.items() if not lower <= value <= upper)
        if not codes and 2 * outside > seen.total() >= _ENOUGH and not self.reading.answers(("number", "date")):
            bounds = f"[{self.column.lower}, {self.column.upper}]"
            text = f"{outside} of its {seen.total()} numbers lie beyond the task's bounds {bounds}, as in another unit"
            return [(text, ("date" if self.column.unit == DAYS else "number",))]
        if not codes:
            return []
        names = [f"{code:g}" for code in sorted(codes)]
        options = (*(f"missing {name}" for name in names), f"missing {NO_CODE}")
        return [(f"{' and '.join(names)} may mean that the value is missing", options)]


class _Numbers(_Texts):
    """Numbers in the column's unit, or in one for which the code book has a factor."""

    def __init__(
        self, column: Column, reading: Reading, texts: Mapping[str, int], file_mark: DecimalMark | None
    ) -> None:
        super().__init__(column, reading, texts)
        factors = {"": 1.0, column.unit: 1.0}
        if column.code_book is not None:
            factors |= {entry.unit: float(entry.factor) for entry in column.code_book.units}
        numbers = self.parsed(lambda text: _in_units(text, factors))
        decimal, questions = mark_of_column(reading.way or self._way_within_bounds(numbers), numbers, file_mark)
        for text, number in numbers.items():
            value = number.value(decimal)
            if value is not None:
                self.values[text] = value if factors[number.unit] == 1 else _short(value * factors[number.unit])
        known = units(numbers.values())
        if "" in known and len(known) > 1:
            names = " and ".join(repr(unit or "no unit") for unit in sorted(known))
            questions.append((f"its cells have several units: {names}", ("number",)))
        bracketed = [text for text, number in numbers.items() if number.in_parentheses]
        if bracketed and not any("." in text or "," in text or numbers[text].unit for text in numbers):
            questions.append((f"{bracketed[0]!r} may be a negative number or a remark", ("number",)))
        for question in questions:
            self.ask(*question)
        if column.kind == "integer":
            self.expected = "a whole number"

    def _way_within_bounds(self, numbers: Mapping[str, WrittenNumber]) -> str | None:
        """Return the decimal mark by which each number lies within the task's bounds, as by the other one few do."""
        lower, upper = float(self.column.lower), float(self.column.upper)
        marks: dict[str, DecimalMark] = {"number-point": ".", "number-comma": ","}
        within = {
            way: sum(
                (value := number.value(mark)) is not None and lower <= value <= upper for number in numbers.values()
            )
            for way, mark in marks.items()
        }
        likely, other = sorted(within, key=lambda way: -within[way])
        return likely if within[likely] == len(numbers) and 2 * within[other] < len(numbers) else None


def _in_units(text: str, factors: Mapping[str, float]) -> WrittenNumber | None:
    """Return a number in one of the units; a unit such as `0` is taken off only where the cell is no number alone."""
    number = written_number(text)
    if number is not None:
        return number if number.unit in factors else None
    for unit in filter(None, factors):
        bare = text.removesuffix(unit).strip() if text.endswith(unit) else text.removeprefix(unit).strip()
        if bare != text and (number := written_number(bare)) is not None and not number.unit:
            return replace(number, unit=unit)
    return None


def _short(value: float) -> float:
    """Return a product of two decimals without the last binary digits, which neither of them had."""
    return float(f"{value:.12g}") if abs(float(f"{value:.12g}") - value) <= _DECIMALS * abs(value) else value


class _Truths(_Texts):
    """Words for yes and no, and ones and zeros."""

    expected = "0, 1, yes or no"
    arrays = "biuf"
    missing_words = SURELY_MISSING

    def __init__(self, column: Column, reading: Reading, texts: Mapping[str, int]) -> None:
        super().__init__(column, reading, texts)
        for text in self.rest():
            number = written_number(text)
            value = TRUTH.get(text.lower()) if number is None or number.unit else number.value(".")
            if value in {0.0, 1.0}:
                self.values[text] = value
            elif text.lower() in MAYBE_MISSING:
                self.values[text] = math.nan
                self.questions.append((f"{text!r} may be an answer or mean that there is none", (f"missing {text}",)))
        known = {value for value in self.values.values() if value == value}
        if len(known) == 1 and "" in texts:
            self._ask_for_empty_cells(known.pop())

    def _ask_for_empty_cells(self, only: float) -> None:
        """Let an empty cell be the opposite of the only answer, or missing, as the sender says."""
        if self.reading.way == "yes-no":
            self.values[""] = 1.0 - only
        elif NO_CODE not in self.reading.missing:
            word = "yes" if only else "no"
            text = f"its only answer is {word}: an empty cell may mean the opposite, or be missing"
            self.questions.append((text, ("yes-no", f"missing {NO_CODE}")))

    def typed(self, cell: object) -> float | None:
        if isinstance(cell, bool | np.bool_):
            return float(cell)
        return super().typed(cell)

    def doubts(self, values: NDArray[np.float64]) -> list[Question]:
        del values
        return []


class _Days(_Texts):
    """Dates, and numbers of days since 1970-01-01."""

    expected = "a date such as 2020-12-31 or a number of days"

    def __init__(self, column: Column, reading: Reading, texts: Mapping[str, int]) -> None:
        super().__init__(column, reading, texts)
        dates: dict[str, WrittenDate] = self.parsed(written_date)
        order, questions = order_of_column(reading.way, dates)
        self.values |= {text: days for text, parts in dates.items() if (days := parts.days(order)) is not None}
        known = {text: self.values[text] for text in dates if text in self.values}
        if NO_CODE not in reading.missing and (gone := missing_dates(texts, known)):
            options = (*(f"missing {text}" for text in gone), f"missing {NO_CODE}")
            self.questions.append((f"{' and '.join(gone)} may mean that there is no date", options))
        if timed := [text for text in dates if dates[text].has_time]:
            questions.append((f"{timed[0][:_SHOWN]!r} has a time of day, which is left aside", ("date",)))
        for question in questions:
            self.ask(*question)
        for text, number in self.parsed(written_number).items():
            if not number.unit and text not in dates and number.tells != "," and not number.ambiguous_mark:
                self.values[text] = number.value(".") or 0.0

    def typed(self, cell: object) -> float | None:
        moment = cell.astype("datetime64[s]").item() if isinstance(cell, np.datetime64) else cell
        days = days_if_date(moment)
        return super().typed(moment) if days is None else days


class _Levels(_Texts):
    """Names of levels, and by the code book their other spellings."""

    arrays = ""
    missing_words = SURELY_MISSING

    def __init__(
        self, column: Column, reading: Reading, texts: Mapping[str, int], confirmed: Mapping[str, int]
    ) -> None:
        super().__init__(column, reading, texts)
        self.expected = f"one of {column.levels_in_words()}"
        unknown = []
        for text, count in texts.items():
            level = self.codes.level(text)
            if level is not None:
                self.values[text] = float(level)
                if column.levels[level] != text:
                    self.translated[text] = (column.levels[level], count)
            elif text in self.values:
                continue
            elif OTHER in column.levels:
                self.values[text] = float(column.levels.index(OTHER))
                if confirmed.get(text) == count:
                    self.others[text] = count
                else:
                    unknown.append((text, count))
        self.questions += list(self._about(unknown))

    def _about(self, unknown: Sequence[tuple[str, int]]) -> Iterator[Question]:
        for text, count in unknown[:_MOST_ASKED]:
            cells = f"{count:,} cells are" if count > 1 else "1 cell is"
            yield f"{cells} {text[:_SHOWN]!r}, none of {self.expected[7:]}", (f"other {text}:{count}",)
        if len(unknown) > _MOST_ASKED:
            yield f"so are {len(unknown) - _MOST_ASKED} more texts", ()

    def doubts(self, values: NDArray[np.float64]) -> list[Question]:
        del values
        return []

    def typed(self, cell: object) -> float | None:
        if isinstance(cell, bool | np.bool_):
            return None
        whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
        text = str(int(cell) if whole else cell)  # type: ignore[call-overload]
        level = self.codes.level(text)
        return math.nan if level is None and self.says_missing(text) else level
