"""Random projection of a curator's rows, calibrated exactly by leverage (Wei, Lu, Magdon-Ismail, Zikas 2023).

Released are r independent rows of law N(0, D^T D + sigma^2 I): the d x r matrix D^T G + noise of the paper, transposed.
G is secret; with a known or reused G there is no privacy at all.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lintra_analysis.releases.columns import ScaledColumn, positions
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.sampling import FLOATING_POINT_LAW, gaussians
from lintra_analysis.releases.sketch import Sketch
from lintra_curator.claims.claim import curator_claim, point_statement
from lintra_curator.claims.row_checks import CLIPPED, bounded_rows, require_bound, require_count, require_epsilon
from lintra_curator.ndis.closed_form import FEW_COLUMNS, delta_rp, rp_ceiling, rp_pair, rp_pstar
from lintra_curator.ndis.gaussian_pair import GaussianPair
from lintra_curator.ndis.profile_evaluation import delta as certified_delta
from lintra_curator.projection.wishart_error import WishartError
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.bisection import furthest, log_excess, retreat
from lintra_protocol.privacy.statement import Claim, Neighbours, PrivacyStatement

Route = Literal["gram", "noise", "ridge"]

_TRIFLE = 1e-6
_WIDTH = 1e-13
_BLOCK_NUMBERS = 1 << 22


@dataclass(frozen=True)
class ProjectionPlan:
    """The noise of a random projection, from public parameters alone."""

    sketch_rows: int  #: r, rows of the sketch
    row_bound: float  #: l, in row units
    sigma2: float  #: the ridge, in row units squared
    leverage: float  #: the largest leverage that a row can have, l^2 / (l^2 + sigma2)
    promise: PrivacyStatement


def replacement_pair(ratio: float, sketch_rows: float) -> GaussianPair:
    """Return the worst pair of neighbours that differ in one replaced row: orthogonal rows and no others.

    Whitened by the rows in common and the ridge, the covariances are I + v v^T and I + u u^T with |u|^2 and |v|^2 at
    most l^2 / sigma^2. That orthogonal rows of full length are worst is proved in
    docs/reference/mechanisms/random_projection.md#replacing-a-row; the paper does not treat replacement. `ratio` is l^2
    / sigma^2, positive; `sketch_rows` is r.
    """
    return GaussianPair([ratio, -ratio / (1 + ratio)], [sketch_rows, sketch_rows], [0.0, 0.0])


def projection_delta(epsilon: float, leverage: float, sketch_rows: float, neighbours: Neighbours = "zero-out") -> float:
    """Return an upper bound of delta(epsilon) of a projection when no row has a larger leverage, in both directions.

    `epsilon` is at least 0. `leverage` is the largest leverage, between 0 and 1, in the larger data for "zero-out"; for
    "replace-one" l^2 / (l^2 + sigma^2). `sketch_rows` is r; `neighbours` are what may change.
    """
    if leverage == 1:
        return 1.0
    if neighbours == "replace-one":
        # Two or three coordinates converge slowly; the interval then is wider, and still on the safe side.
        rtol = {1: 1e-5, 2: 1e-7}.get(round(sketch_rows), 1e-9)
        return certified_delta(replacement_pair(leverage / (1 - leverage), sketch_rows), epsilon, rtol).hi
    pair = rp_pair(leverage, sketch_rows)
    if 1 < sketch_rows < FEW_COLUMNS:
        ceiling = rp_ceiling(epsilon, leverage, sketch_rows)
        # Where rounding is more than a trifle, a small part of a tiny delta, the slow sum is the better bound.
        if ceiling <= float(delta_rp(epsilon, leverage, sketch_rows)) * (1 + _TRIFLE):
            return ceiling
        return certified_delta(pair, epsilon, _TRIFLE).hi
    return max(certified_delta(pair, epsilon).hi, certified_delta(pair.reverse(), epsilon).hi)


def plan_projection(claim: Claim, sketch_rows: int, row_bound: float) -> ProjectionPlan:
    """Return the smallest ridge with which a projection keeps a claim for all data.

    The leverage of a row of norm at most l is at most l^2 / (l^2 + sigma^2), attained where it is alone, so that
    sigma^2 = l^2 (1 / p* - 1). Wei et al. 2023 (v3 Figure 3, v4 Figure 1) take l^2 / p*, that is l^2 more than needed.
    For `claim`, "zero-out" is the paper's add-or-remove; "replace-one" is calibrated on its own worst pair.
    `sketch_rows` is r, at least 1; 1 is a random linear combination. `row_bound` is l, public. The papers' experiments
    take the largest norm in the data, which is not private. Raises ValueError if an argument is out of range.
    """
    require_epsilon(claim.float_epsilon)
    require_count(sketch_rows, "sketch_rows")
    require_bound(row_bound)
    leverage, reason = _largest_leverage(claim, sketch_rows)
    sigma2 = row_bound**2 * (1 / leverage - 1) * CLIPPED
    if not 0 < sigma2 < math.inf:
        raise ValueError(f"no finite ridge keeps {claim} with a row bound of {row_bound}")
    delta_hi = _delta_hi(claim, leverage, sketch_rows)
    return ProjectionPlan(sketch_rows, row_bound, sigma2, leverage, point_statement(claim, delta_hi, "proved", reason))


def rp_sigma(
    epsilon: float, delta: float, sketch_rows: int, row_bound: float, neighbours: Neighbours = "zero-out"
) -> float:
    """Return the noise deviation of `plan_projection` for epsilon, delta and neighbours, in row units."""
    plan = plan_projection(curator_claim(epsilon, delta, neighbours), sketch_rows, row_bound)
    return math.sqrt(plan.sigma2)


@dataclass(frozen=True, eq=False, repr=False)
class ProjectionRelease:
    """The rows that a random projection released, and what they promise."""

    columns: tuple[ScaledColumn, ...]  #: the d columns
    values: FloatArray  #: the sketch, shape `(r, d)`: rows N(0, D^T D + sigma2 I)
    sigma2: float  #: the ridge in the sketch, in row units squared
    num_clients: int  #: rows of D
    row_bound: float  #: l
    promise: PrivacyStatement  #: with its certified delta and its status
    route: Route  #: how the sketch was drawn
    law: str = FLOATING_POINT_LAW

    def __repr__(self) -> str:
        rows, size = self.values.shape
        return f"ProjectionRelease(rows={rows}, columns={size}, num_clients={self.num_clients}, {self.promise})"

    def gram(self) -> FloatArray:
        """Return S^T S / r - sigma2 I, shape `(d, d)`, an unbiased estimate of D^T D that may be indefinite."""
        rows, size = self.values.shape
        estimate: FloatArray = self.values.T @ self.values / rows - self.sigma2 * np.eye(size)
        return estimate

    def sketch(self) -> Sketch:
        """Return the same numbers in the scale of a sketch, whose rows are their own witnesses of the error."""
        rows = self.values.shape[0]
        counts = np.full(rows, self.num_clients)
        noise = np.full(rows, self.sigma2 / rows)
        scaled = self.values / math.sqrt(rows)
        return Sketch(self.columns, scaled, counts, noise, self.num_clients, self.row_bound)

    def restrict(self, names: Sequence[str]) -> "ProjectionRelease":
        """Return the release of the named columns only, in that order."""
        index = positions(self.columns, names)
        return replace(self, columns=tuple(self.columns[i] for i in index), values=self.values[:, index])

    def second_moment(self) -> GramEstimate:
        """Return `gram` with the law of its error: S^T S / r is a Wishart draw about D^T D + sigma2 I."""
        rows = self.values.shape[0]
        centre = self.values.T @ self.values / rows
        errors = WishartError(centre, 1 / rows, 0.0, self.sigma2 / math.sqrt(rows))
        return GramEstimate(self.columns, self.gram(), errors, self.num_clients, self.row_bound)


def random_projection(
    rows: FloatArray,
    claim: Claim,
    sketch_rows: int,
    row_bound: float,
    random_bytes: RandomBytes,
    *,
    clip: bool = True,
    route: Route = "gram",
    names: Sequence[str] | None = None,
) -> ProjectionRelease:
    """Release a random projection of a curator's rows.

    The three routes have one law and one promise. "noise" is D^T G + sigma N (v3 Figure 3); "ridge" projects D with
    sigma I appended (v4 Figure 1); "gram" draws from N(0, D^T D + sigma^2 I) by a factor of it, which takes r d
    Gaussians instead of r n.

    Args:
        rows: D, shape `(n, d)`.
        claim: the promise.
        sketch_rows: r, at least 1.
        row_bound: l, public.
        random_bytes: a cryptographic source; what it gives is used once and forgotten.
        clip: shrink longer rows onto the sphere; if False they are refused.
        route: how to draw.
        names: of the columns; "x0", "x1", .. by default.

    Returns:
        The sketch, shape `(r, d)`, with its promise; it answers regressions like any release.

    Raises:
        ValueError: if an argument is out of range.

    >>> import numpy as np
    >>> from lintra_protocol.crypto.randomness import bulk_system_randomness
    >>> generator = np.random.default_rng(0)
    >>> rows = generator.normal(0, 0.5, size=(4000, 2))
    >>> release = random_projection(rows, curator_claim(1.0, 1e-6), 50, 2.0, bulk_system_randomness())
    >>> release.values.shape, release.promise.status
    ((50, 2), 'proved')
    """
    plan = plan_projection(claim, sketch_rows, row_bound)
    table = bounded_rows(rows, row_bound, clip=clip)
    columns = named_columns(names, table.shape[1], row_bound)
    values = project(table, plan.sigma2, sketch_rows, random_bytes, route)
    return ProjectionRelease(columns, values, plan.sigma2, len(table), row_bound, plan.promise, route)


def project(
    rows: FloatArray, sigma2: float, sketch_rows: int, random_bytes: RandomBytes, route: Route = "gram"
) -> FloatArray:
    """Return r independent rows N(0, D^T D + sigma2 I), shape `(r, d)`, without any promise.

    Raises ValueError if the route is unknown, or D^T D + sigma2 I is singular and the route "gram".
    """
    size = rows.shape[1]
    if route == "gram":
        try:
            factor = np.linalg.cholesky(rows.T @ rows + sigma2 * np.eye(size))
        except np.linalg.LinAlgError as error:
            raise ValueError("the rows are of less than full rank and there is no ridge to make up for it") from error
        values: FloatArray = gaussians((sketch_rows, size), random_bytes) @ factor.T
        return values
    if route == "ridge":
        return _mixed(np.vstack([rows, math.sqrt(sigma2) * np.eye(size)]), sketch_rows, random_bytes)
    if route == "noise":
        mixed = _mixed(rows, sketch_rows, random_bytes)
        return mixed + math.sqrt(sigma2) * gaussians((sketch_rows, size), random_bytes)
    raise ValueError(f"the route is 'gram', 'noise' or 'ridge', got {route!r}")


def named_columns(names: Sequence[str] | None, size: int, row_bound: float) -> tuple[ScaledColumn, ...]:
    """Return columns in the units of the rows; raise ValueError if there are not `size` names."""
    names = [f"x{i}" for i in range(size)] if names is None else list(names)
    if len(names) != size:
        raise ValueError(f"{size} columns need as many names, got {len(names)}")
    return tuple(ScaledColumn(name, 0.0, 1.0, -row_bound, row_bound) for name in names)


@functools.lru_cache(maxsize=256)
def _largest_leverage(claim: Claim, sketch_rows: int) -> tuple[float, str]:
    """Return the largest leverage that keeps a claim, on the safe side, and why that is enough."""
    if claim.neighbours == "zero-out":
        start = rp_pstar(claim.float_epsilon, claim.float_delta, sketch_rows)
        leverage = retreat(start, -start * 1e-13, lambda p: _delta_hi(claim, p, sketch_rows) <= claim.float_delta)
        return leverage, "delta increases in the leverage, whose maximum is attained"

    def excess(ratio: float) -> float:
        return log_excess(_delta_hi(claim, ratio / (1 + ratio), sketch_rows), claim.float_delta)

    ratio = furthest(1 / math.sqrt(sketch_rows), excess, width=_WIDTH)
    return ratio / (1 + ratio), "orthogonal rows of full length are the worst replacement"


@functools.lru_cache(maxsize=256)
def _delta_hi(claim: Claim, leverage: float, sketch_rows: int) -> float:
    return projection_delta(claim.float_epsilon, leverage, sketch_rows, claim.neighbours)


def _mixed(rows: FloatArray, sketch_rows: int, random_bytes: RandomBytes) -> FloatArray:
    """Return G^T D for a fresh Gaussian G, shape `(r, d)`, in blocks of rows so that G is never whole."""
    total = np.zeros((sketch_rows, rows.shape[1]))
    block = max(1, _BLOCK_NUMBERS // sketch_rows)
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        total += gaussians((sketch_rows, len(part)), random_bytes) @ part
    return total
