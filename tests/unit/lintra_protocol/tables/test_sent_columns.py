"""A sender's cells as the task means them: every cell is read, asked about, or refused by row, column and type."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from lintra_protocol.encoding.csv_values import DAYS
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.fields.code_book import CodeBook, LevelSpellings, UnitFactor
from lintra_protocol.fields.schema import OTHER, Column
from lintra_protocol.tables.readings import READINGS, Reading
from lintra_protocol.tables.sent_columns import SentColumn, read_sent_column

NAN = math.nan
NUMBER = Column(name="x", lower="0", upper="200", unit="kg")
PLAIN = Column(name="x", lower="-1000000", upper="1000000")
YES = Column(name="x", lower="0", upper="1", kind="boolean")
DATE = Column(name="x", lower="0", upper="30000", unit=DAYS)
SEX = Column(name="x", lower="0", upper="1", kind="category", levels=("M", "F"))
SEX_OTHER = Column(name="x", lower="0", upper="2", kind="category", levels=("M", "F", OTHER))
BOOK = CodeBook(units=(UnitFactor(unit="lb", factor="0.45359237"),), missing=("-99", "refused"))
CODED = NUMBER.model_copy(update={"code_book": BOOK})
SPELLED = SEX_OTHER.model_copy(
    update={"code_book": CodeBook(levels=(LevelSpellings(level="M", synonyms=("male",)),), missing=("9",))}
)


@pytest.mark.parametrize(
    ("column", "cells", "values"),
    [
        (NUMBER, ["72 kg", "80kg", "81.5 kg"], [72, 80, 81.5]),
        (NUMBER, ["72", "80", ""], [72, 80, NAN]),
        (PLAIN, ["1 100,5", "2,5", "1.234.567"], [1100.5, 2.5, 1234567]),
        (PLAIN, ["12,34,567", "\u22123", "1e5"], [1234567, -3, 100000]),
        (PLAIN, ["none", "?", ".", "-", "NA", "#N/A", "5"], [NAN] * 6 + [5]),
        (PLAIN, [1, 2.5, None, NAN, np.int8(3)], [1, 2.5, NAN, NAN, 3]),
        (PLAIN, [1, "2.5", "n/a"], [1, 2.5, NAN]),
        (Column(name="x", lower="0", upper="9", unit="0"), ["10", "20", "3"], [10, 20, 3]),
        (Column(name="x", lower="-9", upper="9", unit="-"), ["-1", "2", "-3"], [-1, 2, -3]),
        (CODED, ["100 lb", "72 kg", "refused", "-99", "-99.0 kg"], [45.359237, 72, NAN, NAN, NAN]),
        (YES, ["yes", "Nein", "1", "0", "oui", "NA", True, 0], [1, 0, 1, 0, 1, NAN, 1, 0]),
        (DATE, ["2020-12-31", "31.12.2020", "20201231", "18627", ""], [18627] * 4 + [NAN]),
        (DATE, ["31/12/2020", "1/2/2020", np.datetime64("1970-01-02"), None], [18627, 18293, 1, NAN]),
        (SEX, ["M", "F ", "", "N/A", None], [0, 1, NAN, NAN, NAN]),
        (SEX_OTHER, ["M", "F", OTHER, "", None], [0, 1, 2, 2, 2]),
        (SPELLED, ["MALE", " male", "F", "9", 9], [0, 0, 1, 2, 2]),
        (Column(name="x", lower="0", upper="1", kind="category", levels=("1", "NA")), [1, 1.0, "NA"], [0, 0, 1]),
    ],
)
def test_cells_are_read_as_the_task_means_them(column: Column, cells: list[object], values: list[float]) -> None:
    read = read_sent_column(column, cells)
    assert not read.questions
    assert_array_equal(read.values, values)


@pytest.mark.parametrize(
    ("column", "cells", "row", "expected"),
    [
        (NUMBER, ["72", "160 lb"], 2, "a number, got str"),
        (NUMBER, ["53%"], 1, "a number, got str"),
        (PLAIN, ["1", "many"], 2, "a number, got str"),
        (PLAIN, [1, True], 2, "a number, got bool"),
        (PLAIN, [1, [2]], 2, "a number, got list"),
        (PLAIN, [math.inf], 1, "a number, got float"),
        (Column(name="x", lower="0", upper="9", kind="integer"), ["y"], 1, "a whole number, got str"),
        (YES, ["yes", "perhaps"], 2, "0, 1, yes or no, got str"),
        (YES, ["2"], 1, "0, 1, yes or no, got str"),
        (DATE, ["2020-13-45"], 1, "a date such as 2020-12-31 or a number of days, got str"),
        (DATE, ["31.12.20"], 1, "a date"),
        (SEX, ["M", "male"], 2, "one of its 2 levels, M, F, got str"),
        (SEX, ["m"], 1, "one of its 2 levels"),
        (SEX, ["none"], 1, "one of its 2 levels"),
        (SEX, [True], 1, "one of its 2 levels, M, F, got bool"),
    ],
)
def test_a_cell_that_does_not_fit_is_refused_by_row_column_and_type_and_never_shown(
    column: Column, cells: list[object], row: int, expected: str
) -> None:
    with pytest.raises(InvalidRowError, match=f"row {row}, column 'x': expected {expected}") as refused:
        read_sent_column(column, cells)
    assert (refused.value.row, refused.value.column) == (row - 1, "x")
    cell = cells[row - 1]
    assert not isinstance(cell, str) or repr(cell) not in str(refused.value)


@pytest.mark.parametrize(
    ("column", "cells", "question", "option", "values"),
    [
        (PLAIN, ["1,234", "5"], "'1,234' may have a decimal mark", "number-comma", [1.234, 5]),
        (PLAIN, ["1,234", "5"], "'1,234' may have a decimal mark", "number-point", [1234, 5]),
        (NUMBER, ["72 kg", "80"], "several units: 'no unit' and 'kg'", "number", [72, 80]),
        (PLAIN, ["(12)", "3"], r"'\(12\)' may be a negative number", "number", [-12, 3]),
        (PLAIN, [5, 7, 6, "-99"], "-99 may mean", "missing -99", [5, 7, 6, NAN]),
        (PLAIN, [5, 7, 6, "-99"], "-99 may mean", "missing ", [5, 7, 6, -99]),
        (NUMBER, [999, 60], "999 may mean", "missing 999", [NAN, 60]),
        (DATE, ["1/2/2020", "3/4/2020"], "the day or the month first", "date-month-first", [18263, 18325]),
        (DATE, ["2020-01-01T12:30"], "has a time of day", "date", [18262]),
        (DATE, ["2020-01-01", "1900-01-01", "2020-01-02"], "1900-01-01 may", "missing 1900-01-01", [18262, NAN, 18263]),
        (YES, ["yes", ""], "its only answer is yes", "yes-no", [1, 0]),
        (YES, ["1", ""], "its only answer is yes", "missing ", [1, NAN]),
        (
            SEX_OTHER,
            ["M", "divers", "divers"],
            "2 cells are 'divers', none of its 3 levels",
            "other divers:2",
            [0, 2, 2],
        ),
    ],
)
def test_what_only_the_sender_knows_is_asked_and_ends_with_the_answer(
    column: Column, cells: list[object], question: str, option: str, values: list[float]
) -> None:
    (asked,) = read_sent_column(column, cells).questions
    assert option in asked[1]
    assert re.search(question, asked[0])
    answered = _answered(column, cells, option)
    assert not answered.questions
    assert_array_equal(answered.values, values)


def _answered(column: Column, cells: list[object], option: str) -> SentColumn:
    word, _, value = option.partition(" ")
    if word == "missing":
        return read_sent_column(column, cells, Reading(None, (value,)))
    if word == "other":
        text, _, count = value.rpartition(":")
        return read_sent_column(column, cells, others={text: int(count)})
    return read_sent_column(column, cells, Reading(option))


def test_a_confirmed_count_that_is_no_longer_right_is_asked_again() -> None:
    assert read_sent_column(SEX_OTHER, ["x", "x", "M"], others={"x": 1}).questions


def test_counts_say_what_became_of_the_cells() -> None:
    read = read_sent_column(SPELLED, ["M", "male", "divers", "F", ""], others={"divers": 1})
    assert (read.levels(), read.missing) == ({"M": 2, "F": 1, OTHER: 2}, 1)
    assert (read.translated, read.others) == ({"male": ("M", 1)}, {"divers": 1})
    assert read_sent_column(NUMBER, ["-1", "250", "7", ""]).moved() == 2


def test_an_array_is_read_as_its_cells_are() -> None:
    numbers = np.array([1.5, NAN, -99.0, 60.0])
    assert_array_equal(read_sent_column(CODED, numbers).values, read_sent_column(CODED, numbers.tolist()).values)
    with pytest.raises(InvalidRowError, match="expected a number, got bool"):
        read_sent_column(NUMBER, np.array([True]))


@given(
    st.sampled_from([NUMBER, PLAIN, CODED, YES, DATE, SEX, SEX_OTHER, SPELLED]),
    st.lists(st.one_of(st.text(max_size=6), st.floats(), st.integers(), st.booleans(), st.none()), max_size=12),
    st.sampled_from([None, *READINGS]),
)
def test_any_cells_are_read_or_refused(column: Column, cells: list[object], way: str | None) -> None:
    try:
        read = read_sent_column(column, cells, Reading(way))
    except InvalidRowError:
        return
    assert read.values.shape == (len(cells),)
    assert np.isfinite(read.values[~np.isnan(read.values)]).all()
    assert all(
        math.isnan(value) or OTHER in column.levels
        for value, cell in zip(read.values, cells, strict=True)
        if cell is None
    )
