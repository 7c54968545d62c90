"""The privacy profile of a release beside a view that hardly depends on any row: a change of order 1e-12 in epsilon.

For both neighbours the view lies within `shift` (total variation) of a law that no row enters. So delta(epsilon) <=
delta_noise(epsilon) + (1 + e^epsilon) shift; shifts of several releases add up, and epsilon is that of all together
(docs/proofs/together.md#composition).
"""

import math

from lintra_protocol.privacy.bisection import bisect
from lintra_protocol.privacy.discrete import discrete_delta, discrete_epsilon
from lintra_protocol.privacy.gaussian import RELATIVE_ERROR

_LARGEST = 700.0
"""Beyond it e^epsilon leaves the floating-point range."""

_FURTHEST_QUANTILE = 40.0
"""The Gaussian tail beyond it is no float any more."""


def shifted_delta(epsilon: float, mu: float, slack: float, shift: float) -> float:
    """Return e^K delta_G(epsilon - 2K, mu) + (1 + e^epsilon) shift, at most 1; never too small beyond rounding.

    It falls and then rises with epsilon: from some epsilon on, what is seen beside costs more than noise gives.

    Args:
        epsilon: any real number; above 700 nothing is promised where there is a shift.
        mu: of the noise.
        slack: K.
        shift: from 0 on.

    Raises:
        ValueError: `slack` is negative or infinite, or `mu` is negative.
    """
    noise = discrete_delta(epsilon, mu, slack)
    if shift == 0.0:
        return noise
    if epsilon > _LARGEST:
        return 1.0
    return min(1.0, noise + shift * (1 + math.exp(epsilon)) * (1 + 1e-12))


def shifted_epsilon(mu: float, delta: float, slack: float, shift: float) -> float:
    """Return the smallest epsilon >= 0 with `shifted_delta(...) <= delta`, infinite where there is none.

    As a function of e^epsilon the curve is convex, so where it is low enough is an interval, and its lower end is found
    by halves between 0 and the lowest point: about sixty steps, also where the interval is about to vanish. Raises
    ValueError if `slack` or `mu` is negative, or `delta` is not strictly between 0 and 1.
    """
    if shift == 0.0:
        return discrete_epsilon(mu, delta, slack)
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")

    def is_enough(epsilon: float) -> bool:
        return shifted_delta(epsilon, mu, slack, shift) * (1 + RELATIVE_ERROR) <= delta

    # The slope is e^epsilon (shift - e^-K Phi(-mu/2 - (epsilon - 2K)/mu)). Were this point a little off, epsilon would
    # still be one that is enough, or infinite.
    weight = shift * math.exp(min(slack, _LARGEST))
    quantile, _ = bisect(0.0, _FURTHEST_QUANTILE, lambda z: math.erfc(z / math.sqrt(2)) / 2 > weight)
    lowest = max(0.0, 2 * slack + mu * (quantile - mu / 2))
    if is_enough(0.0):
        return 0.0
    return bisect(lowest, 0.0, is_enough)[0] if is_enough(lowest) else math.inf
