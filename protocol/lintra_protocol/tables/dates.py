"""Dates as people write them: ISO 8601, 31.12.2020, or 31/12/2020 where the column decides what the first number is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from lintra_protocol.encoding.csv_values import days_of

DayOrder = Literal["day-first", "month-first"]

_ISO = re.compile(r"^(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?P<time>[T ]\d{1,2}:\d{2}.*)?$")
_COMPACT = re.compile(r"^((?:19|20)\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$")
_MIDNIGHT = re.compile(r"[T ,]+0?0:00(:00(\.0+)?)?$")
_OTHER = re.compile(r"^(\d{1,2})([./-]) ?(\d{1,2})\2 ?(\d{4}|\d{2})(?P<time>[T ,]+\d{1,2}:\d{2}.*)?$")


@dataclass(frozen=True)
class WrittenDate:
    """One cell that looks like a date.

    Attributes:
        numbers: the year, month and day of ISO 8601; else the first and second number, and the year.
        mark: what stands between them; empty for ISO 8601.
        short_year: whether the year has two digits.
        has_time: whether a time of day stands behind it.
    """

    numbers: tuple[int, int, int]
    mark: str
    short_year: bool
    has_time: bool

    @property
    def tells(self) -> DayOrder | None:
        """Return the order that this cell alone decides: with points the day comes first."""
        if not self.mark:
            return None
        first, second, _ = self.numbers
        if self.mark == "." or (first > 12 >= second):
            return "day-first"
        return "month-first" if second > 12 >= first else None

    def days(self, order: DayOrder) -> float | None:
        """Return the days since 1970-01-01, or None if there is no such day, or the year's century is open."""
        if self.short_year:
            return None
        year, month, day = self.numbers
        if self.mark:
            first, second, year = self.numbers
            day, month = (first, second) if order == "day-first" else (second, first)
        try:
            return days_of(date(year, month, day))
        except ValueError:
            return None


def written_date(cell: str) -> WrittenDate | None:
    """Return the parts of a cell that looks like a date, possible or not, or None.

    >>> written_date("2020-12-31").days("day-first"), written_date("31/12/2020").tells
    (18627.0, 'day-first')
    >>> written_date("2020-13-45").days("day-first"), written_date("1/2/2020").tells, written_date("12")
    (None, None, None)
    >>> written_date("31.12.20").days("day-first"), written_date("20201231").days("day-first")
    (None, 18627.0)
    """
    if match := _ISO.match(cell):
        return WrittenDate((int(match[1]), int(match[3]), int(match[4])), "", False, _has_time(match["time"]))
    if match := _COMPACT.match(cell):
        return WrittenDate((int(match[1]), int(match[2]), int(match[3])), "", False, False)
    if match := _OTHER.match(cell):
        numbers = (int(match[1]), int(match[3]), int(match[4]))
        return WrittenDate(numbers, match[2], len(match[4]) == 2, _has_time(match["time"]))
    return None


def _has_time(text: str | None) -> bool:
    return text is not None and not _MIDNIGHT.match(text)


def day_order(dates: Sequence[WrittenDate]) -> tuple[DayOrder | None, bool]:
    """Return the order that the cells of a column decide, and whether they contradict each other."""
    orders = {order for written in dates if (order := written.tells) is not None}
    return (next(iter(orders)) if len(orders) == 1 else None), len(orders) > 1
