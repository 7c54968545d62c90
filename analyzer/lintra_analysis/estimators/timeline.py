"""Columns over the windows of a stream: means and totals of single windows, of running totals, or of moving sums.

The noise of windows hangs together, so that each span of windows is read as one release with its own error. The same
people may answer in several windows: the sampling part of an error is the most that any dependence allows.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from lintra_analysis.estimators.coefficients import StandardError
from lintra_analysis.estimators.estimates import Of
from lintra_analysis.estimators.figures import Figure, draw_band
from lintra_analysis.estimators.means import NO_MEANS_NOTE, MeansEstimate, means
from lintra_analysis.estimators.notes import listed, with_interval
from lintra_analysis.estimators.quantities import Quantity
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import Cell, levels, number
from lintra_analysis.releases.release import Release
from lintra_protocol.errors import InvalidAnalysisError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Over = Literal["windows", "totals", "moving"]

WORDS = {"windows": "single windows", "totals": "running totals", "moving": "moving sums"}
BAND_NOTE = "an interval is for each point on its own; the noise of neighbouring points hangs together"
COHORT_NOTE = "errors are for those who answered: a change in who answers shows as a change of the mean"
SAME_CLIENTS_NOTE = "the sampling part is the most that any dependence between windows allows"
COUNT_NOTE = "totals: the number of rows carries noise, so only means are told"
_NUMBERS = ("standard_error", "privacy", "sampling", "lower", "upper")
_HEADER = (
    "column", "first", "last", "num_windows", "num_clients",
    "mean", *_NUMBERS, "total", "total_standard_error", "total_lower", "total_upper",
)  # fmt: skip


@dataclass(frozen=True)
class Span:
    """Windows in a row, those that were released among them added up.

    `means` and `totals` have a number for each column. `totals` are of those who answered; None where the number of
    rows carries noise.
    """

    first: int
    last: int
    num_windows: int
    num_clients: int
    means: tuple[Quantity, ...]
    totals: tuple[Quantity, ...] | None


@dataclass(frozen=True, eq=False, repr=False)
class Timeline(Estimate):
    """Means and totals of columns over windows, in the columns' own units.

    >>> import numpy as np
    >>> from lintra_analysis import stream_trial
    >>> asked = {
    ...     "purpose": "sleep, week by week",
    ...     "columns": [{"name": "sleep", "lower": 0, "upper": 14}],
    ...     "mechanism": {"kind": "sum"}, "row_bound": 1, "noise": "servers",
    ...     "epsilon": 1, "min_clients": 100, "reports_per_source": 1,
    ...     "windows": {"window_seconds": 604800, "grace_seconds": 86400, "max_windows": 52, "stream": {}},
    ... }
    >>> stream = stream_trial(asked, {week: np.full((100, 1), 7.5) for week in (0, 1, 3)})
    >>> [(span.first, span.last, span.num_clients) for span in stream.totals().spans]
    [(0, 0, 100), (0, 1, 200), (0, 3, 300)]

    Attributes:
        over: "windows" for single ones, "totals" for running totals, "moving" for so many in a row.
        of: whether errors of means are about the "cohort" of each window or the "population".
        spans: in the order of their last windows.
        gaps: numbers between the first and the last window that were not released.
    """

    columns: tuple[str, ...]
    over: Over
    of: Of
    confidence: float
    spans: tuple[Span, ...]
    gaps: tuple[int, ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Timeline({len(self.columns)} columns, {len(self.spans)} {WORDS[self.over]})"

    def table(self) -> Table:
        """Return a line for each column and span."""
        heads = ["", "windows", "clients", "mean", "std err", *levels(self.confidence), "total", "std err"]
        return Table(
            title=f"Columns over windows: {WORDS[self.over]}",
            columns=_HEADER,
            rows=(self._row(i, span) for i in range(len(self.columns)) for span in self.spans),
            index=("column", "last"),
            facts=[("Gaps", ", ".join(map(str, self.gaps)) or "none"), ("Errors are of", f"the {self.of}")],
            shown=[(heads, [self._line(i, span) for i in range(len(self.columns)) for span in self.spans])],
            notes=self.notes,
            figures={name: partial(self._figure, i) for i, name in enumerate(self.columns)},
        )

    def in_words(self) -> str:
        """Return each column's mean in the last span."""
        last = self.spans[-1]
        said = [
            f"{name} {with_interval(mean.value, mean.interval)}"
            for name, mean in zip(self.columns, last.means, strict=True)
        ]
        gaps = f" No release of {listed([f'window {gap}' for gap in self.gaps])}." if self.gaps else ""
        return (
            f"Means over {WORDS[self.over]}, {100 * self.confidence:g} % intervals for the {self.of}, of windows "
            f"{last.first} to {last.last}, the last: {listed(said)}.{gaps}"
        )

    def _row(self, i: int, span: Span) -> list[Cell]:
        total = None if span.totals is None else span.totals[i]
        told: list[Cell] = [None] * 4
        if total is not None and total.standard_error is not None:
            told = [total.value, total.standard_error.total, *(total.interval or (None, None))]
        mean, error = span.means[i], span.means[i].standard_error
        parts = [None] * 3 if error is None else [error.total, error.privacy, error.sampling]
        ends = mean.interval or (None, None)
        counts = [span.first, span.last, span.num_windows, span.num_clients]
        return [self.columns[i], *counts, mean.value, *parts, *ends, *told]

    def _line(self, i: int, span: Span) -> list[str]:
        windows = str(span.last) if span.first == span.last else f"{span.first}-{span.last}"
        row = dict(zip(_HEADER, self._row(i, span), strict=True))
        shown = ("mean", "standard_error", "lower", "upper", "total", "total_standard_error")
        cells = [number(float(cell)) if isinstance(cell := row[name], int | float) else "-" for name in shown]
        return [self.columns[i], windows, str(span.num_clients), *cells]

    def _figure(self, i: int) -> Figure:
        return Figure(8, partial(self._draw, i))

    def _draw(self, i: int, axes: "Axes") -> None:
        """Draw the mean at the last window of each span, and a band of its intervals; a gap breaks both."""
        points = {span.last: (span.means[i].value, span.means[i].interval) for span in self.spans}
        title = f"{self.columns[i]}: {WORDS[self.over]}, {100 * self.confidence:g} % for the {self.of}"
        draw_band(axes, points, title)
        axes.set_ylabel(f"mean of {self.columns[i]}", parse_math=False)


def timeline(
    over: Over,
    spans: Sequence[tuple[int, int, Sequence[int]]],
    release: Callable[[int, int], Release],
    columns: Sequence[str] | None,
    confidence: float,
    of: Of,
) -> Timeline:
    """Return the means and totals of columns over spans of windows.

    Args:
        over: which spans these are.
        spans: the first and the last window of each, and those between them that were released; in the order of the
            last.
        release: returns the windows of an interval, added up, with the errors of that sum.
        columns: by default all that vary.
        confidence: of the intervals, each on its own.
        of: whom errors of means are about.

    Raises:
        InvalidAnalysisError: the releases hold no means with errors, or an argument does not fit.
    """
    released = {number for *_, inside in spans for number in inside}
    singles = {}
    if of == "population":
        singles = {number: means(release(number, number), columns, confidence, of=of) for number in sorted(released)}
    names: tuple[str, ...] = ()
    found = []
    for first, last, inside in spans:
        whole = release(first, last)
        estimate = means(whole, columns, confidence, of="cohort")
        if estimate.means is None or any(mean.standard_error is None for mean in estimate.means):
            raise InvalidAnalysisError(
                f"the windows of this task hold no {NO_MEANS_NOTE}, or ask for another analysis of an interval"
            )
        names = estimate.columns
        sampled = [_sampling({n: singles[n] for n in inside if singles}, i) for i in range(len(names))]
        told = [_with_sampling(mean, part, confidence) for mean, part in zip(estimate.means, sampled, strict=True)]
        totals = None if _count_is_noisy(whole) else _totals(estimate, confidence)
        found.append(Span(first, last, len(inside), estimate.num_clients, tuple(told), totals))
    start = spans[0][0]
    gaps = tuple(sorted(set(range(start, spans[-1][1] + 1)) - released))
    notes = [BAND_NOTE, SAME_CLIENTS_NOTE if of == "population" else COHORT_NOTE]
    if any(span.totals is None for span in found):
        notes.append(COUNT_NOTE)
    return Timeline(names, over, of, float(confidence), tuple(found), gaps, tuple(notes))


def _sampling(singles: Mapping[int, MeansEstimate], i: int) -> float:
    """Return the sampling part of the mean of windows together: they count by their reports, and add up at worst."""
    reports = sum(single.num_clients for single in singles.values())
    errors = [(single.num_clients, (single.means or ())[i].standard_error) for single in singles.values()]
    return math.fsum(count / reports * error.sampling for count, error in errors if error is not None)


def _with_sampling(mean: Quantity, sampling: float, confidence: float) -> Quantity:
    error = mean.standard_error or StandardError(0.0, 0.0, 0.0, 0.0)
    total = math.hypot(error.privacy, error.sketching, sampling)
    whole = StandardError(error.privacy, error.sketching, sampling, total)
    return Quantity.normal(mean.value, whole, confidence, -math.inf, math.inf)


def _totals(estimate: MeansEstimate, confidence: float) -> tuple[Quantity, ...]:
    """Return means times the number of those who answered, which is known."""
    found = []
    for mean in estimate.means or ():
        own, count = mean.standard_error or StandardError(0.0, 0.0, 0.0, 0.0), estimate.num_clients
        error = StandardError(count * own.privacy, count * own.sketching, 0.0, count * own.total)
        found.append(Quantity.normal(count * mean.value, error, confidence, -math.inf, math.inf))
    return tuple(found)


def _count_is_noisy(release: Release) -> bool:
    if release.totals is not None:
        return bool(release.totals.count_error)
    gram = release.second_moment()
    return bool(gram.count_error) or gram.weighted is not None
