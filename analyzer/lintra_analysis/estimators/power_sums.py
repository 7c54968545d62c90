"""F_k, the sum of |x|^k over the rows (Burkhardt et al. 2025, Section 3.1), from rows counted in public cells.

A cell says between which numbers |x|^k lies in it, so the sum over all rows lies between two linear functions of the
counts, whatever lies where inside a cell; the noise of both is Gaussian and known. Any k can be asked for afterwards.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lintra_analysis.estimators.estimates import Interval, check_confidence, quantile
from lintra_analysis.estimators.figures import Figure, Mark, intervals
from lintra_analysis.estimators.histogram import adjusted_counts
from lintra_analysis.estimators.notes import clients, listed, with_interval
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import by_name, digits_beside, levels, number
from lintra_analysis.releases.cell_counts import CellCounts
from lintra_analysis.releases.columns import MAGNITUDE, ScaledColumn
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEADER = ("column", "power", "sum", "lower", "upper", "noise", "cells")


@dataclass(frozen=True)
class PowerSum:
    """The sum of |x|^k over the rows of a column."""

    power: int  #: k
    value: float  #: of rows that lie evenly inside their cells; in the column's unit to the power k
    interval: Interval  #: wherever they lie
    noise: float  #: deviation of the noise in the value
    cells: float  #: how much of the interval's width comes from not knowing where rows lie inside their cells


@dataclass(frozen=True)
class ColumnPowers:
    """The sums of one column's powers."""

    name: str
    unit: str
    sums: tuple[PowerSum, ...]


@dataclass(frozen=True, eq=False, repr=False)
class PowerSumsEstimate(Estimate):
    """The sums of |x|^k over the cohort, for some powers of some columns.

    >>> from lintra_analysis import open_release, power_sums
    >>> estimate = power_sums(open_release("ages.npz"), powers=[2])
    >>> [column.name for column in estimate.columns]  # a boolean's powers are its own count
    ['age', 'smoker']
    >>> print(estimate.to_csv())  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
    column,power,...

    Attributes:
        num_clients: reports; rows without a value take part in no sum.
        columns: those that are numbers.
        notes: what the sums are about.
    """

    num_clients: int
    confidence: float
    columns: tuple[ColumnPowers, ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"PowerSumsEstimate({len(self.columns)} columns, {self.num_clients} clients)"

    def __getitem__(self, name: str) -> ColumnPowers:
        """Return one column's sums.

        Raises:
            InvalidAnalysisError: there is no such column.
        """
        return by_name(self.columns, name)

    def _lines(self) -> Iterator[tuple[str, PowerSum]]:
        return ((column.name, one) for column in self.columns for one in column.sums)

    def table(self) -> Table:
        """Return one line for each sum."""
        rows = (
            [name, str(one.power), *(number(value, digits_beside(one.value, one.noise)) for value in
             (one.value, *one.interval)), number(one.noise, 3), number(one.cells, 3)]
            for name, one in self._lines()
        )  # fmt: skip
        return Table(
            title="Sums of powers from a private histogram",
            columns=HEADER,
            rows=([name, one.power, one.value, *one.interval, one.noise, one.cells] for name, one in self._lines()),
            index=("column", "power"),
            facts=[("Clients", str(self.num_clients))],
            shown=[(["column", "k", "sum |x|^k", *levels(self.confidence), "noise", "cells"], rows)],
            notes=self.notes,
            figures={"": self._figure},
        )

    def in_words(self) -> str:
        """Return each sum with its interval."""
        said = [
            f"{name} to the power {one.power}: {with_interval(one.value, one.interval)}" for name, one in self._lines()
        ]
        return f"Sums of powers, {clients(self.num_clients, 'cohort', self.confidence)}. {listed(said)}."

    def plot(self, axes: "Axes | None" = None, power: int | None = None) -> "Axes":
        """Draw the sums of one power with their intervals, each over its upper end; needs `lintra[plot]`.

        Args:
            axes: matplotlib's, to draw on; new ones if left out.
            power: by default the smallest that was asked for.

        Raises:
            InvalidAnalysisError: matplotlib is not installed, or the power was not asked for.
        """
        return self._figure(power).on(axes)

    def _figure(self, power: int | None = None) -> Figure:
        powers = sorted({one.power for _, one in self._lines()})
        shown = powers[0] if power is None else power
        if shown not in powers:
            raise InvalidAnalysisError(f"power {shown} was not asked for; there are {', '.join(map(str, powers))}")
        marks = []
        for name, one in self._lines():
            if one.power == shown:
                largest = max(map(abs, (one.value, *one.interval))) or 1.0
                marks.append(Mark(f"{name}: {number(one.value)}", one.value, one.interval).moved(0.0, 1 / largest))
        title = f"Sums of |x|^{shown}: {100 * self.confidence:g} % for the cohort"
        return intervals(marks, title, "as a part of the most that each may be")


MOST_POWER = 20
COHORT_NOTE = "sums are over the cohort's own rows that have a value, moved inside the bounds as the cells have them"
CELL_NOTE = (
    "the interval holds wherever the rows lie inside their cells; the value takes them to lie evenly, and `cells` is "
    "how much of the interval's width the cells leave open"
)


def power_sums(
    release: Release,
    powers: Sequence[int] = (1, 2, 3, 4),
    columns: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> PowerSumsEstimate:
    """Return the sums of |x|^k over the cohort, in the columns' own units.

    >>> from lintra_analysis import open_release, power_sums
    >>> found = power_sums(open_release("ages.npz"), powers=[1, 3], columns=["age"])["age"]
    >>> [one.power for one in found.sums]
    [1, 3]
    >>> low, high = found.sums[0].interval
    >>> low < found.sums[0].value < high
    True

    Args:
        release: a histogram.
        powers: whole numbers from 1 to 20.
        columns: numbers and booleans; by default all of these.
        confidence: of the intervals, each on its own.

    Raises:
        InvalidAnalysisError: the release is no histogram, a column is a category, or an argument does not fit it.
    """
    check_confidence(confidence)
    asked = sorted(set(powers))
    if not asked or not all(isinstance(k, int) and not isinstance(k, bool) and 1 <= k <= MOST_POWER for k in asked):
        raise InvalidAnalysisError(f"powers are whole numbers from 1 to {MOST_POWER}, got {list(powers)}")
    held = release.need("cells") if columns is None else release.need("cells").restrict(columns)
    numbers = [i for i in range(len(held.columns)) if not held.levels[i] or held.columns[i].kind == "boolean"]
    if columns is not None and len(numbers) < len(held.columns):
        category = next(column.name for i, column in enumerate(held.columns) if i not in numbers)
        raise InvalidAnalysisError(
            f"{category!r} is a category, which has no powers; ask for its shares by `histogram`"
        )
    if not numbers:
        raise InvalidAnalysisError("no column of this release is a number; ask for shares of levels by `histogram`")
    return PowerSumsEstimate(
        num_clients=held.num_clients,
        confidence=float(confidence),
        columns=tuple(_column(held, i, asked, confidence) for i in numbers),
        notes=(COHORT_NOTE, CELL_NOTE),
    )


def _column(held: CellCounts, i: int, powers: Sequence[int], confidence: float) -> ColumnPowers:
    column = held.columns[i]
    low, high = _ends(column, held.edges[i])
    furthest = max(abs(float(low[0])), abs(float(high[-1])), 1.0)
    if furthest ** powers[-1] * held.num_clients > MAGNITUDE:
        raise InvalidAnalysisError(
            f"column {column.name!r} reaches {furthest:g}, and the sum of its powers {powers[-1]} beyond "
            f"{MAGNITUDE:g}; ask for lower powers, or choose a larger unit"
        )
    rows = adjusted_counts(held.counts[i], float(held.missing[i]), held.rows_of(i))
    found = tuple(_sum(power, low, high, rows, held.noise_sd, confidence, counted=held.counted) for power in powers)
    return ColumnPowers(column.name, column.unit, found)


def _ends(column: ScaledColumn, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return between which values those of each cell lie, each of shape `(m,)`; whole numbers for integers."""
    if not edges.size:
        return np.array([0.0, 1.0]), np.array([0.0, 1.0])
    low, high = edges[:-1], edges[1:]
    if column.kind != "integer":
        return low, high
    whole_low, whole_high = np.ceil(low), np.floor(high)
    empty = whole_low > whole_high
    return np.where(empty, low, whole_low), np.where(empty, high, whole_high)


def _sum(
    power: int,
    low: FloatArray,
    high: FloatArray,
    rows: FloatArray,
    noise_sd: float,
    confidence: float,
    *,
    counted: bool,
) -> PowerSum:
    """Return one sum: its least and its most are linear in the counts, and each is left at half of the doubt.

    `power` is k; `low` is least values of the cells, shape `(m,)`. `high` is the largest values, shape `(m,)`. `rows`
    are in each cell and, last, without a value; they add up to all clients, shape `(m + 1,)`. `counted` says whether
    the number of rows carries noise, so that nothing was spread over the cells.
    """
    ends = np.abs(low) ** power, np.abs(high) ** power
    most = np.maximum(*ends)
    least = np.where((low < 0) & (high > 0), 0.0, np.minimum(*ends))
    totals = [_linear(values, rows, noise_sd, counted=counted) for values in (least, _even(power, low, high), most)]
    (bottom, below), (value, noise), (top, above) = totals
    reach = quantile(confidence)
    interval = max(bottom - reach * below, 0.0), max(top + reach * above, 0.0)
    return PowerSum(power, min(max(value, interval[0]), interval[1]), interval, noise, max(top - bottom, 0.0))


def _even(power: int, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the mean of |x|^k over each cell, shape `(m,)`."""
    width = high - low
    above = np.sign(high) * np.abs(high) ** (power + 1) - np.sign(low) * np.abs(low) ** (power + 1)
    mean: FloatArray = np.divide(above, (power + 1) * width, out=np.abs(low) ** power, where=width > 0)
    return mean


def _linear(values: FloatArray, rows: FloatArray, noise_sd: float, *, counted: bool) -> tuple[float, float]:
    """Return the sum of a number for each row of a cell, 0 without a value, and the deviation of its noise.

    What counts lack of all clients was spread over them alike, so only differences of the numbers carry noise; unless
    the number of rows is itself the sum of the cells.
    """
    whole = np.append(values, 0.0)
    about = 0.0 if counted else float(whole.mean())
    return float(whole @ rows), noise_sd * math.sqrt(float(np.sum((whole - about) ** 2)))
