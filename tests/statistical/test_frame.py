"""Frames are uniform: what they keep of a direction has the law of Theorem J5 (docs/proofs/joint.md#joint).

One comparison raises a false alarm with probability 1e-6 over the choice of the seed.
"""

import numpy as np
import pytest
from scipy import stats

from lintra_protocol.crypto.randomness import derive_seed
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.transforms.orthonormal import frame, orthonormal

ROWS, COLUMNS, FRAMES = 100, 10, 400
LEVEL = 1e-6


def kept(found: IntArray) -> float:
    """Return the share of the squared length of the all-ones direction that a frame keeps."""
    return float(np.square(found.sum(axis=0) / 2**15).sum() / found.shape[0])


def follows_the_beta_law(shares: FloatArray, columns: int) -> bool:
    law = stats.beta(columns / 2, (ROWS - columns) / 2)
    return bool(stats.kstest(shares, law.cdf).pvalue > LEVEL)


@pytest.fixture(scope="module")
def shares() -> FloatArray:
    seeds = [derive_seed(bytes(32), "uniform frames", bytes([index // 256, index % 256])) for index in range(FRAMES)]
    return np.array([kept(frame(seed, ROWS, COLUMNS)) for seed in seeds])


@pytest.mark.slow
def test_a_frame_keeps_as_much_of_a_direction_as_theory_says_and_this_test_would_notice_if_not(
    shares: FloatArray,
) -> None:
    assert follows_the_beta_law(shares, COLUMNS)
    assert not follows_the_beta_law(shares, COLUMNS + 2)
    assert not follows_the_beta_law(shares, COLUMNS - 2)


@pytest.mark.slow
def test_the_mean_share_is_that_of_the_dimensions(shares: FloatArray) -> None:
    ratio = COLUMNS / ROWS
    deviation = (2 * ratio * (1 - ratio) / (ROWS + 2) / FRAMES) ** 0.5
    limit = float(stats.norm.isf(LEVEL / 2))
    assert abs(shares.mean() - ratio) < limit * deviation
    assert abs(shares.mean() - 1.2 * ratio) > limit * deviation


def test_a_frame_made_of_uniform_numbers_is_rejected() -> None:
    # The published projection: its first column nearly is the all-ones direction, which it therefore keeps.
    draws = np.random.default_rng(0).integers(0, 2**20, (FRAMES, ROWS, COLUMNS))
    found = np.array([kept(orthonormal(draw)) for draw in draws])
    assert abs(found.mean() - 0.971) < 0.003
    assert not follows_the_beta_law(found, COLUMNS)
