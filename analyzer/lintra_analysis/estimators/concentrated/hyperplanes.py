"""Intervals of linear statements about coefficients, by minimising Q over the hyperplane that a statement is.

l . b = c is the hyperplane l . t + c theta_y = 0 of directions theta = (t, theta_y). The value c is accepted where the
minimum of Q on it is at most the quantile of chi-square with one degree of freedom, that the other coefficients are
chosen at their best notwithstanding: proved for Kronecker noise (Guggenberger, Kleibergen, Mavroeidis and Chen 2012),
measured for this noise (benchmarks/bench_coverage.py).
"""

from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.concentrated.equations import Equations
from lintra_analysis.estimators.concentrated.minimise import Hyperplanes, minimise
from lintra_analysis.estimators.concentrated.profile_interval import accepted
from lintra_analysis.estimators.concentrated.starts import Starts
from lintra_protocol.crypto.ring import FloatArray, IntArray

_SAME = 1 - 1e-5
_FAR = 100.0
_AT_INFINITY = 4


@dataclass(frozen=True, eq=False)
class Statements:
    """Linear statements l . b = c about the solutions of B systems of p equations in p coefficients, n in all.

    Attributes:
        equations: of the B systems, or of one.
        starts: where to begin in each.
        solutions: theta at the solution of each, of length 1, in the eigenbasis, shape `(B, q)`.
        systems: to which a statement belongs, shape `(n,)`.
        rows: the l, shape `(n, p)`.
        values: l . b at the solution, shape `(n,)`.
        errors: their standard errors to first order, shape `(n,)`.
    """

    equations: Equations
    starts: Starts
    solutions: FloatArray
    systems: IntArray
    rows: FloatArray
    values: FloatArray
    errors: FloatArray

    @classmethod
    def about(cls, equations: Equations, rows: FloatArray) -> "Statements":
        """Solve the equations for the same statements about each system, `rows` of shape `(k, p)`."""
        theta = equations.points()
        every, count = np.arange(len(theta)), len(rows)
        block = equations.block().reshape(len(theta), equations.size - 1, equations.size - 1)
        reach = np.swapaxes(np.linalg.solve(np.swapaxes(block, 1, 2), rows.T), 1, 2)
        turned = np.stack(
            [
                equations.inward(np.column_stack([part, np.zeros(count)]), np.full(count, system))
                for system, part in enumerate(reach)
            ]
        )
        inside = equations.inward(theta, every)
        variance = equations.of(every).at(inside).variance(turned)
        values = theta[:, :-1] @ rows.T
        solutions = inside / np.linalg.norm(inside, axis=1, keepdims=True)
        return cls(
            equations,
            Starts.of(equations.of(every), solutions),
            solutions,
            np.repeat(every, count),
            np.tile(rows, (len(theta), 1)),
            values.ravel(),
            np.sqrt(variance).ravel(),
        )

    @property
    def point(self) -> FloatArray:
        """Return theta at the solution that each statement is about, shape `(n, q)`."""
        return self.solutions[self.systems]

    def distances(self, index: IntArray, steps: FloatArray, near: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the minimum of Q for c = value + step, step in standard errors, and where (shapes as `Profile`)."""
        return self._minima(index, self.values[index] + self.errors[index] * steps, near)

    def at(self, constants: FloatArray, index: IntArray | None = None) -> FloatArray:
        """Return the minimum of Q for a constant of each statement, or of those at `index`, shape `(n,)`."""
        which = np.arange(self.values.size) if index is None else index
        return self._minima(which, constants, self.point[which])[0]

    def _minima(self, index: IntArray, constants: FloatArray, near: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the minimum of Q on the hyperplane of each constant, shape `(n,)`, and where it is, `(n, q)`."""
        systems = self.systems[index]
        normals = self.equations.inward(np.column_stack([self.rows[index], constants]), systems)
        planes = Hyperplanes(normals / np.linalg.norm(normals, axis=1, keepdims=True))
        starts, levels = self.starts.on(planes, systems, 2)
        own = planes.within(near[:, np.newaxis])
        # What would end where another start does is left out: the same direction, or one of a far larger Q.
        starts[np.abs(np.sum(starts[:, 0] * own[:, 0], axis=1)) > _SAME, 0] = np.nan
        starts[:, 1:][levels[:, 1:] > _FAR * (1 + levels[:, :1])] = np.nan
        return minimise(self.equations.of(systems), planes, np.concatenate([own, starts], axis=1))

    def at_infinity(self) -> tuple[FloatArray, FloatArray]:
        """Return for each system the minimum of Q over all directions without the target, and t there, `(B, p)`.

        Where it is at most the quantile, the features may be dependent for all that can be told, and no confidence set
        that holds can be bounded (Dufour 1997).
        """
        every = np.arange(len(self.solutions))
        target = np.zeros((every.size, self.equations.size))
        target[:, -1] = 1.0
        planes = Hyperplanes(self.equations.inward(target, every))
        starts = self.starts.on(planes, every, _AT_INFINITY)[0]
        value, theta = minimise(self.equations.of(every), planes, starts)
        return value, self.equations.outward(theta, every)[:, :-1]

    def intervals(self, limit: float) -> FloatArray:
        """Return the ends of the accepted constants around each value, shape `(n, 2)`; infinite if none is found.

        `limit` is the quantile of chi-square.
        """
        below, above = accepted(self, self.values.size, limit)
        return np.column_stack([self.values - self.errors * below, self.values + self.errors * above])
