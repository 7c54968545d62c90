"""The range finder as a mechanism: its words, both norms, and how far two reports are apart."""

from fractions import Fraction
from itertools import product
from math import isqrt

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import FalseClaimError, InvalidTaskError
from lintra_protocol.mechanisms.layout import Products
from lintra_protocol.mechanisms.public_signs import omega, projections
from lintra_protocol.mechanisms.range_finder import FREE_TRACE, RangeFinder, Target
from lintra_protocol.privacy.statement import Claim
from support.measured import (
    calibrated_for,
    document_of,
    layout_of,
    measurement_of,
    reports_without_noise,
    row_distance,
    setting_of,
    words_of_steps,
)
from support.worst_rows import worst_pair

CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=1000)
SEED = bytes(range(32))
PLAIN = RangeFinder(row_bound="1", fraction_bits=14, sigma=4, rank=2, omega_seed=base64url(SEED), projected_bound="1.2")
FULL = PLAIN.model_copy(
    update={"intercept": "0.5", "trace": True, "targets": (Target(column=1, bound="0.25", bits=2),)}
)


def distance(words: IntArray) -> int:
    """Return the squared distance of two reports, in Python's integers."""
    return sum((int(a) - int(b)) ** 2 for a, b in zip(*words, strict=True))


def ball(columns: int, squared_bound: int) -> IntArray:
    longest = isqrt(squared_bound)
    rows = product(range(-longest, longest + 1), repeat=columns)
    return np.array([row for row in rows if sum(x * x for x in row) <= squared_bound])


def test_the_words_of_the_design() -> None:
    signs = omega(SEED, 4, 3)
    assert_array_equal(signs, [[-1, -1, 1], [1, 1, 1], [1, 1, -1], [-1, 1, -1]])
    row = np.array([[5, -3, 2, 1]])
    found = projections(row, signs, 1, 30)
    assert_array_equal(found, [[-4, -2, 0]])
    assert_array_equal(Products(row, found).of_each_row()[0], [-20, -10, 0, 12, 6, 0, -8, -4, 0, -4, -2, 0])


def test_two_rows_that_share_their_projection_differ_by_what_it_does_not_see() -> None:
    rows = np.array([[4, -2], [-2, 4]])
    shared = projections(rows, np.array([[1.0], [1.0]]), 0, 4)
    assert_array_equal(shared, [[2], [2]])
    assert distance(Products(rows, shared).of_each_row()) == 288 <= 4 * 20 * 4


def test_the_order_is_products_row_by_row_then_the_squared_norm_then_the_clip_counter() -> None:
    counted = FULL.model_copy(update={"fraction_bits": 3, "clip_count_weight": "0.5"})
    steps = document_of(counted).clip(np.array([[0.5, -0.25, 0.25, 0.5]]), setting_of(counted))
    words = reports_without_noise(counted, np.array([[0.5, -0.25, 0.25, 0.5]]))[0]
    assert_array_equal(steps, [[4, -2, 2, 4]])
    assert counted.width == 4
    assert_array_equal(words[[0, 4, 8, 12]], 4 * steps[0])  # C0 = 4
    assert_array_equal(words[[1, 5, 9, 13]], -8 * steps[0])  # the target, four times, moved into [-8, 8]
    assert words[-2] == 4 * 4 + 2 * 2 + 2 * 2 + 4 * 4
    assert words[-1] == 0
    assert layout_of(counted, 4).num_noised == 18 == words.size


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("constant", [0, 2])
@pytest.mark.parametrize("columns", [2, 3])
def test_no_two_rows_of_a_small_ball_are_further_apart_than_stated(columns: int, constant: int, trace: bool) -> None:
    rows, reached = ball(columns, 20 if columns == 2 else 14), 0.0
    for signs, squared in product(([1, 1, 1], [1, -1, 1]), (4, 8, 30)):
        seen = projections(rows, np.array(signs[:columns], float)[:, np.newaxis], 0, squared)
        factors = np.hstack([np.full((len(rows), 1), constant), seen])
        longest, other = int(np.square(rows).sum(axis=1).max()), constant**2 + squared
        if trace and longest > FREE_TRACE * other:
            continue
        words = np.hstack(
            [Products(rows, factors).of_each_row(), np.square(rows).sum(axis=1, keepdims=True)[:, : int(trace)]]
        )
        gram = words @ words.T
        squares = np.diag(gram)
        found = int((squares[:, np.newaxis] + squares - 2 * gram).max())
        assert found <= 4 * longest * other
        assert int(squares.max()) <= longest * other + longest**2 * trace
        reached = max(reached, found / (4 * longest * other))
    # So that the bound of this test is not met by being far away.
    assert reached > 0.55


@pytest.mark.parametrize(
    ("columns", "rank", "bound", "reached"), [(1000, 20, "1.2502", 0.98), (1000, 64, "1.1383", 0.95)]
)
def test_a_constructed_pair_comes_close_and_refutes_a_bound_that_is_a_little_smaller(
    columns: int, rank: int, bound: str, reached: float
) -> None:
    mechanism = PLAIN.model_copy(update={"rank": rank, "projected_bound": bound})
    found = distance(words_of_steps(mechanism, worst_pair(mechanism, columns, 1)))
    stated = row_distance(mechanism, "replace-one")
    assert reached**2 * stated < found <= stated
    assert found > Fraction(reached) ** 2 * stated > 2 * mechanism.squared_bound**2 * Fraction(4) ** -mechanism.halvings


def climbed(mechanism: RangeFinder, columns: int, rng: np.random.Generator, steps: int) -> float:
    """Return how far apart, in parts of the bound, a random search from random rows gets."""
    best = rng.normal(size=(2, columns)) * 3

    def apart(rows: FloatArray) -> int:
        return distance(reports_without_noise(mechanism, rows))

    reached = apart(best)
    for step in range(steps):
        candidate = best + rng.normal(size=best.shape) * 2.0 ** (-step / steps * 6)
        if (found := apart(candidate)) > reached:
            best, reached = candidate, found
    return float(Fraction(reached) / row_distance(mechanism, "replace-one")) ** 0.5


def test_a_search_among_all_rows_never_passes_the_bound() -> None:
    rng = np.random.default_rng(5)
    for mechanism in (PLAIN.model_copy(update={"projected_bound": "0.5"}), FULL):
        found = [climbed(mechanism, columns, rng, 150) for columns in (4, 6)]
        assert max(found) <= 1
        assert max(found) > 0.6


def test_the_trace_is_free_exactly_up_to_the_stated_ratio() -> None:
    y = np.linspace(0, 1, 10_001)[:-1]
    least = float(((3 + y) / ((1 - y) * (1 + y) ** 2)).min())
    exact = (11 + 5 * 5**0.5) / 8
    assert exact - 1e-6 < FREE_TRACE <= exact <= least < exact + 1e-6
    # A ratio above it is refuted by a row of length y and one of full length, in what each sees of the other.
    worst = 5**0.5 - 2
    ratio = 1.01 * exact
    assert (1 + worst) ** 2 + ratio * (1 - worst**2) ** 2 > 4


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_the_distance_is_the_product_of_both_norms(neighbours: str) -> None:
    square = 2**28 * (2**26 + (4 * 2**12) ** 2 + FULL.projected_squared_bound)
    times = 4 if neighbours == "replace-one" else 1
    assert row_distance(FULL, neighbours) == times * square
    assert FULL.projected_squared_bound == 2**28 * 2 * 144 // 100


def test_halvings_keep_the_projection_about_as_long_as_the_row() -> None:
    for rank in range(1, 257):
        h = PLAIN.model_copy(update={"rank": rank}).halvings
        assert 4**h < 2 * rank <= 4 ** (h + 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rank": 4}, "more than half of 6 columns"),
        ({"omega_seed": "AAAA"}, "omega_seed"),
        ({"projected_bound": "-1"}, "not positive"),
        ({"projected_bound": "0.00001"}, "does not fit 30 bits"),
        ({"intercept": "0.00001"}, "less than one step"),
        ({"targets": (Target(column=6, bound="1"),)}, "target 6 is not the number of one of 6 columns"),
        ({"targets": (Target(column=2, bound="1"),) * 2}, "a column is a target twice"),
        ({"targets": (Target(column=2, bound="0"),)}, "bound 0 of target 2"),
        ({"targets": (Target(column=2, bound="0.00001"),)}, "less than one step"),
        ({"trace": True, "projected_bound": "0.4"}, "at most 2.77 times"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_words(changes: dict[str, object], words: str) -> None:
    fits = calibrated_for(PLAIN, 6, CLAIM, 2000)
    with pytest.raises(InvalidTaskError, match=words):
        measurement_of(fits.model_copy(update=changes), 6, CLAIM).check(2000)


def test_a_trace_against_the_null_row_is_refused_whatever_its_noise() -> None:
    null = CLAIM.model_copy(update={"neighbours": "zero-out"})
    loud = calibrated_for(FULL, 6, CLAIM, 2000).model_copy(update={"sigma": 2**28})
    with pytest.raises(InvalidTaskError, match="trace needs neighbours 'replace-one'"):
        measurement_of(loud, 6, null).check(2000)
    with pytest.raises(InvalidTaskError, match="trace"):
        calibrated_for(FULL, 6, null, 2000)


@pytest.mark.parametrize("mechanism", [PLAIN, FULL], ids=["plain", "all fields"])
def test_one_step_less_of_noise_breaks_the_promise(mechanism: RangeFinder) -> None:
    found = calibrated_for(mechanism, 6, CLAIM, 2000)
    measurement_of(found, 6, CLAIM).check(2000)
    assert found.fraction_bits == 14
    with pytest.raises(FalseClaimError):
        measurement_of(found.model_copy(update={"sigma": found.sigma - max(1, found.sigma // 10**7)}), 6, CLAIM).check(
            2000
        )


def test_the_clip_counter_sees_rows_and_projections_that_are_too_long() -> None:
    mechanism = PLAIN.model_copy(update={"projected_bound": "0.9", "clip_count_weight": "0.2"})
    along = mechanism.signs(6)[:, 0] * 0.4  # a norm of .98, and a longer projection
    across = np.linalg.svd(mechanism.signs(6))[0][:, -1]
    rows = np.array([along, across, 1.2 * across, 0.1 * along])
    assert_array_equal(document_of(mechanism).is_clipped(rows), [True, False, True, False])
    assert_array_equal(reports_without_noise(mechanism, rows)[:, -1] > 0, [True, False, True, False])
