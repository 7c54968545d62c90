"""The plan beside the form of a new task: the errors that the noise alone will cause, and what devices are asked."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lintra_analysis.estimators.tabular import number
from lintra_analysis.trial.error_forecast import ErrorForecast
from lintra_analysis.trial.plan_text import sketch_in_words, wide_in_words
from lintra_analyzer.web.console.task_form import TaskForm
from lintra_analyzer.web.console.task_text import asked_of_device, gate_of, warnings_in
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import OTHER
from lintra_protocol.mechanisms.collusion import in_words

SHOWN_LINES = 40
"""Lines of a table on the page."""

MOST_EXPLAINED = 400
"""Columns, levels counted, of which the console plans a regression: some seconds, which grow with their third power."""

QUICK = frozenset({"range_finder", "osnap", "osnap_published", "sum", "histogram"})
"""Kinds whose plan solves no equations of all columns, or has no regression at all."""

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
    _require_few_columns(asked)
    found = asked.foreseen(now, system_randomness, num_servers)
    task = found.task
    claim = task.claim
    return ShownPlan(
        summary=f"ε = {float(claim.epsilon):.4g} at δ = {float(claim.delta):.4g}, from {claim.min_clients:,} reports",
        tables=_tables(found),
        words=list(_words(found)),
        rows_from=found.rows_from,
        colluding=in_words(found.if_colluding, None if task.contributors is None else claim.min_clients),
        device=list(asked_of_device(task)),
        gate=gate_of(task),
        warnings=warnings_in(task),
        specification=json.dumps(asked.proposed(), indent=2, ensure_ascii=False),
    )


def _require_few_columns(asked: TaskForm) -> None:
    """Refuse a plan that would hold up the page, and everybody else's plans, before anything of it is computed."""
    columns, mechanism = asked.document.get("columns"), asked.document.get("mechanism")
    kind = mechanism.get("kind") if isinstance(mechanism, dict) else None
    if asked.target is None or kind in QUICK or not isinstance(columns, list):
        return
    width = sum(_width(column) for column in columns)
    if width > MOST_EXPLAINED:
        raise InvalidTaskError(
            f"target: the console plans a regression of at most {MOST_EXPLAINED} columns, and these are {width}, "
            "where a category counts as its levels but one; leave the target empty, or use `lintra plan` in a terminal"
        )


def _width(column: object) -> int:
    """Return how many columns one of a specification becomes where only numbers count."""
    levels = column.get("levels") if isinstance(column, dict) else None
    if not isinstance(column, dict) or not isinstance(levels, list):
        return 1
    reserved = column.get("missing") is True and OTHER not in levels
    return max(1, len(levels) - 1 + reserved)


def _tables(found: ErrorForecast) -> list[PlanTable]:
    makers = (_windows, _means, _correlations, _coefficients, _directions, _prospects)
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
    if both.reports > 1:
        promised = f"at most {found.task.claim.epsilon}"
        lines.append(("that promise for all of them", both.epsilon_to_ask, promised, f"{both.noise_factor:.3g}"))
    header = ("ε", "one window", f"all {both.reports} reports of a source", "times the noise")
    return _table("What the windows promise together", header, lines)


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
