"""What `bench_ndis_figures.py` measures is what it says, by another way of computing it."""

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import bench_ndis_figures
from spectrum.utility import correlation, distance_ratio, information_sigma

from lintra_curator.calibrated.logistic_regression import logistic_sensitivity, plan_logistic
from lintra_curator.promise.claim import curator_claim

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
