"""Principal components about the means, or about the public centers where a release holds no means.

Columns enter in normalised units, that is divided by their public scales. All errors are first-order perturbations of
the eigenvectors of one matrix; the explained shares gain most from a release with a tight trace.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.centred import Centred, centred
from lintra_analysis.estimators.estimates import check_confidence, checked_rows, diagonal_sd
from lintra_analysis.estimators.low_rank import RESOLVED_LEAKAGE
from lintra_analysis.estimators.quantities import Quantity, error_of, holds_sampling
from lintra_analysis.estimators.spectral import Spectrum, floor_eigenvalues
from lintra_analysis.estimators.tables import Cell, Tabular, closing, csv_text, facts, levels, number, table, title
from lintra_analysis.releases.columns import scales
from lintra_analysis.releases.gram import HasSecondMoment
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.ring import FloatArray

NORMAL_NOTE = (
    "the sampling part of the errors takes the rows to be normal, since a second moment holds no fourth moments"
)
MEANS_NOTE = "about the means, which the release's constant column holds"
CENTERS_NOTE = "about the public centers, not about the means, which this release does not hold"
DEFAULT_COMPONENTS = 20
_SHOWN = 6


@dataclass(frozen=True, eq=False, repr=False)
class PcaEstimate(Tabular):
    """The k directions in which the cohort's normalised rows vary most.

    >>> from lintra_analysis import open_release, pca
    >>> estimate = pca(open_release("flights.npz"), 2)
    >>> estimate.transform([[12.0, 800.0, 5.0]]).shape  # hour, distance and delay
    (1, 2)

    Attributes:
        components: shape `(k, d)`, orthonormal rows; in each the entry of largest magnitude is positive.
        component_errors: standard errors of the entries, all causes together, shape `(k, d)`; NaN for a component
            that is not told apart from others.
        mean: what is subtracted from a row, in the columns' own units, shape `(d,)`.
        scale: what it is then divided by, the public scales, shape `(d,)`.
        about_means: whether `mean` holds the means, and not the public centers.
        explained_variance: along each component, in normalised units squared.
        explained_variance_ratio: the same over the sum for all d; None if the sum is lost in noise.
        cumulative_ratio: of the first 1, 2, .., k components.
        subspace_error: expected squared sine, summed over the k angles, between these components and the cohort's.
        warnings: in plain words, what the analyst must know before using the numbers.
    """

    columns: tuple[str, ...]
    num_clients: int
    confidence: float
    components: FloatArray
    component_errors: FloatArray
    mean: FloatArray
    scale: FloatArray
    about_means: bool
    explained_variance: tuple[Quantity, ...]
    explained_variance_ratio: tuple[Quantity, ...] | None
    cumulative_ratio: tuple[Quantity, ...] | None
    subspace_error: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        return f"PcaEstimate({self.n_components_} components, {len(self.columns)} columns, {self.num_clients} clients)"

    @property
    def components_(self) -> FloatArray:
        """The components as scikit-learn names them, shape `(k, d)`."""
        return self.components

    @property
    def n_components_(self) -> int:
        """The number of components."""
        return int(self.components.shape[0])

    @property
    def mean_(self) -> FloatArray:
        """What is subtracted from a row, shape `(d,)`."""
        return self.mean

    @property
    def explained_variance_(self) -> FloatArray:
        """The variances along the components, shape `(k,)`."""
        return np.array([quantity.value for quantity in self.explained_variance])

    @property
    def explained_variance_ratio_(self) -> FloatArray:
        """The shares of the components, shape `(k,)`; NaN if they are lost in noise."""
        shares = self.explained_variance_ratio
        return np.full(self.n_components_, np.nan) if shares is None else np.array([share.value for share in shares])

    @property
    def loadings(self) -> FloatArray:
        """Components times the root of their variance, shape `(d, k)`."""
        return self.components.T * np.sqrt(self.explained_variance_)

    def transform(self, rows: FloatArray) -> FloatArray:
        """Return the scores, shape `(n, k)`, of rows in the columns' own units, shape `(n, d)`.

        Raises:
            ValueError: the rows do not have one column for each name, or are not finite.
        """
        scores: FloatArray = (checked_rows(rows, self.columns) - self.mean) / self.scale @ self.components.T
        return scores

    def inverse_transform(self, scores: FloatArray) -> FloatArray:
        """Return the rows in own units, shape `(n, d)`, that have these scores, shape `(n, k)`, and nothing else.

        Raises:
            ValueError: there is not one score for each component, or one is not finite.
        """
        names = [f"component {number}" for number in range(1, self.n_components_ + 1)]
        rows: FloatArray = checked_rows(scores, names) @ self.components * self.scale + self.mean
        return rows

    def to_csv(self) -> str:
        """Return one line for each component."""
        header = ["component"]
        for name in ("variance", "ratio", "cumulative"):
            header += [name, *(f"{name}_{part}" for part in ("standard_error", "privacy", "sketching", "sampling"))]
            header += [f"{name}_lower", f"{name}_upper"]
        header += [*self.columns, *(f"standard_error {name}" for name in self.columns)]
        return csv_text(header, map(self._csv_row, range(self.n_components_)))

    def _csv_row(self, i: int) -> list[Cell]:
        row: list[Cell] = [i + 1]
        for quantities in (self.explained_variance, self.explained_variance_ratio, self.cumulative_ratio):
            quantity = None if quantities is None else quantities[i]
            error = None if quantity is None else quantity.standard_error
            row.append(None if quantity is None else quantity.value)
            row += [None] * 4 if error is None else [error.total, error.privacy, error.sketching, error.sampling]
            row += (None if quantity is None else quantity.interval) or (None, None)
        return [*row, *self.components[i].tolist(), *self.component_errors[i].tolist()]

    def summary(self, privacy: str | None = None) -> str:
        """Return a text for people."""
        lines = title("Principal components from a private second moment")
        about = "means" if self.about_means else "public centers"
        lines += facts(
            [
                ("Clients", str(self.num_clients)),
                ("About", about),
                ("Columns", str(len(self.columns))),
                ("Subspace error", number(self.subspace_error)),
            ]
        )
        ends = levels(self.confidence)
        header = [
            "",
            "variance",
            "std err",
            *ends,
            "privacy",
            "sketching",
            "sampling",
            "ratio",
            "std err",
            "cumulative",
        ]
        lines += table(header, map(self._summary_row, range(self.n_components_)))
        shown = min(self.n_components_, _SHOWN)
        rows = [
            [name, *map(number, column[:shown])] for name, column in zip(self.columns, self.components.T, strict=True)
        ]
        lines += table(["", *(f"component {i + 1}" for i in range(shown))], rows)
        return "\n".join([*lines, *closing(privacy, self.warnings, self.notes)]) + "\n"

    def _summary_row(self, i: int) -> list[str]:
        variance = self.explained_variance[i]
        ratio = None if self.explained_variance_ratio is None else self.explained_variance_ratio[i]
        cumulative = None if self.cumulative_ratio is None else self.cumulative_ratio[i]
        error = variance.standard_error
        parts = [None] * 4 if error is None else [error.total, error.privacy, error.sketching, error.sampling]
        row = [number(variance.value), number(parts[0]), *map(number, variance.interval or (None, None))]
        row += map(number, parts[1:])
        row.append(number(None if ratio is None else ratio.value))
        share = None if ratio is None else ratio.standard_error
        row.append(number(None if share is None else share.total))
        return [f"{i + 1}", *row, number(None if cumulative is None else cumulative.value)]


def pca(
    release: HasSecondMoment,
    components: int | None = None,
    columns: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> PcaEstimate:
    """Return the leading principal components.

    >>> from lintra_analysis import open_release, pca
    >>> pca(open_release("flights.npz"), components=2, columns=["hour", "delay"]).components.shape
    (2, 2)

    Args:
        release: a sketch or a second moment.
        components: k, between 1 and the number of columns that vary; by default all of them, but no more than 20.
        columns: those that take part; by default all that vary. A constant column serves as the intercept.
        confidence: of the intervals.

    Raises:
        InvalidAnalysisError: the release holds no second moments, or an argument does not fit it.
    """
    check_confidence(confidence)
    moments = centred(release, columns)
    size = len(moments.columns)
    rank = min(size, DEFAULT_COMPONENTS) if components is None else components
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or not 1 <= rank <= size:
        raise InvalidAnalysisError(f"components must be a whole number from 1 to the {size} columns, got {rank!r}")
    return _report(_Directions(moments, confidence), int(rank))


class _Directions:
    """The spectrum of centred moments, and the errors of what is read off it."""

    def __init__(self, moments: Centred, confidence: float) -> None:
        self.moments = moments
        self.confidence = confidence
        self.spectrum = Spectrum.of(moments.gram)
        self.clipped = floor_eigenvalues(moments.gram.matrix, 0.0)
        size = len(moments.columns)
        self.total = float(np.trace(moments.gram.matrix))
        self.lost = self.total <= 2 * moments.gram.errors.functional_sd(np.eye(size))

    def resolved(self, i: int) -> bool:
        """Return whether component i is told apart from every other, to first order."""
        gaps = np.delete(self.spectrum.values[i] - self.spectrum.values, i)
        variance = np.delete(self.spectrum.entry_variance[i], i)
        if (variance[gaps == 0] > 0).any():
            return False
        return float((variance[gaps != 0] / gaps[gaps != 0] ** 2).sum()) <= RESOLVED_LEAKAGE

    def eigenvalue(self, i: int) -> float:
        """Return the i-th eigenvalue less what noise adds to it, to second order, if it is resolved."""
        value = float(self.spectrum.values[i])
        if not self.resolved(i):
            return value
        gaps = np.delete(value - self.spectrum.values, i)
        variance = np.delete(self.spectrum.entry_variance[i], i)
        return value - float((variance[gaps != 0] / gaps[gaps != 0]).sum())

    def variance(self, i: int) -> Quantity:
        """Return the variance along component i."""
        scale = 1 / self.moments.divisor
        value = self.eigenvalue(i) * scale
        if not self.resolved(i):
            return Quantity(max(value, 0.0))
        vector = self.spectrum.vectors[:, i]
        error = error_of(self.moments, np.outer(vector, vector), self.clipped, scale)
        return Quantity.normal(value, error, self.confidence, 0.0, math.inf)

    def share(self, start: int, stop: int) -> Quantity:
        """Return the share of the components from `start` to before `stop`."""
        values = [self.eigenvalue(i) for i in range(start, stop)]
        resolved = self.resolved(start)
        if start == 0:
            resolved = self.spectrum.leakage(stop) <= RESOLVED_LEAKAGE
            values = [float(self.spectrum.values[:stop].sum()) - (self.spectrum.upward_bias(stop) if resolved else 0.0)]
        share = sum(values) / self.total
        if not resolved:
            return Quantity(min(max(share, 0.0), 1.0))
        leading = self.spectrum.vectors[:, start:stop]
        weights = leading @ leading.T - share * np.eye(leading.shape[0])
        error = error_of(self.moments, weights, self.clipped, 1 / self.total)
        return Quantity.normal(share, error, self.confidence, 0.0, 1.0)

    def component_error(self, i: int) -> FloatArray:
        """Return the standard errors of the entries of component i, all causes together, shape `(d,)`."""
        vector, values = self.spectrum.vectors[:, i], self.spectrum.values
        if not self.resolved(i):
            return np.full(vector.size, np.nan)
        gaps = values[i] - values
        weights = np.divide(1.0, gaps, out=np.zeros_like(gaps), where=gaps != 0)
        reach = (self.spectrum.vectors * weights) @ self.spectrum.vectors.T
        covariance = self.moments.gram.errors.product_covariance(vector)
        if not holds_sampling(self.moments):
            image = self.clipped @ vector
            spread = float(vector @ image) * self.clipped + np.outer(image, image)
            covariance = covariance + spread / self.moments.gram.num_clients
        return diagonal_sd(reach @ covariance @ reach)


def _report(found: _Directions, rank: int) -> PcaEstimate:
    """Put the leading components together."""
    moments, spectrum = found.moments, found.spectrum
    variances = tuple(found.variance(i) for i in range(rank))
    shares = None if found.lost else tuple(found.share(i, i + 1) for i in range(rank))
    cumulative = None if found.lost else tuple(found.share(0, i + 1) for i in range(rank))
    return PcaEstimate(
        columns=tuple(column.name for column in moments.columns),
        num_clients=moments.gram.num_clients,
        confidence=float(found.confidence),
        components=spectrum.vectors[:, :rank].T,
        component_errors=np.array([found.component_error(i) for i in range(rank)]),
        mean=moments.means_in_units,
        scale=scales(moments.columns),
        about_means=moments.about_means,
        explained_variance=variances,
        explained_variance_ratio=shares,
        cumulative_ratio=cumulative,
        subspace_error=min(spectrum.leakage(rank), float(min(rank, spectrum.values.size - rank))),
        notes=(MEANS_NOTE if moments.about_means else CENTERS_NOTE, NORMAL_NOTE),
        warnings=_warnings(found, rank),
    )


def _warnings(found: _Directions, rank: int) -> tuple[str, ...]:
    """Return what the analyst must know, in plain words."""
    warnings = []
    if blurred := [str(i + 1) for i in range(rank) if not found.resolved(i)]:
        warnings.append(
            f"noise does not tell components {', '.join(blurred)} apart from others, so they have no errors; "
            "the low-rank analysis bounds eigenvalues all the same"
        )
    if negative := int((found.spectrum.values[:rank] < 0).sum()):
        warnings.append(f"{negative} of the {rank} variances are negative, which is noise; reported as 0")
    if found.lost:
        warnings.append("no shares: the total variance cannot be told from noise")
    return tuple(warnings)
