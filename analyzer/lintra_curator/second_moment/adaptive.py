"""Two releases in a row, the second a projection: exact joint curves, and the ridge that rests on a first look.

Sheffet's Algorithms 2 and 5 add a smaller ridge where the table's own smallest eigenvalue is large. The look at that
eigenvalue is paid for by the joint curve of both releases, docs/reference/mechanisms/central_second_moment.md.
"""

from scipy import special

from lintra_curator.claims.quadrature import normal_rule
from lintra_curator.projection.eigenvalue_test import EigenvalueTest, delta_after_look
from lintra_curator.second_moment.curves import projection_deltas

LOOK_SHARE = 0.1
"""The share of delta that is kept for the event that the first look overstates the smallest eigenvalue."""


def gaussian_then_projection(epsilon: float, mu: float, weight: float, rows: int) -> float:
    """Return delta(epsilon) of a mu-Gaussian release followed by a projection, "replace-one".

    The mean of the projection's delta at epsilon less the first release's loss mu^2 / 2 + mu x, x standard normal.
    `epsilon` is at least 0; `mu` is that of the first release, positive. `weight` is q = B^2 / w2 of the projection;
    `rows` is its r. Raises ValueError if epsilon is negative, or mu not positive.
    """
    if not (epsilon >= 0 and mu > 0):
        raise ValueError(f"a joint curve needs epsilon >= 0 and mu > 0, got {epsilon} and {mu}")
    x, weights = normal_rule()
    return delta_after_look(epsilon, mu * mu / 2 + mu * x, weights, lambda left: projection_deltas(left, weight, rows))


def look_at_eigenvalue(mu: float, failure: float, weight: float) -> EigenvalueTest:
    """Return the test that a ridge of B^2 / `weight` shrinks by, in units of B^2.

    The look is short of the smallest eigenvalue of the rows common to two neighbouring tables, but for `failure`: by
    one row, which a neighbour may lack, and by the quantile of the look's noise. `mu` is that of the look; `failure`
    says how likely the bound may be false. `weight` is q = B^2 / w2 of the projection that follows.
    """
    return EigenvalueTest(1 / mu, 1 - float(special.ndtri(failure)) / mu, 1 / weight)
