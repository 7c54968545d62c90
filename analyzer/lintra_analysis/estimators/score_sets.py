"""Confidence sets for coefficients of noisy score equations g - H (b - b_k) = 0, by the smallest Q on a hyperplane.

At the true b the left side r is noise alone, of a covariance Sigma(b) that is known, so that Q = r^T Sigma^-1 r is
chi-square. A value c of a linear statement l . b is accepted where the smallest Q with l . b = c is at most the
quantile of chi-square with one degree (the law of `lintra_analysis.estimators.concentrated`, whose last column has
noise of another deviation here, and whose noise may come from several sums).
"""

from dataclasses import dataclass

import numpy as np

from lintra_protocol.crypto.ring import FloatArray

_STEPS = 40
_CLOSE = 1e-4
_WALK = 60
_GROWTH = 1.3


@dataclass(frozen=True, eq=False)
class ScoreEquations:
    """The equations g + sum H_k b_k - H b = 0, H the sum of all H_k.

    Attributes:
        right: g + sum H_k b_k, shape `(p,)`.
        hessian: H, shape `(p, p)`.
        anchors: the b_k, shape `(m, p)`.
        gradient_variance: of an entry of g, all sums together.
        hessian_variance: of an entry of one H_k off the diagonal; twice as much on it.
        sampling: J, the covariance of the score over a population; zero for the cohort alone, shape `(p, p)`.
    """

    right: FloatArray
    hessian: FloatArray
    anchors: FloatArray
    gradient_variance: float
    hessian_variance: float
    sampling: FloatArray

    @property
    def solution(self) -> FloatArray:
        """Return where Q is 0, shape `(p,)`."""
        return np.asarray(np.linalg.solve(self.hessian, self.right))

    def covariance(self, points: FloatArray) -> FloatArray:
        """Return Sigma at points of shape `(n, p)`, shape `(n, p, p)`."""
        apart = points[:, np.newaxis] - self.anchors
        squares = self.gradient_variance + self.hessian_variance * np.square(apart).sum(axis=(1, 2))
        outer = self.hessian_variance * np.swapaxes(apart, 1, 2) @ apart
        return np.asarray(outer + self.sampling + squares[:, np.newaxis, np.newaxis] * np.eye(points.shape[1]))

    def distance(self, points: FloatArray) -> FloatArray:
        """Return Q at points of shape `(n, p)`, shape `(n,)`."""
        left = self.right - points @ self.hessian
        return np.asarray((left * _solve(self.covariance(points), left)).sum(axis=1))

    def smallest(self, statements: FloatArray, values: FloatArray) -> FloatArray:
        """Return the smallest Q where `statements`, shape `(n, p)`, times b are `values`, shape `(n,)`; `(n,)`."""
        inverse = np.linalg.inv(self.hessian)
        point = np.tile(self.solution, (len(values), 1))
        for _ in range(3):  # the constrained minimum for the covariance where the last one lay
            reach = inverse @ self.covariance(point) @ inverse
            along = (reach @ statements[:, :, np.newaxis])[:, :, 0]
            short = (statements @ self.solution - values) / (along * statements).sum(axis=1)
            point = self.solution - along * short[:, np.newaxis]
        best, damping = self.distance(point), np.full(len(values), 1e-3)
        active = np.arange(len(values))
        for _ in range(_STEPS):
            if not active.size:
                break
            trial = point[active] + self._step(point[active], statements[active], damping[active])
            found = self.distance(trial)
            gain = best[active] - found
            better = gain > 0
            point[active[better]], best[active[better]] = trial[better], found[better]
            damping[active] *= np.where(better, 0.1, 10.0)
            done = (better & (gain < _CLOSE * (1e-2 + best[active]))) | (damping[active] > 1e6)
            active = active[~done]
        return best

    def _step(self, points: FloatArray, statements: FloatArray, damping: FloatArray) -> FloatArray:
        """Return steps of Levenberg and Marquardt that stay in the hyperplanes, shape `(n, p)`."""
        size, sigma = points.shape[1], self.covariance(points)
        noise = _solve(sigma, self.right - points @ self.hessian)
        apart = points[:, np.newaxis] - self.anchors
        total, along = apart.sum(axis=1), (apart @ noise[:, :, np.newaxis])[:, :, 0].sum(axis=1)
        pull = np.square(noise).sum(axis=1)[:, np.newaxis] * total + along[:, np.newaxis] * noise
        slope = -2 * (noise @ self.hessian + self.hessian_variance * pull)
        curved = 2 * self.hessian @ np.linalg.solve(sigma, np.broadcast_to(self.hessian, sigma.shape))
        curved = curved * (1 + damping[:, np.newaxis, np.newaxis] * np.eye(size))
        system = np.zeros((len(points), size + 1, size + 1))
        system[:, :size, :size] = curved
        system[:, :size, size] = system[:, size, :size] = statements
        right = np.column_stack([-slope, np.zeros(len(points))])
        return np.asarray(_solve(system, right)[:, :size])

    def intervals(self, statements: FloatArray, limit: float) -> FloatArray:
        """Return the ends of what is accepted of each statement, shape `(n, 2)`; infinite where no end was found."""
        count, solution = len(statements), self.solution
        inverse = np.linalg.inv(self.hessian)
        reach = inverse @ self.covariance(solution[np.newaxis])[0] @ inverse
        errors = np.sqrt(np.einsum("ni,ij,nj->n", statements, reach, statements)) * limit**0.5
        rows = np.repeat(statements, 2, axis=0)
        middle, scale = np.repeat(statements @ solution, 2), np.repeat(errors, 2) * np.tile([-1.0, 1.0], count)
        inner, outer = np.zeros(2 * count), np.full(2 * count, np.inf)
        walking, width = np.arange(2 * count), 1.0
        for _ in range(_WALK):
            beyond = self.smallest(rows[walking], middle[walking] + scale[walking] * width) > limit
            outer[walking[beyond]], inner[walking[~beyond]] = width, width
            walking, width = walking[~beyond], width * _GROWTH
            if not walking.size:
                break
        ends = np.flatnonzero(np.isfinite(outer))
        for _ in range(20):
            if not ends.size:
                break
            between = (inner[ends] + outer[ends]) / 2
            beyond = self.smallest(rows[ends], middle[ends] + scale[ends] * between) > limit
            outer[ends[beyond]], inner[ends[~beyond]] = between[beyond], between[~beyond]
            if np.all(outer[ends] - inner[ends] < _CLOSE * outer[ends]):
                break
        return np.asarray((middle + scale * outer).reshape(count, 2))


def _solve(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Solve a system for each of n matrices, shape `(n, p, p)`, and vectors, shape `(n, p)`."""
    return np.asarray(np.linalg.solve(matrices, vectors[:, :, np.newaxis])[:, :, 0])
