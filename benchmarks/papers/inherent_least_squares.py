"""What data hide by themselves from private least squares: the analysis of `inherent_privacy` for the relative variant.

Wei et al. 2023 (v3) assume that delta increases in leverage and residual share and combine the largest of each, which
need not come from one row; here delta is evaluated at the rows themselves, which needs no assumption.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_curator.claims.claim import curator_claim
from lintra_curator.claims.row_checks import bounded_rows
from lintra_curator.least_squares.private_least_squares import Law, influence_delta, plan_least_squares, worst_influence
from lintra_curator.ndis.least_squares import influences
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.bisection import bisect
from papers.inherent_privacy import ANALYSIS_ONLY

_WIDTH = 2.0**-16


@dataclass(frozen=True)
class InherentLeastSquares:
    """How much ridge private least squares needs relative to a set of data, beside what all data need.

    Attributes:
        sketch_rows: r.
        law: "gaussian" or "t".
        delta_without_ridge: the largest delta(epsilon) over all data of the set and all rows; 1 where a row decides the
            rank or there is no residual.
        sigma: a ridge deviation with which the largest delta is at most `delta`, the least that a bisection finds.
        worst_case_sigma: that for all data with rows of norm at most l.
        caveat: what this is not.
    """

    epsilon: float
    delta: float
    sketch_rows: int
    law: Law
    delta_without_ridge: float
    sigma: float
    worst_case_sigma: float
    caveat: str = ANALYSIS_ONLY


def inherent_least_squares(
    datasets: Sequence[FloatArray], epsilon: float, delta: float, sketch_rows: int, row_bound: float, law: Law = "t"
) -> InherentLeastSquares:
    """Report the privacy of approximate least squares relative to a set of data, and the least ridge that it needs.

    `datasets` are the set, each [B b] of shape `(n, d + 1)`, the target last; every row of each may leave. `epsilon` is
    positive; `delta` is strictly between 0 and 1. `sketch_rows` are r, at least d + 2 for the law "t". `row_bound` is
    l, of all rows in question; `law` is "gaussian" or "t".

    Raises:
        ValueError: if an argument is out of range or a row longer than the bound.
    """
    if not datasets:
        raise ValueError("an analysis needs at least one data set")
    if law == "sketch":
        raise ValueError("the law 'sketch' is that of a random projection; use inherent_privacy")
    tables = [bounded_rows(rows, row_bound, clip=False) for rows in datasets]
    features = tables[0].shape[1] - 1
    if features < 1 or any(table.shape[1] != features + 1 for table in tables):
        raise ValueError("every data set needs the same columns, at least one feature and the target")
    plan = plan_least_squares(curator_claim(epsilon, delta, "zero-out"), sketch_rows, features, row_bound, law)

    def largest(sigma2: float) -> float:
        return max(_largest(table, sigma2, epsilon, sketch_rows, law) for table in tables)

    bare, enough = largest(0.0), math.sqrt(plan.sigma2)
    sigma = 0.0
    if not bare <= delta:
        sigma, _ = bisect(enough, 0.0, lambda sigma: largest(sigma**2) <= delta, width=_WIDTH)
    return InherentLeastSquares(epsilon, delta, sketch_rows, law, bare, sigma, math.sqrt(plan.sigma2))


def _largest(joint: FloatArray, sigma2: float, epsilon: float, sketch_rows: int, law: Law) -> float:
    """Return the largest delta over the rows of [B b], without evaluating all of them.

    Rows are visited by falling p + s, in doubling blocks, until the worst row that the next p + s allows is no worse
    than what was found.
    """
    size = joint.shape[1]
    augmented = np.vstack([joint, math.sqrt(sigma2) * np.eye(size)]) if sigma2 else joint
    try:
        p, s = (values[: len(joint)] for values in influences(augmented[:, :-1], augmented[:, -1]))
    except ValueError:
        return 1.0
    totals = p + s
    if totals.max() >= 1 - 1e-12:
        return 1.0
    order = np.argsort(-totals)
    best, start, block = 0.0, 0, 1
    while start < len(order):
        rows = order[start : start + block]
        found = (influence_delta(epsilon, float(p[i]), float(s[i]), sketch_rows, size - 1, law) for i in rows)
        best = max(best, *found)
        start, block = start + block, 2 * block
        if start < len(order):
            bound = worst_influence(epsilon, float(totals[order[start]]), sketch_rows, size - 1, law)
            if bound.delta <= best:
                break
    return best
