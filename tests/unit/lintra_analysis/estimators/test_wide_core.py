"""The core of products between directions, against the numbers of the design."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.wide_core import core_between, leading


def test_the_least_squares_core_of_the_design() -> None:
    signs = np.array([[1, 1], [1, -1], [-1, 1], [1, 1]]) / math.sqrt(2)
    values = np.array([[6.0, 5], [2, -3], [-1, 1], [0, 1]])
    assert_allclose(np.linalg.svd(values)[1], [7.85082611, 3.91976140], rtol=1e-8)
    first = leading(values, 0.0, 1)
    first = first * np.sign(first[0])
    assert_allclose(first[:, 0], [0.99416807, -0.06556854, -0.00974693, 0.08506241], atol=1e-8)
    core = core_between(first, values, signs)
    assert_allclose(core.core, [[7.22412395]], rtol=1e-8)
    assert np.linalg.norm(core.inverse) == pytest.approx(0.92534916, rel=1e-7)
    left = first.T @ values - core.core @ core.seen
    assert np.linalg.norm(left) == pytest.approx(0.82916836, rel=1e-7)
