"""Zero-concentrated privacy (Bun, Steinke 2016), the looser currency that other libraries account in, to compare.

Lintra's own accountant, `lintra_protocol.privacy.composition`, keeps the exact curve and needs none of this.
"""

import math
from collections.abc import Callable

from lintra_protocol.privacy.bisection import bisect


def zcdp_delta(epsilon: float, rho: float) -> float:
    """Return a delta for which rho-zero-concentrated privacy gives (epsilon, delta)-differential privacy.

    The least over all orders alpha > 1 of exp((alpha-1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha-1)
    (Canonne, Kamath, Steinke 2020, Proposition 12). Its logarithm has the derivative
    rho (2 alpha - 1) - epsilon + ln(1 - 1/alpha), which grows with alpha; every alpha gives a valid bound. `epsilon` is
    at least 0. `rho` is mu^2 / 2 of a Gaussian mechanism; rhos of several mechanisms add up.

    Raises:
        ValueError: if an argument is negative or not finite.
    """
    if not (0 <= epsilon < math.inf and 0 <= rho < math.inf):
        raise ValueError(f"zero-concentrated privacy needs finite epsilon and rho from 0 on, got {epsilon} and {rho}")
    if rho == 0:
        return 0.0
    # In beta = alpha - 1, so that orders close to 1 keep their digits.
    beta = _root(lambda beta: rho * (2 * beta + 1) - epsilon + math.log(beta) - math.log1p(beta))
    exponent = beta * ((beta + 1) * rho - epsilon) + beta * (math.log(beta) - math.log1p(beta)) - math.log1p(beta)
    # The terms of the exponent are of size beta epsilon, and each is rounded.
    return min(1.0, math.exp(min(exponent, 0.0)) * (1 + 1e-14 * (1 + beta * epsilon)))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the smallest epsilon for which `zcdp_delta(epsilon, rho) <= delta`.

    Raises:
        ValueError: if `rho` is negative or not finite, or `delta` is not strictly between 0 and 1.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")
    if zcdp_delta(0.0, rho) <= delta:
        return 0.0
    epsilon = _root(lambda epsilon: delta - zcdp_delta(epsilon, rho))
    # The root is the last double at which the bound is still too large, or within one unit of it.
    while zcdp_delta(epsilon, rho) > delta:
        epsilon = math.nextafter(epsilon, math.inf)
    return epsilon


def _root(rising: Callable[[float], float]) -> float:
    """Return a positive double next to the sign change of a function that is below 0 near 0 and rises above it."""
    low, high = 0.0, 1.0
    while rising(high) < 0:
        low, high = high, high * 2
    return bisect(high, low, lambda x: not rising(x) < 0)[0]
