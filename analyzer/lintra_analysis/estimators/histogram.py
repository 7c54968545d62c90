"""Shares, quantiles and the distribution of single columns, from the rows that were counted in public cells."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lintra_analysis.estimators.coefficients import StandardError
from lintra_analysis.estimators.estimates import Interval, Of, check_confidence, check_of, quantile
from lintra_analysis.estimators.figures import Figure, draw_cells
from lintra_analysis.estimators.notes import MOST_NAMED, clients, listed, with_interval
from lintra_analysis.estimators.quantities import Quantity
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import Cell, by_name, levels, number
from lintra_analysis.releases.cell_counts import CellCounts
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MISSING = "missing"
_HEADER = ("column", "cell", "lower", "upper", "share", "standard_error", "privacy", "sampling")


@dataclass(frozen=True)
class Quantile:
    """The value below which the part `at` of the rows lies, and the values that the noise leaves possible."""

    at: float
    value: float
    interval: Interval


@dataclass(frozen=True)
class ColumnHistogram:
    """One column."""

    name: str
    unit: str
    edges: tuple[float, ...]  #: of the m cells, m + 1 of them in the column's unit; empty where it has levels
    levels: tuple[str, ...]  #: names of the m cells; empty where it has edges
    shares: tuple[Quantity, ...]  #: the part of all rows in each cell; a negative one is reported as 0
    missing: Quantity  #: the part of all rows without a value
    #: of the rows that have a value, those that were asked for, ascending; none of levels
    quantiles: tuple[Quantile, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """The names of the cells: levels, or both ends, the last cell closed."""
        if self.levels:
            return self.levels
        ends = list(pairwise(self.edges))
        last = len(ends) - 1
        return tuple(f"[{low:g}, {high:g}{']' if i == last else ')'}" for i, (low, high) in enumerate(ends))


@dataclass(frozen=True, eq=False, repr=False)
class HistogramEstimate(Estimate):
    """The distributions of single columns.

    >>> from lintra_analysis import histogram, open_release
    >>> estimate = histogram(open_release("ages.npz"))
    >>> estimate.names
    ('age', 'smoker')
    >>> print(estimate.summary())  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
    Histograms
    ...

    Attributes:
        of: whether errors and intervals are about the "cohort" or the "population".
        notes: on what the errors rest.
    """

    num_clients: int
    of: Of
    confidence: float
    columns: tuple[ColumnHistogram, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        return f"HistogramEstimate({len(self.columns)} columns, {self.num_clients} clients)"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def __getitem__(self, name: str) -> ColumnHistogram:
        """Return one column.

        Raises:
            InvalidAnalysisError: there is none of this name.
        """
        return by_name(self.columns, name)

    def conf_int(self) -> Mapping[tuple[str, float], Interval]:
        """Return the intervals of the quantiles, by column and part of the rows."""
        return {(column.name, one.at): one.interval for column in self.columns for one in column.quantiles}

    def in_words(self) -> str:
        """Return the quantiles of numbers and the shares of levels, with what the noise leaves possible."""
        sentences = [f"Histograms, {clients(self.num_clients, self.of, self.confidence)}."]
        for column in self.columns[:MOST_NAMED]:
            said = [
                f"{100 * one.at:g} % below {with_interval(one.value, one.interval)} {column.unit}".rstrip()
                for one in column.quantiles
            ]
            shares = zip(column.levels, column.shares, strict=False)
            said += [f"{level} {with_interval(one.value, one.interval)}" for level, one in shares]
            sentences.append(f"{column.name}: {listed(said)}.")
        return " ".join(sentences)

    def table(self) -> Table:
        """Return one line for each cell; the text has quantiles of numbers and shares of levels."""
        return Table(
            title="Histograms",
            columns=[*_HEADER, "share_lower", "share_upper"],
            rows=self._lines(),
            facts=[("Clients", str(self.num_clients)), ("Errors are of", f"the {self.of}")],
            shown=[self._of_levels(one) if one.levels else self._of_quantiles(one) for one in self.columns],
            notes=self.notes,
            warnings=self.warnings,
            figures={name: partial(self._figure, name) for name in self.names},
        )

    def _lines(self) -> list[list[Cell]]:
        lines: list[list[Cell]] = []
        for column in self.columns:
            ends: Sequence[tuple[Cell, Cell]] = list(pairwise(column.edges))
            nowhere: list[tuple[Cell, Cell]] = [(None, None)]
            for cell, (low, high), share in zip(
                (*column.cells, MISSING),
                [*(ends or nowhere * len(column.levels)), *nowhere],
                (*column.shares, column.missing),
                strict=True,
            ):
                error = share.standard_error
                parts = [None] * 3 if error is None else [error.total, error.privacy, error.sampling]
                lines.append([column.name, cell, low, high, share.value, *parts, *(share.interval or (None, None))])
        return lines

    def plot(self, axes: "Axes | None" = None, column: str | None = None) -> "Axes":
        """Draw the share of every cell of one column with its interval; needs `lintra[plot]`.

        Args:
            axes: matplotlib's, to draw on; new ones if left out.
            column: by default the first.

        Raises:
            InvalidAnalysisError: matplotlib is not installed, or there is no such column.
        """
        return self._figure(self.columns[0].name if column is None else column).on(axes)

    def _figure(self, column: str) -> Figure:
        return Figure(8, partial(self._draw, self[column]))

    def _draw(self, shown: ColumnHistogram, axes: "Axes") -> None:
        ends = [share.interval or (share.value, share.value) for share in shown.shares]
        draw_cells(axes, shown.edges, shown.levels, [share.value for share in shown.shares], ends)
        axes.set_xlabel(f"{shown.name} in {shown.unit}" if shown.unit else shown.name, parse_math=False)
        axes.set_title(f"{shown.name}: {100 * self.confidence:g} % for the {self.of}", parse_math=False)

    def _of_quantiles(self, column: ColumnHistogram) -> tuple[list[str], list[list[str]]]:
        rows = [
            [f"{100 * one.at:g} %", number(one.value, 6), *(number(end, 6) for end in one.interval)]
            for one in column.quantiles
        ]
        rows.append(_share_row(f"{MISSING} (share)", column.missing))
        unit = f" ({column.unit})" if column.unit else ""
        return [f"{column.name}{unit}: rows below", "value", *levels(self.confidence)], rows

    def _of_levels(self, column: ColumnHistogram) -> tuple[list[str], list[list[str]]]:
        cells = zip((*column.levels, MISSING), (*column.shares, column.missing), strict=True)
        rows = [_share_row(name, one) for name, one in cells]
        return [column.name, "share", *levels(self.confidence)], rows


def _share_row(name: str, one: Quantity) -> list[str]:
    return [name, number(one.value), *(number(end) for end in one.interval or (None, None))]


USUAL_QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)

COHORT_NOTE = "errors and intervals are for the cohort's own rows; the sampling of clients would come on top"
POPULATION_NOTE = "the sampling part takes the clients to be drawn one by one from the population"
LINE_NOTE = (
    "a quantile is read off a straight line within its cell; its interval is made of whole cells, since nothing is "
    "known of how rows lie inside one"
)
OUTER_NOTE = "the outer cells hold the rows beyond the bounds too"


def histogram(
    release: Release,
    columns: Sequence[str] | None = None,
    quantiles: Sequence[float] = USUAL_QUANTILES,
    confidence: float = 0.95,
    *,
    of: Of = "population",
) -> HistogramEstimate:
    """Return for each column the share of every cell, and quantiles.

    >>> from lintra_analysis import histogram, open_release
    >>> estimate = histogram(open_release("ages.npz"), ["age"], quantiles=[0.5])
    >>> median = estimate["age"].quantiles[0]
    >>> median.interval[0] <= median.value <= median.interval[1]
    True

    Args:
        release: a histogram.
        columns: by default all.
        quantiles: each strictly between 0 and 1.
        confidence: of the intervals, each on its own.
        of: whom the errors are about: the "population" that the clients are a sample of, or the "cohort".

    Raises:
        InvalidAnalysisError: the release is no histogram, or an argument does not fit it.
    """
    check_confidence(confidence)
    check_of(of)
    asked = sorted(set(map(float, quantiles)))
    if not all(0 < at < 1 for at in asked):
        raise InvalidAnalysisError(f"quantiles lie strictly between 0 and 1, such as 0.5; got {list(quantiles)}")
    held = release.need("cells") if columns is None else release.need("cells").restrict(columns)
    numeric = any(ends.size for ends in held.edges)
    return HistogramEstimate(
        num_clients=held.num_clients,
        of=of,
        confidence=float(confidence),
        columns=tuple(_column(held, i, asked, confidence, of) for i in range(len(held.columns))),
        notes=(COHORT_NOTE if of == "cohort" else POPULATION_NOTE, *((LINE_NOTE, OUTER_NOTE) if numeric else ())),
        warnings=(),
    )


def distribution(counts: FloatArray, missing: float, num_clients: float) -> FloatArray:
    """Return a distribution function at the m + 1 edges of m noisy counts: rising from 0 to 1, shape `(m + 1,)`.

    What the cells miss of the number of rows, which is exact, is spread over them; their running sum is then made
    monotone by the nearest monotone one (Barlow, Bartholomew, Bremner, Brunk 1972). `counts` are those of the m cells;
    `missing` holds rows without a value, which the function leaves out.
    """
    inner = _running(adjusted_counts(counts, missing, num_clients))[1:-1]
    # Here, because it takes a while to import and whoever starts a service waits for that.
    from scipy.optimize import isotonic_regression

    rising = np.clip(np.asarray(isotonic_regression(inner).x), 0.0, 1.0) if inner.size else inner
    return np.concatenate([[0.0], rising, [1.0]])


def at_quantile(edges: FloatArray, rising: FloatArray, at: float) -> float:
    """Return where a distribution function of shape `(m + 1,)` reaches `at`, along straight lines between edges."""
    cell = min(max(int(np.searchsorted(rising, at, side="left")), 1), edges.size - 1)
    low, high = float(rising[cell - 1]), float(rising[cell])
    part = (at - low) / (high - low) if high > low else 0.5
    return float(edges[cell - 1] + part * (edges[cell] - edges[cell - 1]))


def adjusted_counts(counts: FloatArray, missing: float, num_clients: float) -> FloatArray:
    """Return counts, shape `(k + 1,)`, that add up to the number of rows, missing values last.

    What they lack is spread over all alike.
    """
    whole: FloatArray = np.append(counts, missing)
    whole += (num_clients - whole.sum()) / whole.size
    return whole


def _present(adjusted: FloatArray) -> float:
    """Return the rows that have a value; one at least, so that shares of them are numbers."""
    return max(float(adjusted[:-1].sum()), 1.0)


def _running(adjusted: FloatArray) -> FloatArray:
    """Return the share below each of the m + 1 edges, of the rows that have a value."""
    below: FloatArray = np.concatenate([[0.0], np.cumsum(adjusted[:-1]) / _present(adjusted)])
    below[-1] = 1.0
    return below


def _column(held: CellCounts, i: int, asked: Sequence[float], confidence: float, of: Of) -> ColumnHistogram:
    column, edges, counts, rows = held.columns[i], held.edges[i], held.counts[i], held.rows_of(i)
    whole = adjusted_counts(counts, float(held.missing[i]), rows)
    shares = [
        _share(share, _noise_of_a_share(held, share, whole.size) / rows, rows, confidence, of)
        for share in (whole / rows).tolist()
    ]
    return ColumnHistogram(
        name=column.name,
        unit=column.unit,
        edges=tuple(edges.tolist()),
        levels=held.levels[i],
        shares=tuple(shares[:-1]),
        missing=shares[-1],
        quantiles=_quantiles(held, i, asked, confidence, of) if edges.size else (),
    )


def _noise_of_a_share(held: CellCounts, share: float, cells: int) -> float:
    """Return the deviation of a share's noise, in rows: of a cell and, with a noisy count, of the sum of all cells."""
    kept = 1 - 1 / cells if not held.counted else 1 - 2 * share + cells * share**2
    return held.noise_sd * math.sqrt(max(kept, 0.0))


def _share(share: float, privacy: float, rows: float, confidence: float, of: Of) -> Quantity:
    inside = min(max(share, 0.0), 1.0)
    sampling = math.sqrt(inside * (1 - inside) / rows) if of == "population" else 0.0
    error = StandardError(privacy, 0.0, sampling, math.hypot(privacy, sampling))
    return Quantity.normal(share, error, confidence, 0.0, 1.0)


def _quantiles(held: CellCounts, i: int, asked: Sequence[float], confidence: float, of: Of) -> tuple[Quantile, ...]:
    """Return quantiles with intervals that hold whatever lies inside a cell.

    A cell may hold the quantile unless the share below its lower end is surely larger, or that below its upper end
    surely smaller. With m cells and that of missing values, all adjusted, the sum of i cells has the variance
    v i (m + 1 - i) / (m + 1), and its covariance with that of all m is v i / (m + 1); the share is the ratio of both,
    to first order. Under a noisy count nothing is adjusted: the sum of i cells has the variance v i, and its covariance
    with that of all m is v i.
    """
    edges, counts, missing = held.edges[i], held.counts[i], float(held.missing[i])
    whole = adjusted_counts(counts, missing, held.rows_of(i))
    rising, below = distribution(counts, missing, held.rows_of(i)), _running(whole)
    place, cells, part = np.arange(edges.size), whole.size, np.clip(below, 0, 1)
    factor = place * (cells - place) - 2 * part * place + part**2 * counts.size
    if held.counted:
        factor = cells * (place * (1 - 2 * part) + part**2 * counts.size)
    variance = held.noise_sd**2 * np.maximum(factor, 0) / cells / _present(whole) ** 2
    if of == "population":
        variance = variance + part * (1 - part) / _present(whole)
    reach = quantile(confidence) * np.sqrt(variance)
    low, high = below - reach, below + reach
    found = []
    for at in asked:
        value = at_quantile(edges, rising, at)
        held_by = np.flatnonzero((low[:-1] <= at) & (high[1:] >= at))
        ends = (min(float(edges[held_by[0]]), value), max(float(edges[held_by[-1] + 1]), value))
        found.append(_in_kind(held.columns[i], Quantile(at, value, ends)))
    return tuple(found)


def _in_kind(column: ScaledColumn, found: Quantile) -> Quantile:
    """Return a quantile of whole numbers as one, and the whole numbers between the ends of its interval."""
    if column.kind != "integer":
        return found
    ends: Interval = (float(math.ceil(found.interval[0])), float(math.floor(found.interval[1])))
    return Quantile(found.at, min(max(float(round(found.value)), ends[0]), ends[1]), ends)
