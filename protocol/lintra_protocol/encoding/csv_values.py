"""Parses a cell of a file or a frame: a number, a date as days, true or false; the same for authors and clients."""

import math
from collections.abc import Collection, Sequence
from datetime import date, datetime

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nil", "-", "?", "."})
"""Cells of numbers and dates that say nothing, in lower case and without spaces around them."""

MISSING_LEVELS = frozenset({"", "na", "n/a", "nan", "null"})
"""Cells of a category that say nothing, unless they are one of its levels; `none` or `?` may well mean something."""

DAYS = "days since 1970-01-01"
"""The unit of a column of dates; a client that finds a date in such a column sends its days."""

_EPOCH = date(1970, 1, 1).toordinal()
_TRUTH = {"true": 1.0, "false": 0.0}


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


def truth_in(cell: str) -> float | None:
    """Return 1 for true, 0 for false, in any case, or None.

    >>> truth_in("True"), truth_in("FALSE"), truth_in("yes")
    (1.0, 0.0, None)
    """
    return _TRUTH.get(cell.strip().lower())


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


def sent_number(cell: str, kind: str, unit: str) -> float | str:
    """Return what a client takes a cell of a column of numbers for.

    `cell` is as it stands in a file. `kind` is that of the task's column; a boolean may also be spelled true or false.
    `unit` is that of the task's column; in days since 1970 a date of ISO 8601 may stand, and any other unit may stand
    before or behind the number.

    Returns:
        The number; NaN if the cell says that it is missing; the cell itself if it says anything else. That is no row's
        value, so that `Schema.row` refuses it.

    >>> sent_number("41", "real", ""), sent_number("n/a", "real", ""), sent_number("53%", "real", "")
    (41.0, nan, '53%')
    >>> sent_number("53 %", "real", "%"), sent_number("72 lb", "real", "kg")
    (53.0, '72 lb')
    """
    bare = cell.strip()
    if unit and unit != DAYS:
        bare = bare.removeprefix(unit).removesuffix(unit)
    value = number_in(bare)
    if value is None and kind == "boolean":
        value = truth_in(cell)
    if value is None and unit == DAYS:
        value = days_in(cell)
    if value is None:
        return math.nan if cell.strip().lower() in MISSING else cell
    return value


def sent_level(cell: str, levels: Collection[str]) -> str | None:
    """Return what a client takes a cell of a category for: the level's name, or None if the cell says nothing.

    >>> sent_level("M", {"M", "F"}), sent_level("", {"M", "F"}), sent_level("male", {"M", "F"})
    ('M', None, 'male')
    """
    return None if cell not in levels and cell.strip().lower() in MISSING_LEVELS else cell


def right_cell(kind: str, unit: str, levels: Sequence[str]) -> str:
    """Return what may stand in a cell of a task's column, in words."""
    if kind == "category":
        return f"write one of {', '.join(levels)}"
    number = {"boolean": "0, 1, true or false", "integer": "a whole number such as 12"}.get(
        kind, "a number such as 1.5"
    )
    date = ", or a date such as 2020-12-31" if unit == DAYS else ""
    return f"write {number}{date}, and leave the cell empty if the value is missing"
