"""What is sent where a number is missing, what a noisy count of rows costs, and which tasks may have one."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import FalseClaimError, InvalidTaskError
from lintra_protocol.fields.schema import Column, Schema
from lintra_protocol.mechanisms import AnyMechanism, Osnap, RonGauss, SecondMoment, Sum
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.privacy.statement import Claim
from support import source
from support.measured import (
    calibrated_for,
    clip_words,
    document_of,
    encode_rows,
    layout_of,
    measurement_of,
    measurement_of_sketch,
    noise_sigmas,
    reports_without_noise,
)

CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=64)
SUM = Sum(row_bound="5", fraction_bits=0, sigma=100, count="noisy")
PRODUCTS = SecondMoment(row_bound="5", fraction_bits=0, sigma=1000, intercept="3", count="noisy")
COUNTING: list[Mechanism] = [
    mechanism.model_copy(update={"clip_count_weight": weight})
    for weight in ("0", "0.7")
    for mechanism in (
        SUM,
        *(
            PRODUCTS.model_copy(update={"intercept": intercept, "trace": trace})
            # Below the bound, on it, above it, and so far above that the null row is the farthest.
            for intercept in ("3", "5", "7", "14")
            for trace in (False, True)
        ),
    )
]


def ball_and_missing() -> FloatArray:
    """Return all integer rows of norm 5 or less, and some in which a number is missing."""
    rows = [row for row in product(range(-5, 6), repeat=2) if sum(x * x for x in row) <= 25]
    return np.array([*rows, (np.nan, 5), (3, np.nan), (np.nan, np.nan)], np.float64)


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize("mechanism", COUNTING, ids=str)
def test_no_two_reports_are_further_apart_than_stated_and_some_are_as_far(
    mechanism: AnyMechanism, neighbours: str
) -> None:
    flags = (np.zeros(len(ball_and_missing()), np.bool_), np.ones(len(ball_and_missing()), np.bool_))
    reports = np.concatenate([reports_without_noise(mechanism, ball_and_missing(), outside) for outside in flags])
    others = reports if neighbours == "replace-one" else np.zeros((1, reports.shape[1]), np.int64)
    # Variances in sigma^2, unrounded: 1 or, for squares and what a row counts among them, 2.
    halves = np.where(noise_sigmas(mechanism, 2) == mechanism.sigma, 2, 1)
    largest = max(int((np.square(others - report) * halves).sum(axis=1).max()) for report in reports)
    claim = CLAIM.model_copy(update={"neighbours": neighbours})
    stated = measurement_of(mechanism, 2, claim).squared_distance
    assert Fraction(largest, 2) <= stated
    # No two integer rows have the worst cosine, -9/25, that belongs to an intercept of 3.
    attained = stated if "intercept='3'" not in str(mechanism) else Fraction(99, 100) * stated
    assert Fraction(largest, 2) >= attained


def test_a_row_in_which_a_number_is_missing_is_a_report_of_zeros_under_a_noisy_count() -> None:
    for mechanism in COUNTING:
        reports = reports_without_noise(mechanism, np.array([[np.nan, 50.0], [3.0, 4.0]]), np.array([True, False]))
        assert not reports[0].any()
        assert reports[1, -1 - clip_words(mechanism)] == layout_of(mechanism).rows_per_count > 0


@pytest.mark.parametrize(
    "mechanism",
    [
        Sum(row_bound="5", fraction_bits=0, sigma=100),
        SecondMoment(row_bound="5", fraction_bits=0, sigma=1000, intercept="3", trace=True, clip_count_weight="0.7"),
        Osnap(row_bound="5", fraction_bits=0, sigma=100, rows=2),
    ],
    ids=str,
)
def test_a_number_that_is_missing_stands_at_its_centre_under_an_exact_count(mechanism: AnyMechanism) -> None:
    rows = np.array([[np.nan, 4.0], [np.nan, 40.0], [np.nan, np.nan]])
    assert_array_equal(reports_without_noise(mechanism, rows), reports_without_noise(mechanism, np.nan_to_num(rows)))
    assert_array_equal(document_of(mechanism).is_clipped(rows), [False, True, False])


def test_a_missing_category_without_a_reserved_level_is_like_a_missing_number() -> None:
    town = Column(name="town", lower="0", upper="2", kind="category", levels=("a", "b", "c"))
    schema = Schema([Column(name="x", lower="-1", upper="1"), town], indicators=True)
    rows = schema.normalise(schema.rows(np.array([[0.5, np.nan], [0.5, 0.0]])))
    assert not reports_without_noise(PRODUCTS, rows)[0].any()
    exact = reports_without_noise(PRODUCTS.model_copy(update={"count": "exact"}), rows)
    assert_array_equal(exact[0], exact[1])  # the first level


def test_in_a_joint_vector_what_is_missing_is_the_middle_and_has_no_cell() -> None:
    joint = RonGauss(
        row_bound="2", fraction_bits=4, sigma=64, dimension=4, levels=(0, 3, 2), bins=(4, 3, 0), label=2,
        indicator=10, mean_weight="1",
    )  # fmt: skip
    parts = joint.unpack(reports_without_noise(joint, np.array([[np.nan, 2.0, 1.0]]))[0].astype(float))
    assert_array_equal(parts.sums[1], [0, -16, -16, 16])
    assert [cells.tolist() for cells in parts.histograms] == [[0, 0, 0, 0], [0, 0, 10]]
    parts = joint.unpack(reports_without_noise(joint, np.full((1, 3), np.nan))[0].astype(float))
    assert_array_equal(parts.counts, [10, 0])
    assert not parts.sums.any()
    assert not np.concatenate(parts.histograms).any()


def test_the_noise_of_a_missing_row_is_that_of_any_other() -> None:
    for mechanism in COUNTING:
        rows = np.array([[np.nan, 1.0], [1.0, 1.0]])
        noise = encode_rows(mechanism, rows, source("noise")) - reports_without_noise(mechanism, rows)
        assert_array_equal(noise, measurement_of(mechanism, 2).noise(2, source("noise")))
        assert noise[0].all()


@pytest.mark.parametrize("options", [{"trace": False}, {"trace": True}], ids=str)
def test_a_noisy_count_is_free_below_the_bound_and_its_noise_is_that_of_a_square(options: dict[str, bool]) -> None:
    exact = SecondMoment(row_bound="5", fraction_bits=0, sigma=4, intercept="2.5", **options)
    noisy = exact.model_copy(update={"count": "noisy"})
    bare, counting = (calibrated_for(mechanism, 3, CLAIM, 640) for mechanism in (exact, noisy))
    assert (bare.sigma, bare.fraction_bits) == (counting.sigma, counting.fraction_bits)
    assert layout_of(counting, 3).num_noised == layout_of(bare, 3).num_noised + 1
    assert noise_sigmas(counting, 3)[-1] == noise_sigmas(counting, 3)[3] > counting.sigma
    free, counted = (calibrated_for(each, 3, CLAIM, 640) for each in (SUM.model_copy(update={"count": "exact"}), SUM))
    assert free.sigma == counted.sigma


def test_a_null_row_under_a_promise_about_null_rows_costs_the_count_too() -> None:
    claim = CLAIM.model_copy(update={"neighbours": "zero-out"})
    exact = calibrated_for(PRODUCTS.model_copy(update={"count": "exact"}), 3, claim, 640)
    with pytest.raises(FalseClaimError):
        measurement_of(exact.model_copy(update={"count": "noisy"}), 3, claim).check(640)


def test_rows_are_counted_where_every_report_is_decoded_as_before() -> None:
    rows = np.array([[1.0, 2.0], [np.nan, 3.0], [-2.0, 0.0]])
    for mechanism in COUNTING:
        total = reports_without_noise(mechanism, rows).sum(axis=0)[np.newaxis]
        assert measurement_of_sketch(mechanism, total).counted_rows(total) == 2
    matrix = measurement_of(PRODUCTS, 2).decode(reports_without_noise(PRODUCTS, rows).sum(axis=0)[np.newaxis])
    whole = np.column_stack([np.full(2, 3.0), rows[[0, 2]]])
    assert_array_equal(matrix, whole.T @ whole)
    assert_array_equal(measurement_of(SUM, 2).decode(reports_without_noise(SUM, rows).sum(axis=0)[np.newaxis]), [-1, 2])


def test_an_exact_count_has_the_bytes_that_it_had() -> None:
    assert b"count" not in SecondMoment(row_bound="5", fraction_bits=0, sigma=100).canonical()
    assert b'"count":"noisy"' in SUM.canonical()
    with pytest.raises(ValueError, match="their number is that of the reports"):
        measurement_of_sketch(Sum(row_bound="5", fraction_bits=0, sigma=100), np.zeros((1, 3), np.int64)).counted_rows(
            np.zeros((1, 3), np.int64)
        )


@pytest.mark.parametrize("intercept", ["0", "0.000001"])
def test_a_row_that_counts_for_nothing_is_refused(intercept: str) -> None:
    with pytest.raises(InvalidTaskError, match=r"intercept|less than one step"):
        measurement_of(PRODUCTS.model_copy(update={"intercept": intercept, "sigma": 10**6}), 2, CLAIM).check(640)
    with pytest.raises(InvalidTaskError, match="less than one step"):
        measurement_of(Sum(row_bound="1", fraction_bits=0, sigma=10**6, count="noisy"), 2, CLAIM).check(640)
