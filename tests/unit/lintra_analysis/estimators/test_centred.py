"""Second moments about means: what the noise of the means does to them is in their values and in their errors."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.centred import Centred, centred
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.crypto.ring import FloatArray
from support.made_releases import columns, regression_rows, with_constant

SIGMA, STEP = 0.5, 1e-2
ROWS, NAMED = with_constant(regression_rows(300, np.random.default_rng(4))[:, :3] + [0.5, -1.0, 2.0], columns(3))
EXACT = ROWS.T @ ROWS


def about_means(moved: FloatArray, sigma: float = SIGMA) -> Centred:
    """Return what a release says whose matrix was moved by noise."""
    return centred(SecondMomentSum(NAMED, EXACT + moved, sigma, len(ROWS), 10.0))


def directions() -> list[tuple[FloatArray, float]]:
    """Return every independent entry of the noise, and its deviation."""
    found = []
    for i, j in combinations_with_replacement(range(4), 2):
        entry = np.zeros((4, 4))
        entry[i, j] = entry[j, i] = 1.0
        found.append((entry, SIGMA * (2**0.5 if i == j else 1.0)))
    return found


@pytest.mark.parametrize(("i", "j"), [(0, 0), (0, 1), (1, 2), (2, 2)])
def test_slopes_enter_the_error_of_centred_products(i: int, j: int) -> None:
    """The error is that of a small change of each noisy number, those of the means among them."""
    weights = np.zeros((3, 3))
    weights[i, j] += 0.5
    weights[j, i] += 0.5
    variance = 0.0
    for entry, deviation in directions():
        above, below = (float(about_means(sign * STEP * entry).gram.matrix[i, j]) for sign in (1, -1))
        variance += ((above - below) / (2 * STEP) * deviation) ** 2
    errors = about_means(np.zeros((4, 4))).gram.errors
    assert errors.functional_sd(weights) == pytest.approx(variance**0.5, rel=1e-4)
    # Without the means' share it would be much smaller for the column whose mean is large.
    assert (i, j) != (2, 2) or errors.functional_sd(weights) > 2 * SIGMA * 2**0.5


def test_bias_that_the_means_noise_makes_is_taken_off_centred_products() -> None:
    """To second order the products of a noisy release are on average those of the exact one."""
    at = about_means(np.zeros((4, 4))).gram.matrix
    bend = np.zeros((3, 3))
    for entry, deviation in directions():
        above, below = (about_means(sign * STEP * entry).gram.matrix for sign in (1, -1))
        bend += (above + below - 2 * at) / STEP**2 * deviation**2 / 2
    exact = about_means(np.zeros((4, 4)), 0.0).gram.matrix
    assert np.abs(bend).max() > 1e-3
    assert_allclose(at + bend, exact, atol=0.01 * float(np.abs(bend).max()))
