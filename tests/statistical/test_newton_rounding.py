"""Rounding residuals at random tells a large table; rounding them to the nearest level is a bias that T notices."""

import numpy as np
import pytest
from numpy.typing import NDArray

from lintra_analysis.estimators.logit import logit
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms import newton_step
from support.newton import chain, specification

CLIENTS, DRAWS = 185_000, 6


def two_dummies() -> FloatArray:
    """Return two features of -1 or 1 and a target that follows the logistic law, shape `(n, 3)`."""
    generator = np.random.default_rng(12)
    features = np.where(generator.uniform(size=(CLIENTS, 2)) < [0.5, 0.3], 1.0, -1.0)
    chances = 1 / (1 + np.exp(-(0.4 + features @ np.array([0.7, -0.35]))))
    return np.column_stack([features, generator.uniform(size=CLIENTS) < chances])


def to_nearest(
    residual: FloatArray, factors: FloatArray, bits: int, dithers: NDArray[np.uint32]
) -> tuple[IntArray, IntArray, IntArray]:
    """Return residuals rounded to the nearest level and weights rounded down, as one might first write it."""
    del dithers
    one = 2**bits
    levels = np.minimum(np.rint(np.abs(residual) * one), one).astype(np.int64)
    multiples = np.rint(levels * factors).astype(np.int64)
    return levels, np.where(residual < 0, -multiples, multiples), levels * (one - levels) // one


@pytest.mark.slow
def test_a_large_table_is_told_by_random_rounding_and_never_by_rounding_to_nearest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, asked = two_dummies(), specification(2, CLIENTS, max_clients=CLIENTS, row_bound=1.75)

    def told() -> int:
        found = [logit(chain(asked, rows, seed, 3)[-1], of="cohort").status for seed in range(DRAWS)]
        return found.count("interval")

    # T refuses an honest pair in one of ten draws: fewer than three of six are told by chance in one of 700 seeds.
    assert told() >= 3
    monkeypatch.setattr(newton_step, "integer_residuals", to_nearest)
    assert told() == 0
