"""What the same analysis gives without privacy, with a trusted curator, and with nobody to trust but the device.

Comparison only: this is simulated with NumPy's generator from the raw rows, which no party of the protocol ever has.
Every yardstick goes through the analyzer's own estimators, at the same epsilon, delta and row bound.
"""

from dataclasses import dataclass

import numpy as np

from lintra_analyzer.estimators.low_rank import low_rank
from lintra_analyzer.estimators.ridge import ridge
from lintra_analyzer.releases import Column, Release, SecondMoment, Sketch
from lintra_protocol.clipping import clip_norms
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.ring import FloatArray

SEED = 2025


@dataclass(frozen=True)
class Problem:
    """What is asked of the data: `target` on all other columns, and the best `rank` directions."""

    columns: tuple[Column, ...]
    target: str
    regularization: float
    rank: int


class Truth:
    """The raw rows in normalised units, for scoring; shape `(n, d)`."""

    def __init__(self, rows: FloatArray, problem: Problem) -> None:
        """Normalise raw rows of shape `(n, d)` by the public centres and scales; nothing is clipped."""
        center = np.array([column.center for column in problem.columns])
        scale = np.array([column.scale for column in problem.columns])
        self.problem = problem
        self.rows = (rows - center) / scale
        self.gram = self.rows.T @ self.rows
        names = [column.name for column in problem.columns]
        self.target = names.index(problem.target)
        self.features = np.array([index for index in range(len(names)) if index != self.target])

    def r2(self, coefficients: FloatArray) -> float:
        """Return the share of the target's variance that normalised coefficients explain on all raw rows."""
        theta = np.zeros(len(self.gram))
        theta[self.features], theta[self.target] = -coefficients, 1.0
        target = self.rows[:, self.target]
        total = float(((target - target.mean()) ** 2).sum())
        return 1 - float(theta @ self.gram @ theta) / total

    def explained(self, directions: FloatArray) -> float:
        """Return the share of all rows' squared length that orthonormal directions, shape `(d, k)`, hold."""
        return float(np.trace(directions.T @ self.gram @ directions) / np.trace(self.gram))

    def score(self, release: Release) -> tuple[float, float]:
        """Return (R2, explained share) of what the analyzer's estimators make of a release."""
        fit = ridge(release, self.problem.target, regularization=self.problem.regularization)
        directions = low_rank(release, self.problem.rank).components
        return self.r2(np.array([each.value for each in fit.normalised])), self.explained(directions)


def non_private(truth: Truth) -> tuple[float, float]:
    """Score the exact second moments of the raw rows: nothing clipped, no noise."""
    norm = float(np.linalg.norm(truth.rows, axis=1).max())
    return truth.score(SecondMoment(truth.problem.columns, truth.gram, 0.0, len(truth.rows), norm))


def trusted_curator(truth: Truth, mechanism: str, rows: int, bound: float, epsilon: float, delta: float) -> float:
    """Return the R2 of the central Gaussian mechanism on the same statistic, replace-one."""
    rng, mu, clipped = np.random.default_rng(SEED), gaussian_mu(epsilon, delta), clip_norms(truth.rows, bound)
    count, size = clipped.shape
    if mechanism == "osnap":
        row = rng.permutation(count) % rows
        signed = clipped * rng.choice([-1.0, 1.0], (count, 1))
        sketch = np.stack([np.bincount(row, signed[:, j], rows) for j in range(size)], axis=1)
        sd = 2 * bound / mu
        values = sketch + rng.normal(0, sd, sketch.shape)
        variance = np.full(rows, sd**2)
        return truth.score(Sketch(truth.problem.columns, values, np.bincount(row), variance, count, bound))[0]
    sd = bound**2 / mu
    values = clipped.T @ clipped + _symmetric(rng, size, sd)
    return truth.score(SecondMoment(truth.problem.columns, values, sd, count, bound))[0]


def local_model(truth: Truth, mechanism: str, bound: float, epsilon: float, delta: float) -> float:
    """Return the R2 when every client alone makes what it sends private: no shares, no servers to trust."""
    rng, mu, clipped = np.random.default_rng(SEED), gaussian_mu(epsilon, delta), clip_norms(truth.rows, bound)
    count, size = clipped.shape
    if mechanism == "osnap":
        sd = 2 * bound / mu
        values, ones = clipped + rng.normal(0, sd, clipped.shape), np.ones(count, np.int64)
        return truth.score(Sketch(truth.problem.columns, values, ones, np.full(count, sd**2), count, bound))[0]
    sd = bound**2 / mu * count**0.5
    values = clipped.T @ clipped + _symmetric(rng, size, sd)
    return truth.score(SecondMoment(truth.problem.columns, values, sd, count, bound))[0]


def _symmetric(rng: np.random.Generator, size: int, sd: float) -> FloatArray:
    """Return symmetric noise with deviation `sd` off the diagonal and sqrt(2) `sd` on it."""
    upper = np.triu(rng.normal(0, sd, (size, size)), 1)
    return upper + upper.T + np.diag(rng.normal(0, 2**0.5 * sd, size))
