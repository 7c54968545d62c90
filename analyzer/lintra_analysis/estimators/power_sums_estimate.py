"""Sums of powers of columns, as `power_sums` answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lintra_analysis.estimators.estimates import Interval
from lintra_analysis.estimators.figures import Figure, Mark, intervals
from lintra_analysis.estimators.notes import clients, listed, with_interval
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import by_name, digits_beside, levels, number
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
