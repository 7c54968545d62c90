"""Profiles of randomised least squares: the Gaussian law of ordinary least squares and the exact law of sketched ones.

One row of (B, b) enters them by its leverage p in B and its share s of the squared residual, whose sum q = p + s is
its leverage in [B b]. Both laws have one coordinate that carries the mean shift and a sphere of d - 1 others, so a
profile is one integral over the first of an incomplete function of the second (docs/explanation/ndis.md#least-squares).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import betainc, betaln, gammainc, gammaincc

from lintra_curator.ndis.gaussian_pair import GaussianPair
from lintra_protocol.crypto.ring import FloatArray

Direction = Literal["remove", "add", "both"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_REACH = 40.0
_LARGEST_REACH = 340.0
_GRADING = np.geomspace(1e-11, 1.0, 38)


@dataclass(frozen=True)
class Influence:
    """What the removal of one row changes in a least-squares problem.

    `leverage` is p of the row in B, at least 0. `share` is s, its squared residual over the sum of all, at least 0; p +
    s is below 1.
    """

    leverage: float
    share: float

    def __post_init__(self) -> None:
        if not (self.leverage >= 0 and self.share >= 0 and self.leverage + self.share < 1):
            raise ValueError(
                f"leverage and residual share are at least 0 and sum to less than 1, got {self.leverage}, {self.share}"
            )

    @property
    def total(self) -> float:
        """The leverage q = p + s of the row in [B b]."""
        return self.leverage + self.share

    @property
    def ratios(self) -> tuple[float, float]:
        """The variance ratios (lambda1, lambda2) of the shifted coordinate and of the others."""
        p, q = self.leverage, self.total
        return (1 - p) ** 2 / (1 - q), (1 - p) / (1 - q)

    def log_det(self, features: int) -> float:
        """Return the logarithm of lambda1 lambda2^(d - 1)."""
        return (features + 1) * math.log1p(-self.leverage) - features * math.log1p(-self.total)

    @property
    def shift(self) -> float:
        """The mean shift in units of the residual norm, sqrt(s p) / (1 - p)."""
        return math.sqrt(self.share * self.leverage) / (1 - self.leverage)


def influences(features: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return leverage and residual share of every row of a least-squares problem, each of shape `(n,)`.

    Args:
        features: B, of full column rank, shape `(n, d)`.
        target: b, shape `(n,)`, not in the range of B.

    Raises:
        ValueError: if the shapes do not fit, B is rank deficient, or the residual is zero.
    """
    if features.ndim != 2 or target.shape != features.shape[:1]:
        raise ValueError(f"least squares needs shapes (n, d) and (n,), got {features.shape} and {target.shape}")
    basis, triangle = np.linalg.qr(features)
    diagonal = np.abs(np.diag(triangle))
    if len(features) <= features.shape[1] or diagonal.min() <= 1e-13 * diagonal.max():
        raise ValueError("the features are rank deficient, or there are not more rows than features")
    residual = target - basis @ (basis.T @ target)
    squared = float(residual @ residual)
    if squared <= 1e-26 * float(target @ target):
        raise ValueError("the target lies in the range of the features, so there is no residual")
    return (basis**2).sum(axis=1), residual**2 / squared


def ols_pair(leverage: float, share: float, columns: float, features: int) -> GaussianPair:
    """Return N(x, |e|^2 / r (B^T B)^-1) against the same without one row (Wei et al. 2023, v3).

    Proved for these Gaussian laws; that sketched least squares has them holds only as r grows (`delta_als` is exact).

    Args:
        leverage: p of the row, see `Influence`.
        share: s of the row.
        columns: r, above 0.
        features: d, at least 1.
    """
    row = _checked(0.0, leverage, share, columns, features)
    p, q, s = row.leverage, row.total, row.share
    eta = [((1 - p) ** 2 - (1 - q)) / (1 - q), s / (1 - q)]
    return GaussianPair(eta, [1.0, features - 1.0], [columns * s * p / (1 - p) ** 2, 0.0])


def delta_ols(
    epsilon: float, leverage: float, share: float, columns: float, features: int, direction: Direction = "both"
) -> float:
    """Return delta(epsilon) of `ols_pair` by one quadrature of non-negative terms; relative error about 1e-8.

    Not certified: it may be below the truth by that error, and by more where delta is below 1e-100. Quick and good for
    searching; a certificate is `delta(ols_pair(...), epsilon).hi`. Not monotone in the
    leverage: the assumption of Wei et al. 2023, v3 Theorem 5, is false for small r
    (docs/explanation/ndis.md#least-squares).

    Args:
        epsilon: any real number for which exp(epsilon) is finite.
        leverage: p of the row, see `Influence`.
        share: s of the row.
        columns: r, above 0.
        features: d, at least 1.
        direction: `remove` compares the data with the row to those without it, `add` the reverse, `both` is the
            larger; either may be.

    Raises:
        ValueError: if an argument is out of range.
    """
    row = _checked(epsilon, leverage, share, columns, features)
    if direction == "both":
        return max(_ols(epsilon, row, columns, features, sign) for sign in (1, -1))
    return _ols(epsilon, row, columns, features, 1 if direction == "remove" else -1)


def delta_als(
    epsilon: float, leverage: float, share: float, columns: int, features: int, direction: Direction = "both"
) -> float:
    """Return delta(epsilon) of approximate least squares argmin |Pi (B x - b)|, Pi Gaussian with r rows; exact law.

    Given Pi B the solution is Gaussian about x, and (Pi B)^T Pi B is Wishart, so the solution is multivariate t
    with r - d + 1 degrees of freedom. Proved for every r. The quadrature is accurate to about 1e-9 but not certified;
    a certificate is `delta(rp_pair(p + s, columns), epsilon).hi`, the sketch's own delta, some ten times as large.

    Args:
        epsilon: any real number for which exp(epsilon) is finite.
        leverage: p of the row, see `Influence`.
        share: s of the row.
        columns: r, at least d.
        features: d, at least 1.
        direction: as in `delta_ols`.

    Raises:
        ValueError: if an argument is out of range.
    """
    row = _checked(epsilon, leverage, share, columns, features)
    if columns < features:
        raise ValueError(f"sketched least squares needs at least {features} rows of the sketch, got {columns}")
    if direction == "both":
        return max(_als(epsilon, row, columns, features, sign) for sign in (1, -1))
    return _als(epsilon, row, columns, features, 1 if direction == "remove" else -1)


def als_max_loss(leverage: float, share: float, columns: int, features: int, direction: Direction = "both") -> float:
    """Return the largest loss of `delta_als`, finite unlike that of its Gaussian limit; delta is 0 from there on."""
    row = _checked(0.0, leverage, share, columns, features)
    if direction == "both":
        return max(_max_loss(row, columns, features, sign) for sign in (1, -1))
    return _max_loss(row, columns, features, 1 if direction == "remove" else -1)


def _max_loss(row: Influence, columns: float, features: int, sign: int) -> float:
    """Return the logarithm of the largest ratio of densities: an extreme generalised eigenvalue."""
    lam1, lam2 = row.ratios
    half_trace = (lam1 * (1 + row.shift**2) + 1) / 2
    root = math.sqrt(max(half_trace**2 - lam1, 0.0))
    largest = half_trace + root
    extremes = [largest if sign > 0 else lam1 / largest] + [lam2] * (features > 1)
    extreme = max(extremes) if sign > 0 else min(extremes)
    return sign * (-row.log_det(features) / 2 + (columns + 1) / 2 * math.log(extreme))


def _checked(epsilon: float, leverage: float, share: float, columns: float, features: int) -> Influence:
    if not math.isfinite(epsilon) or epsilon > 700:
        raise ValueError(f"epsilon must be a finite number of at most 700, got {epsilon}")
    if not 0 < columns < math.inf or features < 1:
        raise ValueError(f"least squares needs columns > 0 and features >= 1, got {columns} and {features}")
    return Influence(leverage, share)


def _ols(epsilon: float, row: Influence, columns: float, features: int, sign: int) -> float:
    """Integrate over the shifted coordinate z of X; on the others the loss is chi-square."""
    lam1, _ = row.ratios
    nu, s = (features - 1) / 2, row.share
    log_det = row.log_det(features)
    tsq = columns * row.shift**2
    if sign > 0:
        g, k1, k2 = s / (1 - row.total), lam1 * math.sqrt(tsq), (1 - lam1) / 2
        k0 = epsilon + (log_det - lam1 * tsq) / 2
    else:
        g, k1, k2 = s / (1 - row.leverage), math.sqrt(tsq / lam1), (1 - 1 / lam1) / 2
        k0 = epsilon - (log_det + tsq) / 2
    z, weights = _panels(_real_roots(k2, k1, k0), _REACH, np.linspace(-_REACH, _REACH, 41))
    k = k0 + z * (k1 + k2 * z)
    inner = _excess(k, g, nu, sign)
    total = float((weights * np.exp(-z * z / 2)) @ inner) / math.sqrt(2 * math.pi)
    return min(1.0, max(0.0, total))


def _excess(k: FloatArray, g: float, nu: float, sign: int) -> FloatArray:
    """Return E[(1 - exp(k - sign g C))_+], C gamma distributed with shape `nu`, or 0 if `nu` is."""
    with np.errstate(all="ignore"):
        if nu == 0 or g == 0:
            return np.maximum(0.0, -np.expm1(np.minimum(k, 0.0)))
        if sign > 0:
            x = np.maximum(k, 0.0) / g
            # In logarithms: exp(k) overflows where the tail probability underflows.
            rest = np.exp(k - nu * math.log1p(g) + np.log(gammaincc(nu, (1 + g) * x)))
            return np.maximum(0.0, gammaincc(nu, x) - rest)
        x = np.maximum(-k, 0.0) / g
        rest = np.exp(k - nu * math.log1p(-g) + np.log(gammainc(nu, (1 - g) * x)))
        return np.where(k < 0, np.maximum(0.0, gammainc(nu, x) - rest), 0.0)


def _als(epsilon: float, row: Influence, columns: float, features: int, sign: int) -> float:
    """Integrate over the shifted coordinate sinh(v) of X: given it the event is linear in the others' squared norm."""
    if epsilon >= _max_loss(row, columns, features, sign):
        return 0.0
    lam1, lam2 = row.ratios
    shift, freedom = row.shift, columns - features + 1
    kap = math.exp(2 * (sign * epsilon + row.log_det(features) / 2) / (columns + 1))
    # With y1 the coordinate whitened by all data and o = sqrt(lam1) (y1 + shift) by those without the row, the former
    # law is likelier by e^(sign epsilon) where 1 + o^2 + lam2 R exceeds kap (1 + y1^2 + R). X is centred in its own.
    if sign > 0:
        roots = _real_roots(lam1 - kap, 2 * lam1 * shift, 1 + lam1 * shift**2 - kap)
    else:
        roots = _real_roots(1 - kap / lam1, 2 * kap * shift / math.sqrt(lam1), 1 - kap * (1 + shift**2))
    reach = _reach(freedom)
    breaks = np.concatenate([np.linspace(-12, 12, 13) / math.sqrt(freedom), np.linspace(-reach, reach, 41)])
    v, weights = _panels(np.arcsinh(roots), reach, breaks)
    own = np.sinh(v)
    cross = math.sqrt(lam1) * (own + shift) if sign > 0 else own / math.sqrt(lam1) - shift
    y, other = (own, cross) if sign > 0 else (cross, own)
    quadratic = (1 + other**2) - kap * (1 + y**2)
    log_norm = -betaln(0.5, freedom / 2)
    log_own = log_norm - (freedom + 1) / 2 * np.log1p(own**2)
    log_cross = log_norm - (freedom + 1) / 2 * np.log1p(cross**2) + sign * math.log(lam1) / 2
    shape = ((features - 1) / 2, (freedom + 1) / 2)
    inside = [
        _sphere_mass(sign * quadratic, sign * (lam2 - kap), unit, shape) for unit in (1 + y**2, (1 + other**2) / lam2)
    ]
    first, second = inside[::sign]
    excess = np.exp(log_own) * first - np.exp(epsilon + log_cross) * second
    return min(1.0, float((weights * np.cosh(v)) @ np.maximum(0.0, excess)))


def _reach(freedom: float) -> float:
    """Return v beyond which (cosh v)^-freedom, and so the law of sinh(v), is below the smallest double."""
    exponent = 745 / freedom
    return min(_LARGEST_REACH, math.acosh(math.exp(exponent)) if exponent < 20 else exponent + math.log(2))


def _sphere_mass(constant: FloatArray, slope: float, unit: FloatArray, shape: tuple[float, float]) -> FloatArray:
    """Return P(constant + slope R >= 0) for R / unit beta-prime distributed, or R = 0 if its first shape is."""
    a, b = shape
    if a == 0 or slope == 0:
        return (constant >= 0).astype(np.float64)
    edge = np.maximum(-constant / slope, 0.0)
    if slope > 0:
        return np.asarray(betainc(b, a, unit / (unit + edge)), np.float64)
    return np.asarray(betainc(a, b, edge / (unit + edge)), np.float64)


def _real_roots(k2: float, k1: float, k0: float) -> FloatArray:
    """Return the real zeros of k2 z^2 + k1 z + k0, those of equal sign without cancellation."""
    discriminant = k1 * k1 - 4 * k2 * k0
    if discriminant <= 0 or (k1 == 0 and k2 == 0):
        return np.zeros(0)
    sum_ = -(k1 + math.copysign(math.sqrt(discriminant), k1)) / 2
    return np.array([k0 / sum_] + ([sum_ / k2] if abs(k2) * 1e300 > abs(sum_) else []))


def _panels(roots: FloatArray, reach: float, breaks: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss-Legendre panels on [-reach, reach], graded towards every root within."""
    inside = roots[np.abs(roots) < reach]
    # The integrand has a kink at each root: short panels there keep the rule accurate.
    graded = (inside[:, np.newaxis] + 2 * reach * np.concatenate([-_GRADING, [0.0], _GRADING])).ravel()
    outer = reach * np.array([-1, -0.6, 0.6, 1])
    ends = np.unique(np.clip(np.concatenate([graded, breaks, outer]), -reach, reach))
    half = np.diff(ends) / 2
    nodes = (ends[:-1] + half)[:, np.newaxis] + half[:, np.newaxis] * _NODES
    return nodes.ravel(), (half[:, np.newaxis] * _WEIGHTS).ravel()
