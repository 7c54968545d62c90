"""One column's mean over the windows of a task: each window, all of them together, and a straight line through them.

The noise of windows is drawn independently, so its parts add up in squares; that of a stream has a correlation. Their
clients are partly the same people, so sampling errors are not independent: what is stated of them is the most that any
dependence allows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lintra_analysis.estimators.coefficients import StandardError
from lintra_analysis.estimators.estimates import Of, check_confidence, check_of
from lintra_analysis.estimators.figures import Figure, draw_windows
from lintra_analysis.estimators.means import means
from lintra_analysis.estimators.notes import listed, with_interval
from lintra_analysis.estimators.quantities import Quantity
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import Cell, levels, number
from lintra_analysis.releases.gram_error import HasSecondMoment
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SAME_CLIENTS_NOTE = (
    "the same clients answer in several windows, so their sampling errors are not independent: the sampling parts of "
    "`combined` and `slope` are the most that any dependence allows, and `slope` may be known much better than that"
)
COHORT_NOTE = "errors are for those who answered: a change in who answers shows as a change of the mean"
_HEADER = ("window", "num_clients", "mean", "standard_error", "privacy", "sketching", "sampling", "lower", "upper")


@dataclass(frozen=True)
class WindowMean:
    """The mean in one window; `weight` is its part of all reports."""

    window: int
    num_clients: int
    weight: float
    mean: Quantity


@dataclass(frozen=True, eq=False, repr=False)
class TrendEstimate(Estimate):
    """The mean of a column over windows, in the column's own unit.

    >>> from lintra_analysis import open_release, trend
    >>> estimate = trend({0: open_release("flights.npz"), 1: open_release("flights.npz")}, "hour", of="cohort")
    >>> [window.weight for window in estimate.windows]
    [0.5, 0.5]

    Attributes:
        of: whether errors and intervals are about the "cohort" of each window or the "population".
        windows: those that were released, by number.
        gaps: numbers between the first and the last that were not.
        combined: the mean of all reports; windows count by their cohorts.
        slope: change from one window to the next, of the line that fits best; windows count by their cohorts.
    """

    column: str
    of: Of
    confidence: float
    windows: tuple[WindowMean, ...]
    gaps: tuple[int, ...]
    combined: Quantity
    slope: Quantity
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"TrendEstimate({self.column!r}, {len(self.windows)} windows, {len(self.gaps)} gaps)"

    def table(self) -> Table:
        """Return one line for each window; a gap has its number only."""
        rows: dict[int, list[Cell]] = {gap: [gap, *[None] * (len(_HEADER) - 1)] for gap in self.gaps}
        rows |= {each.window: [each.window, each.num_clients, *_cells(each.mean)] for each in self.windows}
        shown = [[str(each.window), str(each.num_clients), *map(_text, _cells(each.mean))] for each in self.windows]
        shown += [["all", "", *map(_text, _cells(self.combined))], ["slope", "", *map(_text, _cells(self.slope))]]
        heads = ["", "clients", "mean", "std err", "privacy", "sketching", "sampling", *levels(self.confidence)]
        return Table(
            title=f"Mean of {self.column} over windows",
            columns=_HEADER,
            rows=[rows[window] for window in sorted(rows)],
            index=("window",),
            facts=[
                ("Windows", str(len(self.windows))),
                ("Gaps", ", ".join(map(str, self.gaps)) or "none"),
                ("Errors are of", f"the {self.of}"),
            ],
            shown=[(heads, shown)],
            notes=self.notes,
            figures={"": lambda: Figure(8, self._draw)},
        )

    def in_words(self) -> str:
        """Return the mean of all windows and how it changes from one to the next."""
        gaps = f"; no release of {listed([f'window {gap}' for gap in self.gaps])}" if self.gaps else ""
        return (
            f"Mean of {self.column} over {len(self.windows)} windows, {100 * self.confidence:g} % intervals for the "
            f"{self.of}{gaps}. All together: {with_interval(self.combined.value, self.combined.interval)}. Change from "
            f"one window to the next: {with_interval(self.slope.value, self.slope.interval)}."
        )

    def _draw(self, axes: "Axes") -> None:
        """Draw the mean of each window with its interval, and a line at that of all."""
        means = [(each.window, each.mean.value, each.mean.interval) for each in self.windows]
        draw_windows(axes, means, self.combined.value, f"{self.column}: {100 * self.confidence:g} % for the {self.of}")
        axes.set_ylabel(f"mean of {self.column}", parse_math=False)


def trend(
    releases: Mapping[int, HasSecondMoment],
    column: str,
    confidence: float = 0.95,
    *,
    of: Of = "population",
    noise_correlation: FloatArray | None = None,
) -> TrendEstimate:
    """Combine the releases of a task's windows: the mean in each, in all together, and how it changes.

    >>> from lintra_analysis import open_release, trend
    >>> windows = {0: open_release("flights.npz"), 2: open_release("flights.npz")}
    >>> estimate = trend(windows, "hour")
    >>> estimate.gaps, estimate.slope.value
    ((1,), 0.0)

    Args:
        releases: by the number of the window; at least two that hold means.
        column: whose mean.
        confidence: of the intervals, each on its own.
        of: whom the errors are about: the "population" or the "cohort" of each window.
        noise_correlation: of the windows in order, shape `(n, n)`; None where their noise is independent.

    Returns:
        The mean in each window and in all of them, its slope from window to window, and the gaps.

    Raises:
        InvalidAnalysisError: fewer than two windows, or one that holds no means with errors, or no such column.
    """
    check_confidence(confidence)
    check_of(of)
    if len(releases) < 2:
        raise InvalidAnalysisError(f"a trend needs the releases of at least two windows, got {len(releases)}")
    found = {window: means(releases[window], [column], confidence, of=of) for window in sorted(releases)}
    numbers, total = list(found), sum(estimate.num_clients for estimate in found.values())
    weights = [estimate.num_clients / total for estimate in found.values()]
    values = [_mean_of(window, estimate.means) for window, estimate in found.items()]
    center = math.fsum(weight * window for weight, window in zip(weights, numbers, strict=True))
    spread = math.fsum(weight * (window - center) ** 2 for weight, window in zip(weights, numbers, strict=True))
    slopes = [weight * (window - center) / spread for weight, window in zip(weights, numbers, strict=True)]
    parts = zip(found.items(), weights, values, strict=True)
    return TrendEstimate(
        column=column,
        of=of,
        confidence=confidence,
        windows=tuple(
            WindowMean(window, estimate.num_clients, weight, mean) for (window, estimate), weight, mean in parts
        ),
        gaps=tuple(sorted(set(range(numbers[0], numbers[-1] + 1)) - set(numbers))),
        combined=_summed(weights, values, confidence, noise_correlation),
        slope=_summed(slopes, values, confidence, noise_correlation),
        notes=(SAME_CLIENTS_NOTE if of == "population" else COHORT_NOTE,),
    )


def _mean_of(window: int, found: Sequence[Quantity] | None) -> Quantity:
    if found is None or found[0].standard_error is None:
        raise InvalidAnalysisError(f"the release of window {window} holds no mean with an error")
    return found[0]


def _summed(
    factors: Sequence[float], values: Sequence[Quantity], confidence: float, correlation: FloatArray | None
) -> Quantity:
    """Return the sum of the values times factors: noise adds up by its correlation, sampling at worst as it is."""
    errors = [value.standard_error for value in values if value.standard_error is not None]
    parts = np.array([factor * error.privacy for factor, error in zip(factors, errors, strict=True)])
    privacy = math.hypot(*parts) if correlation is None else math.sqrt(max(float(parts @ correlation @ parts), 0.0))
    sketching = math.hypot(*(factor * error.sketching for factor, error in zip(factors, errors, strict=True)))
    sampling = math.fsum(abs(factor) * error.sampling for factor, error in zip(factors, errors, strict=True))
    error = StandardError(privacy, sketching, sampling, math.hypot(privacy, sketching, sampling))
    value = math.fsum(factor * each.value for factor, each in zip(factors, values, strict=True))
    return Quantity.normal(value, error, confidence, -math.inf, math.inf)


def _cells(one: Quantity) -> list[Cell]:
    error = one.standard_error or StandardError(math.nan, math.nan, math.nan, math.nan)
    return [one.value, error.total, error.privacy, error.sketching, error.sampling, *(one.interval or (None, None))]


def _text(cell: Cell) -> str:
    return number(float(cell)) if isinstance(cell, int | float) else "-"
