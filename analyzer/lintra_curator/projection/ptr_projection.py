"""Random projection with a ridge that shrinks where the data are seen to fill every direction (propose, test, release).

A noisy smallest eigenvalue of D^T D is released first; data far from singular hide their rows by themselves and need
less ridge (Wei et al. 2023, v4 Figure 4). Everything below is in units of the squared row bound, l = 1, until the
release.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from lintra_analysis.releases.sampling import gaussians
from lintra_curator.claims.claim import CalibrationError, point_statement
from lintra_curator.claims.row_checks import CLIPPED, bounded_rows, require_bound, require_count, require_epsilon
from lintra_curator.ndis.closed_form import delta_rp, rp_pstar
from lintra_curator.projection.eigenvalue_test import EigenvalueTest, delta_after_look
from lintra_curator.projection.random_projection import ProjectionRelease, named_columns, project
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.bisection import furthest, log_excess, retreat
from lintra_protocol.privacy.gaussian import gaussian_delta, gaussian_mu
from lintra_protocol.privacy.statement import Claim, PrivacyStatement

_REACH = 9.5
_TAIL = 3e-21
"""Probability of a Gaussian beyond `_REACH` deviations, twice over."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PANEL = 0.5
SHARES = (1.0, 0.5, 0.0)
"""Of what a row of norm l could move the smallest eigenvalue: the grid of the search."""

_ROOM = 2e-3
_WIDTH = 1e-4
_MOST_CAP = 1e4
"""Share of delta left free for what a finite search may miss."""


@dataclass(frozen=True)
class PtrPlan:
    """A test with its promise, from public parameters alone."""

    sketch_rows: int
    row_bound: float
    test: EigenvalueTest
    promise: PrivacyStatement


def plan_ptr(claim: Claim, sketch_rows: int, row_bound: float, *, deviation: float, margin: float) -> PtrPlan:
    """Return the test of smallest cap that keeps a claim under the exact joint law of t and the sketch.

    `claim` has neighbours "zero-out"; `sketch_rows` is r. `row_bound` is l, public. `deviation` is that of the noise on
    the eigenvalue, in units of l^2; a few times 1 / mu*(epsilon, delta) is good. `margin` is in units of l^2; about 1
    is good, since the exact law already counts an overestimate. Raises CalibrationError if the eigenvalue alone, at
    this deviation, breaks the claim.
    """
    require_ptr(claim, sketch_rows, row_bound)
    epsilon, aim = claim.float_epsilon, claim.float_delta * (1 - _ROOM)
    floor = 1 / rp_pstar(epsilon, claim.float_delta, sketch_rows)

    def worst(cap: float, shares: Sequence[float] = (1.0,)) -> float:
        return ptr_delta(epsilon, EigenvalueTest(deviation, margin, cap), sketch_rows, shares)

    alone = gaussian_delta(epsilon, 1 / deviation) if deviation > 0 else 1.0
    if not (alone < aim and worst(_MOST_CAP * floor) <= aim):
        raise CalibrationError(
            f"no cap keeps {claim} with a deviation of {deviation}; "
            f"{1 / gaussian_mu(epsilon, claim.float_delta):.4g} is the least that the eigenvalue alone needs"
        )
    least = furthest(floor, lambda cap: log_excess(worst(cap), aim), width=_WIDTH, factor=1 / 1.5)

    def searched(cap: float) -> float:
        return worst(cap, SHARES) * (1 + _ROOM / 2)

    cap = retreat(least, 1e-3 * least, lambda cap: searched(cap) <= claim.float_delta)
    promise = point_statement(
        claim, searched(cap), "numerical supremum", "exact joint law; worst eigenvalue searched for"
    )
    return PtrPlan(sketch_rows, row_bound, EigenvalueTest(deviation, margin, cap), promise)


def ptr_delta(epsilon: float, test: EigenvalueTest, sketch_rows: int, shares: Sequence[float] = SHARES) -> float:
    """Return the largest delta(epsilon) of t and the sketch together that a search over all data finds.

    What matters of the larger data is lambda = lambda_min and by how much u in [0, min(1, lambda)] the row moves it:
    then t is Gaussian, and given t the leverage is at most 1 / (max(lambda, 1) + ridge(t)). That reduction is proved;
    the supremum over (lambda, u) is taken on a grid with refinement, so it is numerical. u = 1 was always the worst.
    `epsilon` is at least 0; `test` is in units of the squared row bound. `sketch_rows` is r; `shares` are u / min(1,
    lambda), the values that are searched.
    """
    top = test.cap + max(test.margin, 0) + 10 * test.deviation
    grid = np.unique(np.concatenate([np.linspace(0, 3, 7), np.linspace(0, top, 41)]))
    values = np.array([[joint_delta(epsilon, at, share, test, sketch_rows) for share in shares] for at in grid])
    best = float(values.max())
    share = shares[int(values.max(axis=0).argmax())]
    for place in np.argsort(values.max(axis=1))[-2:]:
        around = (float(grid[max(place - 1, 0)]), float(grid[min(place + 1, len(grid) - 1)]))
        found = minimize_scalar(
            lambda at: -joint_delta(epsilon, at, share, test, sketch_rows),
            bounds=around,
            method="bounded",
            options={"xatol": 1e-3 * max(1.0, around[1] - around[0])},
        )
        best = max(best, -float(found.fun))
    return best if math.isfinite(best) else 1.0


def joint_delta(epsilon: float, eigenvalue: float, share: float, test: EigenvalueTest, sketch_rows: int) -> float:
    """Return delta(epsilon) of t and the sketch together for one kind of neighbours, the worse direction.

    `epsilon` is at least 0; `eigenvalue` is lambda_min of the larger data, in units of the squared row bound. `share`
    is u / min(1, lambda), between 0 and 1: how far the row moves the eigenvalue. `test` is in the same units;
    `sketch_rows` is r.
    """
    shift = share * min(1.0, eigenvalue)
    total = 0.0
    for remove in (True, False):
        mean, slope = (eigenvalue, shift) if remove else (eigenvalue - shift, -shift)
        slope, offset = slope / test.deviation, shift**2 / (2 * test.deviation**2)
        kinks = (np.array([test.margin, test.cap + test.margin]) - mean) / test.deviation
        # Where the loss of t alone passes epsilon, a sketch that hides its rows well leaves a corner.
        corner = (epsilon - offset) / slope if abs(slope) > 1e-3 else 0.0
        z, weights = _panels(tuple(np.unique([-_REACH, _REACH, *np.clip([corner, *kinks], -_REACH, _REACH)])))
        loss = slope * z + offset
        ridge = test.ridge(mean + test.deviation * z)
        leverage = 1 / (max(eigenvalue, 1.0) + ridge)
        curve = functools.partial(
            delta_rp, leverage=leverage, columns=sketch_rows, direction="remove" if remove else "add"
        )
        total = max(total, delta_after_look(epsilon, loss, weights, curve) + _TAIL)
    return total


def ptr_projection(
    rows: FloatArray, plan: PtrPlan, random_bytes: RandomBytes, *, clip: bool = True, names: Sequence[str] | None = None
) -> "PtrRelease":
    """Release the noisy smallest eigenvalue and a random projection with the ridge that it allows.

    `rows` are D, shape `(n, d)`. `plan` is made from public parameters; changing it after a look at the data voids the
    promise. `clip` says to shrink longer rows onto the sphere; if False they are refused. `names` are those of the
    columns; "x0", "x1", .. by default.
    """
    table = bounded_rows(rows, plan.row_bound, clip=clip)
    columns = named_columns(names, table.shape[1], plan.row_bound)
    unit = plan.row_bound**2 * CLIPPED
    smallest = float(np.linalg.eigvalsh(table.T @ table)[0]) / unit
    noisy = max(smallest, 0.0) + plan.test.deviation * float(gaussians((), random_bytes))
    ridge = unit * float(plan.test.ridge(np.asarray(noisy)))
    values = project(table, ridge, plan.sketch_rows, random_bytes)
    projection = ProjectionRelease(columns, values, ridge, len(table), plan.row_bound, plan.promise, "gram")
    return PtrRelease(noisy * unit, plan.test, projection)


@dataclass(frozen=True, eq=False)
class PtrRelease:
    """Both numbers that propose-test-release releases under one promise."""

    noisy_eigenvalue: float  #: t, in row units squared: an estimate of the smallest eigenvalue of D^T D
    test: EigenvalueTest  #: the public parameters, in units of the squared row bound
    #: the sketch; its ridge was chosen from t and may be published because the test paid for it
    projection: ProjectionRelease


def require_ptr(claim: Claim, sketch_rows: int, row_bound: float) -> None:
    """Refuse what propose-test-release is not accounted for; raise ValueError if an argument is out of range."""
    require_epsilon(claim.float_epsilon)
    require_count(sketch_rows, "sketch_rows")
    require_bound(row_bound)
    if claim.neighbours != "zero-out":
        raise ValueError("propose-test-release is accounted for neighbours 'zero-out' only")


def _panels(edges: tuple[float, ...]) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of the standard normal law, in panels that no edge falls into."""
    cuts = [np.linspace(a, b, 2 + int((b - a) / _PANEL))[:-1] for a, b in itertools.pairwise(edges)]
    borders = np.append(np.concatenate(cuts), edges[-1])
    half = np.diff(borders)[:, np.newaxis] / 2
    z = (borders[:-1, np.newaxis] + half + half * _NODES).ravel()
    weights: FloatArray = (half * _WEIGHTS).ravel() * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return z, weights
