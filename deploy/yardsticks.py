"""What the same analysis gives without privacy, with a trusted curator, and with nobody to trust but the device.

Comparison only: this works on the raw rows, which no party of the protocol ever has. Every yardstick goes through the
analyzer's own estimators, at the same epsilon, delta and row bound. None is one draw: each is the median of several and
their 10 % and 90 % points.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.pca import pca
from lintra_analysis.estimators.regression import regression
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.gram_error import HasSecondMoment
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_analysis.releases.sketch import Sketch
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.noise.clipping import clip_norms
from lintra_protocol.noise.discrete_gaussian import discrete_gaussian
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.transforms.osnap import BalancedOsnap

SEED = bytes(32)
FINE = 2**20

DRAWS, LONG_DRAWS = 20, 5
"""Simulated runs of a yardstick; of one that noises every row by itself fewer, since each takes a second."""


@dataclass(frozen=True)
class Spread:
    """What simulated runs gave: median, 10 % and 90 % points, and how many there were."""

    median: float
    low: float
    high: float
    draws: int


def spread(one: Callable[[bytes], float], label: str, draws: int = DRAWS) -> Spread:
    """Return the spread of a number over runs with seeds of their own, the same ones every time."""
    found = [one(expand(SEED, f"{label} {number}")(32)) for number in range(draws)]
    low, median, high = np.quantile(found, [0.1, 0.5, 0.9])
    return Spread(float(median), float(low), float(high), draws)


@dataclass(frozen=True)
class Setting:
    """What all of them have in common: the promise, the norm that rows are clipped to, and the rows of the sketch."""

    row_bound: float
    epsilon: float
    delta: float
    sketch_rows: int

    @property
    def mu(self) -> float:
        """Return mu of the exact Gaussian mechanism."""
        return gaussian_mu(self.epsilon, self.delta)


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
        self._clipped: tuple[float, FloatArray] | None = None

    def clipped(self, bound: float) -> FloatArray:
        """Return the rows shrunk to a norm; those of the last bound are kept."""
        if self._clipped is None or self._clipped[0] != bound:
            self._clipped = bound, clip_norms(self.rows, bound)
        return self._clipped[1]

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

    def score(self, release: HasSecondMoment) -> tuple[float, float]:
        """Return (R2, explained share) of what the analyzer's estimators make of a release."""
        fit = regression(release, self.problem.target, self.problem.features, self.problem.regularization)
        directions = pca(release, self.problem.rank, about="centers").components.T
        return self.r2(self.normalised(fit.coef_)), self.explained(directions)


def non_private(truth: Truth) -> tuple[float, float]:
    """Score the exact second moments of the raw rows: nothing clipped, no noise."""
    norm = float(np.linalg.norm(truth.rows, axis=1).max())
    return truth.score(SecondMomentSum(truth.problem.columns, truth.gram, 0.0, len(truth.rows), norm))


def simulated(truth: Truth, mechanism: str, setting: Setting, deviation: float, draws: int = DRAWS) -> Spread:
    """Return R2 of releases with noise of this deviation in an entry, as the task has it, outside the services."""
    return spread(lambda seed: _one(truth, mechanism, setting, deviation, seed), f"task {mechanism}", draws)


def trusted_curator(truth: Truth, mechanism: str, setting: Setting, draws: int = DRAWS) -> Spread:
    """Return the R2 of the central Gaussian mechanism on the same statistic, replace-one."""
    bound = setting.row_bound
    deviation = (2 * bound if mechanism == "osnap" else bound**2) / setting.mu
    return spread(lambda seed: _one(truth, mechanism, setting, deviation, seed), f"curator {mechanism}", draws)


def local_rows(truth: Truth, setting: Setting) -> Spread:
    """Return the R2 of the local model: every client makes its row private by itself, and the analyzer sees it."""
    clipped = truth.clipped(setting.row_bound)
    sd, alone = 2 * setting.row_bound / setting.mu, np.ones(len(clipped), np.int64)

    def one(seed: bytes) -> float:
        # A sketch with one client a row.
        return _sketch(truth, clipped, alone, setting.row_bound, sd, expand(seed, "local rows"))

    return spread(one, "local rows", LONG_DRAWS)


def local_products(truth: Truth, setting: Setting, draws: int = DRAWS) -> Spread:
    """Return the R2 of the best local model we know: every client makes its products private by itself."""
    deviation = setting.row_bound**2 / setting.mu * len(truth.rows) ** 0.5
    return spread(lambda seed: _one(truth, "second_moment", setting, deviation, seed), "local products", draws)


def _one(truth: Truth, mechanism: str, setting: Setting, deviation: float, seed: bytes) -> float:
    if mechanism == "osnap":
        return sketched(truth, setting.sketch_rows, setting.row_bound, deviation, seed)
    clipped = truth.clipped(setting.row_bound)
    return _second_moments(truth, clipped, setting.row_bound, deviation, expand(seed, "products"))


def sketched(truth: Truth, rows: int, bound: float, sd: float, seed: bytes) -> float:
    """Return the R2 of one sketch with noise of a deviation in every entry; matrix and noise come from the seed."""
    clipped = truth.clipped(bound)
    matrix = BalancedOsnap(rows, len(clipped), seed)
    row, sign = (each[:, 0] for each in matrix.entries(np.arange(len(clipped))))
    sketch = np.stack([np.bincount(row, sign * column, rows) for column in clipped.T], axis=1).astype(np.float64)
    return _sketch(truth, sketch, matrix.row_counts(), bound, sd, expand(seed, "sketch"))


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
