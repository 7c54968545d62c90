"""The columns' means, from a sum of rows or from second moments with a constant column, with the error by cause."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.centred import centred
from lintra_analysis.estimators.coefficients import StandardError
from lintra_analysis.estimators.estimates import check_confidence, sampling_bound
from lintra_analysis.estimators.quantities import Quantity, holds_sampling, standard_error
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
from lintra_analysis.noise_laws.combined_error import CombinedError
from lintra_analysis.releases.columns import centers, scales
from lintra_analysis.releases.gram import HasSecondMoment
from lintra_analysis.releases.totals import Totals
from lintra_protocol.errors import InvalidAnalysisError

BOUND_NOTE = "a sum holds no variances, so the sampling part is the largest that the columns' bounds allow"
SAMPLE_NOTE = "the sampling part rests on the variances in the same release"


@dataclass(frozen=True, eq=False, repr=False)
class MeansEstimate(Tabular):
    """The means of the columns, in their own units.

    >>> from lintra_analysis import means, open_release
    >>> estimate = means(open_release("flights.npz"))
    >>> estimate.columns
    ('hour', 'distance', 'delay')
    >>> low, high = estimate.means[0].interval
    >>> 10 < low < high < 14
    True

    Attributes:
        means: one for each column.
        notes: on what the errors rest.
    """

    columns: tuple[str, ...]
    num_clients: int
    confidence: float
    means: tuple[Quantity, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"MeansEstimate({len(self.columns)} columns, {self.num_clients} clients)"

    def to_csv(self) -> str:
        """Return one line for each column."""
        header = ["name", "mean", "standard_error", "privacy", "sketching", "sampling"]
        return csv_text(
            [*header, "lower", "upper", "cohort_lower", "cohort_upper"], map(self._row, range(len(self.means)))
        )

    def _row(self, i: int) -> list[Cell]:
        mean = self.means[i]
        error = mean.standard_error
        parts: list[Cell] = (
            [None] * 4 if error is None else [error.total, error.privacy, error.sketching, error.sampling]
        )
        return [self.columns[i], mean.value, *parts, *(mean.interval or ()), *(mean.cohort_interval or ())]

    def summary(self, privacy: str | None = None) -> str:
        """Return a text for people."""
        lines = title("Means") + facts([("Clients", str(self.num_clients))])
        rows = []
        for name, mean in zip(self.columns, self.means, strict=True):
            error = mean.standard_error
            parts = [None] * 3 if error is None else [error.privacy, error.sketching, error.sampling]
            total = None if error is None else error.total
            ends = mean.interval or (None, None)
            shown = [number(end, digits_beside(mean.value, total)) for end in ends]
            value = number(mean.value, digits_beside(mean.value, total, 6))
            rows.append([name, value, number(total), *shown, *map(number, parts)])
        lines += table(["", "mean", "std err", *levels(self.confidence), "privacy", "sketching", "sampling"], rows)
        return "\n".join([*lines, *closing(privacy, self.warnings, self.notes)]) + "\n"


def means(
    release: Totals | HasSecondMoment, columns: Sequence[str] | None = None, confidence: float = 0.95
) -> MeansEstimate:
    """Return the means of the columns.

    >>> from lintra_analysis import means, open_release
    >>> print(means(open_release("flights.npz"), ["hour"]).summary())  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
    Means
    ...

    Args:
        release: a sum, or a second moment or sketch with a constant column.
        columns: by default all that vary.
        confidence: of the intervals, each on its own.

    Raises:
        InvalidAnalysisError: the release holds no means, or an argument does not fit it.
    """
    check_confidence(confidence)
    if isinstance(release, Totals):
        return _of_sum(release if columns is None else release.restrict(columns), confidence)
    return _of_second_moment(release, columns, confidence)


def _of_sum(release: Totals, confidence: float) -> MeansEstimate:
    """Return the means of a sum."""
    count, found = release.num_clients, []
    values = centers(release.columns) + scales(release.columns) * release.values / count
    for column, value in zip(release.columns, values.tolist(), strict=True):
        privacy = column.scale * release.noise_sd / count
        sampling = sampling_bound(column.lower, column.upper, count)
        error = StandardError(privacy, 0.0, sampling, math.hypot(privacy, sampling))
        found.append(Quantity.normal(value, error, confidence, -math.inf, math.inf))
    names = tuple(column.name for column in release.columns)
    return MeansEstimate(names, count, float(confidence), tuple(found), (BOUND_NOTE,))


def _of_second_moment(release: HasSecondMoment, columns: Sequence[str] | None, confidence: float) -> MeansEstimate:
    """Return the means that a constant column holds: M_0v / M_00 in units of the constant."""
    moments = centred(release, columns)
    errors = moments.gram.errors
    if not moments.about_means or not isinstance(errors, CombinedError):
        raise InvalidAnalysisError(
            "this release holds no means: it has no constant column; release a sum, or second moments with an intercept"
        )
    constant = next(column.constant for column in release.second_moment().columns if column.constant)
    lever, count, found = constant / errors.matrix[0, 0], moments.gram.num_clients, []
    for i, column in enumerate(moments.columns):
        # An error N of M moves the mean by c / M_00 times N_0v - (M_0v / M_00) N_00, to first order.
        weights = np.zeros_like(errors.matrix)
        weights[0] = weights[:, 0] = errors.basis[:, i] / 2
        weights[0, 0] = errors.basis[0, i]
        weights *= abs(lever)
        measured = errors.law.functional_sd(weights)
        privacy = errors.law.privacy_functional_sd(weights, errors.matrix)
        spread = max(float(moments.gram.matrix[i, i]), 0.0) / moments.divisor
        error = standard_error(measured, privacy, math.sqrt(spread / count), holds_sampling(moments), column.scale)
        found.append(Quantity.normal(float(moments.means_in_units[i]), error, confidence, -math.inf, math.inf))
    names = tuple(column.name for column in moments.columns)
    return MeansEstimate(names, count, float(confidence), tuple(found), (SAMPLE_NOTE,))
