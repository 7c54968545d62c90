"""Lines that are no rows are found, and lines that only look so are not."""

import pytest

from lintra_protocol.tables.lines import complaints, names_missing


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["Bern", "1.5"], True),
        (["3", "7"], True),
        (["-1", "town"], True),
        (["0", "1", "2"], False),
        (["4", "5"], False),  # as a program goes on counting
        (["2019", "2021"], False),
        (["q1", "12", "15"], False),
        (["5 kg"], False),
    ],
)
def test_numbers_in_the_first_line_are_names_only_where_they_count_or_are_years(
    names: list[str], missing: bool
) -> None:
    assert names_missing(names) == missing


@pytest.mark.parametrize("last", ["Total", "Summe 2020", "Grand total", "Durchschnitt", "mean"])
def test_a_line_that_sums_up_is_found_at_the_end_and_by_its_word_alone_elsewhere(last: str) -> None:
    rows = [["Bern", "1"], ["Basel", "2"], [last, "3"]]
    assert next(complaints(["town", "x"], rows)).startswith(f"row 3 begins with '{last}'")
    elsewhere = [[last, "3"], *rows[:2]]
    assert len(list(complaints(["town", "x"], elsewhere))) == (" 2020" not in last)


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        (["extent", "x"], [["partial", "1"], ["total", "2"], ["total", "3"]]),  # a level
        (["firm", "x"], [["Total Energies", "1"], ["Shell", "2"]]),
        (["x"], [["x"], [""], ["x"]]),  # boxes that are ticked
        (["1", "2"], [["1", "2"], ["2", "1"]]),
        (["full name"], [["Ann Bell"], ["Bob"]]),
    ],
)
def test_rows_that_look_like_other_lines_are_rows(names: list[str], rows: list[list[str]]) -> None:
    assert list(complaints(names, rows)) == []
