"""What is drawn has the stated mean and covariance, and a distinguisher of the worst neighbours stays below the claim.

Every test states how often it would fail were its seeds drawn anew, and shows that it rejects a wrong parameter.
"""

import math

import numpy as np

from lintra_curator.calibrated.calibrated_gaussian import calibrated_draw
from lintra_curator.calibrated.logistic_regression import plan_logistic
from lintra_curator.claims.claim import curator_claim
from lintra_curator.ndis.gaussian_pair import pair_from_gaussians
from lintra_curator.ndis.profile_evaluation import delta
from support import source

RUNS = 8000


def test_draws_have_the_stated_covariance_and_this_test_would_notice_if_not() -> None:
    # 16 000 squares: their mean has deviation sqrt(2 / 16 000) = 1.1 %; five leave a false alarm below 1e-6.
    mean, covariance, sigma = np.array([1.0, -2.0]), np.array([[2.0, 0.6], [0.6, 1.0]]), 0.8
    stream = source("draws")
    draws = np.array([calibrated_draw(mean, covariance, sigma, stream) for _ in range(RUNS)])
    limit = 5 * math.sqrt(2 / draws.size)

    def squares(factor: float) -> float:
        whole = covariance + factor * sigma**2 * np.eye(2)
        return float(np.square(np.linalg.solve(np.linalg.cholesky(whole), (draws - mean).T)).mean())

    assert abs(squares(1.0) - 1) < limit
    for wrong in (0.7, 1.35):
        assert abs(squares(wrong) - 1) > limit


def test_neighbours_of_a_logistic_surrogate_stay_below_the_claim_at_the_calibrated_noise_and_not_at_half_of_it() -> (
    None
):
    # One record, against none, with the optimum moved as far as l / lambda: no data do worse in both at once.
    claim = curator_claim(1.0, 1e-4, "zero-out")
    sigma = plan_logistic(claim, 1.0, 2.0).sigma

    def reached(noise: float) -> float:
        spread = [np.array([[1 / precision + noise**2]]) for precision in (2.0, 2.25)]
        pair = pair_from_gaussians([0.5], spread[0], [0.0], spread[1])
        return max(delta(each, 1.0).hi for each in (pair, pair.reverse()))

    assert reached(sigma) <= claim.float_delta
    assert reached(sigma / 2) > claim.float_delta
