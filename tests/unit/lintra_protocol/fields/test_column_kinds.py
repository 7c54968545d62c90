"""Integers, booleans and categories: what a column may say, and which values it takes."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from pydantic import ValidationError

from lintra_protocol.errors import InvalidMessageError, InvalidRowError
from lintra_protocol.fields.schema import OTHER, Column, Schema

AGE = Column(name="age", lower="0", upper="100", kind="integer")
SMOKES = Column(name="smokes", lower="0", upper="1", center="0.5", scale="0.5", kind="boolean")
TOWN = Column(name="town", lower="0", upper="2", kind="category", levels=("Basel", "Bern", "Chur"))
WEIGHT = Column(name="weight", lower="0", upper="200")
SCHEMA = Schema([AGE, SMOKES, TOWN, WEIGHT])
ROW: dict[str, object] = {"age": 30, "smokes": True, "town": "Chur", "weight": 71.5}


@pytest.mark.parametrize(
    "row",
    [
        ROW,
        list(ROW.values()),
        {**ROW, "age": 30.0, "smokes": 1},
        {**ROW, "age": np.int8(30), "smokes": np.bool_(True)},
        np.array([30, 1, 2, 71.5]),
    ],
)
def test_a_level_is_given_by_its_name_and_in_an_array_by_its_number(row: object) -> None:
    assert_array_equal(SCHEMA.row(row), [30, 1, 2, 71.5])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"age": 30.5}, "column 'age': expected a whole number"),
        ({"age": True}, "column 'age': expected a number, got bool"),
        ({"age": "30"}, "column 'age': expected a number, got str"),
        ({"smokes": 0.5}, "column 'smokes': expected 0 or 1"),
        ({"smokes": 2}, "column 'smokes': expected 0 or 1"),
        ({"smokes": "yes"}, "column 'smokes': expected a number, got str"),
        ({"weight": "71.5"}, "column 'weight': expected a number, got str"),
        ({"town": "Aarau"}, "column 'town': not one of its 3 levels, Basel, Bern, Chur"),
        ({"town": "chur"}, "column 'town': not one of its 3 levels"),
        ({"town": ""}, "column 'town': not one of its 3 levels"),
        ({"town": 2}, "column 'town': expected the name of a level, got int"),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_a_value_of_another_kind_is_refused_by_column_and_not_repeated(
    change: dict[str, object], complaint: str, strict: bool
) -> None:
    with pytest.raises(InvalidRowError, match=complaint) as refusal:
        SCHEMA.row(ROW | change, strict=strict)  # type: ignore[arg-type]
    assert "Aarau" not in str(refusal.value)
    assert refusal.value.column == next(iter(change))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"town": None}, "column 'town': expected the name of a level, got NoneType"),
        ({"weight": None}, "column 'weight': expected a number, got NoneType"),
        ({"weight": float("nan")}, "column 'weight': not a finite number"),
        ({"smokes": None}, "column 'smokes': expected a number"),
    ],
)
def test_a_value_that_is_not_there_is_missing_or_with_strict_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidRowError, match=complaint):
        SCHEMA.row(ROW | change, strict=True)  # type: ignore[arg-type]
    lenient = SCHEMA.row(ROW | change)  # type: ignore[arg-type]
    assert [name for name, value in zip(SCHEMA.names, lenient, strict=True) if np.isnan(value)] == list(change)


@pytest.mark.parametrize(("place", "value"), [(0, 30.5), (1, 2), (1, -1), (1, 0.5), (2, 3), (2, -1), (2, 0.5)])
def test_a_block_takes_the_same_values_and_levels_by_number(place: int, value: float) -> None:
    block = np.array([[30, 1, 2, 71.5], [30, 0, 0, -5]])
    assert_array_equal(SCHEMA.rows(SCHEMA.rows(block)), block)
    block[1, place] = value
    with pytest.raises(InvalidRowError, match=f"row 1, column '{SCHEMA.names[place]}': expected"):
        SCHEMA.rows(block)
    with pytest.raises(InvalidRowError, match=f"'{SCHEMA.names[place]}': expected"):
        SCHEMA.row(block[1])
    block[1, place] = np.nan
    for lenient in (SCHEMA.rows(block)[1], SCHEMA.row(block[1])):
        assert np.flatnonzero(np.isnan(lenient)).tolist() == [place]


def test_an_integer_beyond_its_bounds_is_moved_to_the_nearest() -> None:
    values = SCHEMA.row({**ROW, "age": 130})
    assert_array_equal(SCHEMA.normalise(values[np.newaxis]), [[100, 1, 2, 71.5]])


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"kind": "integer", "upper": "1.5"}, "bounds of an integer are integers"),
        ({"kind": "boolean", "upper": "2"}, "between 0 and 1"),
        ({"levels": ("a", "b")}, "only a category has levels"),
        ({"kind": "category"}, "at least 2 levels"),
        ({"kind": "category", "levels": ("a",)}, "at least 2 levels"),
        ({"kind": "category", "levels": ("a", "a")}, "all different"),
        ({"kind": "category", "levels": ("a", "b", "c")}, "of this category are"),
        ({"kind": "category", "levels": ("a", "b"), "scale": "2"}, "of this category are"),
        ({"kind": "text"}, "Input should be"),
    ],
)
def test_a_column_that_contradicts_itself_is_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Column.model_validate({"name": "x", "lower": "0", "upper": "1"} | fields)


def test_a_real_column_is_written_as_before_there_were_kinds() -> None:
    assert WEIGHT.canonical() == (b'{"center":"0","lower":"0","name":"weight","scale":"1","unit":"","upper":"200"}')
    for column in SCHEMA.columns:
        assert Column.from_canonical(column.canonical()) == column


def test_what_is_left_out_of_the_encoding_may_not_be_written_either() -> None:
    spelled = WEIGHT.canonical().replace(b'"lower"', b'"kind":"real","lower"')
    with pytest.raises(InvalidMessageError, match="Column"):
        Column.from_canonical(spelled)


COUNTED = Schema([AGE, SMOKES, TOWN, WEIGHT], indicators=True)


def test_a_category_becomes_indicators_of_all_levels_but_the_first() -> None:
    assert [column.name for column in COUNTED.encoded] == ["age", "smokes", "town[Bern]", "town[Chur]", "weight"]
    rows = np.array([[30, 1, level, 71.5] for level in range(3)])
    assert_array_equal(COUNTED.normalise(rows)[:, 2:4], [[0, 0], [1, 0], [0, 1]])
    assert_array_equal(COUNTED.normalise(np.array([[30, 1, np.nan, 7]])), [[30, 1, np.nan, np.nan, 7]])
    assert_array_equal(COUNTED.normalise(rows)[:, [0, 1, 4]], SCHEMA.normalise(rows)[:, [0, 1, 3]])


def test_without_categories_indicators_change_nothing() -> None:
    rows = np.array([[30, 1, 71.5], [0, 0, -3]])
    plain, counted = Schema([AGE, SMOKES, WEIGHT]), Schema([AGE, SMOKES, WEIGHT], indicators=True)
    assert counted.encoded == plain.columns
    assert_array_equal(counted.normalise(rows), plain.normalise(rows))


def test_no_row_is_longer_than_the_largest_norm_and_one_is_as_long() -> None:
    corners = np.array([[age, smokes, town, weight] for age in (0, 100) for smokes in (0, 1) for town in range(3)
                        for weight in (0, 200)])  # fmt: skip
    norms = np.linalg.norm(COUNTED.normalise(corners), axis=1)
    assert norms.max() == pytest.approx(COUNTED.largest_norm(), rel=1e-12)


@pytest.mark.parametrize("value", [None, float("nan"), pd.NA, OTHER])
def test_a_reserved_level_takes_what_is_missing_and_what_names_it(value: object) -> None:
    town = Column(name="town", lower="0", upper="2", kind="category", levels=("Basel", "Bern", OTHER))
    assert_array_equal(Schema([town]).row({"town": value}), [2])  # type: ignore[dict-item]
    assert_array_equal(Schema([town]).row({"town": "Bern"}), [1])


@pytest.mark.parametrize("value", ["Aarau", "", "basel", 7, True, np.ones(2), [1]])
def test_what_is_none_of_the_levels_is_refused_also_where_one_is_reserved(value: object) -> None:
    town = Column(name="town", lower="0", upper="2", kind="category", levels=("Basel", "Bern", OTHER))
    with pytest.raises(InvalidRowError, match="column 'town': ") as refusal:
        Schema([town]).row({"town": value})  # type: ignore[dict-item]
    assert "Aarau" not in str(refusal.value)
    assert_array_equal(Schema([town]).row({"town": OTHER}), [2])


def test_a_message_names_the_first_levels_of_many() -> None:
    levels = tuple(f"L{number}" for number in range(9))
    many = Column(name="site", lower="0", upper="8", kind="category", levels=levels)
    with pytest.raises(InvalidRowError, match=r"not one of its 9 levels, L0, L1, L2, L3, L4, L5, \.\.\.$"):
        Schema([many]).row(["L10"])


def test_the_names_of_indicators_fit_where_names_of_columns_do() -> None:
    with pytest.raises(ValidationError, match="name and level together have at most 78"):
        Column(name="x" * 70, lower="0", upper="1", kind="category", levels=("short", "a longer level"))
