"""The discrete Gaussian against its exact law, with fixed seeds.

Each comparison would raise a false alarm with probability about 1e-6 over the choice of its seed. Where a test
depends on sigma it also refuses one that is wrong by 2 %; by 5 % or 15 % where the sample is small.
"""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.noise import discrete_gaussian as noise
from lintra_protocol.noise.discrete_gaussian import discrete_gaussian

SEED = bytes(range(32))
FALSE_ALARM = 1e-6
Z_LIMIT = float(stats.norm.isf(FALSE_ALARM / 2))


def exact_law(sigma: float, reach: int) -> FloatArray:
    """Return the probabilities of -reach .. reach."""
    support = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-(support**2) / (2 * sigma**2))
    law: FloatArray = weights / weights.sum()
    return law


def counts_are_plausible(observed: NDArray[np.int64], expected: FloatArray) -> bool:
    """Run a chi-square test at level `FALSE_ALARM`; the cells are given, their expected counts at least 20."""
    assert expected.min() >= 20
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return statistic < float(stats.chi2.isf(FALSE_ALARM, expected.size - 1))


def law_is_plausible(sample: IntArray, sigma: float) -> bool:
    """Compare counts of each value with the exact law; values expected less than 20 times share a cell at each end."""
    reach = math.ceil(12 * sigma) + 12
    law = exact_law(sigma, reach) * sample.size
    edge = int(np.flatnonzero(law >= 20)[-1]) - reach
    cells = np.clip(np.arange(-reach, reach + 1), -edge, edge) + edge
    expected = np.bincount(cells, weights=law).astype(np.float64)
    observed = np.bincount(np.clip(sample, -edge, edge) + edge, minlength=2 * edge + 1)
    return counts_are_plausible(observed, expected)


def variance_is_plausible(sample: IntArray, sigma: float) -> bool:
    """Compare the mean square with sigma^2; for sigma >= 1000 its law is that of the continuous Gaussian."""
    ratio = float(((sample / sigma) ** 2).mean())
    return abs(ratio - 1) * math.sqrt(sample.size / 2) < Z_LIMIT


@pytest.mark.parametrize("sigma", [1, 2, 10])
@pytest.mark.slow
def test_samples_follow_the_exact_law_and_this_test_would_notice_if_not(sigma: int) -> None:
    sample = discrete_gaussian(1_000_000, sigma, expand(SEED, f"law {sigma}"))
    assert law_is_plausible(sample, sigma)
    assert not law_is_plausible(sample, sigma * 1.02)
    assert not law_is_plausible(sample, sigma / 1.02)


@pytest.mark.slow
def test_many_small_requests_follow_the_law_of_one_large_one() -> None:
    source = expand(SEED, "small requests")
    sample = np.concatenate([discrete_gaussian(5, 2, source) for _ in range(10_000)])
    assert law_is_plausible(sample, 2)
    assert not law_is_plausible(sample, 2 * 1.05)


def test_the_first_and_the_last_sample_of_a_request_have_the_same_law() -> None:
    source = expand(SEED, "first and last")
    requests = np.stack([discrete_gaussian(12, 2, source) for _ in range(5_000)])
    for column in (0, 11):
        assert law_is_plausible(requests[:, column], 2)
        assert not law_is_plausible(requests[:, column], 2 * 1.15)


@pytest.mark.parametrize("sigma", [3000, 1 << 28, noise.MAX_SIGMA])
def test_the_variance_of_a_large_sigma_is_its_square_and_this_test_would_notice_if_not(sigma: int) -> None:
    sample = discrete_gaussian(500_000, sigma, expand(SEED, f"variance {sigma}"))
    assert variance_is_plausible(sample, sigma)
    assert not variance_is_plausible(sample, sigma * 1.02)
    assert not variance_is_plausible(sample, sigma / 1.02)


@pytest.mark.parametrize("sigma", [3000, 1 << 28])
def test_mean_and_fourth_moment_of_a_large_sigma_are_those_of_a_gaussian(sigma: int) -> None:
    scaled = discrete_gaussian(500_000, sigma, expand(SEED, f"moments {sigma}")) / sigma
    assert abs(float(scaled.mean())) * math.sqrt(scaled.size) < Z_LIMIT
    assert abs(float((scaled**4).mean()) - 3) / math.sqrt(96 / scaled.size) < Z_LIMIT


def test_every_fiftieth_of_a_large_law_is_hit_equally_often() -> None:
    sigma, cells = 3000, 50
    sample = discrete_gaussian(500_000, sigma, expand(SEED, "quantiles"))
    law = exact_law(sigma, 12 * sigma)
    # The cell of each value depends on the exact cumulated law; the test sums exact probabilities over each cell.
    cell_of = np.minimum((np.cumsum(law) * cells).astype(np.int64), cells - 1)
    observed = np.bincount(cell_of[sample + 12 * sigma], minlength=cells)

    def is_plausible(law: FloatArray) -> bool:
        return counts_are_plausible(observed, np.bincount(cell_of, weights=law).astype(np.float64) * sample.size)

    assert is_plausible(law)
    assert not is_plausible(exact_law(sigma * 1.02, 12 * sigma))


@pytest.mark.parametrize("sigma", [3000, 1 << 28])
def test_the_lowest_bits_of_a_large_sigma_are_uniform(sigma: int) -> None:
    sample = discrete_gaussian(300_000, sigma, expand(SEED, f"bits {sigma}"))
    assert counts_are_plausible(np.bincount(sample & 31, minlength=32), np.full(32, sample.size / 32))


def test_signs_are_fair_and_independent_of_sizes_and_of_neighbours() -> None:
    scaled = discrete_gaussian(500_000, 3000, expand(SEED, "signs")) / 3000
    signs = np.sign(scaled)
    for name, products, variance in [
        ("sign", signs, 1.0),
        ("sign times square", signs * scaled**2, 3.0),
        ("neighbours", scaled[1:] * scaled[:-1], 1.0),
        ("squares of neighbours", (scaled[1:] ** 2 - 1) * (scaled[:-1] ** 2 - 1), 4.0),
    ]:
        assert abs(float(products.mean())) * math.sqrt(scaled.size / variance) < Z_LIMIT, name


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (1, 4), (1, 2), (7, 8), (1, 1)])
def test_the_series_accepts_with_probability_exp_minus_a_over_b(numerator: int, denominator: int) -> None:
    count = 500_000
    words = noise._Words(expand(SEED, f"series {numerator}"), 1 << 14)
    numerators = np.full(count, numerator << 40, np.uint64)
    accepted = int(noise._bernoulli_exp(numerators, denominator << 40, words).sum())

    def is_plausible(probability: float) -> bool:
        deviation = math.sqrt(count * probability * (1 - probability))
        return abs(accepted - count * probability) <= Z_LIMIT * deviation

    truth = math.exp(-numerator / denominator)
    assert is_plausible(truth)
    assert not is_plausible(truth * 0.98)


def test_the_geometric_steps_have_powers_of_one_over_e_as_their_tail() -> None:
    words = noise._Words(expand(SEED, "geometric"), 1 << 14)
    steps = np.array([noise._geometric(words.integer(1), words) for _ in range(100_000)])

    def is_plausible(ratio: float) -> bool:
        tail = ratio ** np.arange(8)
        expected = np.append(tail[:-1] - tail[1:], tail[-1]) * steps.size
        return counts_are_plausible(np.bincount(np.minimum(steps, 7), minlength=8), expected)

    assert is_plausible(math.exp(-1))
    assert not is_plausible(math.exp(-1) * 1.03)
