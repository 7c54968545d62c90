"""The answer of a histogram: shares of cells and quantiles, as numbers, a table, a frame and a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from lintra_analysis.estimators.estimates import Interval, Of
from lintra_analysis.estimators.figures import Figure, draw_cells
from lintra_analysis.estimators.notes import MOST_NAMED, clients, listed, with_interval
from lintra_analysis.estimators.quantities import Quantity
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import Cell, by_name, levels, number

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
