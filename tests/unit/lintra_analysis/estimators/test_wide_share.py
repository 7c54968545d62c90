"""The share that a ridge of very many columns explains is about what the same fit explains of the rows."""

import math

import numpy as np
import pytest

from lintra_analysis.estimators.wide import wide_ridge
from unit.lintra_analysis.estimators.test_wide import COLUMNS, TARGET, noisy, normalised_rows


def share_and_truth(seed: int, *, slopes: float) -> tuple[float, float, float]:
    """Return the stated share of a fit, its error, and what the same fit explains of the rows."""
    rng = np.random.default_rng(seed)
    rows = normalised_rows(1500, rng)
    rows[:, TARGET] = slopes * rows[:, :5] @ [0.6, -0.5, 0.4, 0.5, -0.4] + 0.2 * rng.normal(size=len(rows))
    rows *= 0.7
    estimate = wide_ridge(noisy(rows, 60, rng, targets=(TARGET,)), f"c{TARGET}", about="centers")
    found = estimate.explained_share
    assert found is not None
    assert found.standard_error is not None
    features = rows[:, [i for i in range(COLUMNS) if i != TARGET]]
    left = rows[:, TARGET] - features @ estimate.coefficients
    return found.value, found.standard_error, 1 - float(np.sum(left**2) / np.sum(rows[:, TARGET] ** 2))


@pytest.mark.parametrize("slopes", [0.0, 1.0])
def test_the_share_explained_is_no_more_than_the_fit_explains_of_the_rows(slopes: float) -> None:
    found = np.array([share_and_truth(seed, slopes=slopes) for seed in range(30)])
    apart = found[:, 0] - found[:, 2]
    # The mean of 30 differences: it may lie below 0, since half of the products fit a little worse, and not above.
    deviation = apart.std() / math.sqrt(len(apart))
    assert apart.mean() < 3 * deviation
    assert apart.mean() > -0.15
    assert np.mean(np.abs(apart) < 3 * found[:, 1] + 0.15) > 0.9
