"""Two releases in a row, the second a projection: exact joint curves, and the ridge that rests on a first look.

Sheffet's Algorithms 2 and 5 add a smaller ridge where the table's own smallest eigenvalue is large. The look at that
eigenvalue is paid for by the joint curve of both releases, docs/mechanisms/central_second_moment.md.
"""

from scipy import special

from lintra_curator.promise.quadrature import normal_rule
from lintra_curator.second_moment.curves import projection_deltas
from lintra_protocol.ring import FloatArray

LOOK_SHARE = 0.1
"""The share of delta that is kept for the event that the first look overstates the smallest eigenvalue."""


def gaussian_then_projection(epsilon: float, mu: float, weight: float, rows: int) -> float:
    """Return delta(epsilon) of a mu-Gaussian release followed by a projection, "replace-one".

    The mean of the projection's delta at epsilon less the first release's loss mu^2 / 2 + mu x, x standard normal.

    Args:
        epsilon: at least 0.
        mu: of the first release, positive.
        weight: q = B^2 / w2 of the projection.
        rows: its r.
    """
    if not (epsilon >= 0 and mu > 0):
        raise ValueError(f"a joint curve needs epsilon >= 0 and mu > 0, got {epsilon} and {mu}")
    x, weights = normal_rule()
    return _joint(epsilon, mu * mu / 2 + mu * x, weights, weight, rows)


def lower_bound(look: float, squared_bound: float, mu: float, failure: float) -> float:
    """Return what the smallest eigenvalue of the rows common to two neighbouring tables is at least.

    Args:
        look: the smallest eigenvalue of S with noise of deviation B^2 / `mu`.
        squared_bound: B^2.
        mu: of the look.
        failure: how likely the bound may be false.
    """
    margin = squared_bound * (1 - float(special.ndtri(failure)) / mu)
    return max(0.0, look - margin)


def _joint(epsilon: float, losses: FloatArray, weights: FloatArray, weight: float, rows: int) -> float:
    """Return the mean of the projection's delta over the first release's loss."""
    return float(weights @ projection_deltas(epsilon - losses, weight, rows))
