"""Noisy linear equations in a direction, and how far the noise would have to go to make them true.

M is the released matrix of q columns, the target last; theta = (b, -1) for coefficients b. At the b of the rows
themselves M theta is pure noise in every equation of least squares, with a covariance Sigma(theta) that is known. So
Q(theta) = r^T Sigma^-1 r, r = E theta, is chi-square there, however badly conditioned M is (Fieller 1954; Anderson and
Rubin 1949). Q does not change if theta is scaled: theta is a direction, and infinite coefficients are ordinary points.
"""

from dataclasses import dataclass, replace

import numpy as np

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
