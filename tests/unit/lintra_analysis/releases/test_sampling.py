"""Floating-point variables: reproducible, inside the open interval, and of the stated law."""

import math

import numpy as np
import pytest
from scipy import stats

from lintra_analysis.releases.sampling import chi_squares, gaussians, uniforms
from support import source

COUNT = 50_000
# Kolmogorov: P(sqrt(n) D > 2.7) = 9.3e-7 is the false-alarm rate of every test of a law below.
LIMIT = 2.7 / math.sqrt(COUNT)


def distance(sample: np.ndarray, law: stats.rv_continuous) -> float:
    return float(stats.kstest(sample, law.cdf).statistic)


@pytest.mark.parametrize("word", [b"\x00", b"\xff"])
def test_the_extreme_words_give_finite_gaussians_of_either_sign(word: bytes) -> None:
    value = gaussians((1,), lambda count: word * count)[0]
    assert 8 < abs(value) < 8.4
    assert (value > 0) == (word == b"\xff")
    assert 0 < uniforms((1,), lambda count: word * count)[0] < 1


def test_the_same_bytes_give_the_same_variables_however_the_shape() -> None:
    assert np.array_equal(gaussians((6,), source("shape")).reshape(2, 3), gaussians((2, 3), source("shape")))
    assert gaussians((0, 3), source("shape")).shape == (0, 3)


def test_gaussians_have_their_law_and_this_test_would_notice_if_not() -> None:
    sample = gaussians((COUNT,), source("gaussians"))
    assert distance(sample, stats.norm()) < LIMIT
    assert distance(1.05 * sample, stats.norm()) > LIMIT
    assert distance(sample + 0.03, stats.norm()) > LIMIT


@pytest.mark.parametrize("dof", [0.5, 7.0, 300.0])
@pytest.mark.slow
def test_chi_squares_have_their_law_and_this_test_would_notice_if_not(dof: float) -> None:
    sample = chi_squares(dof, (COUNT,), source(f"chi {dof}"))
    assert distance(sample, stats.chi2(dof)) < LIMIT
    assert distance(sample, stats.chi2(1.05 * dof + 0.1)) > LIMIT


@pytest.mark.parametrize("dof", [0.0, -1.0, math.nan, math.inf])
def test_degrees_of_freedom_that_make_no_law_are_refused(dof: float) -> None:
    with pytest.raises(ValueError, match="degrees of freedom"):
        chi_squares(dof, (1,), source("none"))
