"""The Gaussian privacy profile: the exact delta(epsilon) of two unit-variance Gaussians with means mu apart.

Everything released has this profile up to a stated slack (docs/proofs/sketch.md#gaussian-profile). All terms are
integrals of positive functions over the same 64 quadrature nodes, so nothing cancels and tails keep their digits.
"""

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from lintra_protocol.privacy.bisection import bisect

# Gauss-Legendre on [0, 1]; the integrands below fall by exp(-42) over it, which 64 nodes resolve to rounding.
_LEGENDRE = np.polynomial.legendre.leggauss(64)
_NODES = (_LEGENDRE[0] + 1) / 2
_WEIGHTS = _LEGENDRE[1] / 2
_CUTOFF = 42.0

# `gaussian_delta` is accurate to this relative error for epsilon up to 1e5; reported epsilons allow for it.
RELATIVE_ERROR = 1e-12


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the smallest delta for which mu-Gaussian DP gives (epsilon, delta)-DP.

    This is Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu): Balle & Wang 2018, Theorem 8, in
    the form of Dong, Roth, Su 2022, Corollary 1; see docs/proofs/sketch.md#gaussian-profile.

    Args:
        epsilon: any real number; below 0 the curve continues by the symmetry of the pair.
        mu: distance of the means in standard deviations: 0 means equal laws, infinity disjoint ones.

    Raises:
        ValueError: if `mu` is negative or an argument is not a number.
    """
    if math.isnan(epsilon) or not mu >= 0:
        raise ValueError(f"a privacy profile needs a number and mu >= 0, got epsilon={epsilon}, mu={mu}")
    if mu == math.inf:
        return 1.0
    if epsilon < 0:
        return min(1.0, -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(-epsilon, mu))
    if mu == 0:
        return 0.0
    offset = epsilon / mu - mu / 2
    if offset > 40:
        return 0.0  # below exp(-800), which is less than the smallest double
    # Both terms are this density times a Mills ratio: exp(epsilon) times the density at offset + mu is it.
    density = math.exp(-offset * offset / 2) / math.sqrt(2 * math.pi)
    if mu < max(1.0, offset):
        return density * _mills_ratio(offset, mu)
    # Here the second term is at most about half of the first, so that subtracting it costs one bit.
    first = math.erfc(offset / math.sqrt(2)) / 2 if offset < 0 else density * _mills_ratio(offset)
    return first - density * _mills_ratio(offset + mu)


@lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return mu*, the largest mu whose profile passes through or below (epsilon, delta), to rounding.

    The bisection of Balle & Wang 2018, Algorithm 1, in mu instead of sigma. Raises ValueError if `epsilon` is negative
    or infinite, or `delta` is not strictly between 0 and 1.
    """
    if not 0 <= epsilon < math.inf:
        raise ValueError(f"epsilon must be finite and at least 0, got {epsilon}")
    _require_delta(delta)
    low = high = 1.0
    while gaussian_delta(epsilon, high) <= delta:
        high *= 2
    while gaussian_delta(epsilon, low) > delta:
        low /= 2
    return bisect(low, high, lambda mu: gaussian_delta(epsilon, mu) <= delta)[0]


@lru_cache(maxsize=256)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 at which mu-Gaussian DP is (epsilon, delta)-DP, infinite if none is.

    Rounded so that it is never too small: the computed delta lies below `delta` by at least its own error. Raises
    ValueError if `mu` is negative or `delta` is not strictly between 0 and 1.
    """
    _require_delta(delta)
    target = delta * (1 - RELATIVE_ERROR)
    if gaussian_delta(0.0, mu) <= target:
        return 0.0
    if mu == math.inf:
        return math.inf
    high = 1.0
    while gaussian_delta(high, mu) > target:
        high *= 2
    if high == math.inf:
        return math.inf
    return bisect(high, 0.0, lambda epsilon: gaussian_delta(epsilon, mu) <= target)[0]


def compose_mu(mus: Iterable[float]) -> float:
    """Return the mu of several releases with fresh noise about the same clients: their Euclidean norm.

    Exact, and also for releases chosen after seeing earlier ones (Dong, Roth, Su 2022, Corollary 2).
    """
    return math.hypot(*mus)


def _mills_ratio(offset: float, mu: float = math.inf) -> float:
    """Return R(offset) - R(offset + mu), where R(x) is the Gaussian tail beyond x over the density at x.

    That is the integral over v > 0 of exp(-v^2/2 - offset v) (1 - exp(-mu v)), cut where the exponent reaches
    -`_CUTOFF`. For `offset` > -1 and `mu` infinite or at most max(1, offset), where the nodes resolve it.
    """
    reach = 2 * _CUTOFF / (offset + math.hypot(offset, math.sqrt(2 * _CUTOFF)))
    v = reach * _NODES
    return reach * float(_WEIGHTS @ (np.exp(-v * (v / 2 + offset)) * -np.expm1(-mu * v)))


def _require_delta(delta: float) -> None:
    """Refuse a delta outside the open unit interval."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")
