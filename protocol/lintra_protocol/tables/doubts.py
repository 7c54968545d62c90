"""Doubts whether numbers are numbers: codes for missing values, identifiers, telephone numbers, months and years.

A doubt is a question with its options. It names the first cell that gives rise to it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import pairwise

from lintra_protocol.encoding.csv_values import days_of
from lintra_protocol.tables.dates import DayOrder, WrittenDate, day_order
from lintra_protocol.tables.numbers import DecimalMark, WrittenNumber, decimal_mark

Question = tuple[str, tuple[str, ...]]
"""What is open, in words, and the options that answer it."""

MAX_LEVELS = 12
"""Most levels that a category of a file gets, `OTHER` not counted; every level but the first costs a column."""

_NINES = ["9" * digits for digits in range(1, 7)]
_WRITTEN_CODES = (
    *("8" * len(nines) for nines in _NINES),
    *(nines[1:] + last for nines in _NINES for last in "789"),
    *(f"{nines}.{part}" for nines in _NINES for part in ("9", "99")),
    *("32767", "32768", "65535", "2147483647", "2147483648", "4294967295"),
)
CODES = frozenset(sign * float(code) for code in _WRITTEN_CODES for sign in (-1, 1)) | {-1.0, -2, -3, -4, -5, -6}
"""Numbers that surveys, weather stations and programs write where there is none, such as -99, 999.9 and 32767."""

_REPEATED = frozenset(sign * float(digit * times) for digit in "1234567" for times in range(2, 7) for sign in (-1, 1))
"""Numbers such as 77 and 1111, which are codes only far from all others."""

NO_DAYS = frozenset(
    days_of(date(*day))
    for day in ((1, 1, 1), (1111, 11, 11), (1601, 1, 1), (1753, 1, 1), (1899, 12, 30), (1899, 12, 31), (1900, 1, 1),
                (1970, 1, 1), (2099, 12, 31), (2999, 12, 31), (9999, 12, 31))
)  # fmt: skip
"""Days that programs write where there is no date."""

OR_NUMBER = ("number", "category", "drop")

_IDENTIFIERS = frozenset(
    {
        "id", "ids", "nr", "no", "num", "code", "zip", "plz", "npa", "postcode", "postleitzahl", "postal", "number",
        "tel", "telefon", "phone", "telephone", "mobile", "handy", "fax", "iban", "konto", "account", "isbn", "ean",
        "ssn", "ahv", "matrikel",
    }
)  # fmt: skip
_NUMBERED = frozenset(
    {
        "rowname", "rownames", "rowid", "row", "index", "uid", "seqn", "record", "case", "obs", "observation",
        "patient", "subject", "participant", "respondent", "customer", "client", "person", "member",
        "household", "unnamed",
    }
)  # fmt: skip
"""Words in names of columns that number the rows, if no number stands there twice."""

_IDENTIFIER_ENDS = ("nummer", "number", "code", "nr")
_WORD_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_MONTH = "(?:0?[1-9]|1[0-2])"
_YEAR = r"(?:19|20)\d\d"
_MONTH_OF_YEAR = re.compile(rf"{_MONTH}\.{_YEAR}|{_YEAR}\.(?:0[1-9]|1[0-2])|{_YEAR}(?:0[1-9]|1[0-2])")
_DAY_OF_YEAR = re.compile(rf"{_YEAR}(?:00[1-9]|0[1-9]\d|[12]\d\d|3[0-6]\d)")
_SHORT_DATE = re.compile(r"\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])|(?:0[1-9]|[12]\d|3[01])(?:0[1-9]|1[0-2])\d\d")
_CHOICES = re.compile(r"(\d),(\d)")
_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}")
_FEW, _SOME_ROWS, _MANY_ROWS, _LEAST_DIGITS, _LEAST_CODED, SURELY_CODED = 5, 20, 50, 8, 3, -7


def mark_of_column(
    way: str | None, numbers: Mapping[str, WrittenNumber], file_mark: DecimalMark | None
) -> tuple[DecimalMark, list[Question]]:
    """Return the decimal mark that the owner or the cells decide, or the likelier one with a question.

    `way` is what the owner says, one of `READINGS` or None; `numbers` are the different cells; `file_mark` is the mark
    of the rest of the file, if that is known.
    """
    marks = ("number-point", "number-comma")
    if way in marks:
        return ("." if way == "number-point" else ","), []
    mark, contradiction = decimal_mark(list(numbers.values()))
    likely: DecimalMark = mark or file_mark or "."
    if contradiction:
        return likely, [("some cells have a decimal point and others a decimal comma", marks)]
    ambiguous = next((cell for cell, number in numbers.items() if number.ambiguous_mark), None)
    if mark is not None and file_mark not in (None, mark):
        return likely, [(f"its decimal mark is {mark!r}, that of other columns {file_mark!r}", marks)]
    if mark is None and ambiguous:
        return likely, [(f"{ambiguous!r} may have a decimal mark or one between thousands", marks)]
    return likely, []


def has_three_decimals(numbers: Mapping[str, WrittenNumber], file_mark: DecimalMark | None) -> bool:
    """Return whether many different cells have three digits behind a point, as a program writes decimals.

    Thousands are mostly round, or some of them have no mark or two. Whoever reads such a column says so.
    """
    cells = list(numbers)
    if file_mark == "," or len(cells) < _SOME_ROWS or any(numbers[cell].ambiguous_mark != "." for cell in cells):
        return False
    return 4 * sum(cell.endswith("0") for cell in cells) < len(cells)


def order_of_column(way: str | None, dates: Mapping[str, WrittenDate]) -> tuple[DayOrder, list[Question]]:
    """Return which number of the dates is the day, as `mark_of_column` does for the decimal mark."""
    orders = ("date-day-first", "date-month-first")
    if way in orders:
        return ("day-first" if way == orders[0] else "month-first"), []
    order, contradiction = day_order(list(dates.values()))
    if contradiction:
        return "day-first", [("some cells have the day first and others the month", (*orders, "drop"))]
    decided = {"", "."} | {written.mark for written in dates.values() if written.tells is not None}
    if some := next((cell for cell in dates if dates[cell].mark not in decided), None):
        return order or "day-first", [(f"{some!r} may have the day or the month first", orders)]
    return order or "day-first", []


def doubts_of_numbers(
    name: str, numbers: Mapping[str, WrittenNumber], values: Mapping[str, float]
) -> Iterator[Question]:
    """Yield what is open about a column whose cells look like numbers.

    `numbers` and `values` hold each different cell. Codes for missing values are no part of this (see `missing_codes`).
    """
    cells = list(values)
    bracketed = [cell for cell in cells if numbers[cell].in_parentheses]
    if bracketed and not any("." in cell or "," in cell or numbers[cell].unit for cell in cells):
        yield f"{bracketed[0]!r} may be a negative number or a remark", OR_NUMBER
    if all(map(_MONTH_OF_YEAR.fullmatch, cells)):
        yield f"{cells[0]!r} may be a month of a year", OR_NUMBER
    elif zeros := [cell for cell in cells if re.match(r"0\d", numbers[cell].digits)]:
        yield f"{zeros[0]!r} has leading zeros, as codes have", OR_NUMBER
    elif powers := [cell for cell in cells if re.fullmatch(r"\d+[eE]\d+", cell)]:
        yield f"{powers[0]!r} may be a number or a code", OR_NUMBER
    elif calls := [cell for cell in cells if re.fullmatch(r"\+\d{8,}", cell)]:
        yield f"{calls[0]!r} may be a telephone number", OR_NUMBER
    elif all(map(_DAY_OF_YEAR.fullmatch, cells)) or (len(cells) >= _FEW and all(map(_SHORT_DATE.fullmatch, cells))):
        yield f"{cells[0]!r} may be a date without marks", OR_NUMBER
    elif choices := _choices(cells):
        yield f"{choices[0]!r} may be two choices or a number", OR_NUMBER
    elif all(map(_ADDRESS.fullmatch, cells)):
        yield f"{cells[0]!r} may be an address of a computer", OR_NUMBER
    elif _are_of_one_length(cells, numbers):
        yield f"{cells[0]!r} may be an identifier or a date: every cell has as many digits", ("date", *OR_NUMBER)
    elif _names_identifiers(name):
        whole = {value for value in values.values() if value == round(value)}
        if len(whole) > MAX_LEVELS and len(whole) == len(set(values.values())):
            yield "its name is that of an identifier or a code, and its cells are whole numbers", OR_NUMBER


def _names_identifiers(name: str) -> bool:
    """Return whether a column's name is that of identifiers: a word of it says so, or how the name ends."""
    return bool(_words(name) & _IDENTIFIERS) or name.lower().endswith(_IDENTIFIER_ENDS)


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD_OF_NAME.findall(name)} | set(re.split(r"[^a-z]+", name.lower()))


def _choices(cells: Sequence[str]) -> list[str]:
    """Return cells such as `1,3` if the larger digit is the second one in all of them, as hardly in decimals."""
    pairs = [match for cell in cells if (match := _CHOICES.fullmatch(cell))]
    commas = sum("," in cell or "." in cell for cell in cells)
    rising = len(pairs) >= 2 and len(pairs) == commas and all(match[1] < match[2] for match in pairs)
    return [match[0] for match in pairs] if rising else []


def missing_dates(counts: Mapping[str, int], days: Mapping[str, float]) -> list[str]:
    """Return the dates that programs write where there is none, such as 1900-01-01, and that lie beyond the others.

    `counts` says how often each date stands in the column as it is written there, and `days` what day it is.
    """
    known = {cell: day for cell, day in days.items() if day not in NO_DAYS}
    if len(known) < 2:
        return []
    lower, upper = min(known.values()), max(known.values())
    far = (upper - lower) / 2
    return [
        cell
        for cell, day in days.items()
        if day in NO_DAYS
        and (not lower - far <= day <= upper + far or (counts[cell] >= _LEAST_CODED and not lower <= day <= upper))
    ]


def _are_of_one_length(cells: Sequence[str], numbers: Mapping[str, WrittenNumber]) -> bool:
    """Return whether all cells are digits alone, eight or more and as many in each, as few measurements are."""
    lengths = {len(numbers[cell].digits) if numbers[cell].digits.isdigit() else 0 for cell in cells}
    bare = not any(numbers[cell].exponent or numbers[cell].unit or numbers[cell].negative for cell in cells)
    return bare and len(cells) > 1 and len(lengths) == 1 and lengths.pop() >= _LEAST_DIGITS


def missing_codes(counts: Counter[float]) -> list[float]:
    """Return the numbers that may mean that a value is missing, such as 99 beside 1 to 5.

    They are the last or the first ones, members of `CODES` or repeated digits, and lie outside the others' range by
    half of it or more, and by more than 1. They stand in three rows or more; in a column of twenty rows one is enough
    for a code that lies outside by over twice the range. A negative one is asked about wherever all others are
    positive, and zero where it lies outside by twice the range. `counts` says how often each number stands in the
    column.
    """
    ordered, possible = sorted(counts), CODES | _REPEATED
    codes = [0.0] if _zero_stands_apart(ordered, counts) else []
    for side in (ordered, ordered[::-1]):
        run = next((place for place, value in enumerate(side) if value not in possible), len(side))
        across = next((place for place, value in enumerate(side[::-1]) if value not in possible), 0)
        for size in range(run, 0, -1):
            block, rest = side[:size], side[size : len(side) - across]
            if len(rest) < 2:
                continue
            width, gap = abs(rest[-1] - rest[0]), abs(rest[0] - block[-1])
            rows = sum(counts[value] for value in block)
            coded = block[-1] <= SURELY_CODED or (rows >= _LEAST_CODED and gap > 1)
            negative = side is ordered and block[-1] < 0 <= rest[0] and coded
            often = rows >= _LEAST_CODED or (counts.total() >= _SOME_ROWS and gap > 2 * width)
            if negative or (often and gap > 1 and 2 * gap >= width):
                codes += block
                break
    return sorted(codes)


def _zero_stands_apart(ordered: Sequence[float], counts: Counter[float]) -> bool:
    """Return whether all other numbers are as near to each other as those of a blood pressure, far from zero."""
    if len(ordered) < 3 or ordered[0] != 0 or counts[0.0] < _LEAST_CODED:
        return False
    return ordered[1] > 1 and ordered[1] >= 2 * (ordered[-1] - ordered[1])


def counts_rows(values: Sequence[float]) -> bool:
    """Return whether whole numbers, each of them once, leave hardly one out: of their range half are there."""
    if not _each_once(values):
        return False
    width = max(values) - min(values)
    return width == len(values) - 1 or (len(values) >= _MANY_ROWS and width < 2 * len(values))


def names_rows(name: str, values: Sequence[float]) -> bool:
    """Return whether each whole number stands there once, in a column whose name says that it numbers rows."""
    return _each_once(values) and bool(_words(name) & (_NUMBERED | _IDENTIFIERS))


def _each_once(values: Sequence[float]) -> bool:
    whole = len(values) > 3 and all(value == value and value == round(value) for value in values)
    return whole and len(set(values)) == len(values)


def is_rising(values: Sequence[float]) -> bool:
    """Return whether each value is larger than the one before it."""
    return all(before < after for before, after in pairwise(values))
