"""Discrete Laplace variables: exactly their law, judged by counts, and refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from lintra_curator.ron_gauss.laplace import MAX_SCALE, discrete_laplace, laplace_sd
from support import source


def probabilities(scale: float, reach: int) -> np.ndarray:
    """Return P(x) for x from -reach to reach, and the rest as the last entry."""
    ratio = math.exp(-1 / scale)
    values = ratio ** np.abs(np.arange(-reach, reach + 1)) * (1 - ratio) / (1 + ratio)
    return np.append(values, 1 - values.sum())


def counted(sample: np.ndarray, reach: int) -> np.ndarray:
    inside = sample[np.abs(sample) <= reach]
    return np.append(np.bincount(inside + reach, minlength=2 * reach + 1), sample.size - inside.size)


@pytest.mark.parametrize(
    "scale",
    [
        Fraction(1, 3),
        pytest.param(Fraction(1), marks=pytest.mark.slow),
        pytest.param(Fraction(7, 2), marks=pytest.mark.slow),
        Fraction(100, 7),
    ],
)
@pytest.mark.slow
def test_counts_fit_the_law_and_this_test_would_notice_another_scale(scale: Fraction) -> None:
    # Four chi-square tests at 1e-4: a false alarm below 4e-4; at 5 % off all of them reject.
    sample = discrete_laplace(40_000, scale, source(f"laplace {scale}"))
    reach = max(2, int(5 * scale))
    found = counted(sample, reach)

    def plausible(other: float) -> bool:
        expected = probabilities(other, reach) * sample.size
        return bool(stats.chi2.sf(((found - expected) ** 2 / expected).sum(), found.size - 1) > 1e-4)

    assert plausible(float(scale))
    assert not plausible(float(scale) * 1.05)
    assert not plausible(float(scale) / 1.05)


def test_the_stated_deviation_is_that_of_the_law() -> None:
    for scale in (Fraction(1, 3), Fraction(1), Fraction(50)):
        masses = probabilities(float(scale), 4000)[:-1]
        assert laplace_sd(scale) ** 2 == pytest.approx(float((np.arange(-4000, 4001) ** 2) @ masses), rel=1e-9)
    assert laplace_sd(Fraction(0)) == 0
    assert laplace_sd(Fraction(1, 2000)) == 0


def test_large_scales_have_the_tails_of_the_continuous_law() -> None:
    # 4000 absolute values of an exponential: the mean has deviation 1.6 %; five leave a false alarm below 1e-6.
    scale = Fraction(3 * 10**14, 7)
    sample = np.abs(discrete_laplace(4000, scale, source("large"))) / float(scale)
    assert abs(sample.mean() - 1) < 5 / math.sqrt(4000)
    assert abs(sample.mean() / 1.1 - 1) > 5 / math.sqrt(4000)


@pytest.mark.parametrize(
    ("count", "scale"), [(-1, Fraction(1)), (1, Fraction(0)), (1, Fraction(-1)), (1, Fraction(MAX_SCALE + 1))]
)
def test_what_is_no_law_is_refused(count: int, scale: Fraction) -> None:
    with pytest.raises(ValueError, match=r"count|scale"):
        discrete_laplace(count, scale, source("refused"))
