"""The law of a random projection on every route, and the delta that a distinguisher really reaches.

Every test states how often it would fail were its seeds drawn anew, and shows that it rejects a wrong parameter.
"""

import math

import numpy as np
import pytest

from lintra_curator.ndis.closed_form import delta_rp
from lintra_curator.projection.random_projection import project
from support import source

ROWS = np.random.default_rng(3).normal(size=(7, 3))
SIGMA2 = 4.0


@pytest.mark.parametrize("route", ["gram", "noise", "ridge"])
def test_every_route_has_the_covariance_of_the_data_plus_the_ridge(route: str) -> None:
    # 60 000 squares: their mean has deviation sqrt(2 / 60 000) = 0.58 %; five leave a false alarm below 1e-6. The three
    # correlations of 20 000 have deviation 0.71 % each.
    values = project(ROWS, SIGMA2, 20_000, source(f"law {route}"), route)

    def whitened(sigma2: float) -> np.ndarray:
        covariance = ROWS.T @ ROWS + sigma2 * np.eye(3)
        return np.linalg.solve(np.linalg.cholesky(covariance), values.T)

    limit = 5 * math.sqrt(2 / values.size)
    assert abs(np.square(whitened(SIGMA2)).mean() - 1) < limit
    for wrong in (0.9, 1.1):
        assert abs(np.square(whitened(wrong * SIGMA2)).mean() - 1) > limit
    correlations = np.corrcoef(whitened(SIGMA2))[np.triu_indices(3, 1)]
    assert np.abs(correlations).max() < 5.5 / math.sqrt(20_000)
    assert np.abs(np.corrcoef(values.T)[np.triu_indices(3, 1)]).max() > 5.5 / math.sqrt(20_000)


def test_the_best_distinguisher_reaches_the_stated_delta_and_no_more() -> None:
    # A release of one row of norm 1 against none; the optimal event is a threshold on the sum of squares. Two counts of
    # 200 000: the deviation of the difference is below (1 + e^eps) / (2 sqrt(N)), and six of it fail once in 1e9.
    runs, sketch_rows, epsilon, sigma2 = 200_000, 4, 0.5, 3.0
    leverage = 1 / (1 + sigma2)
    with_row, without = (
        np.square(project(np.array([[row]]), sigma2, runs * sketch_rows, source(f"runs {row}")))
        .reshape(runs, sketch_rows)
        .sum(axis=1)
        for row in (1.0, 0.0)
    )
    threshold = (2 * epsilon - sketch_rows * math.log1p(-leverage)) / (1 / sigma2 - 1 / (1 + sigma2))
    reached = np.mean(with_row > threshold) - math.exp(epsilon) * np.mean(without > threshold)
    limit = 6 * (1 + math.exp(epsilon)) / (2 * math.sqrt(runs))
    stated = float(delta_rp(epsilon, leverage, sketch_rows))
    assert abs(reached - stated) < limit
    # Neither the published ridge, l^2 larger, nor one 20 % smaller has this delta.
    for wrong in (sigma2 + 1, 0.8 * sigma2):
        assert abs(reached - float(delta_rp(epsilon, 1 / (1 + wrong), sketch_rows))) > limit
