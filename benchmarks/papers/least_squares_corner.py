"""The ridge of private least squares by the published rule, to compare (Wei et al. 2023, v3 Figure 4).

It sets p = s = l^2 / sigma^2, which asks for about 40 % more noise than the worst p and s that rows of norm l can
reach, and rests on a monotonicity that is false for few sketch rows (docs/explanation/ndis.md#least-squares).
"""

import math

from lintra_curator.claims.row_checks import require_bound, require_count, require_epsilon
from lintra_curator.least_squares.private_least_squares import influence_delta
from lintra_protocol.privacy.bisection import furthest, log_excess

_WIDTH = 1e-10


def corner_sigma(epsilon: float, delta: float, sketch_rows: int, features: int, row_bound: float) -> float:
    """Return the published ridge's square root, for neighbours "zero-out" and the law "gaussian", in row units.

    `epsilon` is positive. `delta` is between 0 and 1; kept at p = s = l^2 / sigma^2 only. `sketch_rows` are r;
    `features` are d. `row_bound` is l of a row of [B b].
    """
    require_epsilon(epsilon)
    require_count(sketch_rows, "sketch_rows")
    require_count(features, "features")
    require_bound(row_bound)

    def excess(ratio: float) -> float:
        value = influence_delta(epsilon, ratio, ratio, sketch_rows, features, "gaussian") if ratio < 0.5 else 1.0
        return log_excess(value, delta)

    ratio = furthest(math.exp(-1) / math.sqrt(sketch_rows), excess, width=_WIDTH, factor=math.exp(0.5))
    return row_bound / math.sqrt(ratio)
