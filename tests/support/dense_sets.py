"""Confidence sets computed with dense matrices, as they were before the eigenbasis: the oracle of `concentrated`.

Q, its minimisation and the intervals are those of docs/explanation/estimators.md, with a covariance matrix that is
formed and solved at every direction: O(d^3) for each, where the product needs O(d).
"""

from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.estimators.concentrated.profile_interval import accepted
from lintra_analysis.estimators.estimates import Interval
from lintra_protocol.crypto.ring import FloatArray, IntArray

MOST_STEPS = 25
_CONVERGED = 1e-5
_JITTER = 1e-13


@dataclass(frozen=True, eq=False)
class Equations:
    """The equations E theta = 0, with noise of covariance Sigma(theta) in their left sides.

    Sigma(theta) = sigma^2 (|theta|^2 I + (t t^T) o K) + (theta^T P theta) S, t the first m entries of theta.

    Attributes:
        matrix: E, shape `(m, q)`, or `(B, m, q)` for B systems at once.
        sigma: sd of the noise in a released product of two columns; positive.
        kernel: K, shape `(m, m)`; ones where nothing has made the diagonal less noisy.
        residual: P, shape `(q, q)`, or one for each system, such that theta^T P theta is the variance of a residual;
            none for the cohort.
        spread: S, shape `(m, m)`, or one for each system, second moments of the columns that the equations are about.
    """

    matrix: FloatArray
    sigma: float
    kernel: FloatArray
    residual: FloatArray | None = None
    spread: FloatArray | None = None

    def covariance(self, theta: FloatArray) -> FloatArray:
        """Return Sigma, shape `(B, m, m)`, for directions of shape `(B, q)`."""
        size = self.kernel.shape[0]
        head, squares = theta[:, :size], np.sum(theta**2, axis=1)
        sigma: FloatArray = head[:, :, np.newaxis] * head[:, np.newaxis, :] * self.kernel
        # A direction that is the exact corner and nothing else would have an equation without noise.
        sigma[:, range(size), range(size)] += squares[:, np.newaxis] * (1 + _JITTER)
        sigma *= self.sigma**2
        if self.residual is not None and self.spread is not None:
            variance = np.sum(_through(theta, self.residual) * theta, axis=1)
            sigma += variance[:, np.newaxis, np.newaxis] * self.spread
        return sigma

    def of(self, index: IntArray) -> "Equations":
        """Return the systems at the positions `index`, shape `(k,)`; the same if there is one for all."""
        if self.matrix.ndim == 2:
            return self
        residual = self.residual if self.residual is None or self.residual.ndim == 2 else self.residual[index]
        spread = self.spread if self.spread is None or self.spread.ndim == 2 else self.spread[index]
        return replace(self, matrix=self.matrix[index], residual=residual, spread=spread)

    def left(self, theta: FloatArray) -> FloatArray:
        """Return E theta, shape `(B, m)`."""
        product: FloatArray = (self.matrix @ theta[:, :, np.newaxis])[:, :, 0]
        return product

    def distance(self, theta: FloatArray) -> FloatArray:
        """Return Q, shape `(B,)`."""
        return np.asarray(np.sum(self.left(theta) * self.weighted(theta), axis=1))

    def weighted(self, theta: FloatArray) -> FloatArray:
        """Return x = Sigma^-1 E theta, shape `(B, m)`."""
        solved = np.linalg.solve(self.covariance(theta), self.left(theta)[:, :, np.newaxis])[:, :, 0]
        return np.asarray(solved, np.float64)

    def gradient(self, theta: FloatArray, weighted: FloatArray) -> FloatArray:
        """Return the gradient of Q, shape `(B, q)`: 2 E^T x less that of x^T Sigma x with x held."""
        size = self.kernel.shape[0]
        slope = 2 * (weighted[:, np.newaxis, :] @ self.matrix)[:, 0, :]
        slope -= 2 * self.sigma**2 * np.sum(weighted**2, axis=1)[:, np.newaxis] * theta
        slope[:, :size] -= 2 * self.sigma**2 * weighted * ((theta[:, :size] * weighted) @ self.kernel)
        if self.residual is not None and self.spread is not None:
            share = np.sum(_through(weighted, self.spread) * weighted, axis=1)
            slope -= 2 * share[:, np.newaxis] * _through(theta, self.residual)
        return np.asarray(slope)


def _through(vectors: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return every vector times a matrix, or times its own one, shape `(B, q)`."""
    return np.asarray((vectors[:, np.newaxis, :] @ matrix)[:, 0, :] if matrix.ndim == 3 else vectors @ matrix)


def minimise(equations: Equations, basis: FloatArray, starts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Minimise Q over subspaces, from several starts each, by Levenberg and Marquardt's steps.

    The Hessian is that of Gauss and Newton with a multiple of the current direction's projector, since Q is constant
    along it. What this leaves out is of the order of Q itself, which is where the damping starts. `equations` are one
    system, or B; `basis` holds orthonormal columns that span the subspaces, shape `(B, q, k)`. `starts` are directions
    in the coordinates of `basis`, shape `(B, s, k)`; NaN for none, but not all of them.

    Returns:
        The smallest Q found for each subspace, shape `(B,)`, and its direction of length 1, shape `(B, q)`.
    """
    count, tries, size = starts.shape
    which = np.repeat(np.arange(count), tries)
    point = starts.reshape(-1, size)
    point = point / np.linalg.norm(point, axis=1, keepdims=True)
    given = np.flatnonzero(np.isfinite(point[:, 0]))
    value = np.full(which.size, np.inf)
    value[given] = equations.of(which[given]).distance(_lifted(basis[which[given]], point[given]))
    damping = np.maximum(value, 1e-3)
    active = given if size > 1 else np.array([], np.int64)
    for _ in range(MOST_STEPS):
        if not active.size:
            break
        here, own = point[active], which[active]
        span, system = basis[own], equations.of(own)
        step, promised = _step(system, span, here, damping[active])
        trial = here + step
        trial /= np.linalg.norm(trial, axis=1, keepdims=True)
        found = system.distance(_lifted(span, trial))
        better = found < value[active]
        gain = value[active] - found
        point[active[better]], value[active[better]] = trial[better], found[better]
        damping[active] *= np.where(better, 0.1, 8.0)
        small = _CONVERGED * (1 + value[active])
        done = (better & (gain < small)) | (promised < 0.1 * small)
        active = active[~done]
    table = value.reshape(count, tries)
    best = np.arange(count) * tries + table.argmin(axis=1)
    return value[best], _lifted(basis, point[best])


def _lifted(basis: FloatArray, point: FloatArray) -> FloatArray:
    """Return directions in all q coordinates, shape `(B, q)`."""
    return np.asarray((basis @ point[:, :, np.newaxis])[:, :, 0])


def _step(
    equations: Equations, basis: FloatArray, point: FloatArray, damping: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return one step for each point, shape `(B, k)`, and by how much Q should fall."""
    theta = _lifted(basis, point)
    jacobian = equations.matrix @ basis
    right = np.concatenate([jacobian, equations.left(theta)[:, :, np.newaxis]], axis=2)
    solved = np.linalg.solve(equations.covariance(theta), right)
    slope = (equations.gradient(theta, solved[:, :, -1])[:, np.newaxis, :] @ basis)[:, 0, :]
    curvature = 2 * np.swapaxes(jacobian, 1, 2) @ solved[:, :, :-1]
    size = point.shape[1]
    trace = np.trace(curvature, axis1=1, axis2=2) + damping
    curvature += trace[:, np.newaxis, np.newaxis] * point[:, :, np.newaxis] * point[:, np.newaxis, :]
    curvature[:, range(size), range(size)] += damping[:, np.newaxis]
    step: FloatArray = np.asarray(-np.linalg.solve(curvature, slope[:, :, np.newaxis])[:, :, 0], np.float64)
    step -= np.sum(step * point, axis=1, keepdims=True) * point
    return step, -np.sum(step * slope, axis=1) / 2


def smallest_directions(
    equations: Equations, basis: FloatArray, about: FloatArray, number: int = 2
) -> tuple[FloatArray, FloatArray]:
    """Return where to start: with Sigma held at `about`, Q is quadratic over quadratic and eigenvectors minimise it.

    `equations` are one system, or B; `basis` has shape `(B, q, k)`. `about` is a direction, shape `(q,)`, or one for
    each subspace, shape `(B, q)`.

    Returns:
        Shape `(B, s, k)`, s at most k, and their eigenvalues, shape `(B, s)`.
    """
    covariance = equations.covariance(np.atleast_2d(about))
    root = np.linalg.cholesky(covariance[0] if about.ndim == 1 else covariance)
    image = np.linalg.solve(root, equations.matrix @ basis)
    values, vectors = np.linalg.eigh(np.swapaxes(image, 1, 2) @ image)
    return np.ascontiguousarray(np.swapaxes(vectors[:, :, :number], 1, 2)), values[:, :number]


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


class _Repeated:
    """A profile of `count` numbers that all have the same point."""

    def __init__(self, profile: "Statements | Residual", count: int) -> None:
        self.distances = profile.distances
        self.point = np.tile(profile.point, (count, 1))


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
        below, above = accepted(_Repeated(self, self.values.size), self.values.size, limit)
        return np.column_stack([self.values - self.errors * below, self.values + self.errors * above])


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
        below, above = accepted(_Repeated(self, 1), 1, limit)[:, 0]
        return self.value - self.error * float(below), min(self.value + self.error * float(above), most)
