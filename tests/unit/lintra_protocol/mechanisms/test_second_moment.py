"""Second moments as a mechanism."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.errors import FalseClaimError, InvalidTaskError
from lintra_protocol.mechanisms import SecondMoment
from lintra_protocol.privacy.statement import Claim
from support.measured import calibrated_for, layout_of, measurement_of, noise_sigmas, words_of_steps

MECHANISM = SecondMoment(row_bound="5", fraction_bits=0, sigma=10)
CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=64)
OPTIONS = [(intercept, trace) for intercept in ("0", "2", "5", "7") for trace in (False, True)]


def with_options(intercept: str = "0", trace: bool = False, **changes: object) -> SecondMoment:
    return MECHANISM.model_copy(update={"intercept": intercept, "trace": trace} | changes)


def small_ball() -> IntArray:
    rows = product(range(-5, 6), repeat=2)
    return np.array([row for row in rows if sum(x * x for x in row) <= 25])


def weights(mechanism: SecondMoment, columns: int) -> IntArray:
    """Return 1 for every word off the diagonal and 2 for every other: variances in sigma^2, unrounded."""
    return np.where(noise_sigmas(mechanism, columns) == mechanism.sigma, 1, 2)


def test_a_report_is_the_upper_triangle_row_by_row() -> None:
    assert_array_equal(words_of_steps(MECHANISM, np.array([[2, 3, 5]])), [[4, 6, 10, 9, 15, 25]])


def test_the_products_with_the_intercept_come_first_and_the_squared_norm_last() -> None:
    mechanism = with_options("7.9", trace=True)
    assert_array_equal(words_of_steps(mechanism, np.array([[2, -3]])), [[14, -21, 4, -6, 9, 13]])
    assert_array_equal(noise_sigmas(mechanism, 2), [10, 10, 15, 10, 15, 15])
    assert layout_of(mechanism, 2).num_noised == 6


def test_the_diagonal_has_at_least_twice_the_variance() -> None:
    assert_array_equal(noise_sigmas(MECHANISM, 3), [15, 10, 10, 15, 10, 15])
    for sigma in (4, 7, 1000, 2**28):
        diagonal = int(noise_sigmas(MECHANISM.model_copy(update={"sigma": sigma}), 1)[0])
        assert diagonal**2 >= 2 * sigma**2 > (diagonal - 1) ** 2


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize(("intercept", "trace"), OPTIONS)
def test_no_two_rows_of_a_small_ball_are_further_apart_than_stated(
    neighbours: str, intercept: str, trace: bool
) -> None:
    mechanism = with_options(intercept, trace)
    claim = CLAIM.model_copy(update={"neighbours": neighbours})
    encoded = words_of_steps(mechanism, small_ball())
    others = encoded if neighbours == "replace-one" else words_of_steps(mechanism, np.zeros((1, 2), np.int64))
    squares = (encoded[:, np.newaxis] - others[np.newaxis]) ** 2
    largest = Fraction(int((squares * 2 // weights(mechanism, 2)).sum(axis=2).max()), 2)
    stated = measurement_of(mechanism, 2, claim).squared_distance
    assert largest <= stated
    # Attained wherever the integer ball holds two rows at the worst angle, which is u.v = -c^2.
    if neighbours == "zero-out" or intercept != "2":
        assert largest == stated
    else:
        assert largest > Fraction(98, 100) * stated


@pytest.mark.parametrize(
    ("intercept", "bound", "replaced", "zeroed"),
    [(0, 1, 1.414214, 1), (1, 2, 7.071068, 4.898979), (1, 0.5, 1.414214, 0.75), (2, 1.5, 8.485281, 4.802343)],
)
def test_with_an_intercept_sensitivities_are_those_of_the_continuous_matrix(
    intercept: int, bound: float, replaced: float, zeroed: float
) -> None:
    mechanism = with_options(str(intercept), row_bound=str(bound), fraction_bits=20)
    for neighbours, expected in (("replace-one", replaced), ("zero-out", zeroed)):
        square = measurement_of(mechanism, 2, CLAIM.model_copy(update={"neighbours": neighbours})).squared_distance
        # Twice: in the norm of the matrix an entry off the diagonal stands twice.
        assert (2 * float(square)) ** 0.5 / 4**20 == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("intercept", ["0", "2", "5", "7"])
def test_the_trace_costs_nothing_where_a_row_is_replaced(intercept: str) -> None:
    with_trace, without = with_options(intercept, trace=True), with_options(intercept)
    assert measurement_of(with_trace, 2, CLAIM).squared_distance == measurement_of(without, 2, CLAIM).squared_distance
    assert measurement_of(with_trace, 2, CLAIM).privacy(64).mu == measurement_of(without, 2, CLAIM).privacy(64).mu
    assert calibrated_for(with_trace, 2, CLAIM, 640).sigma == calibrated_for(without, 2, CLAIM, 640).sigma


def test_against_the_null_row_the_trace_would_double_the_squared_sensitivity_and_is_refused() -> None:
    claim = CLAIM.model_copy(update={"neighbours": "zero-out"})
    with_trace = with_options(trace=True)
    assert (
        measurement_of(with_trace, 2, claim).squared_distance
        == 2 * measurement_of(MECHANISM, 2, claim).squared_distance
    )
    measurement = measurement_of(with_trace, 2, claim)
    for refuse in (measurement.calibrated, measurement.check):
        with pytest.raises(InvalidTaskError, match="needs neighbours 'replace-one'"):
            refuse(640)


def test_decoding_mirrors_the_triangle() -> None:
    mechanism = MECHANISM.model_copy(update={"fraction_bits": 1})
    assert_array_equal(measurement_of(mechanism, 2).decode(np.array([[4, -8, 12]])), [[1.0, -2.0], [-2.0, 3.0]])


def test_decoding_puts_the_intercept_first_and_leaves_its_square_open() -> None:
    mechanism = with_options("3.5", fraction_bits=1)
    decoded = measurement_of(mechanism, 2).decode(np.array([[28, -56, 4, -8, 12]]))
    assert_array_equal(decoded, [[0, 7, -14], [7, 1, -2], [-14, -2, 3]])
    assert mechanism.intercept_square(100) == 100 * 3.5**2


def test_decoding_is_the_least_squares_combination_of_the_diagonal_and_the_trace() -> None:
    words = np.array([[100, 7, 8, 50, 9, 30, 200]])
    decoded = measurement_of(with_options(trace=True), 3).decode(words)
    design = np.vstack([np.eye(3), np.ones(3)])
    expected = np.linalg.lstsq(design, words[0, [0, 3, 5, 6]], rcond=None)[0]
    assert_allclose(np.diag(decoded), expected, rtol=1e-14)
    assert_array_equal(decoded[np.triu_indices(3, 1)], [7, 8, 9])


def test_noiseless_products_with_all_options_decode_to_the_matrix_of_the_rows() -> None:
    rows = small_ball()
    mechanism = with_options("4", trace=True)
    total = words_of_steps(mechanism, rows).sum(axis=0, keepdims=True)
    decoded = measurement_of(mechanism, 2).decode(total)
    decoded[0, 0] = mechanism.intercept_square(len(rows))
    augmented = np.column_stack([np.full(len(rows), 4), rows])
    assert_allclose(decoded, augmented.T @ augmented, rtol=1e-15)


def test_an_intercept_that_the_grid_cannot_show_or_that_is_negative_is_refused() -> None:
    mechanism = calibrated_for(with_options("0.25"), 2, CLAIM, 640)
    assert mechanism.intercept_steps == 2**mechanism.fraction_bits // 4
    coarse = mechanism.model_copy(update={"fraction_bits": 1, "sigma": 10000})
    with pytest.raises(InvalidTaskError, match="less than one step"):
        measurement_of(coarse, 2, CLAIM).check(640)
    with pytest.raises(InvalidTaskError, match="negative"):
        calibrated_for(with_options("-1"), 2, CLAIM, 640)


def test_an_intercept_too_large_for_the_ring_is_refused() -> None:
    with pytest.raises(InvalidTaskError, match="overflow"):
        measurement_of(with_options("1000000000000000", fraction_bits=20, sigma=2**28), 2, CLAIM).check(640)


def test_fewer_honest_clients_than_planned_give_a_larger_mu_and_never_a_release() -> None:
    claim = CLAIM.model_copy(update={"min_clients": 400, "max_corrupt_clients": 100})
    mechanism = calibrated_for(MECHANISM, 3, claim, 4000)
    planned = measurement_of(mechanism, 3, claim).privacy(400)
    assert planned.honest_clients == 300
    planned.require(claim)
    for dropped in (1, 30, 200):
        weaker = measurement_of(mechanism, 3, claim).privacy(400 - dropped)
        assert weaker.honest_clients == 300 - dropped
        assert weaker.mu == pytest.approx(planned.mu * (300 / (300 - dropped)) ** 0.5, rel=1e-6)
        assert weaker.epsilon > planned.epsilon
        with pytest.raises(FalseClaimError, match=f"{300 - dropped} honest clients"):
            weaker.require(claim)
