"""The correlation matrix, about the means where a release holds them, with the error of every entry by cause."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lintra_analysis.estimators.centred import About, centred
from lintra_analysis.estimators.concentrated.pairs import PairIntervals
from lintra_analysis.estimators.estimates import Clipping, Interval, Of, check_confidence, check_of, quantile, two_sided
from lintra_analysis.estimators.figures import (
    Figure,
    draw_matrix,
)
from lintra_analysis.estimators.notes import apart_from_zero, clients, matrix_warnings
from lintra_analysis.estimators.pca import notes_of
from lintra_analysis.estimators.quantities import standard_error
from lintra_analysis.estimators.shrinking import clipping, pair_limits, shrinking_warnings
from lintra_analysis.estimators.spectral import floor_eigenvalues, smallest_eigenvalue
from lintra_analysis.estimators.table import Estimate, Matrix, Table
from lintra_analysis.estimators.tabular import Cell, levels, number
from lintra_analysis.releases.gram_error import GramEstimate, HasSecondMoment
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

ALLOWED_NOTE = "the noise's part of an interval holds every correlation that the exact Gaussian law of the noise allows"
LINEAR_NOTE = "the noise's part of an interval is linearised about the estimate"
_SMALLEST_EIGENVALUE = -1e-12


@dataclass(frozen=True)
class PairCorrelation:
    """The correlation of two columns.

    Attributes:
        value: the estimate, between -1 and 1; the matrix may hold another number if it had to be repaired. None if the
            variance of a column is lost in noise.
        standard_error: to first order; None where the value is.
        privacy: the part of the standard error that the privacy noise causes, and so on; parts add up in squares.
        interval: for the cohort or the population; all of [-1, 1] where nothing can be told.
        p_value: of a correlation of 0, two-sided.
    """

    first: str
    second: str
    value: float | None
    standard_error: float | None
    privacy: float | None
    sketching: float | None
    sampling: float | None
    interval: Interval
    p_value: float | None


@dataclass(frozen=True, eq=False, repr=False)
class CorrelationEstimate(Estimate):
    """The correlations of d columns.

    >>> from lintra_analysis import correlation, open_release
    >>> estimate = correlation(open_release("flights.npz"))
    >>> estimate.columns
    ('hour', 'distance', 'delay')
    >>> print(estimate.to_csv())  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
    first,second,...

    Attributes:
        columns: those whose variance stands out of the noise; the matrix is about these.
        lost: those whose variance does not; they have intervals but no values, and only where the law is known.
        of: whether errors, intervals and tests are about the "cohort" or the "population".
        matrix: shape `(d, d)`, positive semi-definite, with ones on the diagonal.
        repaired: whether noise had made it indefinite; then `matrix` differs from the pairs.
        pairs: every pair of columns, the first before the second.
        warnings: in plain words, what the analyst must know before using the numbers.
        clipping: how many rows a bound changed and how far that may have moved each pair; None if nobody counted.
    """

    columns: tuple[str, ...]
    lost: tuple[str, ...]
    num_clients: int
    of: Of
    confidence: float
    about_means: bool
    matrix: FloatArray
    repaired: bool
    pairs: tuple[PairCorrelation, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    clipping: Clipping | None = None

    def __repr__(self) -> str:
        return f"CorrelationEstimate({len(self.columns)} columns, {self.num_clients} clients)"

    def conf_int(self) -> dict[tuple[str, str], Interval]:
        """Return the intervals by pair of columns; all of [-1, 1] where nothing can be told."""
        return {(pair.first, pair.second): pair.interval for pair in self.pairs}

    @property
    def pvalues(self) -> dict[tuple[str, str], float | None]:
        """The p values of correlations of 0, by pair of columns; None for a column lost in noise."""
        return {(pair.first, pair.second): pair.p_value for pair in self.pairs}

    def table(self) -> Table:
        """Return one line for each pair; a data frame holds the matrix with the columns' names on both sides."""
        header = ["first", "second", "correlation", "standard_error", "privacy", "sketching", "sampling"]
        lines = zip(self.columns, self.matrix, strict=True)
        places = {name: i for i, name in enumerate(self.columns)}
        return Table(
            title="Correlations from a private second moment",
            columns=[*header, "lower", "upper", "p_value", "repaired_correlation"],
            rows=(self._row(pair, places) for pair in self.pairs),
            matrix=Matrix(self.matrix, self.columns, self.columns),
            facts=[
                ("Clients", str(self.num_clients)),
                ("About", "means" if self.about_means else "public centers"),
                ("Errors are of", f"the {self.of}"),
            ],
            shown=[
                (["", *self.columns], ([name, *(f"{value:.3f}" for value in row)] for name, row in lines)),
                (
                    ["", "corr", "std err", "P", *levels(self.confidence), "privacy", "sketching", "sampling"],
                    map(_summary_row, self.pairs),
                ),
            ],
            notes=self.notes,
            warnings=self.warnings,
            figures={"": self._figure},
        )

    def _figure(self) -> Figure:
        """Return the matrix; a correlation whose interval holds 0 stands in brackets."""
        place, doubtful = {name: i for i, name in enumerate(self.columns)}, np.zeros(self.matrix.shape, bool)
        for (first, second), (low, high) in self.conf_int().items():
            if first in place and second in place:
                i, j = place[first], place[second]
                doubtful[i, j] = doubtful[j, i] = low <= 0 <= high
        draw = partial(
            draw_matrix,
            names=self.columns,
            matrix=self.matrix,
            doubtful=doubtful,
            title=f"Correlations of the {self.of}",
        )
        return Figure(max(8, len(self.columns)), draw)

    def pair(self, first: str, second: str) -> PairCorrelation:
        """Return the correlation of two columns, in either order.

        Raises:
            InvalidAnalysisError: one of them is not in the matrix, or both are the same.
        """
        for pair in self.pairs:
            if {pair.first, pair.second} == {first, second}:
                return pair
        known = ", ".join((*self.columns, *self.lost))
        raise InvalidAnalysisError(f"there is no pair {first!r}, {second!r}; columns are: {known}")

    def in_words(self) -> str:
        """Return which correlations are told apart from 0, the surest first."""
        found = apart_from_zero([(f"{one.first} and {one.second}", one.value, one.interval) for one in self.pairs])
        return f"Correlations, {clients(self.num_clients, self.of, self.confidence)}. {found}"

    def _row(self, pair: PairCorrelation, places: Mapping[str, int]) -> list[Cell]:
        repaired = None
        if pair.first in places and pair.second in places:
            repaired = float(self.matrix[places[pair.first], places[pair.second]])
        row: list[Cell] = [pair.first, pair.second, pair.value, pair.standard_error]
        row += [pair.privacy, pair.sketching, pair.sampling, *pair.interval, pair.p_value]
        return [*row, repaired]


def _summary_row(pair: PairCorrelation) -> list[str]:
    p_value = "-" if pair.p_value is None else f"{pair.p_value:.3f}"
    value = "-" if pair.value is None else f"{pair.value:.4f}"
    row = [f"{pair.first}, {pair.second}", value, number(pair.standard_error), p_value]
    return [*row, *map(number, (*pair.interval, pair.privacy, pair.sketching, pair.sampling))]


def correlation(
    release: HasSecondMoment,
    columns: Sequence[str] | None = None,
    confidence: float = 0.95,
    *,
    about: About = "means",
    of: Of = "population",
) -> CorrelationEstimate:
    """Return the correlations of the columns.

    >>> from lintra_analysis import correlation, open_release
    >>> correlation(open_release("flights.npz"), ["hour", "delay"]).matrix.shape
    (2, 2)

    Where the noise is Gaussian and known, the interval of the cohort's correlation holds all those that the noise
    allows (concentrated/pairs.py). That of the population adds the sampling on either side (Zou 2007), on the scale
    atanh(r) of Fisher, where its error is 1 / sqrt(n - 3) for normal rows.

    Args:
        release: a sketch or a second moment.
        columns: at least two; by default all that vary.
        confidence: of the intervals, each on its own.
        about: the "means" where the release holds them, or the public "centers" in any case.
        of: whom errors, intervals and tests are about: the "population" or the "cohort".

    Raises:
        InvalidAnalysisError: the release holds no second moments, or an argument does not fit it.
    """
    check_confidence(confidence)
    check_of(of)
    moments = centred(release, columns, about)
    gram = moments.gram
    if len(moments.columns) < 2 or gram.num_rows < 4:
        raise InvalidAnalysisError("correlations need at least 2 columns that vary, and 4 clients")
    diagonal, usable = np.diagonal(gram.matrix), usable_variances(gram)
    names = tuple(column.name for column in moments.columns)
    lost = tuple(name for name, told in zip(names, usable, strict=True) if not told)
    allowed = _allowed(gram, confidence)
    if usable.sum() < 2 and allowed is None:
        raise InvalidAnalysisError(f"noise has swallowed the variance of {', '.join(lost)}; no correlation is left")
    root = np.sqrt(diagonal[usable])
    repaired, matrix = _repaired(gram.matrix[np.ix_(usable, usable)] / np.outer(root, root))
    limits = pair_limits(gram, usable) if gram.clipped else []
    tested = gram.clipped is None or gram.clipped.tests_hold
    pairs = _pairs(_Results(gram, names, usable, allowed, of, confidence))
    return CorrelationEstimate(
        columns=tuple(name for name in names if name not in lost),
        lost=lost,
        num_clients=gram.num_clients,
        of=of,
        confidence=float(confidence),
        about_means=moments.about_means,
        matrix=matrix,
        repaired=repaired,
        pairs=tuple(pairs if tested else (replace(pair, p_value=None) for pair in pairs)),
        notes=(
            *notes_of(moments.about_means, of),
            LINEAR_NOTE if allowed is None else ALLOWED_NOTE,
            *gram.row_notes,
        ),
        warnings=(*matrix_warnings(lost, repaired), *shrinking_warnings(gram.clipped, "correlations", limits)),
        clipping=clipping(gram.clipped, limits),
    )


def usable_variances(gram: GramEstimate) -> NDArray[np.bool_]:
    """Return which variances stand out of the noise, shape `(d,)`."""
    diagonal = np.diagonal(gram.matrix)
    sd = np.sqrt(np.diagonal(gram.errors.entry_variance(np.eye(diagonal.size))))
    return np.asarray(diagonal > 2 * sd)


def _allowed(gram: GramEstimate, confidence: float) -> dict[tuple[int, int], tuple[Interval, float]] | None:
    """Return for every pair what the noise allows, and the p value of 0; None if its law is not known or it is 0."""
    size = gram.matrix.shape[0]
    covariance = gram.errors.triple_covariance(np.eye(size))
    if covariance is None or not (np.diagonal(covariance, axis1=2, axis2=3) > 0).all():
        return None
    first, second = np.triu_indices(size, 1)
    matrix, diagonal = gram.matrix, np.diagonal(gram.matrix)
    sums = np.column_stack([diagonal[first], matrix[first, second], diagonal[second]])
    limit, parts = float(special.chdtri(1, 1 - confidence)), PairIntervals.of(sums, covariance[first, second]).parts()
    intervals = np.concatenate([part.intervals(limit) for part in parts]).tolist()
    distances = np.concatenate([part.distances(np.zeros(len(part.sums))) for part in parts])
    p_values = special.chdtrc(1, distances).tolist()
    found = zip(first.tolist(), second.tolist(), intervals, p_values, strict=True)
    return {(i, j): ((low, high), p_value) for i, j, (low, high), p_value in found}


def _repaired(raw: FloatArray) -> tuple[bool, FloatArray]:
    """Return whether a matrix was indefinite, and the matrix with clipped eigenvalues and ones on the diagonal."""
    indefinite = raw.size > 0 and smallest_eigenvalue(raw) < _SMALLEST_EIGENVALUE
    repaired = floor_eigenvalues(raw, 0.0) if indefinite else raw
    root = np.sqrt(np.diagonal(repaired))
    matrix = repaired / np.outer(root, root)
    np.fill_diagonal(matrix, 1.0)
    return indefinite, matrix


@dataclass(frozen=True, eq=False)
class _Results:
    """What pairs are made from."""

    gram: GramEstimate
    names: tuple[str, ...]
    usable: NDArray[np.bool_]
    allowed: dict[tuple[int, int], tuple[Interval, float]] | None
    of: Of
    confidence: float


def _pairs(told: _Results) -> list[PairCorrelation]:
    """Return every pair with its errors."""
    gram, diagonal = told.gram, np.diagonal(told.gram.matrix)
    root = np.sqrt(np.where(told.usable, diagonal, 1.0))
    raw = gram.matrix / np.outer(root, root)
    np.fill_diagonal(raw, 1.0)
    variance = gram.errors.correlation_variance(raw, root**2)
    found = []
    for i in range(root.size):
        for j in range(i + 1, root.size):
            allowed = None if told.allowed is None else told.allowed[i, j]
            if told.usable[i] and told.usable[j]:
                measured = math.sqrt(max(float(variance[i, j]), 0.0))
                found.append(_resolved(told, (i, j), float(raw[i, j]), measured, allowed))
            elif allowed is not None:
                found.append(_lost(told, (i, j), allowed))
    return found


def _resolved(
    told: _Results, pair: tuple[int, int], r: float, measured: float, allowed: tuple[Interval, float] | None
) -> PairCorrelation:
    """Return the correlation r of two columns whose variances stand out of the noise."""
    (i, j), gram, count = pair, told.gram, told.gram.num_rows
    mixed, bounded = gram.errors.measured, min(max(r, -1.0), 1.0)
    privacy = _privacy(gram, i, j, r) if mixed else measured
    error = standard_error(measured, privacy, (1 - bounded**2) / math.sqrt(count - 3), mixed, told.of)
    p_value = _p_value(bounded, math.hypot(error.privacy, error.sketching), count)
    if allowed is None:
        around = math.hypot(error.sketching, error.sampling)
        interval = _interval(r, around, _normal(r, error.privacy, told.confidence), told.confidence)
        if told.of == "cohort":
            p_value = two_sided(bounded / measured) if measured > 0 else float(bounded == 0)
    else:
        interval = _interval(r, error.sampling, allowed[0], told.confidence)
        p_value = p_value if told.of == "population" else allowed[1]
    return PairCorrelation(
        first=told.names[i],
        second=told.names[j],
        value=bounded,
        standard_error=error.total,
        privacy=error.privacy,
        sketching=error.sketching,
        sampling=error.sampling,
        interval=interval,
        p_value=p_value,
    )


def _lost(told: _Results, pair: tuple[int, int], allowed: tuple[Interval, float]) -> PairCorrelation:
    """Return what the noise allows of two columns of which one is lost in it."""
    (low, high), p_value = allowed
    middle = (low + high) / 2
    sampling = (1 - middle**2) / math.sqrt(told.gram.num_rows - 3) if told.of == "population" else 0.0
    return PairCorrelation(
        first=told.names[pair[0]],
        second=told.names[pair[1]],
        value=None,
        standard_error=None,
        privacy=None,
        sketching=None,
        sampling=None,
        interval=_interval(middle, sampling, (low, high), told.confidence),
        p_value=p_value if told.of == "cohort" else None,
    )


def _privacy(gram: GramEstimate, i: int, j: int, r: float) -> float:
    """Return the part of a correlation's standard error that the privacy noise of a sketch causes."""
    weights, root = np.zeros_like(gram.matrix), np.sqrt(np.diagonal(gram.matrix)[[i, j]])
    weights[i, j] = weights[j, i] = 0.5 / (root[0] * root[1])
    weights[i, i], weights[j, j] = -r / (2 * root[0] ** 2), -r / (2 * root[1] ** 2)
    return gram.errors.privacy_functional_sd(weights, gram.matrix)


def _normal(r: float, noise: float, confidence: float) -> Interval:
    """Return the interval of normal noise, which stays normal on the scale of r however near r is to 1."""
    reach = quantile(confidence) * noise
    return r - reach, r + reach


def _interval(r: float, around: float, noise: Interval, confidence: float) -> Interval:
    """Return an interval whose parts add up in squares on either side (Zou 2007).

    `r` is the estimate; noise may have left it beyond 1. `around` is the sd of what varies as correlations of samples
    do, hence on Fisher's scale atanh(r). `noise` is the interval for the noise alone.
    """
    reach = quantile(confidence)
    low = high = reach * around
    if abs(r) < 1:
        centre, half = math.atanh(r), reach * around / (1 - r**2)
        low, high = r - math.tanh(centre - half), math.tanh(centre + half) - r
    lower, upper = r - math.hypot(low, max(r - noise[0], 0.0)), r + math.hypot(high, max(noise[1] - r, 0.0))
    return max(min(lower, 1.0), -1.0), min(max(upper, -1.0), 1.0)


def _p_value(r: float, noise: float, count: int) -> float:
    """Return p of a correlation of 0 in the population: without noise, that of the usual t test on n - 2 degrees.

    The sampling variance is (1 - r^2) / (n - 2), with what noise may have added to r^2 taken out of it.
    """
    sampling = (1 - max(r**2 - noise**2, 0.0)) / (count - 2)
    total = noise**2 + sampling
    if total == 0:
        return 0.0
    # Satterthwaite (1946): only the sampling part is estimated.
    freedom = (count - 2) * (total / sampling) ** 2 if sampling > 0 else math.inf
    return two_sided(r / math.sqrt(total), freedom)
