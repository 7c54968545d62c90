"""Upper bounds of a privacy profile that need no contour: the Chernoff bound and the split of mean and covariance."""

import math
from collections.abc import Callable

import numpy as np

from lintra_curator.ndis.gaussian_pair import GaussianPair
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.gaussian import gaussian_delta

Profile = Callable[[float], float]

_GRID = np.linspace(-1, 1, 41)


def log_kappa(s: FloatArray) -> FloatArray:
    """Return ln kappa(s) = s ln s - (1 + s) ln(1 + s) in the shape of s.

    kappa(s) is the best constant in (1 - e^-x)_+ <= kappa(s) e^(s x).
    """
    return -np.log1p(s) - s * np.log1p(1 / s)


def renyi_bound(pair: GaussianPair, epsilon: float) -> float:
    """Return an upper bound of delta(epsilon): the minimum over s of kappa(s) exp(-s epsilon) M(s).

    The conversion of Renyi divergence of Canonne, Kamath, Steinke 2020, Proposition 12, with the exact divergence; any
    s in the strip is valid, so an inexact minimum is only a looser bound.

    Args:
        pair: two Gaussian laws.
        epsilon: any real number.
    """
    if pair.disjoint:
        return 1.0
    low, high = -40.0, 60.0
    best = math.inf
    for _ in range(9):
        u = (low + high) / 2 + _GRID * (high - low) / 2
        exponents = renyi_exponents(pair, epsilon, _points(u, pair.strip))
        place = int(np.argmin(exponents))
        best = min(best, float(exponents[place]))
        low, high = u[max(place - 1, 0)], u[min(place + 1, len(u) - 1)]
    # A bound below the smallest double is not 0.
    return min(1.0, math.exp(min(best, 0.0)) * (1 + 1e-9) + 1e-323)


def renyi_exponents(pair: GaussianPair, epsilon: float, s: FloatArray) -> FloatArray:
    """Return ln(kappa(s) exp(-s epsilon) M(s)), each rounded up, at points s > 0 within the strip; any shape."""
    with np.errstate(all="ignore"):
        transform, size = pair.log_mgf_with_size(s.astype(np.complex128))
        guard = 2.0**-50 * (4 + size + np.abs(s * epsilon))
        exponents = log_kappa(s) - s * epsilon + transform.real + guard
    return np.where(np.isfinite(exponents), exponents, np.inf)


def split_bound(epsilon: float, mu: float, covariance_profile: Profile) -> float:
    """Return an upper bound of delta(epsilon) from the mean and the covariance taken apart.

    With a third law between the two, of one's mean and the other's covariance, the triangle inequality gives
    d(e1) + e^e1 h(e2) and h(e2) + e^e2 d(e1) for all e1 + e2 = epsilon, where d is the Gaussian profile at `mu`
    (Wei et al. 2023, v4 Theorem 4.2, corrected: h must be the harder order). Any such e1 is valid, so an inexact
    minimum is only a looser bound.

    Args:
        epsilon: at least 0.
        mu: distance of the means in the metric of the smaller covariance.
        covariance_profile: h, a non-increasing upper bound of the profile with equal means, in the order in which X is
            more spread.

    Raises:
        ValueError: if `epsilon` is negative.
    """
    if not epsilon >= 0:
        raise ValueError(f"the split needs epsilon >= 0, got {epsilon}")

    def total(part: float) -> float:
        rest = epsilon - part
        mean, covariance = gaussian_delta(part, mu), covariance_profile(rest)
        return min(mean + math.exp(part) * covariance, covariance + math.exp(rest) * mean)

    parts = np.linspace(0.0, epsilon, 33)
    for _ in range(3):
        values = [total(float(part)) for part in parts]
        place = int(np.argmin(values))
        best = values[place]
        parts = np.linspace(parts[max(place - 1, 0)], parts[min(place + 1, len(parts) - 1)], 17)
    return min(1.0, best * (1 + 1e-11))


def _points(u: FloatArray, strip: float) -> FloatArray:
    """Map the real line to the strip, evenly in the logarithm near 0 and near the end."""
    if math.isinf(strip):
        return np.exp(u)
    share = 1 / (1 + np.exp(-np.clip(u, -36, 36)))
    result: FloatArray = strip * share
    return result
