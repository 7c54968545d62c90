"""Dates as people write them: the order that a cell decides, and days that there are not."""

import pytest

from lintra_protocol.tables.dates import day_order, written_date


@pytest.mark.parametrize(
    ("cell", "decides", "day_first", "month_first"),
    [
        ("2020-12-31", None, 18627, 18627),
        ("2020/2/1", None, 18293, 18293),
        ("31.12.2020", "day-first", 18627, None),
        ("1/2/2020", None, 18293, 18263),
        ("13/2/2020", "day-first", 18305, None),
        ("2-13-2020", "month-first", None, 18305),
        ("2020-13-45", None, None, None),
        ("29/2/2021", "day-first", None, None),
        ("31.12.20", "day-first", None, None),
        ("20201231", None, 18627, 18627),
    ],
)
def test_a_date_has_a_day_in_each_order(
    cell: str, decides: str | None, day_first: float | None, month_first: float | None
) -> None:
    written = written_date(cell)
    assert written is not None
    assert (written.tells, written.days("day-first"), written.days("month-first")) == (decides, day_first, month_first)


def test_years_of_two_digits_and_times_of_day_are_seen_and_midnight_is_none() -> None:
    seen = {
        cell: written_date(cell) for cell in ("1.2.20", "2020-01-01T12:30", "2020-01-01 00:00:00", "1/2/2020, 5:00")
    }
    assert [(one.short_year, one.has_time) for one in seen.values() if one] == [
        (True, False), (False, True), (False, False), (False, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "cell", ["", "12", "2020-01/02", "20201301", "2020", "1.2", "1.2/2020", "2020-12", "x2020-01-01"]
)
def test_what_is_no_date_is_none(cell: str) -> None:
    assert written_date(cell) is None


def test_cells_that_disagree_about_the_order_are_a_contradiction() -> None:
    dates = [written for cell in ("31/12/2020", "12/31/2020", "1/2/2020") if (written := written_date(cell))]
    assert day_order(dates) == (None, True)
    assert day_order(dates[1:]) == ("month-first", False)
