"""Intervals of residual and total sums of squares: one more equation than coefficients, one number to choose.

At the least squares of the rows S theta = (0, .., 0, -rss), so with rho = rss all q equations of M - rho e_y e_y^T are
noise at once; their smallest Q over all directions is chi-square with one degree of freedom. The total sum of squares
is the residual one of a regression on the intercept alone.
"""

from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.estimators.concentrated.equations import Equations, minimise, smallest_directions
from lintra_analysis.estimators.concentrated.profile_interval import accepted
from lintra_analysis.estimators.estimates import Interval
from lintra_protocol.crypto.ring import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Residual:
    """The residual sum of squares of a regression.

    Attributes:
        equations: the whole matrix M, shape `(q, q)`, with its noise.
        point: theta at the solution of the first q - 1 equations, of length 1.
        value: rss there, which noise may have made negative.
        error: its standard error to first order.
    """

    equations: Equations
    point: FloatArray
    value: float
    error: float

    @classmethod
    def about(cls, equations: Equations) -> "Residual":
        """Solve the equations."""
        matrix = equations.matrix
        theta = np.append(np.linalg.solve(matrix[:-1, :-1], matrix[:-1, -1]), -1.0)
        variance = float(theta @ equations.covariance(theta[np.newaxis])[0] @ theta)
        return cls(equations, theta / np.linalg.norm(theta), -float(matrix[-1] @ theta), float(np.sqrt(variance)))

    def distances(self, index: IntArray, steps: FloatArray, near: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the minimum of Q for rho = value + step, step in standard errors, and where (shapes as `Profile`)."""
        del index
        size = self.point.size
        moved = np.tile(self.equations.matrix, (steps.size, 1, 1))
        moved[:, -1, -1] -= self.value + self.error * steps
        equations = replace(self.equations, matrix=moved)
        basis = np.tile(np.eye(size), (steps.size, 1, 1))
        starts = smallest_directions(equations, basis, self.point)[0]
        return minimise(equations, basis, np.concatenate([near[:, np.newaxis], starts], axis=1))

    def interval(self, limit: float, most: float = np.inf) -> Interval:
        """Return the accepted values around the one found.

        `limit` is the quantile of chi-square. `most` is what the sum of squares may be at most; if it and 0 are
        accepted, nothing between is looked for.
        """
        if np.isfinite(most):
            steps = (np.array([0.0, most]) - self.value) / self.error
            ends = self.distances(np.zeros(2, np.int64), steps, np.tile(self.point, (2, 1)))[0]
            if (ends <= limit).all():
                return 0.0, most
        below, above = accepted(self, 1, limit)[:, 0]
        return self.value - self.error * float(below), min(self.value + self.error * float(above), most)


def explained_share(residual: Interval, total: Interval) -> Interval:
    """Return what 1 - rss/tss may be, inside [0, 1], if both lie in their intervals."""
    if not total[0] > 0:
        return 0.0, 1.0
    smallest = 1 - residual[1] / total[0]
    largest = 1 - residual[0] / (total[1] if residual[0] > 0 else total[0])
    return min(max(smallest, 0.0), 1.0), min(max(largest, 0.0), 1.0)
