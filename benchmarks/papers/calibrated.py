"""What Wei et al. 2023 publish for the calibrated Gaussian mechanism and propose-test-release, to compare.

One of them is no upper bound, the others are sound and far from tight.
"""

import math

from scipy.special import ndtri

from lintra_curator.calibrated.calibrated_gaussian import Sensitivity, renyi_envelope
from lintra_curator.claims.claim import point_statement
from lintra_curator.claims.row_checks import CLIPPED
from lintra_curator.ndis.closed_form import rp_pstar
from lintra_curator.projection.eigenvalue_test import EigenvalueTest
from lintra_curator.projection.ptr_projection import PtrPlan, require_ptr
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim


def published_covariance_delta(epsilon: float, log_ratio: float, log_volume: float) -> float:
    """Return what Wei et al. 2023, v4 Definition 6, take for the covariance's profile. Not an upper bound: to compare.

    It is 0 from epsilon = log_volume / 2 on. That holds for the order in which the first law is the less spread one; in
    the other order the loss is unbounded: N(0, 2) against N(0, 1) at epsilon = ln(2) / 2 has delta 0.103. `epsilon` is
    at least 0; `log_ratio` is kappa. `log_volume` is Lambda.
    """
    if epsilon >= log_volume / 2:
        return 0.0
    return renyi_envelope(epsilon, Sensitivity(0.0, log_ratio, log_volume, one_direction=False))


def published_logistic_sensitivity(
    sigma: float, row_bound: float, regularization: float, features: int, max_rows: int
) -> Sensitivity:
    """Return the sensitivity by the published route, 1 / (lambda + n l^2 / 4) <= C <= 1 / lambda, to compare.

    Wei et al. 2023, v4. Sound, and far larger than `logistic_sensitivity`: every eigenvalue may move across the
    whole range. `row_bound` is l; `regularization` is lambda. `features` are d; `max_rows` is a public bound of n.
    """
    least = 1 / (regularization + max_rows * row_bound**2 / 4)
    ratio = math.log((1 / regularization + sigma**2) / (least + sigma**2))
    shift = row_bound / regularization / math.sqrt(sigma**2 + least)
    return Sensitivity(shift, ratio, features * ratio, one_direction=features == 1)


def plan_ptr_published(claim: Claim, sketch_rows: int, row_bound: float) -> PtrPlan:
    """Return the published accounting with epsilon in halves and delta in thirds: test, release, failure of the test.

    Wei et al. 2023, v4 Figure 4; they leave the split free. Sound, but the parts never use up delta together: tested
    instances spend less than a thousandth of it.
    """
    require_ptr(claim, sketch_rows, row_bound)
    epsilon, delta = claim.float_epsilon / 2, claim.float_delta / 3
    deviation = 1 / gaussian_mu(epsilon, delta) * CLIPPED
    test = EigenvalueTest(deviation, deviation * -float(ndtri(delta)), 1 / rp_pstar(epsilon, delta, sketch_rows))
    promise = point_statement(
        claim, 3 * delta * (1 - 1e-15), "proved", "basic composition of test, release and failure"
    )
    return PtrPlan(sketch_rows, row_bound, test, promise)
