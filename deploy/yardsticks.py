"""What the same analysis gives without privacy, with a trusted curator, and with nobody to trust but the device.

Comparison only: this works on the raw rows, which no party of the protocol ever has. Every yardstick goes through the
analyzer's own estimators, at the same epsilon, delta and row bound.
"""

from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.pca import pca
from lintra_analysis.estimators.regression import regression
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_analysis.releases.sketch import Sketch
from lintra_protocol.clipping import clip_norms
from lintra_protocol.noise import discrete_gaussian
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.randomness import RandomBytes, expand
from lintra_protocol.ring import FloatArray, IntArray
from lintra_protocol.transforms.osnap import BalancedOsnap

SEED = bytes(32)
FINE = 2**20


@dataclass(frozen=True)
class Problem:
    """What is asked of the data: `target` on `features`, and the best `rank` directions of all columns."""

    columns: tuple[ScaledColumn, ...]
    target: str
    features: tuple[str, ...]
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
        self.features = np.array([names.index(name) for name in problem.features])

    def r2(self, coefficients: FloatArray) -> float:
        """Return the share of the target's variance that normalised coefficients explain on all raw rows."""
        theta = np.zeros(len(self.gram))
        theta[self.features], theta[self.target] = -coefficients, 1.0
        target = self.rows[:, self.target]
        total = float(((target - target.mean()) ** 2).sum())
        return 1 - float(theta @ self.gram @ theta) / total

    def normalised(self, coefficients: FloatArray) -> FloatArray:
        """Return coefficients in the columns' own units, shape `(p,)`, in normalised ones."""
        scale = np.array([column.scale for column in self.problem.columns])
        return np.asarray(coefficients * scale[self.features] / scale[self.target])

    def explained(self, directions: FloatArray) -> float:
        """Return the share of all rows' squared length that orthonormal directions, shape `(d, k)`, hold."""
        return float(np.trace(directions.T @ self.gram @ directions) / np.trace(self.gram))

    def score(self, release: Release) -> tuple[float, float]:
        """Return (R2, explained share) of what the analyzer's estimators make of a release."""
        fit = regression(release, self.problem.target, self.problem.features, self.problem.regularization)
        directions = pca(release, self.problem.rank, about="centers").components.T
        return self.r2(self.normalised(fit.coef_)), self.explained(directions)


def non_private(truth: Truth) -> tuple[float, float]:
    """Score the exact second moments of the raw rows: nothing clipped, no noise."""
    norm = float(np.linalg.norm(truth.rows, axis=1).max())
    return truth.score(SecondMomentSum(truth.problem.columns, truth.gram, 0.0, len(truth.rows), norm))


def trusted_curator(truth: Truth, mechanism: str, rows: int, bound: float, epsilon: float, delta: float) -> float:
    """Return the R2 of the central Gaussian mechanism on the same statistic, replace-one."""
    if mechanism == "osnap":
        return sketched(truth, rows, bound, 2 * bound / gaussian_mu(epsilon, delta), SEED)
    clipped, sd = clip_norms(truth.rows, bound), bound**2 / gaussian_mu(epsilon, delta)
    return _second_moments(truth, clipped, bound, sd, expand(SEED, "curator"))


def sketched(truth: Truth, rows: int, bound: float, sd: float, seed: bytes) -> float:
    """Return the R2 of one sketch with noise of a deviation in every entry; matrix and noise come from the seed."""
    clipped = clip_norms(truth.rows, bound)
    matrix = BalancedOsnap(rows, len(clipped), seed)
    row, sign = (each[:, 0] for each in matrix.entries(np.arange(len(clipped))))
    sketch = np.stack([np.bincount(row, sign * column, rows) for column in clipped.T], axis=1)
    return _sketch(truth, sketch, matrix.row_counts(), bound, sd, expand(seed, "curator"))


def local_rows(truth: Truth, bound: float, epsilon: float, delta: float) -> float:
    """Return the R2 of the local model: every client makes its row private by itself, and the analyzer sees it."""
    clipped, sd = clip_norms(truth.rows, bound), 2 * bound / gaussian_mu(epsilon, delta)
    # A sketch with one client a row.
    return _sketch(truth, clipped, np.ones(len(clipped), np.int64), bound, sd, expand(SEED, "local rows"))


def local_products(truth: Truth, bound: float, epsilon: float, delta: float) -> float:
    """Return the R2 of the best local model we know: every client makes its products private by itself."""
    clipped, sd = clip_norms(truth.rows, bound), bound**2 / gaussian_mu(epsilon, delta)
    return _second_moments(truth, clipped, bound, sd * len(clipped) ** 0.5, expand(SEED, "local products"))


def _sketch(truth: Truth, values: FloatArray, counts: IntArray, bound: float, sd: float, source: RandomBytes) -> float:
    noised = values + _normal(values.shape, sd, source)
    release = Sketch(truth.problem.columns, noised, counts, np.full(len(values), sd**2), len(truth.rows), bound)
    return truth.score(release)[0]


def _second_moments(truth: Truth, rows: FloatArray, bound: float, sd: float, source: RandomBytes) -> float:
    size = rows.shape[1]
    upper = np.triu(_normal((size, size), sd, source), 1)
    noise = upper + upper.T + np.diag(_normal((size,), 2**0.5 * sd, source))
    return truth.score(SecondMomentSum(truth.problem.columns, rows.T @ rows + noise, sd, len(rows), bound))[0]


def _normal(shape: tuple[int, ...], sd: float, source: RandomBytes) -> FloatArray:
    """Return nearly Gaussian numbers: the product's own discrete ones, on a fine grid."""
    return np.asarray(discrete_gaussian(shape, FINE, source) * (sd / FINE))
