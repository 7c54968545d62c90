"""Means, second moments and correlations of the columns, in their own units.

A sum of rows gives means and nothing else. A second moment is taken about the public centers: it gives root
mean squares and correlations about them, and means only if one column is the same for everybody.
"""

import math
from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.estimates import Measured, check_confidence, quantile, sampling_bound
from lintra_analysis.estimators.tables import (
    Cell,
    Tabular,
    closing,
    csv_text,
    digits_beside,
    facts,
    levels,
    number,
    table,
    title,
)
from lintra_analysis.releases.columns import centers, scales
from lintra_analysis.releases.gram import GramEstimate
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.totals import Totals
from lintra_protocol.mechanisms.second_moment import INTERCEPT
from lintra_protocol.ring import FloatArray

COHORT_NOTE = "errors and intervals are for the cohort's own clipped rows; sampling of clients comes on top"
NO_MEANS_NOTE = (
    "means: a second moment about the public centers holds none; release a sum, or second moments with a "
    "column that is the same for everybody"
)
NO_SECOND_NOTE = "second moments and correlations: a sum holds none; release a second moment or a sketch"
CONSTANT_NOTE = "means rest on the constant column {name!r}; a row that was shrunk counts for less than one"
INTERCEPT_NOTE = "means rest on the intercept, which is never shrunk; a row that was counts with its shrunken values"
ABOUT_CENTER_NOTE = "second moments and correlations are about the public centers, not about the means"


@dataclass(frozen=True, eq=False)
class MomentsEstimate(Tabular):
    """Moments of the cohort; what the release does not hold is None, and `notes` says why.

    Attributes:
        means: in the columns' units.
        mean_sampling_bounds: the most that sampling of the clients can add to each mean's standard error.
        second_moments: mean squared distance from the public center, in the columns' units squared.
        rms: root of that; None where noise has made it negative.
        correlations: about the public centers, d x d; None where a column is lost in noise.
    """

    columns: tuple[str, ...]
    num_clients: int
    confidence: float
    means: tuple[Measured, ...] | None
    mean_sampling_bounds: tuple[float, ...] | None
    second_moments: tuple[Measured, ...] | None
    rms: tuple[Measured | None, ...] | None
    correlations: tuple[tuple[Measured | None, ...], ...] | None
    notes: tuple[str, ...]

    def to_csv(self) -> str:
        """Return one line for each column, its correlations last."""
        header = ["name"]
        for kind in ("mean", "second_moment", "rms"):
            header += [kind, f"{kind}_standard_error", f"{kind}_lower", f"{kind}_upper"]
        header += ["mean_sampling_bound", *(f"correlation {name}" for name in self.columns)]
        return csv_text(header, map(self._csv_row, range(len(self.columns))))

    def _csv_row(self, i: int) -> list[Cell]:
        row: list[Cell] = [self.columns[i]]
        for values in (self.means, self.second_moments, self.rms):
            one = None if values is None else values[i]
            row += [None] * 4 if one is None else [one.value, one.standard_error, *(one.interval or (None, None))]
        row.append(None if self.mean_sampling_bounds is None else self.mean_sampling_bounds[i])
        pairs = (None,) * len(self.columns) if self.correlations is None else self.correlations[i]
        return [*row, *(None if pair is None else pair.value for pair in pairs)]

    def summary(self, privacy: str | None = None) -> str:
        """Return a text for people."""
        lines = title("Moments") + facts([("Clients", str(self.num_clients))])
        for kind, values in (("mean", self.means), ("root mean square", self.rms)):
            if values is not None:
                rows = [[name, *_text_cells(one)] for name, one in zip(self.columns, values, strict=True)]
                lines += table(["", kind, "std err", *levels(self.confidence)], rows)
        if self.correlations is not None:
            pairs = [
                [name, *(number(None if pair is None else pair.value) for pair in row)]
                for name, row in zip(self.columns, self.correlations, strict=True)
            ]
            lines += table(["correlation", *self.columns], pairs)
        return "\n".join([*lines, *closing(privacy, (), self.notes)]) + "\n"


def _text_cells(one: Measured | None) -> list[str]:
    """Return a number, its error and the ends of its interval for people."""
    if one is None:
        return ["-"] * 4
    digits = digits_beside(one.value, one.standard_error, 5)
    ends = one.interval or (None, None)
    return [number(one.value, digits), number(one.standard_error), *(number(end, digits) for end in ends)]


def moments(release: Release, confidence: float = 0.95) -> MomentsEstimate:
    """Return the moments that the release holds.

    Raises:
        InvalidAnalysisError: `confidence` is no confidence level.
    """
    check_confidence(confidence)
    if isinstance(release, Totals):
        return _of_sum(release, confidence)
    return _of_gram(release.second_moment(), confidence)


def _of_sum(release: Totals, confidence: float) -> MomentsEstimate:
    """Return the means of a sum."""
    count = release.num_clients
    sd = np.full(len(release.columns), release.noise_sd / count)
    center, scale = centers(release.columns), scales(release.columns)
    return MomentsEstimate(
        columns=tuple(column.name for column in release.columns),
        num_clients=count,
        confidence=float(confidence),
        means=_measured(center + scale * release.values / count, scale * sd, confidence),
        mean_sampling_bounds=tuple(sampling_bound(column.lower, column.upper, count) for column in release.columns),
        second_moments=None,
        rms=None,
        correlations=None,
        notes=(COHORT_NOTE, NO_SECOND_NOTE),
    )


def _of_gram(gram: GramEstimate, confidence: float) -> MomentsEstimate:
    """Return the second moments, and the means if a constant column carries them."""
    variance = gram.errors.entry_variance(np.eye(len(gram.columns)))
    diagonal = np.diagonal(gram.matrix)
    unit = scales(gram.columns) ** 2 / gram.num_clients
    second = _measured(diagonal * unit, np.sqrt(np.diagonal(variance)) * unit, confidence)
    means, note = _means(gram, variance, confidence)
    bounds = tuple(sampling_bound(c.lower, c.upper, gram.num_clients) for c in gram.columns)
    return MomentsEstimate(
        columns=tuple(column.name for column in gram.columns),
        num_clients=gram.num_clients,
        confidence=float(confidence),
        means=means,
        mean_sampling_bounds=None if means is None else bounds,
        second_moments=second,
        rms=tuple(_root(square) for square in second),
        correlations=_correlations(gram, np.sqrt(np.diagonal(variance)), confidence),
        notes=(COHORT_NOTE, ABOUT_CENTER_NOTE, note),
    )


def _measured(values: FloatArray, sd: FloatArray, confidence: float) -> tuple[Measured, ...]:
    """Return normally distributed numbers."""
    pairs = zip(values.tolist(), sd.tolist(), strict=True)
    return tuple(Measured.normal(value, error, confidence) for value, error in pairs)


def _means(gram: GramEstimate, variance: FloatArray, confidence: float) -> tuple[tuple[Measured, ...] | None, str]:
    """Return the means, or None, and the note that goes with either."""
    constants = [(i, column.constant) for i, column in enumerate(gram.columns) if column.constant is not None]
    if not constants:
        return None, NO_MEANS_NOTE
    position, value = constants[0]
    unit = scales(gram.columns) / (gram.num_clients * value)
    found = centers(gram.columns) + gram.matrix[position] * unit
    sd = np.sqrt(variance[position]) * np.abs(unit)
    # What is the same for everybody is public.
    for i, _ in constants:
        found[i], sd[i] = gram.columns[i].lower, 0.0
    name = gram.columns[position].name
    note = INTERCEPT_NOTE if name == INTERCEPT else CONSTANT_NOTE.format(name=name)
    return _measured(found, sd, confidence), note


def _root(square: Measured) -> Measured | None:
    """Return the root of a mean square; its interval is the root of that of the square."""
    if square.value <= 0 or square.standard_error is None or square.interval is None:
        return None
    value = math.sqrt(square.value)
    low, high = (math.sqrt(max(end, 0.0)) for end in square.interval)
    return Measured(value, square.standard_error / (2 * value), (low, high))


def _correlations(
    gram: GramEstimate, diagonal_sd: FloatArray, confidence: float
) -> tuple[tuple[Measured | None, ...], ...]:
    """Return correlations about the centers; None for a column that lies within two sd of zero."""
    diagonal = np.diagonal(gram.matrix)
    usable = diagonal > 2 * diagonal_sd
    size = diagonal.size
    table: list[list[Measured | None]] = [[None] * size for _ in range(size)]
    index = np.flatnonzero(usable)
    if index.size:
        block = gram.matrix[np.ix_(index, index)]
        root = np.sqrt(diagonal[index])
        correlation = block / np.outer(root, root)
        law = gram.errors.restrict(index)
        sd = np.sqrt(law.correlation_variance(correlation, diagonal[index]))
        reach = quantile(confidence)
        for a, i in enumerate(index):
            for b, j in enumerate(index):
                table[i][j] = _bounded(float(correlation[a, b]), float(sd[a, b]), reach)
    return tuple(tuple(row) for row in table)


def _bounded(value: float, sd: float, reach: float) -> Measured:
    """Return a correlation, which like its interval lies in [-1, 1]."""
    value, low, high = (min(max(end, -1.0), 1.0) for end in (value, value - reach * sd, value + reach * sd))
    return Measured(value, sd, (low, high))
