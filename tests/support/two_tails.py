"""delta as the difference of two generalised chi-square tails (Wei et al. 2023, Theorem 4.1), by Imhof's integral.

The form of the paper, kept as an oracle: the error of either tail is multiplied by e^epsilon and delta is the small
difference of both, so it fails for small deltas.
"""

import math
import warnings

import numpy as np
from scipy.integrate import IntegrationWarning, quad

from lintra_curator.ndis import GaussianPair


def imhof(weights: np.ndarray, freedoms: np.ndarray, shifts: np.ndarray, at: float) -> float:
    """Return P(sum w chi2_f(shift) <= at) (Imhof 1961)."""

    def integrand(u: float) -> float:
        squared = (weights * u) ** 2
        angle = 0.5 * float((freedoms * np.arctan(weights * u) + shifts * weights * u / (1 + squared)).sum())
        log_size = float((0.25 * freedoms * np.log1p(squared) + 0.5 * shifts * squared / (1 + squared)).sum())
        return math.sin(angle - 0.5 * at * u) / (u * math.exp(min(log_size, 700.0)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IntegrationWarning)
        return 0.5 - quad(integrand, 0, np.inf, limit=500, epsabs=1e-12)[0] / math.pi


def two_tails(pair: GaussianPair, epsilon: float) -> float:
    """Return P(T1 <= tau) - e^epsilon P(T2 <= tau), for a pair without a ratio of 1."""
    slope = -pair.eta
    b_squared = pair.lam**2 * pair.tsq
    tau = -(epsilon + pair.offset) + float((b_squared / (2 * slope)).sum())
    first = imhof(slope / 2, pair.mult, b_squared / slope**2, tau)
    second = imhof(slope / (2 * pair.lam), pair.mult, b_squared / (pair.lam * slope**2), tau)
    return first - math.exp(epsilon) * second
