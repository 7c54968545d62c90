"""What makes a row acceptable."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from pydantic import ValidationError

from lintra_protocol.errors import InvalidRowError
from lintra_protocol.fields.schema import Column, Schema

COLUMNS = [
    Column(name="age", lower="0", upper="100", center="50", scale="50", unit="a"),
    Column(name="height", lower="-1.5", upper="2.5"),
]
SCHEMA = Schema(COLUMNS)


@pytest.mark.parametrize(
    "row", [{"height": 1, "age": 30}, [30, 1], (30.0, 1.0), np.array([30, 1]), [np.float32(30), np.int8(1)]]
)
def test_a_row_comes_by_name_or_in_column_order(row: object) -> None:
    assert_array_equal(SCHEMA.row(row), [30.0, 1.0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"age": 1}, "column 'height': it is absent from the row; give None"),
        ({"age": 1, "height": 1, "weight": 1}, "unknown column 'weight'; the columns are age, height"),
        ([1], r"expected 2 values \(age, height\), got 1"),
        ([1, 2, 3], "got 3"),
        ("12", "got str"),
        (b"12", "got bytes"),
        (7, "got int"),
        (None, "got NoneType"),
        ({1, 2}, "got set"),
        (np.array(3.0), "one dimension, got 0"),
        (np.ones((2, 2)), "one dimension, got 2"),
        ([1, "2"], "column 'height': expected a number, got str"),
        ([True, 2], "column 'age': expected a number, got bool"),
        ([np.bool_(True), 2], "column 'age': expected a number"),
        ([1, None], "column 'height': expected a number, got NoneType"),
        ([1, Decimal(1)], "column 'height': expected a number, got Decimal"),
        ([1, 2j], "column 'height': expected a number, got complex"),
        ([math.nan, 2], "column 'age': not a finite number"),
        ([1, math.inf], "column 'height': not a finite number"),
        ([-math.inf, 1], "column 'age': not a finite number"),
        ([10**400, 1], "column 'age': too large"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_if_asked_to_and_the_detail_names_the_column(
    row: object, complaint: str
) -> None:
    with pytest.raises(InvalidRowError, match=complaint):
        SCHEMA.row(row, strict=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, math.nan, np.float32("nan"), pd.NA, pd.NaT])
def test_a_value_that_is_none_is_missing_and_the_row_stays(value: object) -> None:
    assert_array_equal(SCHEMA.row({"age": 30, "height": value}), [30, np.nan])  # type: ignore[dict-item]
    assert_array_equal(SCHEMA.row([value, 1]), [np.nan, 1])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "value",
    ["41", "", "yes", "53%", "n/a?", math.inf, -math.inf, True, Decimal(1), 2j, 10**400, [1], {}, np.ones(2)],
    ids=repr,
)
def test_a_value_that_is_no_number_is_never_taken_for_a_missing_one(value: object) -> None:
    for row in ({"age": 30, "height": value}, [30, value]):
        with pytest.raises(InvalidRowError, match=r"^The row .* column 'height': ") as refusal:
            SCHEMA.row(row)  # type: ignore[arg-type]
        assert refusal.value.column == "height"
        assert not isinstance(value, str) or not value or value not in str(refusal.value)


def test_an_absent_column_and_an_infinite_number_are_faults_and_not_missing_values() -> None:
    with pytest.raises(InvalidRowError, match="column 'height': it is absent from the row; give None"):
        SCHEMA.row({"age": 30})
    assert_array_equal(SCHEMA.rows(np.array([[1, np.nan], [np.nan, 2]])), [[1, np.nan], [np.nan, 2]])
    with pytest.raises(InvalidRowError, match="row 1, column 'age': not a finite number"):
        SCHEMA.rows(np.array([[1, np.nan], [np.inf, 2]]))


def test_a_block_of_objects_is_read_by_its_cells_but_texts_are_no_numbers() -> None:
    assert_array_equal(SCHEMA.rows(np.array([[1, None], [pd.NA, 2.5]])), [[1, np.nan], [np.nan, 2.5]])
    with pytest.raises(InvalidRowError, match="row 0, column 'height'"):
        SCHEMA.rows(np.array([[1, None]]), strict=True)
    for value in ("2", True, 10**400, Decimal(1)):
        with pytest.raises(InvalidRowError, match="row 5, column 'height': ") as refusal:
            SCHEMA.rows(np.array([[1, 2], [1, value]], object), first=4)
        assert (refusal.value.row, refusal.value.column) == (1, "height")


@pytest.mark.parametrize(
    "row", [{"age": 1, "height": 1, "weight": 1}, [1], [1, 2, 3], "12", 7, None, {1, 2}, np.array(3.0), np.ones((2, 2))]
)
def test_what_is_no_row_of_these_columns_is_refused_always(row: object) -> None:
    with pytest.raises(InvalidRowError):
        SCHEMA.row(row)  # type: ignore[arg-type]


def test_no_refusal_repeats_a_value() -> None:
    with pytest.raises(InvalidRowError) as refusal:
        SCHEMA.row(["secret", 1], strict=True)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (np.ones(2), r"expected shape \(n, 2\), got \(2,\)"),
        (np.ones((1, 3)), r"got \(1, 3\)"),
        (np.ones((1, 2), bool), "array of bool"),
        (np.array([["1", "2"]]), "array of <U1"),
        (np.ones((1, 2), complex), "array of complex128"),
        (np.array([[1, 2], [3, np.nan]]), "row 1, column 'height': not a finite number"),
        (np.array([[np.inf, 2]]), "row 0, column 'age'"),
    ],
)
def test_a_block_that_does_not_fit_is_refused(rows: np.ndarray, complaint: str) -> None:
    with pytest.raises(InvalidRowError, match=complaint):
        SCHEMA.rows(rows, strict=True)


def test_a_block_of_integers_is_a_block_of_numbers() -> None:
    assert SCHEMA.rows(np.array([[1, 2]])).dtype == np.float64


def test_values_are_moved_to_their_bounds_then_centred_and_scaled() -> None:
    rows = np.array([[75.0, 0.5], [1e300, -1e300], [-7.0, 9.0], [np.nan, 1]])
    assert_array_equal(SCHEMA.normalise(rows), [[0.5, 0.5], [1.0, -1.5], [-1.0, 2.5], [np.nan, 1]])


def test_a_row_alone_is_normalised_as_it_is_among_others() -> None:
    rng = np.random.default_rng(5)
    special = [0.0, -0.0, 100.0, 2.5, -1.5, np.nan, 1e300, -1e300, np.nextafter(2.5, 3), np.nextafter(-1.5, -2)]
    rows = np.concatenate([rng.normal(40, 60, (50, 2)), rng.choice(special, (100, 2))])
    assert_array_equal(np.concatenate([SCHEMA.normalise(row[np.newaxis]) for row in rows]), SCHEMA.normalise(rows))
    assert_array_equal(np.concatenate([SCHEMA.outside(row[np.newaxis]) for row in rows]), SCHEMA.outside(rows))


@pytest.mark.parametrize(
    "changes",
    [{"lower": "1", "upper": "1"}, {"lower": "2"}, {"scale": "0"}, {"scale": "-1"}, {"name": ""}, {"name": "a\nb"},
     {"name": "x" * 81}, {"lower": 0}, {"lower": "1e3"}, {"kind": "float"}],
)  # fmt: skip
def test_a_column_that_makes_no_sense_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Column.model_validate({"name": "a", "lower": "0", "upper": "1"} | changes)
