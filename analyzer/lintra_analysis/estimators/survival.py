"""Survival curves with bands that hold over the whole curve, and the log-rank test, from one crossed histogram."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from lintra_analysis.estimators.estimates import Interval, Of, check_confidence, check_of
from lintra_analysis.estimators.figures import Figure, draw_curves
from lintra_analysis.estimators.notes import clients, with_interval
from lintra_analysis.estimators.survival_cells import SurvivalCells
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import Cell, by_name, levels, number
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAND_NOTE = "a band holds the whole curve at once; those of several groups each on its own"
COHORT_NOTE = "bands are for the cohort's own rows in these bins; the sampling of clients would come on top"
POPULATION_NOTE = "bands take the clients to be drawn one by one from the population"
CENSORED_NOTE = "who is censored in a bin is taken to be at risk for half of it"
NO_LATER_NOTE = (
    "the last bin holds what lies beyond it, too; name a public end below the duration's upper bound in the next task"
)
ENDED = "{group}: the curve ends at {at}, since fewer are at risk from there on than noise lets one see"
UNTOLD = "{group}: noise hides how many are at risk from the first bin on, so there is no curve"


@dataclass(frozen=True)
class SurvivalCurve:
    """One group's share without the event over time."""

    name: str  #: of the group; empty without groups
    times: tuple[float, ...]  #: ends of the bins that are told, in the duration's unit
    survival: tuple[float, ...]  #: the share at each: never rising
    raw: tuple[float, ...]  #: without bias, and so sometimes rising or outside [0, 1]
    band: tuple[Interval, ...]  #: for the whole curve at once, inside [0, 1]
    at_risk: tuple[float, ...]  #: at the start of each bin, noise included
    events: tuple[float, ...]  #: in each bin, noise included; a small number may be negative
    median: float | None  #: the first end of a bin where at most half are without the event; None if there is none

    def at(self, time: float) -> tuple[float, Interval] | None:
        """Return share and band at the last end of a bin up to a time; None before the first or beyond the curve."""
        place = int(np.searchsorted(self.times, time, side="right")) - 1
        if place < 0 or (place == len(self.times) - 1 and time > self.times[-1]):
            return None
        return self.survival[place], self.band[place]


@dataclass(frozen=True, eq=False, repr=False)
class SurvivalEstimate(Estimate):
    """Survival curves of one group or several.

    >>> from lintra_analysis import open_release, survival
    >>> curves = survival(open_release("relapses.npz"), "months", "relapse", "arm")
    >>> curves.names
    ('A', 'B')

    Attributes:
        time: the duration's column.
        event: the column that says whether it ended with the event.
        group: the column whose levels have a curve each; None for one curve.
        of: whether bands are about the "cohort" or the "population".
        curves: one for each group.
        notes: on what the bands rest.
    """

    time: str
    event: str
    group: str | None
    num_clients: int
    of: Of
    confidence: float
    curves: tuple[SurvivalCurve, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    unit: str = field(default="", metadata={"plain": False})

    def __repr__(self) -> str:
        return f"SurvivalEstimate({self.time!r}, {len(self.curves)} curves, {self.num_clients} clients)"

    @property
    def names(self) -> tuple[str, ...]:
        """The groups."""
        return tuple(one.name for one in self.curves)

    def __getitem__(self, name: str) -> SurvivalCurve:
        """Return the curve of a group.

        Raises:
            InvalidAnalysisError: there is none of this name.
        """
        return by_name(self.curves, name)

    def table(self) -> Table:
        """Return one line for each bin of each curve; the text has at most ten of each."""
        return Table(
            title=f"Survival: {self.time} until {self.event}",
            columns=("group", "time", "survival", "lower", "upper", "raw", "at_risk", "events"),
            rows=self._lines(),
            facts=[("Clients", str(self.num_clients)), ("Bands are of", f"the {self.of}")],
            shown=[self._shown(one) for one in self.curves],
            notes=self.notes,
            warnings=self.warnings,
            figures={"": self._figure},
        )

    def _lines(self) -> list[list[Cell]]:
        return [
            [one.name, *line]
            for one in self.curves
            for line in (
                [time, value, *band, raw, at_risk, events]
                for time, value, band, raw, at_risk, events in zip(
                    one.times, one.survival, one.band, one.raw, one.at_risk, one.events, strict=True
                )
            )
        ]

    def _shown(self, one: SurvivalCurve) -> tuple[Sequence[str], list[list[str]]]:
        every = max(1, -(-len(one.times) // 10))
        places = range(every - 1, len(one.times), every)
        head = f"{self.group} = {one.name}" if self.group else "all"
        rows = [
            [number(one.times[i]), number(one.survival[i]), *map(number, one.band[i]), f"{one.at_risk[i]:.0f}"]
            for i in places
        ]
        rows.append(["median", number(one.median), "", "", ""])
        return [f"{head}, {self.time}{f' ({self.unit})' if self.unit else ''}", "survival",
                *levels(self.confidence), "at risk"], rows  # fmt: skip

    def _figure(self) -> Figure:
        return Figure(8, self._draw)

    def _draw(self, axes: "Axes") -> None:
        drawn = [(one.name, (0.0, *one.times), (1.0, *one.survival), ((1.0, 1.0), *one.band)) for one in self.curves]
        title = f"{100 * self.confidence:g} % bands for the {self.of}"
        draw_curves(axes, drawn, f"{self.time} in {self.unit}" if self.unit else self.time, title)

    def in_words(self) -> str:
        """Return the last share that is told of each curve, and its median."""
        head = f"Time until {self.event}, {clients(self.num_clients, self.of, self.confidence)}."
        for one in self.curves:
            name = f"{self.group} = {one.name}: " if self.group else ""
            if not one.times:
                head += f" {name}nothing can be told."
                continue
            last = with_interval(one.survival[-1], one.band[-1])
            median = "beyond the curve" if one.median is None else number(one.median)
            head += f" {name}{last} are without the event after {number(one.times[-1])}; the median is {median}."
        return head


def survival(
    release: Release,
    time: str,
    event: str,
    group: str | None = None,
    *,
    of: Of = "population",
    confidence: float = 0.95,
) -> SurvivalEstimate:
    """Return survival curves: the share of rows that are without an event over time, as Kaplan and Meier draw it.

    >>> from lintra_analysis import open_release, survival
    >>> curve = survival(open_release("relapses.npz"), "months", "relapse").curves[0]
    >>> low, high = curve.band[-1]
    >>> low <= curve.survival[-1] <= high
    True

    Args:
        release: a crossed histogram of a duration and an event, and perhaps groups; columns not named are added up.
        time: how long a row was observed, until the event or until it was lost to sight.
        event: whether it was the event; a boolean.
        group: a boolean or a category, whose levels have a curve each.
        of: whom bands are about: the "population" that the clients are a sample of, or the "cohort".
        confidence: of the band of each curve, for all times at once.

    Raises:
        InvalidAnalysisError: the release is no crossed histogram, or an argument does not fit it.
    """
    check_confidence(confidence)
    check_of(of)
    cells = SurvivalCells.of(release, time, event, group)
    drawn, centre = cells.draws(of == "population", "band")
    curves, warnings = [], []
    for place, (name, told) in enumerate(zip(cells.groups, cells.told, strict=True)):
        deviations = drawn.survival(told)[..., place] - centre.survival(told)[:, place]
        curves.append(_curve(cells, place, told, band_half_width(deviations, confidence)))
        if told < cells.bins:
            said = f"{group} = {name}" if group else "all rows"
            warnings.append((ENDED if told else UNTOLD).format(group=said, at=f"{cells.edges[told]:g}"))
    notes = [BAND_NOTE, COHORT_NOTE if of == "cohort" else POPULATION_NOTE, CENSORED_NOTE]
    return SurvivalEstimate(
        time=time,
        event=event,
        group=group,
        num_clients=cells.crossed.num_clients,
        of=of,
        confidence=float(confidence),
        curves=tuple(curves),
        notes=tuple(notes if cells.has_later else [*notes, NO_LATER_NOTE]),
        warnings=tuple(warnings),
        unit=cells.crossed.columns[0].unit,
    )


def _curve(cells: SurvivalCells, place: int, told: int, half: FloatArray) -> SurvivalCurve:
    """Return the curve of a group over so many bins, with half the width of its band at each, shape `(told,)`."""
    raw = cells.own.survival(told)[:, place]
    running = np.clip(np.minimum.accumulate(raw), 0.0, 1.0)
    ends = np.clip(np.column_stack([raw - half, raw + half]), 0.0, 1.0)
    times = cells.edges[1 : told + 1]
    below = times[running <= 0.5]
    return SurvivalCurve(
        name=cells.groups[place],
        times=tuple(times.tolist()),
        survival=tuple(running.tolist()),
        raw=tuple(raw.tolist()),
        band=tuple((low, high) for low, high in ends.tolist()),
        at_risk=tuple(cells.own.at_start[:told, place].tolist()),
        events=tuple(cells.own.events[:told, place].tolist()),
        median=float(below[0]) if below.size else None,
    )


def band_half_width(deviations: FloatArray, confidence: float) -> FloatArray:
    """Return half the width of a band that holds all points at once, shape `(k,)`, of draws of shape `(n, k)`.

    It is k sd, k the point below which the largest |deviation| / sd of a draw stays with this confidence.
    """
    spread = deviations.std(axis=0)
    if not spread.size:
        return np.zeros(0)
    largest = np.max(np.abs(deviations) / np.maximum(spread, 1e-300), axis=1)
    return np.asarray(float(np.quantile(largest, confidence)) * spread)


@dataclass(frozen=True)
class GroupEvents:
    """What one group has had, and would have had if all groups were alike."""

    name: str
    observed: float  #: events up to the end of the test, noise included
    expected: float  #: of the same bins


@dataclass(frozen=True, eq=False, repr=False)
class LogrankEstimate(Estimate):
    """The log-rank test of groups having the same survival.

    >>> from lintra_analysis import logrank, open_release
    >>> 0 <= logrank(open_release("relapses.npz"), "months", "relapse", "arm").p_value <= 1
    True

    Attributes:
        groups: observed and expected events of each.
        statistic: chi-square with `degrees` degrees of freedom where all groups are alike.
        until: the end of the last bin that the test looks at: from there on a group has too few at risk beside noise.
    """

    time: str
    event: str
    group: str
    num_clients: int
    groups: tuple[GroupEvents, ...]
    statistic: float
    degrees: int
    p_value: float
    until: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        return f"LogrankEstimate({self.group!r}, p {self.p_value:.3g}, {self.num_clients} clients)"

    def table(self) -> Table:
        """Return one line for each group."""
        return Table(
            title=f"Log-rank test of {self.group}: {self.time} until {self.event}",
            columns=("group", "observed", "expected"),
            rows=((one.name, one.observed, one.expected) for one in self.groups),
            index=("group",),
            facts=[
                ("Clients", str(self.num_clients)),
                ("Chi-square", f"{number(self.statistic)} ({self.degrees} df)"),
                ("P", number(self.p_value, 3)),
                ("Up to", number(self.until)),
            ],
            shown=[
                (
                    ["group", "observed", "expected"],
                    [[one.name, number(one.observed), number(one.expected)] for one in self.groups],
                )
            ],
            notes=self.notes,
            warnings=self.warnings,
        )

    def in_words(self) -> str:
        """Return whether the groups differ."""
        found = "differ" if self.p_value <= 0.05 else "are not told apart"
        head = f"Log-rank test of {self.group}, {clients(self.num_clients)}."
        return f"{head} The curves {found} at 5 %: p {number(self.p_value, 3)}."


LAW_NOTE = (
    "observed less expected events over their simulated deviation, which holds sampling and noise; binning biases the "
    "test where censoring differs between groups, which 60 bins make small"
)


def logrank(release: Release, time: str, event: str, group: str) -> LogrankEstimate:
    """Return the log-rank test of groups having the same survival in the population.

    >>> from lintra_analysis import logrank, open_release
    >>> test = logrank(open_release("relapses.npz"), "months", "relapse", "arm")
    >>> [one.name for one in test.groups], test.degrees
    (['A', 'B'], 1)

    Args:
        release: a crossed histogram of a duration, an event and groups; columns not named are added up.
        time: how long a row was observed, until the event or until it was lost to sight.
        event: whether it was the event; a boolean.
        group: a boolean or a category, whose levels are compared.

    Raises:
        InvalidAnalysisError: the release is no crossed histogram, an argument does not fit it, or noise hides how many
            are at risk in a group.
    """
    cells = SurvivalCells.of(release, time, event, group)
    told = min(cells.told)
    if not told:
        hidden = [name for name, own in zip(cells.groups, cells.told, strict=True) if not own]
        raise InvalidAnalysisError(
            f"noise hides how many are at risk where {group} is {' or '.join(hidden)}; collect more rows, or cross "
            "fewer columns"
        )
    excess = cells.own.excess(told)
    drawn, _ = cells.draws(True, "log-rank")
    covariance = np.cov(drawn.excess(told)[:, :-1].T).reshape(excess.size - 1, excess.size - 1)
    statistic = float(excess[:-1] @ np.linalg.solve(covariance, excess[:-1]))
    observed = cells.own.events[:told].sum(axis=0)
    degrees = excess.size - 1
    return LogrankEstimate(
        time=time,
        event=event,
        group=group,
        num_clients=cells.crossed.num_clients,
        groups=tuple(
            GroupEvents(name, one, one - more)
            for name, one, more in zip(cells.groups, observed.tolist(), excess.tolist(), strict=True)
        ),
        statistic=statistic,
        degrees=degrees,
        p_value=float(special.chdtrc(degrees, statistic)),
        until=float(cells.edges[told]),
        notes=(LAW_NOTE,) if cells.has_later else (LAW_NOTE, NO_LATER_NOTE),
        warnings=(),
    )
