"""The plan beside the form of a new task: the errors that the noise alone will cause, and what devices are asked."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lintra_analysis.estimators.tabular import number
from lintra_analysis.spec.stream import OPTION_HEADER, option_rows
from lintra_analysis.trial.error_forecast import ErrorForecast
from lintra_analysis.trial.plan_text import sketch_in_words, wide_in_words
from lintra_analyzer.service import MOST_SMALL
from lintra_analyzer.web.console.task_form import TaskForm
from lintra_analyzer.web.console.task_text import asked_of_device, gate_of, warnings_in
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.collusion import in_words

SHOWN_LINES = 40
"""Lines of a table on the page."""


@dataclass(frozen=True)
class PlanCost:
    """How long the plan of a kind takes: seconds for a hundred columns, and the power that it grows with."""

    hundred: float
    power: int

    def of(self, width: int) -> float:
        """Return the seconds for so many columns."""
        return self.hundred * (width / 100) ** self.power

    def most(self, seconds: float) -> int:
        """Return how many columns fit into so many seconds."""
        return int(100 * (seconds / self.hundred) ** (1 / self.power))


OTHER_SECONDS = PlanCost(0.02, 2)
SECONDS = {
    ("second_moment", False): PlanCost(0.035, 3),
    ("second_moment", True): PlanCost(0.11, 3),
    ("second_moment_wishart", False): PlanCost(0.035, 3),
    ("second_moment_wishart", True): PlanCost(0.13, 3),
    ("histogram", False): PlanCost(0.1, 2),
    ("ron_gauss", False): PlanCost(0.35, 2),
}
"""The cost of plans by kind, and whether there is a column to explain; measured on one core at 400 to 5,000 columns."""

Line = tuple[str, ...]


@dataclass(frozen=True)
class PlanTable:
    """A table of the plan.

    `lines` are at most `SHOWN_LINES` of them; `count` says how many there are.
    """

    title: str
    header: Line
    lines: Sequence[Line]
    count: int


@dataclass(frozen=True)
class ShownPlan:
    """What to expect of a task."""

    summary: str  #: in one sentence
    sentences: list[str]  #: what such a collection would show, for people
    tables: list[PlanTable]
    words: list[str]  #: what else is known of them, in sentences
    rows_from: str  #: what rows the errors are of
    colluding: str  #: what epsilon becomes if clients collude
    device: list[str]  #: what a device is asked for
    gate: list[str]
    warnings: list[str]  #: what should be known before
    specification: str  #: the whole, as JSON


def shown_plan(asked: TaskForm, num_servers: int, now: int) -> ShownPlan:
    """Make the plan of a task; nobody is asked, and nothing is kept."""
    found = asked.foreseen(now, system_randomness, num_servers)
    task = found.task
    claim = task.claim
    return ShownPlan(
        summary=f"ε = {float(claim.epsilon):.4g} at δ = {float(claim.delta):.4g}, from {claim.min_clients:,} reports",
        sentences=list(sentences_of(found, asked.target)),
        tables=_tables(found),
        words=list(_words(found)),
        rows_from=found.rows_from,
        colluding=in_words(found.if_colluding, None if task.contributors is None else claim.min_clients),
        device=list(asked_of_device(task)),
        gate=gate_of(task),
        warnings=warnings_in(task),
        specification=json.dumps(asked.proposed, indent=2, ensure_ascii=False),
    )


SEEN = 1.96 + 0.84
"""Deviations from which an effect is seen in 80 % of all collections, by a test that errs in 5 %."""

MOST_SENTENCES = 6


def sentences_of(found: ErrorForecast, target: str | None) -> Iterator[str]:
    """Yield what the noise leaves visible of such a collection; that people differ comes on top of it."""
    columns = {column.name: column for column in found.task.columns}
    people = f"With {found.task.claim.min_clients:,} reports"
    effects = {name: error for name, (_, error) in (found.coefficients or {}).items() if name != "(intercept)"}
    unit = _unit(columns.get(target or ""))
    for name, error in list(effects.items())[:MOST_SENTENCES]:
        column, least, between = columns.get(name), error, ""
        if column is not None and column.kind not in ("boolean", "category") and error is not None:
            least = error * (float(column.upper) - float(column.lower))
            between = f" between {name} = {column.lower} and {column.upper}{_unit(column)}"
        if least is None:
            yield f"{people} the noise may hide any effect of {name} on {target}."
        else:
            yield f"{people} the noise hides no effect of {name} on {target} above {SEEN * least:.2g}{unit}{between}."
    for name, error in list((found.means or {}).items())[:MOST_SENTENCES]:
        column = columns.get(name)
        what = "mean" if column is not None and column.kind != "boolean" else "share"
        yield f"The {what} of {name} will be off by less than {1.96 * error:.2g}{_unit(column)}, 19 times in 20."


def _unit(column: Column | None) -> str:
    return f" {column.unit}" if column is not None and column.unit else ""


def require_plannable(asked: TaskForm, seconds: float) -> None:
    """Refuse a task whose plan would take longer than so many seconds, before anything of it is computed.

    Raises InvalidTaskError; the detail says how many columns can be planned.
    """
    cost = SECONDS.get((asked.kind, asked.target is not None)) or SECONDS.get((asked.kind, False), OTHER_SECONDS)
    if cost.of(asked.width) <= seconds:
        return
    without = SECONDS.get((asked.kind, False), OTHER_SECONDS)
    remedy = "leave the column to explain empty, or use" if without.of(asked.width) <= seconds else "use"
    raise InvalidTaskError(
        f"columns: this page plans at most {cost.most(seconds):,} columns of this kind, and these are {asked.width:,}, "
        f"where a category counts as its levels but one; {remedy} `lintra plan` in a terminal"
    )


def is_small(asked: TaskForm) -> bool:
    """Return whether a plan takes a second and some megabytes at most."""
    return asked.width <= MOST_SMALL


def _tables(found: ErrorForecast) -> list[PlanTable]:
    makers = (_windows, _stream, _means, _correlations, _coefficients, _directions, _prospects)
    return [table for maker in makers if (table := maker(found)) is not None]


def _means(found: ErrorForecast) -> PlanTable | None:
    if found.means is None:
        return None
    units = {column.name: column.unit for column in found.task.columns}
    lines = [(name, f"± {number(error)}", units.get(name, "")) for name, error in found.means.items()]
    return _table("Means", ("mean of", "deviation by noise", "unit"), lines)


def _correlations(found: ErrorForecast) -> PlanTable | None:
    if found.correlations is None:
        return None
    pairs = sorted(found.correlations.items(), key=lambda pair: -pair[1])
    lines = [(f"{first}, {second}", f"± {number(error)}") for (first, second), error in pairs]
    return _table("Correlations, the worst first", ("correlation of", "deviation by noise"), lines)


def _coefficients(found: ErrorForecast) -> PlanTable | None:
    if found.coefficients is None:
        return None
    lines = [
        (name, number(value), "cannot be told" if error is None else f"± {number(error)}")
        for name, (value, error) in found.coefficients.items()
    ]
    return _table("Regression", ("coefficient of", "value in such rows", "deviation by noise"), lines)


def _windows(found: ErrorForecast) -> PlanTable | None:
    both = found.together
    if both is None:
        return None
    lines = [("as asked", f"{both.epsilon_of_one:.4g}", f"{both.epsilon_of_all:.4g}", "1")]
    if both.costs_more:
        promised = f"at most {found.task.claim.epsilon}"
        lines.append(("that promise for all of them", both.epsilon_to_ask, promised, f"{both.noise_factor:.3g}"))
    header = ("ε", "one window", f"all {both.reports} reports of a source", "times the noise")
    return _table("What the windows promise together", header, lines)


def _stream(found: ErrorForecast) -> PlanTable | None:
    if found.together is None or found.task.stream is None:
        return None
    lines = [tuple(row) for row in option_rows(found.together.streams, found.task.stream)]
    return _table("Noise of the stream, in that of independent windows with the same promise", OPTION_HEADER, lines)


def _directions(found: ErrorForecast) -> PlanTable | None:
    if found.wide is None or not found.wide.directions:
        return None
    lines = [
        (str(place), number(one.variance), number(one.squared_sine))
        for place, one in enumerate(found.wide.directions, 1)
    ]
    header = ("direction", "variance, normalised", "squared sine of its error")
    return _table("Directions that stand out of the noise", header, lines)


def _words(found: ErrorForecast) -> Iterator[str]:
    if found.sketch is not None:
        yield from sketch_in_words(found.sketch)
    for name, error in found.others.items():
        yield f"The {name} deviates by ± {number(error)}."
    if found.wide is not None:
        yield from wide_in_words(found.wide)


def _prospects(found: ErrorForecast) -> PlanTable | None:
    if found.prospects is None:
        return None
    lines = [(f"{each.num_clients:,}", f"{each.epsilon:.3g}", each.told) for each in found.prospects]
    header = ("reports", "ε", "coefficients (strength)")
    return _table("The regression from other cohorts, and at other ε", header, lines)


def _table(title: str, header: Line, lines: Sequence[Line]) -> PlanTable:
    return PlanTable(title, header, lines[:SHOWN_LINES], len(lines))
