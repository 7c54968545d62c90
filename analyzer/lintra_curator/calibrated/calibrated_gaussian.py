"""Gaussian noise for a release that scatters by itself, with a scatter that depends on the data.

N(mean(D), C(D) + sigma^2 I) is released with the smallest sigma for which an upper bound of delta, an envelope over all
neighbours, keeps the claim (Wei et al. 2023, v4, NDIS-calibrated Gaussian mechanism). What the neighbours may do enters
by three numbers only; docs/reference/mechanisms/calibrated_gaussian.md derives the envelopes.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.sampling import gaussians
from lintra_curator.claims.claim import CalibrationError, point_statement
from lintra_curator.claims.row_checks import require_epsilon
from lintra_curator.ndis.bounds import log_kappa, split_bound
from lintra_curator.ndis.one_dimension import delta_one_dimension
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.bisection import NoBoundaryError, furthest, log_excess
from lintra_protocol.privacy.gaussian import gaussian_delta
from lintra_protocol.privacy.statement import Claim, PrivacyStatement

_GRID = np.linspace(-1, 1, 41)
_ROUNDING = 1 + 1e-9
_LARGEST_RATIO = 600.0
_WIDTH = 1e-10


@dataclass(frozen=True)
class Sensitivity:
    """How far two neighbours' releases may lie apart at one sigma.

    With lambda_i the eigenvalues of the first covariance relative to the second, where one covariance is at least the
    other in every direction:

    Attributes:
        shift: mu, at least the distance of the means in the metric of the smaller covariance.
        log_ratio: kappa, at least every |ln lambda_i|.
        log_volume: Lambda, at least the sum of the |ln lambda_i|.
        one_direction: only one lambda_i differs from 1; then `log_volume` is `log_ratio`.

    >>> Sensitivity(shift=0.2, log_ratio=0.1, log_volume=0.1, one_direction=True).bounded
    True
    """

    shift: float
    log_ratio: float
    log_volume: float
    one_direction: bool

    def __post_init__(self) -> None:
        numbers = (self.shift, self.log_ratio, self.log_volume)
        # Not `number < 0`: a NaN must be refused too. Infinity is allowed, and never private.
        if not all(number >= 0 for number in numbers):
            raise ValueError(f"a sensitivity has numbers of at least 0, got {self}")
        if self.log_volume < self.log_ratio or (self.one_direction and self.log_volume > self.log_ratio):
            raise ValueError(f"the volume is at least the ratio, and equal to it in one direction, got {self}")

    @property
    def bounded(self) -> bool:
        """Whether all numbers are finite."""
        return all(map(math.isfinite, (self.shift, self.log_ratio, self.log_volume)))


def renyi_envelope(epsilon: float, sensitivity: Sensitivity) -> float:
    """Return an upper bound of delta(epsilon) over all pairs within a sensitivity, by Renyi divergence.

    The minimum over 0 < s < 1 / (e^kappa - 1) of the Chernoff bound with the largest transform of the loss: as many
    directions at ratio e^kappa as Lambda allows, and all of the shift in one of them. Proved, for both directions;
    any s is valid. `epsilon` is at least 0.
    """
    if not sensitivity.bounded:
        return 1.0
    kappa, mu2 = sensitivity.log_ratio, sensitivity.shift**2
    growth = math.expm1(min(kappa, 700.0))
    count = sensitivity.log_volume / kappa if kappa > 0 else 0.0
    low, high, best = -40.0, 60.0, 0.0
    for _ in range(9):
        u = (low + high) / 2 + _GRID * (high - low) / 2
        s = np.exp(u) if growth == 0 else 1 / (growth * (1 + np.exp(-np.clip(u, -36, 36))))
        rest = 1 - s * growth
        with np.errstate(all="ignore"):
            covariance = count * (-0.5 * s * kappa - 0.5 * np.log(rest))
            mean = 0.5 * s * mu2 * (1 + s * (1 + growth) / rest)
            guard = 1e-15 * (4 + s * epsilon + s * kappa * count + np.abs(covariance) + mean)
            exponents = log_kappa(s) - s * epsilon + covariance + mean + guard
        exponents = np.where(np.isfinite(exponents), exponents, np.inf)
        place = int(np.argmin(exponents))
        best = min(best, float(exponents[place]))
        low, high = u[max(place - 1, 0)], u[min(place + 1, len(u) - 1)]
    return min(1.0, math.exp(best) * _ROUNDING)


def split_envelope(epsilon: float, sensitivity: Sensitivity) -> float:
    """Return an upper bound of delta(epsilon) over all pairs within a sensitivity, mean and covariance taken apart.

    Wei et al. 2023, v4 Theorem 4.2, with the profile of the covariance in its harder order: exact if only one direction
    moves, else by `renyi_envelope`. The paper's own profile is not an upper bound (benchmarks/papers/calibrated.py).
    `epsilon` is at least 0.
    """
    if not sensitivity.bounded or sensitivity.log_ratio > _LARGEST_RATIO:
        return 1.0
    covariance = Sensitivity(0.0, sensitivity.log_ratio, sensitivity.log_volume, sensitivity.one_direction)
    eta = math.expm1(min(sensitivity.log_ratio, _LARGEST_RATIO))

    @functools.cache
    def profile(at: float) -> float:
        if sensitivity.one_direction:
            # Certified: a small ratio leaves few digits of a difference of two tails.
            return min(1.0, delta_one_dimension(at, eta, 0.0).hi * _ROUNDING)
        return renyi_envelope(at, covariance)

    return split_bound(epsilon, sensitivity.shift, profile)


def envelope(epsilon: float, sensitivity: Sensitivity) -> float:
    """Return the smaller of the two envelopes, an upper bound of delta(epsilon)."""
    if sensitivity.log_ratio == 0 and sensitivity.bounded:
        return gaussian_delta(epsilon, sensitivity.shift)
    return min(renyi_envelope(epsilon, sensitivity), split_envelope(epsilon, sensitivity))


@dataclass(frozen=True)
class CalibratedPlan:
    """The noise that is added to what scatters by itself.

    `sigma` is the deviation of the added noise in every direction; 0 if the scatter alone keeps the claim.
    `sensitivity` is at this sigma.
    """

    sigma: float
    sensitivity: Sensitivity
    promise: PrivacyStatement


def calibrate(claim: Claim, sensitivity: Callable[[float], Sensitivity]) -> CalibratedPlan:
    """Return the smallest noise for which the envelope keeps a claim.

    Args:
        claim: for the neighbours that the sensitivity is about.
        sensitivity: of N(mean, C + sigma^2 I) as a function of sigma >= 0, from public parameters only; must fall as
            sigma grows, though any result is checked at its own sigma.

    Raises:
        CalibrationError: no sigma below 1e300 keeps the claim.

    >>> from lintra_curator import curator_claim
    >>> plan = calibrate(curator_claim(1.0, 1e-6), lambda sigma: Sensitivity(1 / max(sigma, 1e-9), 0, 0, True))
    >>> round(plan.sigma, 3)  # without any scatter of its own this is the Gaussian mechanism
    4.225
    """
    require_epsilon(claim.float_epsilon)

    def bound(sigma: float) -> float:
        return envelope(claim.float_epsilon, sensitivity(sigma))

    sigma = 0.0
    allowed = claim.float_delta
    if not bound(0.0) <= allowed:
        try:
            sigma = furthest(1.0, lambda at: log_excess(bound(at), allowed), width=_WIDTH, factor=1 / math.e**2)
        except NoBoundaryError as error:
            raise CalibrationError("no amount of noise keeps this claim") from error
    reason = "envelope over all neighbours within a proved sensitivity"
    return CalibratedPlan(sigma, sensitivity(sigma), point_statement(claim, bound(sigma), "proved", reason))


def calibrated_draw(mean: FloatArray, covariance: FloatArray, sigma: float, random_bytes: RandomBytes) -> FloatArray:
    """Return a draw of N(mean, covariance + sigma^2 I), shape `(d,)`.

    Args:
        mean: shape `(d,)`.
        covariance: symmetric, positive semidefinite, shape `(d, d)`.
        sigma: at least 0.
        random_bytes: a cryptographic source.

    Raises:
        ValueError: if the shapes do not fit, a number is not finite, or the sum is not positive definite.

    >>> from lintra_protocol.crypto.randomness import bulk_system_randomness
    >>> calibrated_draw(np.zeros(3), np.eye(3), 2.0, bulk_system_randomness()).shape
    (3,)
    """
    size = mean.size
    if mean.ndim != 1 or covariance.shape != (size, size) or not 0 <= sigma < math.inf:
        raise ValueError(f"a draw needs shapes (d,) and (d, d), got {mean.shape} and {covariance.shape}, sigma {sigma}")
    if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
        raise ValueError("mean and covariance must be finite")
    try:
        factor = np.linalg.cholesky(covariance + sigma**2 * np.eye(size))
    except np.linalg.LinAlgError as error:
        raise ValueError("the covariance of the release is not positive definite") from error
    draw: FloatArray = mean + factor @ gaussians((size,), random_bytes)
    return draw
