"""Bounds on what tells two worlds apart: exact where there are formulas, and on laws that everybody knows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from lintra_audit.trials.likelihood_test import (
    CONFIDENCE,
    black_box_bound,
    bound_of,
    clopper_pearson_upper,
    leverages,
    likelihood_ratio,
    threshold_bound,
)
from lintra_protocol.crypto.ring import IntArray

RNG = np.random.default_rng(20)


def normal(trials: int, numbers: int = 1) -> IntArray:
    """Return integers from a Gaussian with deviation 1000, shape `(trials, numbers)`."""
    return np.rint(1000 * RNG.standard_normal((trials, numbers))).astype(np.int64)


@pytest.mark.parametrize("trials", [1, 10, 100_000])
def test_no_error_in_n_runs_bounds_the_rate_by_the_exact_formula(trials: int) -> None:
    assert clopper_pearson_upper(0, trials) == pytest.approx(1 - (1 - CONFIDENCE) ** (1 / trials), rel=1e-9)


def test_nothing_but_errors_bounds_nothing() -> None:
    assert clopper_pearson_upper(10, 10) == 1.0


@pytest.mark.parametrize("errors", [0, 1, 30, 60])
def test_at_the_upper_bound_so_few_errors_have_the_stated_probability(errors: int) -> None:
    rate = clopper_pearson_upper(errors, 100)
    assert stats.binom.cdf(errors, 100, rate) == pytest.approx(1 - CONFIDENCE, rel=1e-9)


@pytest.mark.parametrize(("errors", "trials"), [(-1, 10), (11, 10), (0, 0)])
def test_impossible_counts_are_the_callers_mistake(errors: int, trials: int) -> None:
    with pytest.raises(ValueError, match="errors in"):
        clopper_pearson_upper(errors, trials)


def test_the_bound_lies_below_the_measured_mu_and_guessing_bounds_it_by_zero() -> None:
    found = bound_of(3000, 3000, 10_000)
    assert 0 < found.mu_lower < found.mu == pytest.approx(-2 * stats.norm.ppf(0.3))
    assert bound_of(5000, 5000, 10_000).mu_lower == 0
    assert 0 < found.epsilon_lower(1e-5) < bound_of(3000, 3000, 100_000_000).epsilon_lower(1e-5)


def test_a_threshold_between_two_gaussians_finds_their_distance() -> None:
    found = threshold_bound((normal(200_000)[:, 0] - 500.0, normal(200_000)[:, 0] + 500.0), 0.0)
    assert found.mu_lower < 1 < found.mu_lower + 0.04


def test_leverages_are_those_of_a_known_matrix() -> None:
    columns = [(1, 1, 0), (1, -1, 0), (0, 1, 1), (1, 0, 1), (1, 0, -1), (0, 1, -1), (1, 1, 0)]
    matrix = np.array(columns, np.int64).T
    assert_allclose(leverages(matrix, np.arange(7)), [1 / 3, 1 / 2, 11 / 24, 11 / 24, 11 / 24, 11 / 24, 1 / 3])
    assert_allclose(leverages(matrix, np.arange(1, 7)), 1 / 2)


def test_the_optimal_test_of_a_sum_has_the_mu_of_theorem_1() -> None:
    test = likelihood_ratio(
        np.ones((1, 9), np.int64),
        np.ones(1, np.int64),
        (np.array([-30, 0]), np.array([30, 0])),
        np.zeros((1, 2)),
        np.array([20, 20]),
    )
    assert test.mu == pytest.approx(60 / (20 * 3))
    shift = np.array([[[30, 0]], [[-30, 0]]])
    assert_allclose(test.scores(shift), [test.mu**2 / 2, -(test.mu**2) / 2])


def test_the_black_box_finds_a_shift_nobody_told_it_of() -> None:
    worlds = normal(40_000, 3), normal(40_000, 3) + np.array([0, 0, 1000])
    found = black_box_bound(worlds)
    assert 0.85 < found.mu_lower < 1
    assert found.trials == 20_000


def test_the_black_box_finds_numbers_between_which_noise_cancels() -> None:
    noise = normal(2_000)
    assert black_box_bound((np.hstack([noise, -noise]), np.hstack([noise, 3 - noise]))).mu_lower > 4


def test_the_black_box_finds_a_larger_variance() -> None:
    assert black_box_bound((normal(20_000), 2 * normal(20_000))).mu_lower > 0.3


def test_the_black_box_finds_next_to_nothing_in_equal_worlds() -> None:
    assert black_box_bound((normal(20_000, 4), normal(20_000, 4))).mu_lower < 0.01
