"""Parses a number or a date as days, and says what may stand in a cell of a column."""

import math
from collections.abc import Sequence
from datetime import date, datetime

DAYS = "days since 1970-01-01"
"""The unit of a column of dates; a client that finds a date in such a column sends its days."""

_EPOCH = date(1970, 1, 1).toordinal()


def number_in(cell: str) -> float | None:
    """Return a finite number as it is written in a file, or None.

    >>> number_in(" 1.5 "), number_in("1_000"), number_in("inf")
    (1.5, None, None)
    """
    try:
        value = float(cell)
    except ValueError:
        return None
    # Python reads 1_000 as a number; nobody who writes it into a file means that.
    return value if math.isfinite(value) and "_" not in cell else None


def days_in(cell: str) -> float | None:
    """Return the days from 1970-01-01 to a date of ISO 8601, with its time as part of a day, or None.

    >>> days_in("1970-01-02"), days_in("1970-01-01T12:00"), days_in("2.1.1970")
    (1.0, 0.5, None)
    """
    try:
        return days_of(datetime.fromisoformat(cell.strip()))
    except ValueError:
        return None


def days_of(moment: date) -> float:
    """Return the days from 1970-01-01 to a date, which may have a time of day; its time zone is left aside."""
    if not isinstance(moment, datetime):
        return float(moment.toordinal() - _EPOCH)
    seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
    return moment.toordinal() - _EPOCH + seconds / 86_400


def days_if_date(value: object) -> float | None:
    """Return `days_of` a date or a moment, None for anything else."""
    return days_of(value) if isinstance(value, date) else None


def right_cell(kind: str, unit: str, levels: Sequence[str]) -> str:
    """Return what may stand in a cell of a task's column, in words."""
    if kind == "category":
        return f"write one of {', '.join(levels)}"
    number = {"boolean": "0, 1, yes or no", "integer": "a whole number such as 12"}.get(kind, "a number such as 1.5")
    date = ", or a date such as 2020-12-31" if unit == DAYS else ""
    return f"write {number}{date}, and leave the cell empty if the value is missing"
