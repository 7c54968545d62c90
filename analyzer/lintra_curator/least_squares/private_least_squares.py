"""Least squares that is private by its own randomness (Wei, Lu, Magdon-Ismail, Zikas 2023, v3 Figure 4).

Approximate least squares solves a random sketch of r rows instead of the data. Its solution scatters about the true
one, and that scatter hides every row whose leverage p and residual share s are small. A ridge keeps p + s below a bound
for all data: rows of [B b] have norm at most l, so that p + s, the leverage in [B b], is at most l^2 / (l^2 + sigma^2).
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import minimize_scalar

from lintra_analysis.releases.sampling import FLOATING_POINT_LAW, chi_squares, gaussians
from lintra_curator.claims.claim import CalibrationError, curator_claim, point_statement
from lintra_curator.claims.row_checks import CLIPPED, bounded_rows, require_bound, require_count, require_epsilon
from lintra_curator.ndis.least_squares import delta_als, delta_ols
from lintra_curator.projection.random_projection import ProjectionRelease, named_columns, plan_projection, project
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.bisection import NoBoundaryError, furthest, log_excess
from lintra_protocol.privacy.statement import Claim, PrivacyStatement

Law = Literal["gaussian", "t", "sketch"]

INTERIOR_BELOW = 60
"""Sketch rows below which delta is known not to increase in the leverage, so that the whole triangle is searched."""

_ROOM = 1e-6
_WIDTH = 1e-10
_QUADRATURE = 1 + 1e-8
_SHARES = np.concatenate([[0.0, 0.02], np.linspace(0.1, 0.9, 17), [0.98, 1.0]])
_DEPTHS = (0.97, 0.9, 0.75, 0.5, 0.25)


@dataclass(frozen=True)
class LeastSquaresPlan:
    """The ridge of private least squares, from public parameters alone."""

    sketch_rows: int  #: r; larger means less scatter and more ridge
    features: int  #: d
    row_bound: float  #: l of a row of [B b]
    sigma2: float  #: the ridge, in row units squared
    law: Law  #: "gaussian", "t" or "sketch"; see `private_least_squares`
    #: (p, s) at which delta is largest, as found; None for the law "sketch", which needs no search
    worst: tuple[float, float] | None
    promise: PrivacyStatement


@dataclass(frozen=True, eq=False, repr=False)
class LeastSquaresRelease:
    """The coefficients that private least squares released.

    How far they scatter depends on the residual and on the features, which are not released, so no standard errors
    can be given; with the law "sketch" the sketch is released too, and any estimator can read it.
    """

    features: tuple[str, ...]  #: names of the d features
    coef: FloatArray  #: the coefficients, shape `(d,)`, of the problem with ridge `plan.sigma2`, plus the scatter
    num_clients: int  #: rows of [B b]
    plan: LeastSquaresPlan  #: with the promise and its status
    sketch: ProjectionRelease | None = None  #: what the coefficients were computed from, for the law "sketch" only
    law: str = FLOATING_POINT_LAW

    def __repr__(self) -> str:
        return f"LeastSquaresRelease(features={len(self.features)}, law={self.plan.law!r}, {self.plan.promise})"

    def predict(self, rows: FloatArray) -> FloatArray:
        """Return the predicted target, shape `(k,)`, of rows of features, shape `(k, d)`.

        Raises ValueError if the rows do not have d columns.
        """
        table = np.asarray(rows, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != len(self.coef):
            raise ValueError(f"predictions need rows of {len(self.coef)} features, got shape {table.shape}")
        predicted: FloatArray = table @ self.coef
        return predicted


@dataclass(frozen=True)
class WorstInfluence:
    """The largest delta that a search found, and the leverage p and residual share s at which it lies."""

    delta: float
    leverage: float
    share: float


def influence_delta(epsilon: float, p: float, s: float, sketch_rows: int, features: int, law: Law) -> float:
    """Return delta(epsilon), the larger direction, for one row of leverage p and residual share s.

    `epsilon` is at least 0; `p` is the leverage in B. `s` is the share of the squared residual; `sketch_rows` is r.
    `features` is d. `law` is "gaussian"; any other is the law of a sketched solution.
    """
    if law == "gaussian":
        return delta_ols(epsilon, p, s, sketch_rows, features)
    return delta_als(epsilon, p, s, sketch_rows, features)


def worst_influence(epsilon: float, total: float, sketch_rows: int, features: int, law: Law) -> WorstInfluence:
    """Return where delta(epsilon), the larger direction, is largest over p, s >= 0 with p + s <= total.

    For r of `INTERIOR_BELOW` or more the maximum was on p + s = total in every case tried, and that edge is searched;
    for smaller r, where delta is known not to be monotone, the interior is searched as well. A numerical supremum.
    `epsilon` is at least 0; `total` is between 0 and 1. `sketch_rows` is r; `features` is d. `law` is "gaussian" or
    "t".
    """
    return _worst(epsilon, total, sketch_rows, features, law)


def plan_least_squares(
    claim: Claim, sketch_rows: int, features: int, row_bound: float, law: Law = "t"
) -> LeastSquaresPlan:
    """Return the smallest ridge with which private least squares keeps a claim.

    It takes the worst p, s >= 0 with p + s <= l^2 / (l^2 + sigma^2), which is all that rows of norm l can reach; that
    needs no monotonicity. The published rule is in benchmarks/papers, to compare. The law "sketch" is post-processing
    of a random projection of [B b]: proved. `claim` has neighbours "zero-out"; with the law "sketch" also
    "replace-one". `sketch_rows` is r; at least d + 2 for the laws "t" and "sketch", whose scatter has no variance
    before. `features` are d; `row_bound` is l of a row of [B b], public. `law` is that of the release; see
    `private_least_squares`.
    """
    _require(claim, sketch_rows, features, row_bound, law)
    if law == "sketch":
        plan = plan_projection(claim, sketch_rows, row_bound)
        return LeastSquaresPlan(sketch_rows, features, row_bound, plan.sigma2, law, None, plan.promise)
    ratio = _ratio(claim.float_epsilon, claim.float_delta, sketch_rows, features, law)
    sigma2 = row_bound**2 / ratio * CLIPPED
    worst = worst_influence(claim.float_epsilon, ratio / (1 + ratio), sketch_rows, features, law)
    reason = "exact law; worst leverage and residual share searched for"
    promise = point_statement(claim, worst.delta * _QUADRATURE, "numerical supremum", reason)
    place = (worst.leverage, worst.share)
    return LeastSquaresPlan(sketch_rows, features, row_bound, sigma2, law, place, promise)


def ols_sigma(epsilon: float, delta: float, sketch_rows: int, features: int, row_bound: float, law: Law = "t") -> float:
    """Return the square root of the ridge of `plan_least_squares`, neighbours "zero-out", in row units."""
    claim = curator_claim(epsilon, delta, "zero-out")
    return math.sqrt(plan_least_squares(claim, sketch_rows, features, row_bound, law).sigma2)


def private_least_squares(
    features: FloatArray,
    target: FloatArray,
    claim: Claim,
    sketch_rows: int,
    row_bound: float,
    random_bytes: RandomBytes,
    *,
    law: Law = "t",
    clip: bool = True,
    names: Sequence[str] | None = None,
) -> LeastSquaresRelease:
    """Release a solution of argmin |B x - b|^2 + sigma^2 |x|^2 with enough scatter to keep a claim.

    Three laws are offered. With x the solution, e its residual, ridge included, and H = B^T B + sigma^2 I:

    * "gaussian": N(x, |e|^2 / r H^-1), which v3 Figure 4 draws. It is drawn as such here, so the promise is exact; a
      real sketch has this law only as r grows, and is not promised anything by it.
    * "t": the exact law of a sketched solution at every r, multivariate t with r - d + 1 degrees of freedom; needs the
      least ridge.
    * "sketch": a real sketch of [B b] is drawn and solved. The coefficients have the law "t"; the promise covers the
      whole sketch, which is released too, and is proved.

    Args:
        features: B, shape `(n, d)`.
        target: b, shape `(n,)`.
        claim: the promise.
        sketch_rows: r.
        row_bound: l of a row of [B b], public.
        random_bytes: a cryptographic source.
        law: as above.
        clip: shrink longer rows of [B b] onto the sphere; if False they are refused.
        names: of the features; "x0", "x1", .. by default.

    Returns:
        The coefficients, one for each feature, with the plan that they were released by.

    Raises:
        ValueError: if an argument is out of range.

    >>> from lintra_protocol.crypto.randomness import bulk_system_randomness
    >>> generator = np.random.default_rng(0)
    >>> hours = generator.uniform(-1, 1, size=(4000, 1))
    >>> claim = curator_claim(1.0, 1e-6, "zero-out")
    >>> release = private_least_squares(hours, hours[:, 0] / 2, claim, 100, 2.0, bulk_system_randomness(), law="sketch")
    >>> release.features, release.coef.shape
    (('x0',), (1,))
    """
    table, response = np.asarray(features, dtype=np.float64), np.asarray(target, dtype=np.float64)
    if table.ndim != 2 or response.shape != table.shape[:1]:
        raise ValueError(f"least squares needs shapes (n, d) and (n,), got {table.shape} and {response.shape}")
    joint = bounded_rows(np.column_stack([table, response]), row_bound, clip=clip)
    size = table.shape[1]
    columns = named_columns(names, size, row_bound)
    plan = plan_least_squares(claim, sketch_rows, size, row_bound, law)
    labels = tuple(column.name for column in columns)
    if law == "sketch":
        values = project(joint, plan.sigma2, sketch_rows, random_bytes)
        coef = np.asarray(np.linalg.lstsq(values[:, :-1], values[:, -1])[0], np.float64)
        # The target's name must differ from every feature's.
        every = named_columns([*labels, "target" if "target" not in labels else "target of all"], size + 1, row_bound)
        sketch = ProjectionRelease(every, values, plan.sigma2, len(joint), row_bound, plan.promise, "gram")
        return LeastSquaresRelease(labels, coef, len(joint), plan, sketch)
    solution, factor, residual = solved(joint, plan.sigma2)
    square = sketch_rows if law == "gaussian" else float(chi_squares(sketch_rows - size + 1, (), random_bytes))
    scatter = np.linalg.solve(factor, gaussians((size,), random_bytes)) * math.sqrt(residual / square)
    return LeastSquaresRelease(labels, solution + scatter, len(joint), plan)


def solved(joint: FloatArray, sigma2: float) -> tuple[FloatArray, FloatArray, float]:
    """Solve [B b] with sigma I appended, sigma > 0. `joint` is [B b], shape `(n, d + 1)`.

    Returns:
        The solution, shape `(d,)`; an upper triangular R of shape `(d, d)` with R^T R = B^T B + sigma^2 I; and the
        squared residual |b - B x|^2 + sigma^2 |x|^2 + sigma^2.
    """
    ridge = math.sqrt(sigma2) * np.eye(joint.shape[1])
    triangle = np.asarray(np.linalg.qr(np.vstack([joint, ridge]))[1], np.float64)
    factor, image = triangle[:-1, :-1], triangle[:-1, -1]
    solution = np.asarray(np.linalg.solve(factor, image), np.float64)
    return solution, factor, float(triangle[-1, -1] ** 2)


@functools.lru_cache(maxsize=1024)
def _worst(epsilon: float, total: float, sketch_rows: int, features: int, law: Law) -> WorstInfluence:
    """Search the hypotenuse, and for few sketch rows also smaller triangles; see `worst_influence`."""

    def at(share: float, depth: float) -> float:
        p, s = total * depth * share, total * depth * (1 - share)
        return influence_delta(epsilon, p, s, sketch_rows, features, law)

    best = (-1.0, 0.0, 1.0)
    for depth in (1.0, *_DEPTHS) if sketch_rows < INTERIOR_BELOW else (1.0,):
        values = [at(float(share), depth) for share in _SHARES]
        if max(values) < 0.8 * best[0]:
            continue
        # Two maxima are common, one on each side of p = s, where the covariances differ least.
        for place in sorted(range(len(values)), key=values.__getitem__)[-2:]:
            around = (float(_SHARES[max(place - 1, 0)]), float(_SHARES[min(place + 1, len(_SHARES) - 1)]))
            found = minimize_scalar(
                lambda x, depth=depth: -at(x, depth), bounds=around, method="bounded", options={"xatol": 5e-5}
            )
            best = max(best, (values[place], float(_SHARES[place]), depth), (-float(found.fun), float(found.x), depth))
    value, share, depth = best
    return WorstInfluence(value, total * depth * share, total * depth * (1 - share))


@functools.lru_cache(maxsize=256)
def _ratio(epsilon: float, delta: float, sketch_rows: int, features: int, law: Law) -> float:
    """Return the largest l^2 / sigma^2 that keeps (epsilon, delta), on the safe side."""
    aim = delta * (1 - _ROOM)

    def excess(ratio: float) -> float:
        return log_excess(worst_influence(epsilon, ratio / (1 + ratio), sketch_rows, features, law).delta, aim)

    try:
        return furthest(math.exp(-1) / math.sqrt(sketch_rows), excess, width=_WIDTH, factor=math.exp(0.5))
    except NoBoundaryError as error:
        raise CalibrationError(f"no ridge keeps epsilon={epsilon}, delta={delta}") from error


def _require(claim: Claim, sketch_rows: int, features: int, row_bound: float, law: Law) -> None:
    if law not in ("gaussian", "t", "sketch"):
        raise ValueError(f"the law is 'gaussian', 't' or 'sketch', got {law!r}")
    require_epsilon(claim.float_epsilon)
    require_count(features, "features")
    require_bound(row_bound)
    require_count(sketch_rows, "sketch_rows", 1 if law == "gaussian" else features + 2)
    if law != "sketch" and claim.neighbours != "zero-out":
        raise ValueError(f"the law {law!r} is accounted for neighbours 'zero-out' only; 'sketch' covers 'replace-one'")
