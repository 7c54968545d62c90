"""Code books: spellings of levels, codes for missing values, and what makes no sense."""

import json
import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from pydantic import ValidationError

from lintra_protocol.errors import InvalidRowError
from lintra_protocol.fields.code_book import CodeBook, LevelSpellings, UnitFactor, folded
from lintra_protocol.fields.schema import OTHER, Column, Schema

SEX = Column(
    name="sex",
    lower="0",
    upper="2",
    kind="category",
    levels=("M", "F", OTHER),
    code_book=CodeBook(
        levels=(
            LevelSpellings(level="M", label="male", synonyms=("Mann", "z\u00fcrcher")),
            LevelSpellings(level=OTHER, synonyms=("divers",)),
        ),
        missing=("9",),
    ),
)
WEIGHT = Column(
    name="weight",
    lower="0",
    upper="200",
    unit="kg",
    code_book=CodeBook(units=(UnitFactor(unit="lb", factor="0.45359237"),), missing=("-99", "refused")),
)
SCHEMA = Schema([SEX, WEIGHT])


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("M", 0),
        (" male", 0),
        ("MANN", 0),
        ("Zu\u0308rcher", 0),
        ("f", 1),
        ("divers", 2),
        (OTHER, 2),
        ("9", 2),
        (None, 2),
    ],
)
def test_a_level_has_its_name_its_label_and_its_synonyms(text: str | None, number: int) -> None:
    assert SCHEMA.row({"sex": text, "weight": 70})[0] == number


def test_a_text_that_the_code_book_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidRowError, match="column 'sex': not one of its 3 levels"):
        SCHEMA.row({"sex": "femme", "weight": 70})
    with pytest.raises(InvalidRowError, match="column 'weight': expected a number, got str"):
        SCHEMA.row({"sex": "F", "weight": "refused"})


@pytest.mark.parametrize("value", [-99, -99.0, np.int8(-99), np.float32(-99)])
def test_a_code_for_a_missing_number_is_missing_in_rows_and_arrays(value: float) -> None:
    assert math.isnan(SCHEMA.row(["F", value])[1])
    assert math.isnan(SCHEMA.row(np.array([1, value]))[1])
    assert_array_equal(SCHEMA.rows(np.array([[1, value], [0, 99]])), [[1, np.nan], [0, 99]])
    with pytest.raises(InvalidRowError, match="column 'weight'"):
        SCHEMA.rows(np.array([[1, value]]), strict=True)


def test_a_column_without_a_code_book_has_the_bytes_that_it_had() -> None:
    plain = Column(name="a", lower="0", upper="1")
    assert b"code_book" not in plain.canonical()
    assert Column.from_canonical(SEX.canonical()) == SEX
    assert Column.from_canonical(WEIGHT.canonical()) == WEIGHT


@pytest.mark.parametrize(
    ("column", "book", "complaint"),
    [
        (SEX, {"levels": [{"level": "X", "label": "x"}]}, "'X', which is none of its levels"),
        (SEX, {"levels": [{"level": "M", "synonyms": ["f"]}]}, "'f' is a spelling of two levels"),
        (SEX, {"units": [{"unit": "lb", "factor": "1"}]}, "a category has no units"),
        (SEX, {"missing": ["M"]}, "a level is no code"),
        (WEIGHT, {"units": [{"unit": "kg", "factor": "1"}]}, "units other than the column's"),
        (WEIGHT, {"units": [{"unit": "lb", "factor": "0"}]}, "factor of a unit is positive"),
        (WEIGHT, {"units": [{"unit": "lb", "factor": "1"}] * 2}, "a unit stands twice"),
        (WEIGHT, {"missing": ["9", "9"]}, "a missing code stands twice"),
        (WEIGHT, {"levels": [{"level": "M", "label": "x"}]}, "none of its levels"),
        (WEIGHT, {}, "leave it out"),
    ],
)
def test_a_code_book_that_makes_no_sense_is_refused_in_words(
    column: Column, book: dict[str, object], complaint: str
) -> None:
    document = json.loads(column.model_dump_json()) | {"code_book": book}
    with pytest.raises(ValidationError, match=complaint):
        Column.model_validate_json(json.dumps(document))


def test_spellings_differ_in_case_spaces_and_unicode_form() -> None:
    assert folded(" STRASSE\u00a0 7") == folded("stra\u00dfe 7")


def test_a_code_is_a_number_only_if_it_is_written_in_digits() -> None:
    codes = ("-99", "+98.0", "007", "1e2", "1e999999999", "1/2", "1_0", "\u0663", ".5", "5.")
    column = Column(name="x", lower="0", upper="1", code_book=CodeBook(missing=codes))
    assert Schema([column])._codes[0].missing_numbers == {-99.0, 98.0, 7.0}
