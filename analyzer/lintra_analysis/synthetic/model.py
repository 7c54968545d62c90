"""The Gaussian model of a release: class weights, class means, covariances, and how far noise moved them.

Fitting is post-processing of released numbers and costs no privacy (docs/reference/mechanisms/ron_gauss.md).
"""

import math
from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.synthetic.repair import Repaired, project_on_simplex, repair, rows_in_cells
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidAnalysisError

MIN_COUNT = 5.0
"""A class counts as at least so many rows, so that no mean is divided by noise."""

RELIABLE = 5.0
"""A class whose count is below so many deviations of its noise is left out of the rows, with a warning."""


@dataclass(frozen=True, eq=False, repr=False)
class GaussianModel:
    """A mixture of Gaussians over projected rows, in units of mapped rows z; what synthetic rows are drawn from."""

    release: ProjectedSums  #: what it was fitted to
    weights: FloatArray  #: shape `(K,)`, probabilities of the classes
    counts: FloatArray  #: shape `(K,)`, rows that each class is taken to have
    means: FloatArray  #: shape `(K, P)`
    repairs: tuple[Repaired, ...]  #: the repaired covariances of shape `(P, P)`: one, or one for each class
    marginals: tuple[FloatArray, ...]  #: for each histogram of the release the probabilities of its cells
    warnings: tuple[str, ...]  #: what an analyst should know first
    second_digest: str = ""  #: hash of both releases, if there were two rounds

    def __repr__(self) -> str:
        return f"GaussianModel(classes={self.weights.size}, dimension={self.release.dimension})"

    @property
    def covariances(self) -> tuple[FloatArray, ...]:
        """Return the repaired covariances, each of shape `(p, p)`: one, or one for each class."""
        return tuple(repaired.matrix for repaired in self.repairs)

    @property
    def covariance(self) -> FloatArray:
        """Return the covariance within the classes, shape `(P, P)`: the weighted mean if each class has its own."""
        if len(self.repairs) == 1:
            return self.repairs[0].matrix
        pooled: FloatArray = np.einsum("k,kij->ij", self.weights, np.stack(self.covariances))
        return pooled

    @property
    def digest(self) -> str:
        """Return the hash of the release, or of the two, that the model follows from."""
        return self.second_digest or self.release.digest

    def class_sizes(self, num_rows: int) -> IntArray:
        """Split `num_rows` rows over the classes by largest remainder, shape `(K,)`."""
        return split_by_largest_remainder(num_rows, self.weights)


def split_by_largest_remainder(num_rows: int, weights: FloatArray) -> IntArray:
    """Split `num_rows` rows in proportion to weights that sum to 1, shape `(K,)`.

    Raises InvalidAnalysisError if `num_rows` is not a whole number of at least 1.
    """
    if isinstance(num_rows, bool) or not isinstance(num_rows, int | np.integer) or num_rows < 1:
        raise InvalidAnalysisError(f"num_rows must be a whole number of at least 1, got {num_rows!r}")
    shares = num_rows * weights
    sizes: IntArray = np.floor(shares).astype(np.int64)
    order = np.argsort(sizes - shares, kind="stable")
    sizes[order[: num_rows - int(sizes.sum())]] += 1
    return sizes


def fit(release: ProjectedSums, min_count: float = MIN_COUNT, *, shrink: bool = True) -> GaussianModel:
    """Fit the model to a release.

    The covariance within the classes is S/n less the outer products of the class means, each of which is first
    freed of the noise that it adds on average; `repair` does the rest. `release` holds noisy sums; `min_count` is what
    a class counts as at least.
    """
    counts = _class_counts(release, min_count)
    means = release.sums / counts[:, np.newaxis]
    if release.products.ndim == 2:
        repairs: tuple[Repaired, ...] = (_pooled(release, counts, means, shrink=shrink),)
    else:
        repairs = tuple(_of_class(release, number, counts, means, shrink=shrink) for number in range(counts.size))
    weights, warnings = _weights(release, counts)
    if unusable := sum(repaired.kept == 0 for repaired in repairs):
        of = f" of {unusable} classes" if len(repairs) > 1 else ""
        warnings.append(f"covariance{of} not usable: the noise is larger than it; shrunk to equal variances")
    return GaussianModel(
        release=release,
        weights=weights,
        counts=counts,
        means=means,
        repairs=repairs,
        marginals=tuple(_marginal(cells, release) for cells in release.histograms),
        warnings=tuple(warnings),
    )


def _marginal(cells: FloatArray, release: ProjectedSums) -> FloatArray:
    """Return the probabilities of a histogram's cells among the rows that are in one, shape `(k,)`, or no numbers."""
    if not cells.size:
        return cells
    return project_on_simplex(cells / rows_in_cells(cells, release.num_clients, release.noise.cell))


def _class_counts(release: ProjectedSums, min_count: float) -> FloatArray:
    if release.num_classes == 1:
        return np.array([float(release.num_clients)])
    return np.maximum(release.counts, min_count)


def _pooled(release: ProjectedSums, counts: FloatArray, means: FloatArray, *, shrink: bool) -> Repaired:
    n, size, noise = release.num_clients, release.size, release.noise
    shares = counts / n
    spread = noise.sum**2 / counts**2
    matrix = release.products / n - np.einsum("k,ki,kj->ij", shares, means, means)
    matrix += float(shares @ spread) * np.eye(size)
    of_means = float(np.sum(shares**2 * 2 * np.square(means).sum(axis=1) * (size + 1) * spread))
    return repair(matrix, _products_noise(release) / n**2 + of_means, shrink=shrink)


def _of_class(release: ProjectedSums, number: int, counts: FloatArray, means: FloatArray, *, shrink: bool) -> Repaired:
    count, mean, size = float(counts[number]), means[number], release.size
    spread = release.noise.sum**2 / count**2
    matrix = release.products[number] / count - np.outer(mean, mean) + spread * np.eye(size)
    of_mean = 2 * float(mean @ mean) * (size + 1) * spread
    return repair(matrix, _products_noise(release) / count**2 + of_mean, shrink=shrink)


def _products_noise(release: ProjectedSums) -> float:
    """Return the expected squared Frobenius norm of the noise in the products."""
    size, noise = release.size, release.noise
    return size * noise.diagonal**2 + size * (size - 1) * noise.product**2


def _weights(release: ProjectedSums, counts: FloatArray) -> tuple[FloatArray, list[str]]:
    """Return the class probabilities, and which classes were left out because noise could have made them."""
    if not release.levels:
        return np.ones(1), []
    lost = release.counts < RELIABLE * release.noise.count
    if lost.all():
        raise InvalidAnalysisError(
            f"no class has {RELIABLE * release.noise.count:.0f} rows, {RELIABLE:g} deviations of the noise of a count "
            f"({release.noise.count:.3g} rows); more clients, a larger epsilon, mean_weight or count_weight are needed"
        )
    names = [level for level, gone in zip(release.levels, lost.tolist(), strict=True) if gone]
    least = RELIABLE * release.noise.count
    warnings = [
        f"class {name!r} left out: its count cannot be told from noise, which takes {least:.0f} rows" for name in names
    ]
    kept = np.where(lost, 0.0, counts)
    return kept / kept.sum(), warnings


def count_interval(count: float, noise_sd: float, reach: float) -> tuple[float, float]:
    """Return the interval of a class count for a Gaussian noise of `noise_sd` and `reach` deviations, from 0 on."""
    return max(0.0, count - reach * noise_sd), max(0.0, count + reach * noise_sd)


def mean_error(model: GaussianModel) -> FloatArray:
    """Return each class mean's deviation by noise in one coordinate over the root mean eigenvalue, shape `(K,)`."""
    level = float(np.trace(model.covariance)) / model.release.size
    error: FloatArray = model.release.noise.sum / model.counts / math.sqrt(max(level, 2.0**-60))
    return error
