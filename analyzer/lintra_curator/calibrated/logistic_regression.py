"""Private logistic regression: a draw about the maximum a posteriori, with Boehning's bound for a covariance.

Released is N(theta, C + sigma^2 I) with theta = argmin sum log-loss + lambda / 2 |theta|^2 and
C = (lambda I + X^T X / 4)^-1, the Gaussian surrogate of the posterior of Boehning 1992 that Wei et al. 2023, v4, use.
One record changes C by rank one, so that one eigenvalue moves; the paper lets all d of them move.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, lambertw

from lintra_analysis.releases.sampling import FLOATING_POINT_LAW
from lintra_curator.calibrated.calibrated_gaussian import CalibratedPlan, Sensitivity, calibrate, calibrated_draw
from lintra_curator.claims.row_checks import CLIPPED, bounded_rows, require_bound, require_count
from lintra_curator.projection.random_projection import named_columns
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.statement import Claim

_LARGEST_PULL = float(lambertw(1 / math.e).real) * (1 + 1e-12)
"""W(1/e), the largest m / (1 + e^m)."""
_TOLERANCE = 1e-9
"""Norm of the gradient at which the solver stops, in units of the row bound; the calibration allows for it."""


@dataclass(frozen=True, eq=False, repr=False)
class LogisticRelease:
    """The coefficients of a private logistic regression without an intercept."""

    #: names of the d features; for an intercept give a column of ones, which counts in the row bound
    features: tuple[str, ...]
    coef: FloatArray  #: shape `(d,)`, theta plus its scatter and the noise
    regularization: float  #: lambda
    row_bound: float  #: l of a row of features
    plan: CalibratedPlan  #: the noise and the promise
    law: str = FLOATING_POINT_LAW

    def __repr__(self) -> str:
        return f"LogisticRelease(features={len(self.features)}, sigma={self.plan.sigma:.4g}, {self.plan.promise})"

    def predict_proba(self, rows: FloatArray) -> FloatArray:
        """Return the probability of label 1, shape `(k,)`, for rows of features, shape `(k, d)`.

        Raises ValueError if the rows do not have d columns.
        """
        table = np.asarray(rows, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != len(self.coef):
            raise ValueError(f"predictions need rows of {len(self.coef)} features, got shape {table.shape}")
        probability: FloatArray = expit(table @ self.coef)
        return probability

    def predict(self, rows: FloatArray) -> FloatArray:
        """Return the likelier label, 0 or 1, shape `(k,)`, for rows of features, shape `(k, d)`."""
        return (self.predict_proba(rows) > 0.5).astype(np.float64)


def logistic_sensitivity(
    sigma: float, row_bound: float, regularization: float, max_rows: int | None = None
) -> Sensitivity:
    """Return the sensitivity to one record added or removed.

    The eigenvalue that moves has |ln| at most -ln(1 - l^2 / ((1 + lambda sigma^2)(4 lambda + l^2))), attained where the
    record is alone. `sigma` is that of the added noise, at least 0; `row_bound` is l. `regularization` is lambda.
    `max_rows` is a public bound of n. It bounds the optimum, and with it what the scatter hides (`mean_shift`); without
    it the optimum moves by at most l / lambda, and only sigma hides that.
    """
    longest = row_bound * CLIPPED
    most = math.inf if max_rows is None else regularization + max_rows * longest**2 / 4
    solved = 2 * _TOLERANCE * longest / regularization / math.sqrt(sigma**2 + 1 / most) if most < math.inf else 0.0
    if max_rows is None:
        shift = longest / regularization * (1 + 2 * _TOLERANCE) / sigma if sigma > 0 else math.inf
    else:
        shift = mean_shift(sigma, longest, regularization, max_rows) + solved
    square = row_bound**2 * CLIPPED
    moved = square / ((1 + regularization * sigma**2) * (4 * regularization + square))
    ratio = -math.log1p(-moved)
    return Sensitivity(shift, ratio, ratio, one_direction=True)


def mean_shift(sigma: float, row_bound: float, regularization: float, max_rows: int) -> float:
    """Return a bound of how far one of `max_rows` records moves the exact optimum, over the scatter that hides it.

    At an optimum lambda |theta|^2 = sum p_i m_i with m_i the margins and p_i = 1 / (1 + e^m_i), and m p is at most
    W(1/e). So no margin passes M = l sqrt(W(1/e) n / lambda), nor does one between two optima. There p_i (1 - p_i) is
    at least c / 4 with c = cosh(M / 2)^-2, so that the objective's Hessian is at least (1 - c) lambda + c P, where P =
    lambda I + X^T X / 4 is the inverse of the scatter. The record's gradient is at most l / (1 + e^-M). For a shift v
    with weights q over the eigenvalues w of P, |v| E_q[(1 - c) lambda + c w] is at most the gradient. The squared
    distance |v|^2 E_q[w / (1 + sigma^2 w)] is then largest where q is one eigenvalue, since w / (1 + sigma^2 w) is
    concave. What remains is a maximum over w in [lambda, lambda + n l^2 / 4], whose only turning point has a closed
    form (docs/reference/mechanisms/calibrated_gaussian.md).
    """
    margin = row_bound * math.sqrt(_LARGEST_PULL * max_rows / regularization)
    curvature = 1 / math.cosh(min(margin / 2, 300.0)) ** 2
    gradient = row_bound * float(expit(margin))
    base, low, high = (1 - curvature) * regularization, regularization, regularization + max_rows * row_bound**2 / 4
    # The derivative's sign is that of base - curvature w - 2 curvature sigma^2 w^2, which falls in w.
    if curvature == 0 or base - curvature * high - 2 * curvature * sigma**2 * high**2 >= 0:
        turning = high
    else:
        turning = 2 * base / (curvature + math.sqrt(curvature**2 + 8 * curvature * sigma**2 * base))
    at = min(max(turning, low), high)
    return gradient / (base + curvature * at) * math.sqrt(at / (1 + sigma**2 * at))


def plan_logistic(claim: Claim, row_bound: float, regularization: float, max_rows: int | None = None) -> CalibratedPlan:
    """Return the noise of a private logistic regression, from public parameters alone.

    `claim` has neighbours "zero-out": a record is added or removed, or its features become zeros. `row_bound` is l of a
    row of features; `regularization` is lambda, the precision of the prior. `max_rows` is a public bound of the number
    of records; None if there is none. Raises ValueError if an argument is out of range.
    """
    require_bound(row_bound)
    require_bound(regularization, "regularization")
    if max_rows is not None:
        require_count(max_rows, "max_rows")
    if claim.neighbours != "zero-out":
        raise ValueError("logistic regression is accounted for neighbours 'zero-out' only")
    return _planned(claim, row_bound, regularization, max_rows)


def logistic_regression(
    features: FloatArray,
    labels: FloatArray,
    claim: Claim,
    row_bound: float,
    regularization: float,
    random_bytes: RandomBytes,
    *,
    max_rows: int | None = None,
    clip: bool = True,
    names: Sequence[str] | None = None,
) -> LogisticRelease:
    """Fit and release a private logistic regression.

    Args:
        features: X, shape `(n, d)`.
        labels: 0 or 1, shape `(n,)`.
        claim: the promise; neighbours "zero-out".
        row_bound: l of a row of features, public.
        regularization: lambda, public; the noise is proportional to l / lambda.
        random_bytes: a cryptographic source.
        max_rows: a public bound of n; None if there is none.
        clip: shrink longer rows onto the sphere; if False they are refused.
        names: of the features; "x0", "x1", .. by default.

    Returns:
        The noisy coefficients, one for each feature, with the plan that they were released by.

    Raises:
        ValueError: if an argument is out of range.

    >>> from lintra_protocol.crypto.randomness import bulk_system_randomness
    >>> generator = np.random.default_rng(0)
    >>> hours = generator.uniform(-1, 1, size=(4000, 1))
    >>> passed = (hours[:, 0] + generator.normal(0, 0.3, 4000) > 0).astype(float)
    >>> from lintra_curator import curator_claim
    >>> claim = curator_claim(1.0, 1e-6, "zero-out")
    >>> release = logistic_regression(hours, passed, claim, 1.0, 20.0, bulk_system_randomness())
    >>> bool(release.coef[0] > 0)
    True
    """
    table, answers = bounded_rows(features, row_bound, clip=clip), np.asarray(labels, dtype=np.float64)
    if answers.shape != (len(table),) or not np.isin(answers, (0.0, 1.0)).all():
        raise ValueError(f"labels are 0 or 1, one for each of {len(table)} rows, got shape {answers.shape}")
    plan = plan_logistic(claim, row_bound, regularization, max_rows)
    if max_rows is not None and len(table) > max_rows:
        raise ValueError(f"there are more records than max_rows = {max_rows}; state a larger public bound")
    columns = named_columns(names, table.shape[1], row_bound)
    optimum = _optimum(table, 2 * answers - 1, regularization, _TOLERANCE * row_bound)
    covariance = np.linalg.inv(regularization * np.eye(table.shape[1]) + table.T @ table / 4)
    # Rounding leaves the inverse not quite symmetric.
    coef = calibrated_draw(optimum, (covariance + covariance.T) / 2, plan.sigma, random_bytes)
    return LogisticRelease(tuple(column.name for column in columns), coef, regularization, row_bound, plan)


@functools.lru_cache(maxsize=64)
def _planned(claim: Claim, row_bound: float, regularization: float, max_rows: int | None) -> CalibratedPlan:
    return calibrate(claim, lambda sigma: logistic_sensitivity(sigma, row_bound, regularization, max_rows))


def _optimum(rows: FloatArray, signs: FloatArray, regularization: float, tolerance: float) -> FloatArray:
    """Return the minimiser to a gradient norm of `tolerance`, by Newton's method with halved steps."""
    theta = np.zeros(rows.shape[1])
    signed = rows * signs[:, np.newaxis]

    def objective(at: FloatArray) -> float:
        return float(np.logaddexp(0.0, -signed @ at).sum() + regularization / 2 * at @ at)

    for _ in range(200):
        miss = expit(-signed @ theta)
        gradient = regularization * theta - signed.T @ miss
        if np.linalg.norm(gradient) <= tolerance:
            return theta
        hessian = regularization * np.eye(len(theta)) + (signed * (miss * (1 - miss))[:, np.newaxis]).T @ signed
        step = np.linalg.solve(hessian, gradient)
        # Far from the optimum a whole step overshoots; halving it keeps the objective from rising.
        scale, here = 1.0, objective(theta)
        while objective(theta - scale * step) > here + 1e-12 * abs(here) and scale > 1e-6:
            scale /= 2
        theta = theta - scale * step
    raise ValueError("the optimum was not found to the accuracy that the promise needs; use more regularization")
