"""Numbers as people write them: units, marks between thousands, a decimal comma or point, parentheses for minus."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

DecimalMark = Literal[".", ","]

_SYMBOLS = "€$£¥₹₽₩₺₴₪"
_CURRENCY = (
    rf"[{_SYMBOLS}]|(?:CHF|EUR|USD|GBP|JPY|INR|CNY|SEK|NOK|DKK|PLN|CZK|HUF|CAD|AUD|BRL)(?=[\s\d\-])|R\$|Rs\.?|Fr\."
)
_SPACE = "[ \u00a0\u202f\u2009'\u2019\u02bc]"
_MINUS = r"\-\u00ad\u2212\u2012\u2013\uff0d"
_NUMBER = re.compile(
    rf"""^(?P<open>\()?\s*(?P<sign>[+{_MINUS}])?\s*(?:(?P<before>{_CURRENCY})\s*)?(?P<sign2>[+{_MINUS}])?
    (?P<body>\d{{1,3}}(?P<space>{_SPACE})\d{{3}}(?:(?P=space)\d{{3}})*(?:[.,]\d+)?|\d[\d.,]*|[.,]\d+)
    (?P<exponent>[eE][+-]?\d+)?
    (?:\s*(?P<symbol>[%‰{_SYMBOLS}°]\w?)|[\s](?P<unit>[^\W\d_][^\s\d]{{0,7}}))?\s*(?P<close>\))?$""",
    re.VERBOSE,
)
_SPACES = re.compile(_SPACE)
_NO_CENTS = re.compile(r"(?<=\d)\.[\-\u2013\u2014]+")
"""Swiss shops write 5.- for 5.00."""

_DECORATED = re.compile(r"^([^\w\s(]{0,2})(\d+(?:[.,'\u2019_]\d+)*)([^\d\s]{0,3}(?:\[\d\])?)$")
_ONE_MARK = re.compile(r"^(\d*)([.,])(\d+)$")
_GROUPED = re.compile(r"^[1-9]\d{0,2}(?:([.,])\d{3})(?:\1\d{3})*$")
_INDIAN = re.compile(r"^[1-9]\d?(?:,\d\d)+,\d{3}$")
"""Lakhs and crores: 12,34,567."""


@dataclass(frozen=True)
class WrittenNumber:
    """One cell that looks like a number, before it is known which mark is the decimal one.

    Attributes:
        digits: the digits with their points and commas.
        exponent: such as `e-3`; empty if there is none.
        negative: whether a minus sign stands before it.
        in_parentheses: whether parentheses stand around it, as accountants write a loss.
        unit: what stands before or behind it; empty if nothing does.
    """

    digits: str
    exponent: str
    negative: bool
    in_parentheses: bool
    unit: str

    @property
    def tells(self) -> DecimalMark | None:
        """Return the decimal mark that this cell alone decides; None if it has no mark or could mean either."""
        points, commas = self.digits.count("."), self.digits.count(",")
        if points and commas:
            return "." if self.digits.rfind(".") > self.digits.rfind(",") else ","
        if points > 1 or commas > 1:
            return "," if points else "."
        match = _ONE_MARK.match(self.digits)
        if match is None or (_GROUPED.match(self.digits) and not self.exponent):
            return None
        return "." if match[2] == "." else ","

    @property
    def ambiguous_mark(self) -> str:
        """Return the mark of a cell such as `1,234`, which may be decimal or between thousands; empty otherwise."""
        return "" if self.tells is not None else next((mark for mark in ".," if mark in self.digits), "")

    def value(self, decimal: DecimalMark) -> float | None:
        """Return the number with this decimal mark; None if its other marks are not between thousands."""
        whole, mark, part = self.digits.partition(decimal)
        thousands = "," if decimal == "." else "."
        if thousands in part or (thousands in whole and not (_GROUPED.match(whole) or _INDIAN.match(whole))):
            return None
        try:
            value = float(whole.replace(thousands, "") + (f".{part}" if mark else "") + self.exponent)
        except ValueError:
            return None
        if not math.isfinite(value):
            return None
        return -value if self.negative or self.in_parentheses else value


def written_number(cell: str) -> WrittenNumber | None:
    """Return the parts of a cell that looks like a number, or None.

    >>> written_number("53%").unit, written_number("(12.5)").value("."), written_number("1 100,5").value(",")
    ('%', -12.5, 1100.5)
    >>> written_number("1,234").ambiguous_mark, written_number("1.5").tells, written_number("1_000")
    (',', '.', None)
    """
    match = _NUMBER.match(_NO_CENTS.sub("", cell))
    if match is None or bool(match["open"]) != bool(match["close"]) or (match["sign"] and match["sign2"]):
        return None
    unit = match["before"] or match["symbol"] or match["unit"] or ""
    negative = (match["sign"] or match["sign2"] or "+") != "+"
    digits = _SPACES.sub("", match["body"])
    if digits.endswith(".") and digits.count(".") + digits.count(",") == 1:
        digits = digits[:-1]  # Fortran writes 12. for 12; 24.12. is a day
    number = WrittenNumber(digits, match["exponent"] or "", negative, bool(match["open"]), unit.strip())
    return number if number.value(".") is not None or number.value(",") is not None else None


def decorated_numbers(cells: Sequence[str]) -> list[str]:
    """Return the cells that would be numbers without what stands beside them, if all cells look so.

    Labels look so, too: of one digit each, or with another sign in each cell, they are none of these.

    >>> decorated_numbers(["72kg", "80kg"]), decorated_numbers(["5.1*", "6.2"]), decorated_numbers(["1a", "1b", "2a"])
    (['72kg', '80kg'], ['5.1*'], [])
    """
    parts = [match.groups() for match in map(_DECORATED.match, cells) if match is not None]
    beside = {(before, behind) for before, _, behind in parts}
    short = all(len(body) == 1 for _, body, _ in parts)
    if len(parts) < len(cells) or (short and any(map(str.isalpha, map("".join, beside)))):
        return []
    if len(beside) == len(cells) > 1 and ("", "") not in beside:
        return []
    return [
        "".join(each) for each in parts if (each[0] or each[2] or "_" in each[1]) and not written_number("".join(each))
    ]


def number_with_unit(cell: str) -> WrittenNumber | None:
    """Return the parts of a number, also of one whose unit follows it without a space, such as `72kg`."""
    number, parts = written_number(cell), _DECORATED.match(cell)
    return number if number is not None or parts is None else written_number(f"{parts[1]}{parts[2]} {parts[3]}")


def values_of(cell: str) -> frozenset[float]:
    """Return the numbers that a cell may mean, by one decimal mark or the other."""
    number = written_number(cell)
    both = () if number is None else (number.value("."), number.value(","))
    return frozenset(value for value in both if value is not None)


def decimal_mark(numbers: Sequence[WrittenNumber]) -> tuple[DecimalMark | None, bool]:
    """Return the decimal mark that the cells of a column decide, and whether they contradict each other."""
    marks = {mark for number in numbers if (mark := number.tells) is not None}
    return (next(iter(marks)) if len(marks) == 1 else None), len(marks) > 1


def units(numbers: Iterable[WrittenNumber]) -> Counter[str]:
    """Return how many cells have each unit; the empty one for cells without."""
    return Counter(number.unit for number in numbers)
