"""Our discrete Gaussian, its concentrated privacy and the conversion to (epsilon, delta) against OpenDP.

OpenDP draws from the system's randomness, which has no seed. Each comparison of samples would raise a false alarm with
probability about 2e-6, and accept a sigma that is wrong by 5 % with a smaller one.
"""

import math
from collections.abc import Iterator

import numpy as np
import opendp.prelude as dp
import pytest
from numpy.typing import NDArray
from papers.zero_concentrated import zcdp_epsilon
from scipy import stats

from lintra_protocol.crypto.randomness import expand
from lintra_protocol.encoding.documents import real
from lintra_protocol.noise.discrete_gaussian import discrete_gaussian
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.gaussian import gaussian_delta

FALSE_ALARM = 1e-6
SAMPLES = 40_000
SEED = bytes(range(32))


@pytest.fixture(autouse=True, scope="module")
def contributed() -> Iterator[None]:
    """Switch on OpenDP's contributed measurements, which is what every user of its Gaussian does."""
    dp.enable_features("contrib")
    yield
    dp.disable_features("contrib")


def gaussian(sigma: float) -> dp.Measurement:
    """Return OpenDP's mechanism: integers plus discrete Gaussian noise."""
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale=float(sigma))


def same_law(first: NDArray[np.int64], second: NDArray[np.int64]) -> bool:
    """Run a chi-square test of homogeneity; values that both samples hold less than 40 times share a cell."""
    edge = int(np.quantile(np.abs(first), 0.995))
    width = max(1, edge // 12)
    cells = [np.bincount((np.clip(sample, -edge, edge) + edge) // width) for sample in (first, second)]
    table = np.array(cells)
    table = np.column_stack([table[:, table.sum(axis=0) >= 40], table[:, table.sum(axis=0) < 40].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    return float(stats.chi2_contingency(table, correction=False).pvalue) > FALSE_ALARM


def same_spread(first: NDArray[np.int64], second: NDArray[np.int64]) -> bool:
    """Compare mean squares; the logarithm of their ratio has variance at most 4/n for laws of Gaussian kurtosis."""
    ratio = math.log(float((first.astype(float) ** 2).mean()) / float((second.astype(float) ** 2).mean()))
    return abs(ratio) < float(stats.norm.isf(FALSE_ALARM / 2)) * math.sqrt(4 / first.size)


def test_our_sampler_cannot_be_told_from_theirs_and_one_five_percent_off_can() -> None:
    theirs = np.array(gaussian(20)([0] * SAMPLES))
    ours, wrong = (discrete_gaussian(SAMPLES, sigma, expand(SEED, f"opendp {sigma}")) for sigma in (20, 21))
    assert same_law(ours, theirs)
    assert same_spread(ours, theirs)
    assert not (same_law(wrong, theirs) and same_spread(wrong, theirs))


@pytest.mark.slow
def test_the_same_holds_where_the_lattice_is_coarse() -> None:
    ours = discrete_gaussian(SAMPLES, 1, expand(SEED, "opendp 1"))
    theirs, wrong = (np.array(gaussian(sigma)([0] * SAMPLES)) for sigma in (1, 1.05))
    assert same_law(ours, theirs)
    assert same_spread(ours, theirs)
    assert not (same_law(ours, wrong) and same_spread(ours, wrong))


@pytest.mark.parametrize("mu", [0.02, 0.25, 0.5, 1.0, 3.0])
def test_their_zcdp_of_the_discrete_gaussian_is_our_rho(mu: float) -> None:
    theirs = gaussian(1 / mu).map(1.0)
    assert theirs == pytest.approx(mu * mu / 2, rel=1e-12)
    spent = Spending(mu_squared=real(mu * mu), slack="0", delta_coalition="0")
    assert spent.rho == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("mu", [0.02, 0.25, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_our_conversion_of_concentrated_privacy_is_theirs_and_looser_than_the_exact_profile(
    mu: float, delta: float
) -> None:
    theirs = dp.c.make_zCDP_to_approxDP(gaussian(1 / mu)).map(1.0).epsilon(delta)
    assert zcdp_epsilon(mu * mu / 2, delta) == pytest.approx(theirs, rel=1e-7)
    assert gaussian_delta(theirs, mu) <= delta


def test_two_of_their_releases_cost_what_our_sum_says() -> None:
    first, second = gaussian(1 / 0.3).map(1.0), gaussian(1 / 0.4).map(1.0)
    together = Spending(mu_squared="0.25", slack="0", delta_coalition="0")
    assert together.rho == pytest.approx(first + second, rel=1e-12)
