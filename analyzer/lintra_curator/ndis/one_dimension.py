"""The profile of two one-dimensional Gaussians: the loss exceeds epsilon outside or inside an interval.

With X whitened to N(0, 1) the loss is quadratic in it, so delta is a difference of normal probabilities. Both ends of
the interval are written without cancellation, and the rounding of each enters the certificate.
"""

import math

from scipy.special import log_ndtr

from lintra_curator.ndis.certified_value import CertifiedValue
from lintra_curator.ndis.gaussian_pair import ULP
from lintra_protocol.privacy.gaussian import RELATIVE_ERROR, gaussian_delta

_GUARD = 16 * ULP
# Below the smallest normal double relative errors mean nothing.
_TINY = 1e-305


def delta_one_dimension(epsilon: float, eta: float, tsq: float) -> CertifiedValue:
    """Return delta(epsilon) of a pair with one coordinate.

    `eta` is the variance ratio less 1, above -1; `tsq` is squared mean shift in units of X's variance.
    """
    lam, shift = 1 + eta, math.sqrt(tsq)
    if eta == 0:
        value = gaussian_delta(epsilon, shift)
        return CertifiedValue.of(value, 4 * RELATIVE_ERROR * value + _TINY)
    logs = 2 * epsilon + math.log1p(eta)
    discriminant = lam * tsq + eta * logs
    slack = _GUARD * (lam * tsq + abs(eta) * (2 * abs(epsilon) + abs(math.log1p(eta))))
    if discriminant <= slack:
        return _at_the_edge(discriminant, slack, eta)
    root = math.sqrt(discriminant)
    # X's and Y's coordinate at both ends; the near one as the far one's conjugate, where nothing cancels.
    far, far_other = (lam * shift + root) / eta, math.sqrt(lam) * (shift + root) / eta
    near = (lam * tsq - logs) / (lam * shift + root)
    near_other = -math.sqrt(lam) * (tsq + logs) / (shift + root)
    drift = slack / (discriminant - slack)
    scale = lam * tsq + tsq + 2 * abs(epsilon) + abs(math.log1p(eta))
    error = _GUARD * (scale / (lam * shift + root) + abs(near)) + drift * abs(near)
    error_other = _GUARD * (math.sqrt(lam) * scale / (shift + root) + abs(near_other)) + drift * abs(near_other)
    ends = ((near, error), (far, (_GUARD + drift) * abs(far)))
    ends_other = ((near_other, error_other), (far_other, (_GUARD + drift) * abs(far_other)))
    first, second = (_mass(e, outside=eta > 0) for e in (ends, ends_other))
    weight = math.exp(min(epsilon, 700.0))
    return CertifiedValue.of(first[0] - weight * second[0], first[1] + weight * second[1] + _TINY)


def _at_the_edge(discriminant: float, slack: float, eta: float) -> CertifiedValue:
    """Return delta where epsilon is, up to rounding, at or beyond the largest or smallest loss."""
    if eta > 0:  # every outcome has a larger loss
        return CertifiedValue(1.0, 0.0, 1.0)
    # delta is at most 1 - exp(epsilon - largest loss), and that difference is discriminant / (2 |eta|).
    excess = max(discriminant + slack, 0.0) / (-2 * eta)
    return CertifiedValue(0.0, 0.0, min(1.0, excess))


def _mass(ends: tuple[tuple[float, float], tuple[float, float]], *, outside: bool) -> tuple[float, float]:
    """Return the standard normal probability outside or inside of two ends, and its error.

    `ends` are (place, error) of the near and the far end.
    """
    (low, low_error), (high, high_error) = sorted(ends)
    if outside:
        below, above = _tail(-low, low_error), _tail(high, high_error)
        return below[0] + above[0], below[1] + above[1]
    if low + high > 0:
        larger, smaller = _tail(low, low_error), _tail(high, high_error)
    else:
        larger, smaller = _tail(-high, high_error), _tail(-low, low_error)
    return larger[0] - smaller[0], larger[1] + smaller[1]


def _tail(x: float, error: float) -> tuple[float, float]:
    """Return P(Z > x) and how far it may be off if x is known to `error`."""
    tail = math.exp(float(log_ndtr(-x)))
    nearest = max(0.0, abs(x) - error)
    return tail, _GUARD * (1 + x * x) * tail + 0.4 * math.exp(-nearest * nearest / 2) * error
