"""What the audits of Laplace noise share: the best test of two worlds, and variances."""

import numpy as np
import pytest

from lintra_audit.kinds.laplace import LaplaceTest, variances
from lintra_protocol.noise.discrete_laplace import laplace_shares
from support import make_task, source


def test_the_score_is_the_log_ratio_of_the_two_laws() -> None:
    test = LaplaceTest((np.array([0.0, 0.0]), np.array([3.0, -1.0])), 0.25)
    scores = test.scores(np.array([[[0, 0]], [[3, -1]], [[9, 9]]]))
    assert scores.tolist() == [-1.0, 1.0, 0.5]


@pytest.mark.parametrize("kind", [pytest.param("sum_laplace", marks=pytest.mark.slow), "histogram_laplace"])
def test_the_variances_are_those_of_what_is_drawn(kind: str) -> None:
    measurement = make_task(kind, min_clients=4).measurement
    drawn = measurement.noise(60_000, source(kind))
    # The kurtosis of one of four shares is 15, so that the ratio errs by 1.6 per cent; six of them.
    ratios = drawn.astype(float).var(axis=0) / variances(measurement)
    assert np.abs(ratios - 1).max() < 0.1
    assert drawn.shape[1] == variances(measurement).size


def test_a_whole_noise_of_one_client_has_the_variance_of_the_laplace_law() -> None:
    drawn = laplace_shares((60_000,), 50, 1, source("one client"))
    assert drawn.var() == pytest.approx(2 * 50 * 51, rel=0.1)
