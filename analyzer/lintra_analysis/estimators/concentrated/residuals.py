"""Intervals of residual and total sums of squares: one more equation than coefficients, one number to choose.

At the least squares of the rows S theta = (0, .., 0, -rss), so with rho = rss all q equations of M - rho e_y e_y^T are
noise at once; their smallest Q over all directions is chi-square with one degree of freedom. The total sum of squares
is the residual one of a regression on the intercept alone.
"""

from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.estimators.concentrated.equations import Equations
from lintra_analysis.estimators.concentrated.minimise import Hyperplanes, minimise
from lintra_analysis.estimators.concentrated.profile_interval import accepted
from lintra_analysis.estimators.concentrated.starts import smallest_directions
from lintra_analysis.estimators.estimates import Interval
from lintra_protocol.crypto.ring import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Residual:
    """The residual sums of squares of B regressions.

    Attributes:
        equations: all q equations of each.
        point: theta at the solutions of the first q - 1, of length 1, in the eigenbasis, shape `(B, q)`.
        values: rss there, which noise may have made negative, shape `(B,)`.
        errors: their standard errors to first order, shape `(B,)`.
    """

    equations: Equations
    point: FloatArray
    values: FloatArray
    errors: FloatArray

    @classmethod
    def about(cls, equations: Equations) -> "Residual":
        """Solve the equations."""
        theta = equations.points()
        every = np.arange(len(theta))
        inside = equations.inward(theta, every)
        errors = np.sqrt(equations.of(every).at(inside).variance(inside[:, np.newaxis])[:, 0])
        values = -np.sum(equations.matrix[..., -1, :] * theta, axis=1)
        return cls(equations, inside / np.linalg.norm(inside, axis=1, keepdims=True), values, errors)

    def distances(self, index: IntArray, steps: FloatArray, near: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the minimum of Q for rho = value + step, step in standard errors, and where (shapes as `Profile`)."""
        squares = self.values[index] + self.errors[index] * steps
        moved = replace(self.equations.of(index), squares=squares)
        every = np.arange(index.size)[:, np.newaxis]
        starts = np.stack([smallest_directions(moved.of(one), self.point[index[one]]) for one in every])
        return minimise(moved, Hyperplanes(), np.concatenate([near[:, np.newaxis], starts], axis=1))

    def at(self, sums: FloatArray) -> FloatArray:
        """Return the smallest Q of each regression at a given sum, shape `(B,)`."""
        return self.distances(np.arange(sums.size), (sums - self.values) / self.errors, self.point)[0]

    def intervals(self, limit: float) -> FloatArray:
        """Return the accepted values around the one of each regression, shape `(B, 2)`.

        `limit` is the quantile of chi-square.
        """
        below, above = accepted(self, self.values.size, limit)
        return np.column_stack([self.values - self.errors * below, self.values + self.errors * above])

    def interval(self, limit: float, most: float = np.inf) -> Interval:
        """Return the accepted values around that of a single regression.

        `most` is what the sum of squares may be at most; if it and 0 are accepted, nothing between is looked for.
        """
        if np.isfinite(most):
            both = np.zeros(2, np.int64)
            steps = (np.array([0.0, most]) - self.values) / self.errors
            if (self.distances(both, steps, self.point[both])[0] <= limit).all():
                return 0.0, most
        below, above = self.intervals(limit)[0].tolist()
        return below, min(above, most)


def explained_share(residual: Interval, total: Interval) -> Interval:
    """Return what 1 - rss/tss may be, inside [0, 1], if both lie in their intervals."""
    if not total[0] > 0:
        return 0.0, 1.0
    smallest = 1 - residual[1] / total[0]
    largest = 1 - residual[0] / (total[1] if residual[0] > 0 else total[0])
    return min(max(smallest, 0.0), 1.0), min(max(largest, 0.0), 1.0)
