"""What `bench_ndis_figures.py` measures is what it says, by another way of computing it."""

import math
from collections.abc import Callable

import bench_ndis_figures
import numpy as np
import pytest
from scipy.optimize import brentq
from spectrum import logistic, process, redundant, version4
from spectrum.figures import expected_error, sketched_errors
from spectrum.utility import correlation, distance_ratio, information_sigma

from lintra_curator.calibrated.calibrated_gaussian import envelope
from lintra_curator.calibrated.logistic_regression import logistic_sensitivity, plan_logistic
from lintra_curator.claims.claim import curator_claim
from lintra_curator.ndis.closed_form import rp_pstar
from lintra_protocol.crypto.randomness import expand

ROWS = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, -1.0], [0.5, 0.0, 3.0], [1.0, 1.0, 1.0]])


def test_the_table_itself_as_a_sketch_has_all_distances_right() -> None:
    # Four rows stand for r = 4, so that a sketch's rows are longer by sqrt 4.
    assert distance_ratio(2 * ROWS, ROWS) == pytest.approx(1)
    assert distance_ratio(4 * ROWS, ROWS) == pytest.approx(2)
    assert correlation(2 * ROWS, ROWS) == pytest.approx(1)


def test_a_ridge_lengthens_distances_by_as_much_as_is_subtracted() -> None:
    ridged = np.vstack([2 * ROWS, 4 * np.eye(3)]) * math.sqrt(7 / 4)
    lengths = [np.linalg.norm(ROWS[:, i] - ROWS[:, j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert distance_ratio(ridged, ROWS) == pytest.approx(np.mean([math.sqrt(x**2 + 8) / x for x in lengths]))
    assert distance_ratio(ridged, ROWS, ridge=4.0) == pytest.approx(1)


def test_the_noise_of_mutual_information_is_as_the_authors_program_converts_it() -> None:
    # Step by step: total variation of the claim, bits by Pinsker, variance for r rows less what columns keep.
    total_variation = 2 * (1 - 1 / 4) / (math.e + 1)
    bits = total_variation**2 * math.log2(math.e) / 2
    kept = min(float(column @ column - (column**2).max()) for column in ROWS.T)
    assert information_sigma(ROWS, 1.0, 1 / 4, 50) ** 2 == pytest.approx(50 / (2 ** (2 * bits) - 1) - kept)


def balle_wang(epsilon: float, mu: float) -> float:
    upper, lower = (math.erfc(x / math.sqrt(2)) / 2 for x in (epsilon / mu - mu / 2, epsilon / mu + mu / 2))
    return upper - math.exp(epsilon) * lower


def wider(epsilon: float, kappa: float) -> float:
    """Return delta of N(0, e^kappa) against N(0, 1)."""
    edge = math.sqrt((2 * epsilon + kappa) / -math.expm1(-kappa))
    return math.erfc(edge * math.exp(-kappa / 2) / math.sqrt(2)) - math.exp(epsilon) * math.erfc(edge / math.sqrt(2))


def by_hand(sigma: float, profile: Callable[[float, float], float] = wider) -> float:
    """Return the bound of mean and covariance apart for lambda = l = 1 and n up to 1000, on a plain grid."""
    kappa = -math.log1p(-1 / ((1 + sigma**2) * 5))
    mu = 1 / math.sqrt(sigma**2 + 1 / 251)
    pairs = [(part, profile(1 - part, kappa)) for part in np.linspace(0.3, 1, 141)]
    return min(min(balle_wang(a, mu) + math.exp(a) * d, d + math.exp(1 - a) * balle_wang(a, mu)) for a, d in pairs)


def test_the_noise_of_a_logistic_regression_is_what_a_plain_grid_gives() -> None:
    sigma = plan_logistic(curator_claim(1.0, 1e-6, "zero-out"), 1.0, 1.0, 1000).sigma
    assert sigma == pytest.approx(4.6135, abs=5e-4)
    assert by_hand(sigma * 1.0005) <= 1e-6 < by_hand(sigma * 0.9995)


@pytest.mark.slow
def test_a_renyi_bound_of_the_covariance_asks_for_two_per_cent_more_noise() -> None:
    rough = bench_ndis_figures.rough_sigma(lambda sigma: logistic_sensitivity(sigma, 1.0, 1.0, 1000), 20.0)
    assert rough == pytest.approx(4.7205, abs=1e-3)

    def renyi(epsilon: float, kappa: float) -> float:
        growth = math.expm1(kappa)
        s = np.linspace(1e-3, 1 - 1e-6, 20_000) / growth
        exponents = s * np.log(s) - (1 + s) * np.log1p(s) - s * (epsilon + kappa / 2) - np.log1p(-s * growth) / 2
        return math.exp(min(0.0, float(exponents.min())))

    assert by_hand(rough * 1.0005, renyi) <= 1e-6 < by_hand(rough * 0.9995, renyi)


def test_errors_of_sketched_least_squares_have_the_mean_of_the_t_law_and_that_of_plain_sketches() -> None:
    r, draws = 12, 40_000
    errors = sketched_errors(ROWS, r, draws, expand(bytes(32), "test errors by rows"))
    # 3.5 standard errors: about one seed in two thousand fails.
    room = 3.5 * errors.std() / math.sqrt(draws)
    assert abs(errors.mean() - expected_error(ROWS, r)) < room
    # The asymptotic law divides by r, one row more or less by r - 2 and r - 4.
    assert abs(errors.mean() - expected_error(ROWS, r) * (r - 3) / r) > room
    assert min(abs(errors.mean() - expected_error(ROWS, r + step)) for step in (-1, 1)) > room
    generator = np.random.default_rng(5)
    best = np.linalg.lstsq(ROWS[:, :-1], ROWS[:, -1])[0]
    plain = np.empty(4_000)
    for run in range(len(plain)):
        sketch = generator.normal(size=(r, len(ROWS))) @ ROWS
        plain[run] = np.sum((np.linalg.lstsq(sketch[:, :-1], sketch[:, -1])[0] - best) ** 2)
    assert abs(plain.mean() - errors.mean()) < room + 3.5 * plain.std() / math.sqrt(len(plain))


@pytest.mark.slow
def test_what_the_notebooks_print_is_what_we_compute_as_far_as_their_search_goes() -> None:
    for name, theirs, ours, _ in version4.printed().rows:
        assert float(str(ours)) == pytest.approx(float(str(theirs)), rel=2e-6), name


def test_the_bound_of_the_authors_program_gives_the_noise_that_it_prints() -> None:
    for theirs, ours, before, after, _ in version4.CASES.values():
        assert version4.program_bound(1.0, theirs(after * (1 + 1e-6))) <= 1e-5
        assert version4.program_bound(1.0, theirs(after * (1 - 1e-6))) > 1e-5
        # The printed noise keeps the claim by our sensitivity; by theirs nothing of the kind follows.
        assert version4.program_bound(1.0, theirs(before)) > envelope(1.0, theirs(before)) > 1e-5
        assert envelope(1.0, ours(before)) < 1e-5


def test_half_of_the_noisy_eigenvalues_save_ridge_at_the_eigenvalue_of_proposition_5() -> None:
    whole = 1 / rp_pstar(2.0, 1e-5, 12)
    test = version4.published_test(2.0, 1e-5, 12, 48 / 15.3125, (0.3, 0.5, 0.2))
    assert test is not None
    # What is left of epsilon after a Gaussian test with half of delta is what the projection may use.
    spent = brentq(lambda at: balle_wang(at, 15.3125 / 48) - 5e-6, 0.1, 2.0)
    assert test.cap == pytest.approx(1 / rp_pstar(2.0 - spent, 3e-6, 12), rel=1e-6)
    noise = test.deviation * np.random.default_rng(8).normal(size=20_000)

    def share(eigenvalue: float) -> float:
        return float(np.mean(test.ridge(eigenvalue + noise) < whole))

    at = version4.saves_from(test, whole)
    # 3.5 standard errors.
    assert share(at) == pytest.approx(0.5, abs=0.0125)
    assert share(at + 1) > 0.55
    assert version4.published_test(1.0, 1e-5, 12, 48 / 15.3125, (0.3, 0.5, 0.2)) is None


def test_a_projection_of_a_sample_estimates_all_rows_only_after_division_by_the_rate() -> None:
    rows, generator = redundant.drawn(0).learnt, np.random.default_rng(3)
    truth, ridge = rows.T @ rows, 400.0
    found = np.array([redundant.sketched(rows, ridge, 0.3, 20, generator)[0] for _ in range(400)])
    traces = np.trace(found, axis1=1, axis2=2)
    room = 3.5 * traces.std() / math.sqrt(len(traces))
    assert abs(traces.mean() - np.trace(truth)) < room
    assert abs(0.3 * traces.mean() - np.trace(truth)) > room


def test_the_logistic_optimum_has_no_gradient_and_noise_costs_accuracy() -> None:
    generator = np.random.default_rng(4)
    rows, signs = generator.normal(size=(60, 3)), np.sign(generator.normal(size=60))
    theta = logistic.optimum(rows, signs)
    gradient = 3.0 * theta - rows.T @ (signs / (1 + np.exp(signs * (rows @ theta))))
    assert np.abs(gradient).max() < 1e-9
    found = logistic.accuracies(20, {"none": None, "little": 0.1, "much": 30.0})
    assert np.mean(found["none"]) > 0.95
    assert np.mean(found["little"]) > np.mean(found["much"]) + 0.2


def test_the_estimate_of_a_projection_is_unbiased_and_errs_by_the_order_of_its_bound() -> None:
    bias, ratios = version4.gram_ratios(ROWS, 20, 0.8, 2_000, "test")
    # 3.5 standard errors: about one seed in two thousand fails.
    assert abs(bias) < 3.5
    assert 0.3 < np.median(ratios) < 2


def test_the_error_of_the_gaussian_process_is_theirs_to_ten_digits_and_measures_noise_alone() -> None:
    for _, _, theirs, drawn, exact in process.table_1_error().rows[:4]:
        assert isinstance(theirs, float)
        assert drawn == pytest.approx(theirs, rel=1e-9)
        assert isinstance(exact, float)
        assert exact > 0.47
    mean, variance, targets = process.posterior()
    assert targets.tolist() == [0.5] * 17
    assert 0 < mean < 0.03
    assert 0.9 < variance < 1
    # A mean of absolute values by many draws; 3.5 standard errors.
    drawn_errors = np.abs(np.random.default_rng(9).normal(0.4, 0.7, 100_000))
    room = 3.5 * drawn_errors.std() / math.sqrt(100_000)
    assert process.mean_error(0.4, 0.7) == pytest.approx(drawn_errors.mean(), abs=room)
    assert process.mean_error(0.4, 0.72) != pytest.approx(drawn_errors.mean(), abs=room)
