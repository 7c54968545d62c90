"""Equations of instruments: which directions of a regression leave the instruments without a part in its residual.

With theta on the constant, exogenous and endogenous columns and the target, and W the constant, the exogenous columns
and the instruments, r = (M theta)_W is noise at the truth, of covariance

    Sigma(theta) = (sigma^2 (|theta|^2 I + (theta theta^T) o K) + (theta^T P theta) P)_WW,

P the released products without negative eigenvalues over the rows, for the population. So Q = r^T Sigma^-1 r is
chi-square with |W| degrees of freedom there, however weak the instruments are (Anderson and Rubin 1949). For a
statement about k coefficients Q is minimised over the k - 1 others, which leaves |W| - (k - 1) degrees.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from lintra_analysis.estimators.coefficients import ErrorParts
from lintra_analysis.estimators.concentrated.minimise import Planes, minimise
from lintra_analysis.estimators.concentrated.profile_interval import accepted
from lintra_protocol.crypto.ring import FloatArray, IntArray

_STARTS = 2
_JITTER = 1e-13


@dataclass(frozen=True, eq=False)
class InstrumentEquations:
    """The equations (M theta)_W = 0 of one release.

    Attributes:
        matrix: M without the rows that are no instruments and the columns that are, shape `(w, s)`. The first c rows
            and columns are the same: the constant and the exogenous.
        sigma: sd of the noise in a released product of two columns; positive.
        kernel: K of these c columns, shape `(c, c)`.
        residual: such that theta^T residual theta is the variance of a residual, shape `(s, s)`; zeros for the cohort.
        spread: second moments of the instruments, shape `(w, w)`.
    """

    matrix: FloatArray
    sigma: float
    kernel: FloatArray
    residual: FloatArray
    spread: FloatArray

    def of(self, index: IntArray) -> "InstrumentEquations":
        """Return the system itself, whatever the positions `index`, shape `(n,)`: all problems share it."""
        del index
        return self

    def at(self, theta: FloatArray) -> "InstrumentsAt":
        """Return the equations about directions, shape `(n, s)`."""
        return InstrumentsAt(self, theta)

    @property
    def size(self) -> int:
        """Return s: the coefficients and the target."""
        return int(self.matrix.shape[1])

    @property
    def surplus(self) -> int:
        """Return how many more equations there are than coefficients."""
        return int(self.matrix.shape[0]) - self.size + 1


class InstrumentsAt:
    """The equations about n directions theta, shape `(n, s)`."""

    def __init__(self, equations: InstrumentEquations, theta: FloatArray) -> None:
        self.equations, self.theta = equations, theta

    @cached_property
    def noise(self) -> FloatArray:
        """The covariance of the noise, shape `(n, w, w)`."""
        own, (count, size) = self.equations, (len(self.theta), self.equations.matrix.shape[0])
        shared = self.theta[:, : own.kernel.shape[0]]
        found = np.zeros((count, size, size))
        found[:, : shared.shape[1], : shared.shape[1]] = shared[:, :, np.newaxis] * shared[:, np.newaxis] * own.kernel
        # A direction that is the exact corner and nothing else would have an equation without noise.
        found[:, range(size), range(size)] += np.sum(self.theta**2, axis=1)[:, np.newaxis] * (1 + _JITTER)
        return np.asarray(own.sigma**2 * found)

    @cached_property
    def sampling(self) -> FloatArray:
        """The covariance by the sampling of rows, shape `(n, w, w)`."""
        variance = np.sum(self.theta @ self.equations.residual * self.theta, axis=1)
        return np.asarray(variance[:, np.newaxis, np.newaxis] * self.equations.spread)

    @cached_property
    def covariance(self) -> FloatArray:
        """Sigma, shape `(n, w, w)`."""
        return np.asarray(self.noise + self.sampling)

    @cached_property
    def left(self) -> FloatArray:
        """The left sides, shape `(n, w)`."""
        return np.asarray(self.theta @ self.equations.matrix.T)

    @cached_property
    def weighted(self) -> FloatArray:
        """They, weighted by the precision of the noise, shape `(n, w)`."""
        return self.solve(self.left[:, np.newaxis])[:, 0]

    @property
    def distance(self) -> FloatArray:
        """Q, shape `(n,)`."""
        return np.asarray(np.sum(self.left * self.weighted, axis=1))

    @property
    def gradient(self) -> FloatArray:
        """The gradient of Q, shape `(n, s)`: 2 M^T x less that of x^T Sigma x with x held."""
        own, theta, weighted = self.equations, self.theta, self.weighted
        common, variance = own.kernel.shape[0], own.sigma**2
        slope = 2 * weighted @ own.matrix
        slope -= 2 * variance * np.sum(weighted**2, axis=1)[:, np.newaxis] * theta
        shared = weighted[:, :common]
        slope[:, :common] -= 2 * variance * shared * ((theta[:, :common] * shared) @ own.kernel)
        share = np.sum(weighted @ own.spread * weighted, axis=1)
        return np.asarray(slope - 2 * share[:, np.newaxis] * (theta @ own.residual))

    def image(self, vectors: FloatArray) -> FloatArray:
        """Return the left sides of vectors, shape `(n, k, s)`; shape `(n, k, w)`."""
        return np.asarray(vectors @ self.equations.matrix.T)

    def solve(self, vectors: FloatArray) -> FloatArray:
        """Return Sigma^-1 v for vectors of shape `(n, k, w)`."""
        return np.asarray(np.swapaxes(np.linalg.solve(self.covariance, np.swapaxes(vectors, 1, 2)), 1, 2))


@dataclass(frozen=True, eq=False)
class InstrumentSolution:
    """The solution of the equations, and k linear statements l . b about its coefficients.

    Attributes:
        rows: the l, shape `(k, s - 1)`.
        direction: theta of the smallest Q, of length 1, shape `(s,)`.
        least: that Q: chi-square with as many degrees of freedom as there are equations too many.
        held: M^T Sigma^-1 M with Sigma as it is there, shape `(s, s)`.
        values: l . b there, shape `(k,)`.
        parts: covariances of b to first order.
    """

    equations: InstrumentEquations
    rows: FloatArray
    direction: FloatArray
    least: float
    held: FloatArray
    values: FloatArray
    parts: ErrorParts

    @classmethod
    def about(cls, equations: InstrumentEquations, rows: FloatArray) -> "InstrumentSolution":
        """Solve the equations, as well as noise lets them agree."""
        matrix, every = equations.matrix, np.eye(equations.size)[np.newaxis]
        solution = np.linalg.lstsq(matrix[:, :-1], matrix[:, -1], rcond=None)[0]
        theta = np.append(solution, -1.0)[np.newaxis]
        held = _held(equations, theta)
        starts = np.concatenate([theta, np.linalg.eigh(held)[1].T[:_STARTS]])
        least, found = minimise(equations, Planes(every), starts[np.newaxis])
        coefficients = found[0, :-1] / -found[0, -1]
        local = equations.at(np.append(coefficients, -1.0)[np.newaxis])
        weighted = local.solve(matrix[np.newaxis, :, :-1].swapaxes(1, 2))[0]
        inverse = np.linalg.pinv(weighted @ matrix[:, :-1], hermitian=True)
        reach = inverse @ weighted
        privacy, sampling = (reach @ part[0] @ reach.T for part in (local.noise, local.sampling))
        parts = ErrorParts(privacy, privacy, sampling, np.inf, np.inf)
        return cls(equations, rows, found[0], float(least[0]), _held(equations, found), rows @ coefficients, parts)

    @property
    def point(self) -> FloatArray:
        """Return the solution for each statement, shape `(k, s)`."""
        return np.tile(self.direction, (len(self.rows), 1))

    @cached_property
    def errors(self) -> FloatArray:
        """Standard errors of the values to first order, shape `(k,)`."""
        variance = np.sum(self.rows @ (self.parts.privacy + self.parts.sampling) * self.rows, axis=1)
        return np.asarray(np.sqrt(variance))

    @property
    def degrees(self) -> int:
        """Return the degrees of freedom of a statement."""
        return self.equations.surplus + 1

    def distances(self, index: IntArray, steps: FloatArray, near: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the minimum of Q for a value + step, step in standard errors, and where (shapes as `Profile`)."""
        constants = self.values[index] + self.errors[index] * steps
        return self._minima(np.column_stack([self.rows[index], constants]), near)

    def at(self, constants: FloatArray) -> FloatArray:
        """Return the smallest Q for a constant of each statement, shape `(k,)`."""
        return self._minima(np.column_stack([self.rows, constants]), self.point)[0]

    def at_infinity(self) -> float:
        """Return the smallest Q without the target; where that is accepted, the confidence sets are not bounded."""
        normal = np.zeros((1, self.equations.size))
        normal[0, -1] = 1.0
        return float(self._minima(normal, self.direction[np.newaxis])[0][0])

    def intervals(self, limit: float) -> FloatArray:
        """Return the ends of the accepted values around each, shape `(k, 2)`; infinite if none is found."""
        below, above = accepted(self, len(self.rows), limit)
        return np.column_stack([self.values - self.errors * below, self.values + self.errors * above])

    def limit(self, confidence: float) -> float:
        """Return the quantile of chi-square that Q is accepted up to."""
        return float(special.chdtri(self.degrees, 1 - confidence))

    def _minima(self, normals: FloatArray, near: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the minimum of Q on hyperplanes with these normals, shape `(n, s)`, and where it is."""
        basis = np.linalg.svd(normals[:, np.newaxis])[2][:, 1:]
        own = (basis @ near[:, :, np.newaxis])[:, :, 0]
        held = np.linalg.eigh(basis @ self.held @ np.swapaxes(basis, 1, 2))[1]
        coordinates = np.concatenate([own[:, np.newaxis], np.swapaxes(held, 1, 2)[:, :_STARTS]], axis=1)
        return minimise(self.equations, Planes(basis), coordinates @ basis)


def _held(equations: InstrumentEquations, theta: FloatArray) -> FloatArray:
    """Return M^T Sigma^-1 M with Sigma held at a direction, shape `(1, s)`; shape `(s, s)`."""
    image = equations.at(theta).image(np.eye(equations.size)[np.newaxis])
    found = image[0] @ equations.at(theta).solve(image)[0].T
    return np.asarray((found + found.T) / 2)
