"""Bounds that hold for every regression on a release at once, whichever target, features and penalty are tried.

On the event |N|_2 <= q all of them hold together, and P(|N|_2 > sigma (2 sqrt(d) + a)) <= 2 exp(-a^2 / 4) for the
noise of all d columns (Davidson and Szarek 2001, Theorem II.11): that is all d 2^(d - 1) regressions at the price of
one. Where part of the noise has been removed the bound still holds (Anderson 1955).
"""

import math

import numpy as np

from lintra_analysis.estimators.design import Design
from lintra_analysis.estimators.estimates import Interval
from lintra_analysis.estimators.solve import Fit
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError


def proved_noise_norm(num_columns: int, sigma: float, confidence: float) -> float:
    """Return q with P(|N|_2 <= q) >= confidence, by proof, for symmetric noise of `num_columns` columns."""
    return sigma * (2 * math.sqrt(num_columns) + 2 * math.sqrt(math.log(2 / (1 - confidence))))


def simultaneous_intervals(
    design: Design, fit: Fit, linear: FloatArray, offsets: FloatArray, confidence: float
) -> tuple[float, tuple[Interval | None, ...]]:
    """Return q, and intervals for the coefficients that the cohort's own rows would give.

    With M = S + N, H = M + L and H b = c for the solution b, the true one differs from it by H^-1 (N theta) for the
    true theta, so by at most |row of H^-1| q |theta|; and |theta| is at most the fitted one over 1 - |H^-1| q. `linear`
    is the map from normalised coefficients to those reported, shape `(k, p)`. `offsets` are what is added to them,
    shape `(k,)`. `confidence` is that of all intervals of all regressions on this release together.

    Returns:
        q, and k intervals; none where the noise may have swallowed a direction of the features.

    Raises:
        InvalidAnalysisError: the law of the noise is not known well enough.
    """
    errors = design.gram.errors
    sigma = errors.spectral_sigma
    if sigma is None or not errors.gaussian:
        raise InvalidAnalysisError(
            "simultaneous bounds rest on the known Gaussian noise of a second moment; this release's is of another kind"
        )
    norm = proved_noise_norm(design.release_columns, sigma, confidence)
    values, reach = linear @ fit.solution + offsets, reach_of(fit, linear, norm)
    if reach is None:
        return norm, (None,) * len(values)
    return norm, tuple((float(value - r), float(value + r)) for value, r in zip(values, reach, strict=True))


def reach_of(fit: Fit, linear: FloatArray, norm: float) -> FloatArray | None:
    """Return how far coefficients may move if the matrix moves by a symmetric one of some norm, shape `(k,)`.

    `linear` is the map from normalised coefficients to those reported, shape `(k, p)`. `norm` is that of the largest
    change, as an operator.

    Returns:
        None where the change may make features dependent.
    """
    shrinkage = float(np.linalg.norm(fit.inverse, 2)) * norm
    if shrinkage >= 1 or fit.regularised:
        return None
    length = math.hypot(float(np.linalg.norm(fit.solution)), 1.0) / (1 - shrinkage)
    return np.asarray(np.linalg.norm(linear @ fit.inverse, axis=1) * norm * length)
