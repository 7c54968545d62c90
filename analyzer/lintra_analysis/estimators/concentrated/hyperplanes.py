"""Intervals of linear statements about coefficients, by minimising Q over the hyperplane that a statement is.

l . b = c is the hyperplane l . t + c theta_y = 0 of directions theta = (t, theta_y). The value c is accepted where the
minimum of Q on it is at most the quantile of chi-square with one degree of freedom, that the other coefficients are
chosen at their best notwithstanding: proved for Kronecker noise (Guggenberger, Kleibergen, Mavroeidis and Chen 2012),
measured for this noise (benchmarks/bench_coverage.py).
"""

from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.concentrated.equations import Equations, minimise, smallest_directions
from lintra_analysis.estimators.concentrated.profile_interval import accepted
from lintra_protocol.crypto.ring import FloatArray, IntArray

_SAME = 1 - 1e-5
_FAR = 100.0


def complement(normal: FloatArray) -> FloatArray:
    """Return orthonormal bases of hyperplanes, shape `(B, q, q - 1)`, by Householder's reflection of each normal."""
    unit = normal / np.linalg.norm(normal, axis=1, keepdims=True)
    mirror = unit.copy()
    mirror[:, 0] += np.where(unit[:, 0] < 0, -1.0, 1.0)
    scale = 2 / np.sum(mirror**2, axis=1)
    whole = np.eye(normal.shape[1]) - scale[:, np.newaxis, np.newaxis] * (
        mirror[:, :, np.newaxis] * mirror[:, np.newaxis, :]
    )
    return np.ascontiguousarray(whole[:, :, 1:])


def minimum_on(
    equations: Equations, basis: FloatArray, near: FloatArray, about: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the minimum of Q on hyperplanes, shape `(B,)`, and where it is, shape `(B, q)`.

    `equations` are one system, or B; `basis` is that of the hyperplanes, shape `(B, q, q - 1)`. `near` holds directions
    to start from beside the usual ones, shape `(B, q)`. `about` says where Sigma is held to find the usual ones, shape
    `(q,)` or `(B, q)`.
    """
    starts, levels = smallest_directions(equations, basis, about)
    own = (near[:, np.newaxis, :] @ basis)[:, 0, :]
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    # What would end where another start does is left out: the same direction, or one of a far larger Q.
    starts[np.abs(np.sum(starts[:, 0] * own, axis=1)) > _SAME, 0] = np.nan
    starts[:, 1:][levels[:, 1:] > _FAR * (1 + levels[:, :1])] = np.nan
    return minimise(equations, basis, np.concatenate([own[:, np.newaxis], starts], axis=1))


@dataclass(frozen=True, eq=False)
class Statements:
    """Linear statements l . b = c about the solution of p equations in p coefficients.

    Attributes:
        equations: matrix of shape `(p, p + 1)`.
        rows: the l, shape `(k, p)`.
        point: theta at the solution of the equations, of length 1, shape `(p + 1,)`.
        values: l . b there, shape `(k,)`.
        errors: their standard errors to first order, shape `(k,)`.
    """

    equations: Equations
    rows: FloatArray
    point: FloatArray
    values: FloatArray
    errors: FloatArray

    @classmethod
    def about(cls, equations: Equations, rows: FloatArray) -> "Statements":
        """Solve the equations for statements about `rows`, shape `(k, d)`."""
        matrix = equations.matrix
        solution = np.linalg.solve(matrix[:, :-1], matrix[:, -1])
        theta = np.append(solution, -1.0)
        reach = np.linalg.solve(matrix[:, :-1].T, rows.T)
        variance = np.sum(reach * (equations.covariance(theta[np.newaxis])[0] @ reach), axis=0)
        values = rows @ solution
        return cls(equations, rows, theta / np.linalg.norm(theta), values, np.sqrt(variance))

    def distances(self, index: IntArray, steps: FloatArray, near: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the minimum of Q for c = value + step, step in standard errors, and where (shapes as `Profile`)."""
        rows = self.rows[index]
        constants = self.values[index] + self.errors[index] * steps
        return minimum_on(self.equations, complement(np.column_stack([rows, constants])), near, self.point)

    def at(self, constants: FloatArray) -> FloatArray:
        """Return the minimum of Q for given constants, shape `(k,)`."""
        index = np.arange(self.values.size)
        near = np.tile(self.point, (index.size, 1))
        steps = (constants - self.values) / self.errors
        return self.distances(index, steps, near)[0]

    def at_infinity(self) -> tuple[float, FloatArray]:
        """Return the minimum of Q over all directions without the target, and t there, shape `(p,)`.

        Where it is at most the quantile, the features may be dependent for all that can be told, and no confidence set
        that holds can be bounded (Dufour 1997).
        """
        size = self.point.size
        basis = np.eye(size)[np.newaxis, :, :-1]
        value, theta = minimise(self.equations, basis, smallest_directions(self.equations, basis, self.point, 4)[0])
        return float(value[0]), theta[0, :-1]

    def intervals(self, limit: float) -> FloatArray:
        """Return the ends of the accepted constants around each value, shape `(k, 2)`; infinite if none is found.

        `limit` is the quantile of chi-square.
        """
        below, above = accepted(self, self.values.size, limit)
        return np.column_stack([self.values - self.errors * below, self.values + self.errors * above])
