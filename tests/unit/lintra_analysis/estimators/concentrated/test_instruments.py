"""The least distance of equations of instruments is the one that a general search finds with formulas of its own."""

import numpy as np
import pytest
from scipy import optimize, special

from lintra_analysis.estimators.instruments import iv
from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.crypto.ring import FloatArray
from support.made_releases import confounded, with_intercept

ROWS = confounded(4000, np.random.default_rng(1))


def least_by_search(release_matrix: FloatArray, sigma: float, fixed: float) -> float:
    """Return the least Q with the slope of x fixed, found by general search from many starts, with its own formulas."""
    size = 6
    kernel = np.ones((size, size)) - 2 / 6 * np.outer([0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1])
    kernel[0, 0] = -1
    values, vectors = np.linalg.eigh(release_matrix)
    products = vectors * np.maximum(values, 0) @ vectors.T
    which = [0, 1, 2, 3]

    def distance(free: FloatArray) -> float:
        theta = np.array([free[0], free[1], 0, 0, fixed, -1.0])
        noise = sigma**2 * (theta @ theta * np.eye(size) + np.outer(theta, theta) * kernel)
        noise += theta @ products @ theta / (4000 - 3) * products
        left = (release_matrix @ theta)[which]
        return float(left @ np.linalg.solve(noise[np.ix_(which, which)], left))

    starts = np.random.default_rng(3).normal(size=(6, 2))
    return min(float(optimize.minimize(distance, start).fun) for start in starts)


def test_p_values_and_agreement_are_least_distances_that_a_general_search_finds_too() -> None:
    named = tuple(ScaledColumn(name, 0, 1, -9, 9) for name in ("ex", "w1", "w2", "x", "y"))
    release = with_intercept(ROWS, 60.0, np.random.default_rng(4), named)
    found = iv(release, "y", ["x"], ["w1", "w2"], ["ex"])
    least = least_by_search(release.values, 60.0, 0.0)
    assert found.pvalues["x"] == pytest.approx(float(special.chdtrc(2, least)), rel=1e-3)
    low, high = found.conf_int()["x"] or (np.nan, np.nan)
    for end in (low, high):
        assert least_by_search(release.values, 60.0, end) == pytest.approx(special.chdtri(2, 0.05), rel=0.01)
    assert low < found.params["x"] < high
    assert found.agreement is not None
    assert found.agreement > 0.01
