"""What cells mean: every row of the table of readings, and each question with its answers."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from lintra_protocol.fields.schema import OTHER
from lintra_protocol.tables.columns import mark_of_file, read_column
from lintra_protocol.tables.doubts import MAX_LEVELS
from lintra_protocol.tables.numbers import DecimalMark
from lintra_protocol.tables.readings import READINGS, ColumnReport, Reading

NAN = math.nan


def read(
    cells: list[str], way: str | None = None, *missing: str, name: str = "x", mark: DecimalMark | None = None
) -> tuple[ColumnReport, list[float]]:
    return read_column(name, cells, Reading(way, missing), mark)


def values(cells: list[str], way: str | None = None, *missing: str, **options: object) -> list[float]:
    report, numbers = read(cells, way, *missing, **options)  # type: ignore[arg-type]
    assert not report.question, report.question
    return numbers


@pytest.mark.parametrize(
    ("cells", "numbers", "unit"),
    [
        (["53%", "7 %", "12%"], [53, 7, 12], "%"),
        (["€734.50", "€12.00", "-€3.25"], [734.5, 12, -3.25], "€"),
        (["72 kg", "80 kg", ""], [72, 80, NAN], "kg"),
        (["(12.5)", "3.0", "1.5"], [-12.5, 3, 1.5], ""),
        (["1 100,5", "2\u00a0000,5", "30,5"], [1100.5, 2000.5, 30.5], ""),
        (["1.234.567", "12", "5"], [1234567, 12, 5], ""),
        (["1,234.5", "2,000", "3"], [1234.5, 2000, 3], ""),
        (["1.234", "0.5", "2"], [1.234, 0.5, 2], ""),
        (["1'000", "12'000'000", "5"], [1000, 12_000_000, 5], ""),
        (["\u22123", "4", "1e+3"], [-3, 4, 1000], ""),
        (["3", "none", "?", ".", "-", "unknown", "5"], [3, NAN, NAN, NAN, NAN, NAN, 5], ""),
        (["3", "#N/A", "k.A.", "NaN", "null", "5"], [3, NAN, NAN, NAN, NAN, 5], ""),
    ],
)
def test_numbers_are_read_as_people_write_them(cells: list[str], numbers: list[float], unit: str) -> None:
    report, found = read(cells)
    assert (report.question, report.unit, report.kind in ("real", "integer")) == ("", unit, True)
    assert_array_equal(found, numbers)


@pytest.mark.parametrize(
    ("cells", "question", "options"),
    [
        (["1,234", "5", "6"], "'1,234' may have a decimal mark or one between thousands", "number-comma"),
        (["1.234", "5.678", "6"], "'1.234' may have a decimal mark or one between thousands", "number-point"),
        (["1.5", "2,5", "3"], "some cells have a decimal point and others a decimal comma", "number-comma"),
        (["5 kg", "11 lb", "6 kg"], "several units: 'kg' and 'lb'", "drop"),
        (["53%", "7", "12"], "several units: 'no unit' and '%'", "number"),
        (["(12)", "3", "4"], r"'\(12\)' may be a negative number or a remark", "number"),
        (["1", "2", "3", "many", "3"], "1 of its cells are no number, the first is 'many' in row 4", "category"),
        (["0012", "0405", "17"], "'0012' has leading zeros", "category"),
        (["1E5", "2E4", "3E7", "1E5"], "'1E5' may be a number or a code", "category"),
        (["1e5", "456", "789"], "'1e5' may be a number or a code", "category"),
        (["+41791234567", "+4915112345678"], "may be a telephone number", "category"),
        (["20200131", "20211231", "20200131"], "as many digits", "date"),
        (["01.2020", "12.2021"], "may be a month of a year", "category"),
        (["192.168.100.101", "192.168.100.250"], "may be an address of a computer", "category"),
        (["1", "", "1"], "its only word is '1': an empty cell may mean the opposite", "yes-no"),
        (["yes", "", "Yes"], "its only word is 'yes'", "yes-no"),
        (["yes", "no", "unknown"], "'unknown' may be an answer", "yes-no"),
        (["1", "2", "3", "4", "-99", "-99", "-99"], "-99 may mean that the value is missing", "missing -99"),
        (["1", "5", "3", "5", "9999"] + ["9999"] * 2, "9999 may mean", "missing 9999"),
        (["1/2/2020", "3/4/2020"], "'1/2/2020' may have the day or the month first", "date-day-first"),
        (["2020-13-45", "2020-01-01", "2020-01-02"], "'2020-13-45' is no day of the calendar", "drop"),
        (["1.2.20", "2.2.20", "3.2.20"], "has a year of two digits", "date"),
        (["2020-01-01T12:30", "2020-01-02", "2020-01-03"], "has a time of day", "date"),
        (["2020-01-01", "2020-01-02", "soon", "2020-01-03"], "'soon' is no date", "date"),
        (["M", "m ", "F", "M"], "levels differ in case or spaces only", "category-merged"),
        (["DE", "FR", "NA", "DE"], "'NA' may be one of its codes", "missing NA"),
        ([str(n) for n in (7, 3, 5, 4, 6)], "every row has another whole number", "drop"),
    ],
)
def test_what_could_mean_two_things_is_asked_and_each_answer_ends_the_question(
    cells: list[str], question: str, options: str
) -> None:
    report, _ = read(cells)
    assert re.search(question, report.question)
    assert options in report.options
    for option in report.options:
        missing = option.removeprefix("missing ")
        answered, _ = read(cells, None, missing) if option.startswith("missing ") else read(cells, option)
        assert not answered.question, (option, answered.question)


def test_an_answer_ends_no_question_that_does_not_offer_it() -> None:
    cells = ["1,5", "2.5", "0012", "4", "-99", "-99", "-99"]
    assert "decimal comma" in read(cells, "number")[0].question
    assert "-99 may mean" in read(cells, "number-comma")[0].question
    assert not read(cells, "number-comma", "-99")[0].question
    assert not read(cells, "number-comma", "")[0].question  # there is no such code
    assert "the day or the month first" in read(["1/2/2020", "3/4/2020", "soon"], "date")[0].question
    coded = ["1", "2", "3", "2", "-99", "-99", "-99", "999", "999", "999"]
    assert "999 may mean" in read(coded, None, "-99")[0].question


def test_namibia_is_a_level_if_the_owner_says_that_the_column_holds_codes() -> None:
    cells = ["DE", "NA", "FR", "DE", "", "NA"]
    report, numbers = read(cells, "category")
    assert (report.levels, report.missing_codes) == (("DE", "NA", "FR", OTHER), ())
    assert_array_equal(numbers, [0, 1, 2, 0, 3, 1])
    assert read(cells, None, "NA")[0].levels == ("DE", "FR", OTHER)


def test_numbers_in_several_units_are_never_one_column_of_numbers() -> None:
    cells = ["5 kg", "11 lb", "6 kg"]
    assert read(cells)[0].options == ("category", "drop")
    assert read(cells, "number")[0].why == "its cells have several units: 'kg' and 'lb'"
    assert values(["5 kg", "6", "7 kg"], "number") == [5, 6, 7]
    assert read(["5 kg", "6", "7 kg"], "number")[0].unit == "kg"


def test_a_year_of_two_digits_is_no_year_and_is_lost_aloud() -> None:
    report, days = read(["1.2.20", "2.2.2020", "3.2.2020"], "date")
    assert_array_equal(days, [NAN, 18294, 18295])
    assert report.lost == "1 cells are no dates and count as missing"
    assert read(["1.2.20", "2.2.20"], "date")[0].kind == "left out"
    assert "its century is open" in read(["1.2.20", "2.2.2020"])[0].question


@pytest.mark.parametrize("cells", [["yes", "ja", "yes"], ["no", "non", "non"], ["yes", "no", "ja"]])
def test_two_words_for_one_answer_are_no_boolean(cells: list[str]) -> None:
    assert read(cells)[0].kind == "category"


def test_where_only_one_word_stands_the_owner_says_what_an_empty_cell_means() -> None:
    cells = ["yes", "", "yes", "NA"]
    report, numbers = read(cells, "yes-no")
    assert_array_equal(numbers, [1, 0, 1, NAN])
    assert report.lost == "1 empty cells count as no"
    assert read(["1", "", "1"], "yes-no")[1] == [1, 0, 1]
    assert read(cells, "category")[0].levels == ("yes", OTHER)


@pytest.mark.parametrize(("code", "cell"), [("-99", "-99.0"), ("-99.0", "-99"), ("-99", "\u221299"), ("-99", "-99,0")])
def test_missing_codes_are_compared_as_numbers(code: str, cell: str) -> None:
    assert_array_equal(values(["1", "2", cell, "3"], None, code), [1, 2, NAN, 3])
    assert_array_equal(values(["no", "yes", cell], None, code), [0, 1, NAN])


def test_a_stated_code_leaves_the_words_that_may_mean_missing_as_they_are() -> None:
    assert_array_equal(values(["1", "2", "none", "?", "3"], None, "?"), [1, 2, NAN, NAN, 3])


def test_the_mark_of_a_file_is_that_of_all_its_cells_and_never_decides_for_a_column_of_thousands() -> None:
    late = ["1"] * 500 + ["2,5"]
    assert mark_of_file([late, ["x"]], ",") == ","
    assert mark_of_file([late, ["1.5"]], ",") is None
    assert (mark_of_file([["1"]], ";"), mark_of_file([["1"]], ","), mark_of_file([["1.5"]], ";")) == (",", None, ".")
    for mark in (".", ",", None):
        assert "may have a decimal mark" in read(["1.234", "5.678", "6"], mark=mark)[0].question
        assert "may have a decimal mark" in read(["1,234", "5,678"], mark=mark)[0].question
    assert read_column("x", ["1.234", "5.678"], Reading(), typed=True)[1] == [1.234, 5.678]


@pytest.mark.parametrize("name", ["id", "patient_id", "PLZ", "zip code", "customerId", "Nr"])
def test_whole_numbers_of_many_values_called_like_identifiers_are_asked_about(name: str) -> None:
    cells = [str(1000 + 37 * (row % 20)) for row in range(60)]
    assert "identifier or a code" in read(cells, name=name)[0].question
    assert not read(cells, name="width")[0].question  # nor any word that only contains one
    assert not read([str(row % 5) for row in range(60)], name=name)[0].question


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["yes", "no", "Yes", ""], [1, 0, 1, NAN]),
        (["ja", "nein", "ja", "k.A."], [1, 0, 1, NAN]),
        (["oui", "non"], [1, 0]),
        (["si", "no"], [1, 0]),
        (["TRUE", "False"], [1, 0]),
        (["Y", "N", "N"], [1, 0, 0]),
    ],
)
def test_words_for_yes_and_no_are_a_boolean(cells: list[str], numbers: list[float]) -> None:
    report, found = read(cells)
    assert report.kind == "boolean"
    assert_array_equal(found, numbers)


@pytest.mark.parametrize(
    ("cells", "days"),
    [
        (["31/12/2020", "1/2/2020"], [18627, 18293]),
        (["12/31/2020", "1/2/2020"], [18627, 18263]),
        (["31.12.2020", "1.2.2020"], [18627, 18293]),
        (["2020-12-31", "2020/02/01", ""], [18627, 18293, NAN]),
        (["1970-01-02 00:00:00", "1970-01-03T00:00"], [1, 2]),
    ],
)
def test_dates_are_days_in_the_order_that_the_column_decides(cells: list[str], days: list[float]) -> None:
    assert_array_equal(values(cells), days)


def test_words_that_may_mean_missing_are_levels_among_texts() -> None:
    report, numbers = read(["none", "mild", "severe", "none", "NA", "unknown"])
    assert report.levels == ("none", "mild", "severe", "unknown", OTHER)
    assert_array_equal(numbers, [0, 1, 2, 0, 4, 3])
    assert report.missing_codes == ("NA",)


def test_a_category_whose_frequent_levels_cover_too_little_is_left_out_unless_its_owner_wants_it() -> None:
    cells = [f"v{row % 40}" for row in range(400)]
    report, _ = read(cells)
    assert report.kind == "left out"
    assert "cover 30 % of the cells; read it with --as x=category" in report.why
    assert len(read(cells, "category")[0].levels) == MAX_LEVELS + 1


def test_consecutive_whole_numbers_in_the_order_of_rows_are_left_out_and_can_be_kept() -> None:
    cells = ["3", "4", "5", "6", "7"]
    assert "numbers the rows" in read(cells)[0].why
    assert values(cells, "number") == [3, 4, 5, 6, 7]


def test_numbers_that_stand_once_each_are_asked_about_where_the_name_says_that_they_number_rows() -> None:
    cells = [str(977 * row) for row in (5, 3, 8, 1, 9)]
    assert read_column("rownames", cells, Reading())[0].options == ("number", "drop")
    assert read_column("rownames", [*cells, cells[0]], Reading())[0].question == ""
    assert read_column("income", cells, Reading())[0].question == ""


def test_nothing_is_asked_about_texts_that_are_left_out() -> None:
    report, _ = read(["Deus ex Machina", "Deus Ex Machina", *(f"film {row}" for row in range(40))])
    assert (report.kind, report.question) == ("left out", "")


def test_rows_in_which_a_column_says_nothing_are_counted() -> None:
    assert read(["1.5", "", "2.5", "NA"])[0].missing == 2
    assert read(["red", "", "tan", "tan"])[0].missing == 1


def test_spellings_of_a_level_are_joined_or_kept_as_its_owner_says() -> None:
    cells = ["Bern", "bern", "Bern ", "Zu\u0308rich", "Z\u00fcrich"]
    assert read(cells, "category-merged")[0].levels == ("Bern", "Z\u00fcrich", OTHER)
    assert read(cells, "category")[0].levels == ("Bern", "Z\u00fcrich", "bern", OTHER)


def test_codes_inside_the_range_of_the_others_are_numbers() -> None:
    assert not read([str(n) for n in (90, 95, 99, 99, 99, 120)])[0].question
    assert values(["1", "2", "3", "-99", "-99", "-99"], None, "-99")[3:] == pytest.approx([NAN] * 3, nan_ok=True)


def test_few_numbers_among_texts_are_levels_and_half_are_not() -> None:
    assert read(["several"] * 3 + ["3", "4"])[0].levels == ("several", "3", "4", OTHER)
    assert "no number" in read(["several"] * 2 + ["3", "4"])[0].question


@given(
    st.lists(st.floats(-1e9, 1e9, allow_nan=False), min_size=2, max_size=20, unique=True),
    st.sampled_from([".", ","]),
    st.sampled_from(["", " kg", "%"]),
)
def test_numbers_come_back_whatever_their_mark_and_unit(numbers: list[float], mark: str, unit: str) -> None:
    cells = [f"{number:.5f}".replace(".", mark) + unit for number in numbers]
    report, found = read(cells, "number-point" if mark == "." else "number-comma")
    assert report.kind in ("real", "integer", "boolean", "left out")
    if report.kind != "left out":
        np.testing.assert_allclose(found, numbers, atol=1e-5)


@given(st.lists(st.text(max_size=8), min_size=1, max_size=30), st.sampled_from([None, *READINGS]))
def test_any_cells_are_read_or_left_out_and_a_reading_leaves_no_question(cells: list[str], way: str | None) -> None:
    report, found = read(cells, way)
    assert report.kind == "left out" or len(found) == len(cells)
    assert way is None or way not in report.options


@given(
    st.lists(
        st.sampled_from(["1,5", "2.5", "-99", "07", "x", "", "yes", "1/2/2020", "1.2.20", "5 kg", "NA"]), min_size=3
    )
)
def test_answers_to_what_is_asked_come_to_an_end(cells: list[str]) -> None:
    way, missing, asked = None, (), 0
    while (report := read(cells, way, *missing)[0]).question:
        first, asked = report.options[0], asked + 1
        way, missing = (
            (way, (*missing, first.removeprefix("missing "))) if first.startswith("missing ") else (first, missing)
        )
        assert asked < 6, report.question
