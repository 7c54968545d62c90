"""Laplace noise of clients: its law in draws, that of a whole release, and intervals that take it for Gaussian."""

import numpy as np
from scipy import stats

from lintra_protocol.noise.discrete_laplace import laplace_shares
from support import source

FALSE_ALARM = 1e-6


def pvalue(sums: np.ndarray, scale: int) -> float:
    """Return the p of a chi-square test of sums against the discrete Laplace law of a scale."""
    edges = np.arange(-3 * scale, 3 * scale + 1, max(scale // 3, 1))
    ratio = scale / (scale + 1)

    def below(end: int) -> float:
        return ratio ** -(end - 1) / (1 + ratio) if end <= 0 else 1 - ratio**end / (1 + ratio)

    ends = np.array([0.0, *(below(int(end)) for end in edges), 1.0])
    found = np.bincount(np.searchsorted(edges, sums, side="right"), minlength=len(edges) + 1)
    return float(stats.chisquare(found, np.diff(ends) * len(sums)).pvalue)


def test_shares_add_up_to_the_laplace_law_and_a_scale_five_per_cent_off_is_rejected() -> None:
    # False alarm: one in a million, for each of three laws.
    for scale, shares in ((4, 3), (60, 8), (2000, 20)):
        sums = laplace_shares((60_000, shares), scale, shares, source(f"laplace {scale}")).sum(axis=1)
        assert pvalue(sums, scale) > FALSE_ALARM
        assert pvalue(sums, round(scale * 1.05) if scale > 20 else scale + 1) < FALSE_ALARM


def test_one_share_too_few_is_rejected() -> None:
    sums = laplace_shares((60_000, 7), 60, 8, source("laplace, one too few")).sum(axis=1)
    assert pvalue(sums, 60) < FALSE_ALARM


def test_a_gaussian_interval_holds_nearly_as_often() -> None:
    held = 0.937
    # Two exponential tails beyond 1.96 deviations, each of sqrt 2 scales.
    assert abs(1 - np.exp(-stats.norm.ppf(0.975) * np.sqrt(2)) - held) < 0.0005
    scale, shares = 500, 10
    sums = laplace_shares((40_000, shares), scale, shares, source("laplace, covered")).sum(axis=1)
    deviation = np.sqrt(2 * scale * (scale + 1))
    covered = float((np.abs(sums) <= stats.norm.ppf(0.975) * deviation).mean())
    assert abs(covered - (1 - np.exp(-stats.norm.ppf(0.975) * np.sqrt(2)))) < 6 * np.sqrt(0.06 / 40_000)
