"""Doubts whether numbers are numbers: codes for missing values, identifiers, telephone numbers, months and years.

A doubt is a question with its options. It names the first cell that gives rise to it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from lintra_protocol.tables.dates import DayOrder, WrittenDate, day_order
from lintra_protocol.tables.numbers import DecimalMark, WrittenNumber, decimal_mark

Question = tuple[str, tuple[str, ...]]
"""What is open, in words, and the options that answer it."""

MAX_LEVELS = 12
"""Most levels that a category of a file gets, `OTHER` not counted; every level but the first costs a column."""

CODES = frozenset(
    sign * float(code)
    for digits in (1, 2, 3, 4)
    for code in ("9" * digits, "8" * digits, "9" * (digits - 1) + "7", "9" * (digits - 1) + "8")
    for sign in (-1, 1)
) | {-1.0, -2.0, -3.0}
"""Numbers that surveys write where nothing was answered, such as -99, 998 and 9999."""

OR_NUMBER = ("number", "category", "drop")

_IDENTIFIER = re.compile(
    r"(?:^|[^a-z])(?:id|ids|nr|no|num|code|zip|plz|npa|postcode|postleitzahl|postal|number|tel|telefon|phone|telephone"
    r"|mobile|handy|fax|iban|konto|account|isbn|ean|ssn|ahv|matrikel)(?:$|[^a-z])|(?:Id|ID|Nr|No|Code)$"
)
_MONTH = "(?:0?[1-9]|1[0-2])"
_YEAR = r"(?:19|20)\d\d"
_MONTH_OF_YEAR = re.compile(rf"{_MONTH}\.{_YEAR}|{_YEAR}\.(?:0[1-9]|1[0-2])|{_YEAR}(?:0[1-9]|1[0-2])")
_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}")
_SOME_ROWS, _MANY_ROWS, _LEAST_DIGITS, _LEAST_CODED, SURELY_CODED = 20, 50, 8, 3, -7


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
    if mark is None and ambiguous and _may_group(numbers, numbers[ambiguous].ambiguous_mark, file_mark):
        return likely, [(f"{ambiguous!r} may have a decimal mark or one between thousands", marks)]
    return likely, []


def _may_group(numbers: Mapping[str, WrittenNumber], mark: str, file_mark: DecimalMark | None) -> bool:
    """Return whether the mark of cells such as 1.234 may stand between thousands.

    A point does not, if the file has points elsewhere, or nothing but numbers of three decimals in this column.
    """
    if mark == "," or file_mark is not None:
        return mark == "," or file_mark == ","
    return not all("." in number.digits for number in numbers.values())


def order_of_column(way: str | None, dates: Mapping[str, WrittenDate]) -> tuple[DayOrder, list[Question]]:
    """Return which number of the dates is the day, as `mark_of_column` does for the decimal mark."""
    orders = ("date-day-first", "date-month-first")
    if way in orders:
        return ("day-first" if way == orders[0] else "month-first"), []
    order, contradiction = day_order(list(dates.values()))
    if contradiction:
        return "day-first", [("some cells have the day first and others the month", (*orders, "drop"))]
    some = next((cell for cell in dates if dates[cell].mark), None)
    if order is None and some:
        return "day-first", [(f"{some!r} may have the day or the month first", orders)]
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
    elif all(map(_ADDRESS.fullmatch, cells)):
        yield f"{cells[0]!r} may be an address of a computer", OR_NUMBER
    elif _are_of_one_length(cells, numbers):
        yield f"{cells[0]!r} may be an identifier or a date: every cell has as many digits", ("date", *OR_NUMBER)
    elif _IDENTIFIER.search(name) or _IDENTIFIER.search(name.lower()):
        whole = {value for value in values.values() if value == round(value)}
        if len(whole) > MAX_LEVELS and len(whole) == len(set(values.values())):
            yield "its name is that of an identifier or a code, and its cells are whole numbers", OR_NUMBER


def _are_of_one_length(cells: Sequence[str], numbers: Mapping[str, WrittenNumber]) -> bool:
    """Return whether all cells are digits alone, eight or more and as many in each, as few measurements are."""
    lengths = {len(numbers[cell].digits) if numbers[cell].digits.isdigit() else 0 for cell in cells}
    bare = not any(numbers[cell].exponent or numbers[cell].unit or numbers[cell].negative for cell in cells)
    return bare and len(cells) > 1 and len(lengths) == 1 and lengths.pop() >= _LEAST_DIGITS


def missing_codes(counts: Counter[float]) -> list[float]:
    """Return the numbers that may mean that a value is missing, such as 99 beside 1 to 5.

    They are the last or the first ones, members of `CODES`, and lie outside the others' range by over half of it, and
    by more than 1. They stand in three rows or more; in a column of twenty rows one is enough for a code that lies
    outside by over twice the range. A negative one is asked about wherever all
    others are positive. `counts` says how often each number stands in the column.
    """
    ordered = sorted(counts)
    codes = []
    for side in (ordered, ordered[::-1]):
        run = next((place for place, value in enumerate(side) if value not in CODES), len(side))
        across = next((place for place, value in enumerate(side[::-1]) if value not in CODES), 0)
        for size in range(run, 0, -1):
            block, rest = side[:size], side[size : len(side) - across]
            if len(rest) < 2:
                continue
            width, gap = abs(rest[-1] - rest[0]), abs(rest[0] - block[-1])
            negative = side is ordered and block[-1] <= SURELY_CODED and rest[0] >= 0
            rows = sum(counts[value] for value in block)
            often = rows >= _LEAST_CODED or (counts.total() >= _SOME_ROWS and gap > 2 * width)
            if negative or (often and gap > max(width / 2, 1.0)):
                codes += block
                break
    return sorted(codes)


def counts_rows(values: Sequence[float]) -> bool:
    """Return whether whole numbers, each of them once, leave hardly one out: of their range half are there."""
    whole = len(values) > 3 and all(value == value and value == round(value) for value in values)
    if not whole or len(set(values)) < len(values):
        return False
    width = max(values) - min(values)
    return width == len(values) - 1 or (len(values) >= _MANY_ROWS and width < 2 * len(values))


def is_rising(values: Sequence[float]) -> bool:
    """Return whether each value is larger than the one before it."""
    return all(before < after for before, after in pairwise(values))
