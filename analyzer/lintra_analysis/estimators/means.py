"""The columns' means and mean squares, from a sum of rows or from second moments, with the error by cause.

Means come from a sum of rows, or from second moments through a column that is the same for everybody. Mean squares are
about the public centers, and come from second moments only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lintra_analysis.estimators.centred import Centred, centred
from lintra_analysis.estimators.coefficients import StandardError
from lintra_analysis.estimators.estimates import Clipping, Interval, Of, check_confidence, check_of, sampling_bound
from lintra_analysis.estimators.figures import (
    Figure,
    Mark,
    intervals,
)
from lintra_analysis.estimators.notes import clients, listed, with_interval
from lintra_analysis.estimators.quantities import Quantity, error_of, standard_error, with_count
from lintra_analysis.estimators.shrinking import clipping, mean_limits, shrinking_warnings, square_warning
from lintra_analysis.estimators.spectral import floor_eigenvalues
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import Cell, digits_beside, levels, number
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.columns import INTERCEPT, ScaledColumn, centers, listed_names, positions, scales
from lintra_analysis.releases.gram_error import GramEstimate, HasSecondMoment
from lintra_protocol.errors import InvalidAnalysisError

COHORT_NOTE = "errors and intervals are for the cohort's own clipped rows; the sampling of clients would come on top"
BOUND_NOTE = "a sum holds no variances, so the sampling part is the largest that the columns' bounds allow"
SAMPLE_NOTE = "the sampling part rests on the variances in the same release"
NO_MEANS_NOTE = (
    "means: a second moment about the public centers holds none; release a sum, or second moments with a "
    "column that is the same for everybody"
)
NO_SECOND_NOTE = "mean squares and correlations: a sum holds none; release a second moment or a sketch"
NO_MEANS = f"this release holds no means: {NO_MEANS_NOTE}"
CONSTANT_NOTE = "means rest on the constant column {name!r}; a row that was shrunk counts for less than one"
INTERCEPT_NOTE = "means rest on the intercept, which is never shrunk; a row that was counts with its shrunken values"
ABOUT_CENTER_NOTE = (
    "mean squares are about the public centers, not about the means; the sampling part of their errors takes the rows "
    "to be normal"
)


@dataclass(frozen=True, eq=False, repr=False)
class MeansEstimate(Estimate):
    """The means and mean squares of the columns, in their own units; what the release does not hold is None.

    >>> from lintra_analysis import means, open_release
    >>> estimate = means(open_release("flights.npz"))
    >>> estimate.columns
    ('hour', 'distance', 'delay')
    >>> low, high = estimate.means[0].interval
    >>> 10 < low < high < 14
    True

    Attributes:
        of: whether errors and intervals are about the "cohort" or the "population".
        means: one for each column.
        mean_squares: mean squared distance from the public center, in the columns' units squared.
        root_mean_squares: roots of that; None where noise has made it negative.
        notes: on what the errors rest, and what is missing and why.
        clipping: how many rows a bound changed and how far that may have moved each mean; None if nobody counted.
        scaled_columns: the columns as the release has them; not part of `to_dict`.
    """

    columns: tuple[str, ...]
    num_clients: int
    of: Of
    confidence: float
    means: tuple[Quantity, ...] | None
    mean_squares: tuple[Quantity, ...] | None
    root_mean_squares: tuple[Quantity | None, ...] | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    clipping: Clipping | None = None
    scaled_columns: tuple[ScaledColumn, ...] = field(default=(), metadata={"plain": False})

    def __repr__(self) -> str:
        return f"MeansEstimate({len(self.columns)} columns, {self.num_clients} clients)"

    @property
    def params(self) -> dict[str, float]:
        """The means by name.

        Raises:
            InvalidAnalysisError: the release holds none.
        """
        return {name: one.value for name, one in self._means()}

    @property
    def bse(self) -> dict[str, float | None]:
        """Their standard errors by name, all causes together; None where the release supports none.

        Raises:
            InvalidAnalysisError: the release holds no means.
        """
        return {name: None if (error := one.standard_error) is None else error.total for name, one in self._means()}

    def conf_int(self) -> dict[str, Interval | None]:
        """Return the intervals of the means by name.

        Raises:
            InvalidAnalysisError: the release holds no means.
        """
        return {name: one.interval for name, one in self._means()}

    def _means(self) -> list[tuple[str, Quantity]]:
        if self.means is None:
            raise InvalidAnalysisError(NO_MEANS)
        return list(zip(self.columns, self.means, strict=True))

    def table(self) -> Table:
        """Return one line for each column."""
        kinds = (("mean", self.means), ("root mean square", self.root_mean_squares))
        return Table(
            title="Means",
            columns=_HEADER,
            rows=map(self._row, range(len(self.columns))),
            index=("name",),
            facts=[("Clients", str(self.num_clients)), ("Errors are of", f"the {self.of}")],
            shown=[
                (
                    ["", kind, "std err", *levels(self.confidence), *_PARTS],
                    [[name, *_text_cells(one)] for name, one in zip(self.columns, values, strict=True)],
                )
                for kind, values in kinds
                if values is not None
            ],
            notes=self.notes,
            warnings=self.warnings,
            figures={} if self.means is None else {"": self._figure},
            no_figure=NO_MEANS,
        )

    def _figure(self) -> Figure:
        """Return each mean with its interval, as its distance from the public center in public scales.

        So columns of any unit stand side by side, and 0 is the center.
        """
        marks = []
        for (name, one), column in zip(self._means(), self.scaled_columns, strict=True):
            shown = f"{name}: {number(one.value)} {column.unit}".rstrip()
            marks.append(Mark(shown, one.value, one.interval).moved(-column.center, 1 / column.scale))
        title = f"Means: {100 * self.confidence:g} % for the {self.of}"
        return intervals(marks, title, "distance from the public center, in public scales")

    def in_words(self) -> str:
        """Return each mean with its interval in its own unit."""
        rows = clients(self.num_clients, self.of, self.confidence)
        if self.means is None:
            return f"Mean squares of {listed(self.columns)} about the public centers, {rows}."
        shown = zip(self._means(), self.scaled_columns, strict=True)
        said = [f"{name} {with_interval(one.value, one.interval)} {held.unit}".rstrip() for (name, one), held in shown]
        return f"Means, {rows}: {listed(said)}."

    def _row(self, i: int) -> list[Cell]:
        row: list[Cell] = [self.columns[i]]
        for values in (self.means, self.mean_squares, self.root_mean_squares):
            row += _cells(None if values is None else values[i])
        return row


_PARTS = ("privacy", "sketching", "sampling")
_NUMBERS = ("standard_error", *_PARTS, "lower", "upper")
_HEADER = (
    "name",
    "mean",
    *_NUMBERS,
    "mean_square",
    *(f"mean_square_{part}" for part in _NUMBERS),
    "root_mean_square",
    *(f"root_mean_square_{part}" for part in _NUMBERS),
)


def _cells(one: Quantity | None) -> list[Cell]:
    if one is None or one.standard_error is None:
        return [None if one is None else one.value, *[None] * len(_NUMBERS)]
    error = one.standard_error
    causes = [error.total, error.privacy, error.sketching, error.sampling]
    return [one.value, *causes, *(one.interval or (None, None))]


def _text_cells(one: Quantity | None) -> list[str]:
    """Return a number, its error, the ends of its interval and the parts of the error for people."""
    if one is None or one.standard_error is None:
        return [number(None if one is None else one.value), *["-"] * 6]
    error, digits = one.standard_error, digits_beside(one.value, one.standard_error.total)
    shown = [number(end, digits) for end in one.interval or (None, None)]
    value = number(one.value, digits_beside(one.value, error.total, 6))
    return [value, number(error.total), *shown, *map(number, (error.privacy, error.sketching, error.sampling))]


def means(
    release: HasSecondMoment,
    columns: Sequence[str] | None = None,
    confidence: float = 0.95,
    *,
    of: Of = "population",
) -> MeansEstimate:
    """Return the means and mean squares of the columns, as far as the release holds them.

    >>> from lintra_analysis import means, open_release
    >>> print(means(open_release("flights.npz"), ["hour"]).summary())  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
    Means
    ...

    Args:
        release: a sum, a second moment or a sketch.
        columns: by default all that vary.
        confidence: of the intervals, each on its own.
        of: whom the errors are about: the "population" or the "cohort".

    Raises:
        InvalidAnalysisError: the release holds neither sums nor second moments, or an argument does not fit it.
    """
    check_confidence(confidence)
    check_of(of)
    totals: Totals | None = getattr(release, "totals", None)
    if totals is not None:
        return _of_totals(totals if columns is None else totals.restrict(columns), confidence, of)
    return _of_second_moment(release.second_moment(), columns, confidence, of)


def _of_totals(release: Totals, confidence: float, of: Of) -> MeansEstimate:
    """Return the means of a sum."""
    count, found = release.num_rows, []
    values = centers(release.columns) + scales(release.columns) * release.values / count
    for column, value in zip(release.columns, values.tolist(), strict=True):
        # Both the sum and the number of rows may carry noise; the quotient does, to first order.
        counted = (value - column.center) * release.count_error
        privacy = math.hypot(column.scale * release.noise_sd / count, counted)
        sampling = sampling_bound(column.lower, column.upper, count) if of == "population" else 0.0
        error = StandardError(privacy, 0.0, sampling, math.hypot(privacy, sampling))
        found.append(Quantity.normal(value, error, confidence, -math.inf, math.inf))
    names = tuple(column.name for column in release.columns)
    about = BOUND_NOTE if of == "population" else COHORT_NOTE
    notes, columns = (about, NO_SECOND_NOTE, *release.count_notes), release.columns
    limits = mean_limits(release.clipped, columns)
    warnings, moved = tuple(shrinking_warnings(release.clipped, "means", limits)), clipping(release.clipped, limits)
    reports, own = release.num_clients, tuple(found)
    return MeansEstimate(names, reports, of, float(confidence), own, None, None, notes, warnings, moved, columns)


def _of_second_moment(gram: GramEstimate, columns: Sequence[str] | None, confidence: float, of: Of) -> MeansEstimate:
    """Return mean squares about the public centers, and the means if a constant column carries them."""
    if columns is not None:
        constant = [column.name for column in gram.columns if column.constant and column.name not in columns]
        positions(gram.columns, columns)
        gram = gram.restrict([*constant, *listed_names(columns)])
    moments = centred(gram, columns)
    squares = _mean_squares(centred(gram, columns, "centers"), confidence, of)
    found = _means(moments, confidence, of)
    notes = [SAMPLE_NOTE if of == "population" else COHORT_NOTE, ABOUT_CENTER_NOTE]
    if found is None:
        notes.append(NO_MEANS_NOTE)
    else:
        name = next(column.name for column in gram.columns if column.constant)
        if gram.weighted is not None:
            notes.append(f"means are weighted: {gram.weighted.words}")
        else:
            notes.append(INTERCEPT_NOTE if name == INTERCEPT else CONSTANT_NOTE.format(name=name))
    limits = mean_limits(gram.clipped, moments.columns if found else ())
    return MeansEstimate(
        columns=tuple(column.name for column in moments.columns),
        num_clients=gram.num_clients,
        of=of,
        confidence=float(confidence),
        means=found,
        mean_squares=squares,
        root_mean_squares=tuple(_root(square) for square in squares),
        notes=(*gram.bound_notes, *notes, *gram.count_notes),
        warnings=(
            *shrinking_warnings(gram.clipped, "means", limits),
            *square_warning(gram.clipped, gram),
        ),
        clipping=clipping(gram.clipped, limits),
        scaled_columns=moments.columns,
    )


def _means(moments: Centred, confidence: float, of: Of) -> tuple[Quantity, ...] | None:
    """Return the means that a constant column holds: M_0v / M_00 in units of the constant.

    Where its product with itself is public they are linear in the noise, and the errors exact.
    """
    whole, basis = moments.whole, moments.basis
    if whole is None or basis is None:
        return None
    constant = whole.columns[0].constant or 1.0
    lever, count, found = constant / whole.matrix[0, 0], moments.gram.total_weight, []
    for i, column in enumerate(moments.columns):
        # An error N of M moves the mean by c / M_00 times N_0v - (M_0v / M_00) N_00, to first order.
        weights = np.zeros_like(whole.matrix)
        weights[0] = weights[:, 0] = basis[:, i] / 2
        weights[0, 0] = basis[0, i]
        weights *= abs(lever)
        measured = whole.errors.functional_sd(weights)
        privacy = whole.errors.privacy_functional_sd(weights, whole.matrix)
        spread = max(float(moments.gram.matrix[i, i]), 0.0) / moments.divisor
        law = whole.errors.measured
        error = standard_error(measured, privacy, math.sqrt(spread / count), law, of, column.scale)
        found.append(Quantity.normal(float(moments.means_in_units[i]), error, confidence, -math.inf, math.inf))
    return tuple(found)


def _mean_squares(moments: Centred, confidence: float, of: Of) -> tuple[Quantity, ...]:
    """Return the mean squared distances from the public centers."""
    gram, found = moments.gram, []
    clipped = floor_eigenvalues(gram.matrix, 0.0)
    for i, column in enumerate(moments.columns):
        weights = np.zeros_like(gram.matrix)
        weights[i, i] = 1.0
        unit = column.scale**2 / gram.total_weight
        # A sampling part is that of a sum over clients, n times as large as that of a mean square.
        value = float(gram.matrix[i, i]) * unit
        error = with_count(error_of(moments, weights, clipped, of, unit), value, gram)
        found.append(Quantity.normal(value, error, confidence, -math.inf, math.inf))
    return tuple(found)


def _root(square: Quantity) -> Quantity | None:
    """Return the root of a mean square; its interval is the root of that of the square."""
    error = square.standard_error
    if square.value <= 0 or error is None or square.interval is None:
        return None
    value = math.sqrt(square.value)
    parts = (part / (2 * value) for part in (error.privacy, error.sketching, error.sampling, error.total))
    low, high = (math.sqrt(max(end, 0.0)) for end in square.interval)
    return Quantity(value, StandardError(*parts), (low, high))
