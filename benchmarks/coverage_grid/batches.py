"""What `regression` says about many releases of one cohort, for all of them at once, where only the truth is asked for.

An interval of section "Intervals that hold whatever the data" of docs/explanation/estimators.md holds a number if and
only if the smallest Q of that number's hyperplane is at most the quantile, or if the sets are unbounded. Asking for the
truth alone takes one minimisation where the two ends of an interval take some thirty. That both agree is checked on the
first draws of every cell, by `regression` itself.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lintra_analysis.estimators.concentrated.equations import Equations, minimise, smallest_directions
from lintra_analysis.estimators.concentrated.hyperplanes import complement, minimum_on
from lintra_analysis.estimators.concentrated.profile_interval import accepted
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_protocol.crypto.ring import FloatArray, IntArray

LIMIT = float(special.chdtri(1, 0.05))
RESIDUAL_LIMIT = float(special.chdtri(1, 0.04))
TOTAL_LIMIT = float(special.chdtri(1, 0.01))
AT_ONCE = 20_000
"""Minimisations at once, times columns: beyond this the processor's cache is left."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Releases of one cohort, as equations of its regression.

    Attributes:
        matrices: M, the target last, shape `(B, q, q)`.
        law: of the noise.
        num_clients: n, for the population; 0 for the cohort.
        longest: for the population, the norm of rows that takes the place of their second moments
            (`residuals="any"`); 0 for one variance of residuals.
    """

    matrices: FloatArray
    law: SymmetricNoise
    num_clients: int = 0
    longest: float = 0.0

    def parts(self) -> list["Batch"]:
        """Return the batch in pieces that fit the cache."""
        size = self.matrices.shape[1]
        count = max(1, AT_ONCE // size**2)
        return [replace(self, matrices=self.matrices[i : i + count]) for i in range(0, len(self.matrices), count)]

    def equations(self, penalty: FloatArray | float = 0.0) -> Equations:
        """Return the equations of least squares of all releases, with a penalty on the diagonal, shape `(p,)`."""
        size = self.matrices.shape[1]
        kernel = self.law.kernel(size)
        assert kernel is not None
        left = self.matrices[:, :-1].copy()
        left[:, range(size - 1), range(size - 1)] += penalty
        equations = Equations(left, self.law.sigma, kernel[:-1, :-1])
        if not self.num_clients:
            return equations
        values, vectors = np.linalg.eigh(self.matrices)
        clipped = (vectors * np.maximum(values, 0)[:, np.newaxis]) @ np.swapaxes(vectors, 1, 2)
        freedom = self.num_clients - (size - 1)
        spread = np.ascontiguousarray(clipped[:, :-1, :-1])
        if self.longest:
            spread = np.broadcast_to(self.num_clients * self.longest**2 * np.eye(size - 1), spread.shape).copy()
        return replace(equations, residual=clipped / freedom, spread=spread)

    def bounded(self) -> NDArray[np.bool_]:
        """Return for every release whether intervals are given: sets are bounded, and no eigenvalue is negative."""
        definite = np.linalg.eigvalsh(self.matrices[:, :-1, :-1])[:, 0] > 0
        told = np.concatenate([_at_infinity(part.equations()) > LIMIT for part in self.parts()])
        return np.asarray(told & definite)

    def accepts(self, solution: FloatArray, penalty: FloatArray | float = 0.0) -> NDArray[np.bool_]:
        """Return whether each release accepts each true coefficient, unbounded sets aside, shape `(B, p)`."""
        return np.concatenate([_distances(part.equations(penalty), solution) <= LIMIT for part in self.parts()])


def _points(equations: Equations) -> FloatArray:
    """Return the directions of the raw solutions, shape `(B, q)`."""
    matrix = equations.matrix
    solution = np.linalg.solve(matrix[:, :, :-1], matrix[:, :, -1:])[:, :, 0]
    theta = np.column_stack([solution, -np.ones(len(solution))])
    return np.asarray(theta / np.linalg.norm(theta, axis=1, keepdims=True))


def _at_infinity(equations: Equations) -> FloatArray:
    """Return the smallest Q of every release over directions without the target, shape `(B,)`."""
    count, _, size = equations.matrix.shape
    basis = np.tile(np.eye(size)[:, :-1], (count, 1, 1))
    starts = smallest_directions(equations, basis, _points(equations), 4)[0]
    return minimise(equations, basis, starts)[0]


def _distances(equations: Equations, solution: FloatArray) -> FloatArray:
    """Return the smallest Q of every release at each true coefficient, shape `(B, p)`."""
    count, fitted, _ = equations.matrix.shape
    which = np.repeat(np.arange(count), fitted)
    normals = np.column_stack([np.eye(fitted), solution])
    basis = np.tile(complement(normals), (count, 1, 1))
    points = _points(equations)[which]
    return minimum_on(equations.of(which), basis, points, points)[0].reshape(count, fitted)


@dataclass(frozen=True, eq=False)
class Sums:
    """Residual sums of squares of B regressions at once, on matrices of shape `(B, q, q)`, as `walk.Profile` asks.

    Attributes:
        equations: all q equations of each.
        point: the raw solutions, shape `(B, q)`.
        values: the sums there, shape `(B,)`.
        errors: to first order, shape `(B,)`.
    """

    equations: Equations
    point: FloatArray
    values: FloatArray
    errors: FloatArray

    @classmethod
    def of(cls, matrices: FloatArray, sigma: float, kernel: FloatArray) -> "Sums":
        """Solve the regressions."""
        equations = Equations(matrices, sigma, kernel)
        point = _points(Equations(matrices[:, :-1], sigma, kernel[:-1, :-1]))
        theta = point / -point[:, -1:]
        covariance = equations.covariance(theta)
        errors = np.sqrt(np.einsum("ki,kij,kj->k", theta, covariance, theta))
        return cls(equations, point, -np.einsum("ki,ki->k", matrices[:, -1], theta), errors)

    def distances(self, index: IntArray, steps: FloatArray, near: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the smallest Q for the sums `steps` standard errors off, and where it is."""
        moved = self.equations.matrix[index].copy()
        moved[:, -1, -1] -= self.values[index] + self.errors[index] * steps
        equations = replace(self.equations, matrix=moved)
        basis = np.tile(np.eye(moved.shape[1]), (len(moved), 1, 1))
        starts = smallest_directions(equations, basis, self.point[index])[0]
        return minimise(equations, basis, np.concatenate([near[:, np.newaxis], starts], axis=1))

    def at(self, sums: FloatArray) -> FloatArray:
        """Return the smallest Q at given sums, shape `(B,)`."""
        steps = (sums - self.values) / self.errors
        return self.distances(np.arange(len(sums)), steps, self.point)[0]

    def ends(self, limit: float) -> FloatArray:
        """Return the ends of the accepted sums, shape `(B, 2)`."""
        below, above = accepted(self, len(self.values), limit)
        return np.column_stack([self.values - self.errors * below, self.values + self.errors * above])


def r2_accepts(matrices: FloatArray, law: SymmetricNoise, constant: bool, r2: float) -> NDArray[np.bool_]:
    """Return whether 1 - RSS/TSS from both intervals holds r2, and whether it is told at all, shape `(B, 2)`.

    The interval of RSS is connected, so that it holds a number below its point if that number is accepted.
    """
    size = matrices.shape[1]
    kernel = law.kernel(size)
    assert kernel is not None
    kept = [0, size - 1] if constant else [size - 1]
    if constant:
        low, high = Sums.of(matrices[:, kept][:, :, kept], law.sigma, kernel[np.ix_(kept, kept)]).ends(TOTAL_LIMIT).T
    else:
        low, high = _lone(matrices[:, -1, -1], law.sigma * np.sqrt(kernel[-1, -1] + 1))
    residual = Sums.of(matrices, law.sigma, kernel)
    most = np.maximum(high, 0)
    near_zero = residual.at(np.zeros(len(low))) <= RESIDUAL_LIMIT
    everything = near_zero & (residual.at(most) <= RESIDUAL_LIMIT)
    smallest, largest = (1 - r2) * low, (1 - r2) * high
    above = (smallest <= residual.values) | (residual.at(smallest) <= RESIDUAL_LIMIT)
    below = (largest >= residual.values) | (residual.at(largest) <= RESIDUAL_LIMIT)
    to_total = (low <= residual.values) | (residual.at(low) <= RESIDUAL_LIMIT)
    nothing = everything | ~(low > 0) | (to_total & ((residual.values <= 0) | near_zero))
    return np.column_stack([nothing | (above & below), ~nothing])


def _lone(squares: FloatArray, sd: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of a total without an intercept: one number with normal noise of a known deviation."""
    reach = sd * float(np.sqrt(TOTAL_LIMIT))
    return squares - reach, squares + reach
