"""Counterexamples on private second moments (docs/explanation/errata.md): Sheffet's baselines and Appendix B.4."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammainc

from lintra_protocol.privacy.gaussian import gaussian_delta


def test_published_gaussian_noise_breaks_its_claim_where_a_row_is_replaced() -> None:
    epsilon, claimed = 1.0, 1e-6
    deviation = math.sqrt(2 * math.log(1.25 / claimed)) / epsilon
    one, other = np.eye(2)
    change = np.triu(np.outer(one, one) - np.outer(other, other))
    assert np.linalg.norm(change) == pytest.approx(math.sqrt(2))  # the noise is calibrated to 1
    assert gaussian_delta(epsilon, math.sqrt(2) / deviation) == pytest.approx(9.3e-6, rel=0.01)


def test_the_inverse_has_no_bounded_change_without_a_promise_about_its_smallest_eigenvalue() -> None:
    row = np.array([1.0, 0.0])
    for smallest in (1e-3, 1e-6):
        products = np.diag([smallest, 1.0])
        change = np.linalg.inv(products) - np.linalg.inv(products + np.outer(row, row))
        assert np.linalg.norm(change) > 0.9 / smallest


def test_wishart_noise_of_d_plus_one_degrees_is_not_purely_private() -> None:
    # Scale 3 / (2 epsilon) at epsilon 1: what is a possible output with the row is impossible without it.
    moved = 2 / 3
    impossible = float(gammainc(1, moved / 2))
    assert impossible == pytest.approx(0.28, abs=0.005)
    draws = np.random.default_rng(15).exponential(2, 100_000)  # chi-square of two degrees
    assert np.mean(draws < moved) == pytest.approx(impossible, abs=0.007)  # five deviations: false alarm below 1e-6


def test_the_tails_of_a_chi_square_of_claim_a_2_hold() -> None:
    # With 2 t under the inner roots both tails are below exp(-t); with half of t there the upper one may not be.
    for freedom in (1, 3, 30, 3000):
        for t in (0.5, 2.0, 10.0):
            law, root = stats.chi2(freedom), np.sqrt(freedom)
            assert law.sf((root + np.sqrt(2 * t)) ** 2) < np.exp(-t)
            assert law.cdf(max(root - np.sqrt(2 * t), 0.0) ** 2) < np.exp(-t)
    assert stats.chi2(30).sf((np.sqrt(30) + np.sqrt(10 / 2)) ** 2) > np.exp(-10)
