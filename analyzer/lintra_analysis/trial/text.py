"""A trial as a text for people."""

import textwrap
from collections.abc import Iterator

from lintra_analysis.estimators.tabular import number, table
from lintra_analysis.releases.clipped import FEW, MANY
from lintra_analysis.trial.trial import Trial
from lintra_analysis.trial.what_if import HARDLY, TELLS, prospects_table


def show(trial: Trial) -> str:
    """Return what a trial found: the two regressions, what was clipped, and what more rows or epsilon would give."""
    features = len(trial.coefficients) - 1
    first = f"{trial.target} by {features} numbers; {trial.rows:,} rows; epsilon {number(trial.epsilon)}"
    return "\n".join([first, "", *parts(trial)]) + "\n"


def parts(trial: Trial) -> list[str]:
    """Return the same without its first line."""
    return [
        *_r2(trial),
        "",
        *_coefficients(trial),
        "",
        *_remarks(trial),
        "",
        "How well coefficients could be told, from so many rows like these:",
        *prospects_table(trial.prospects),
        "",
        _verdict(trial),
    ]


def _r2(trial: Trial) -> Iterator[str]:
    low, high = trial.r2_interval
    told = "not told" if trial.r2 is None else number(trial.r2)
    yield f"R2 private      {told}, between {number(low)} and {number(high)} (95 %)"
    yield f"R2 without noise {number(trial.r2_clipped)}, of the table itself {number(trial.r2_non_private)}"


def _coefficients(trial: Trial) -> list[str]:
    bounded = trial.estimate.bounded
    rows = []
    for each in trial.coefficients:
        value, interval = (each.private, each.interval) if each.penalised is None else each.penalised
        ends = ("not", "told") if interval is None else map(number, interval)
        own = ("not determined" if value is None else number(value) for value in (each.clipped, each.non_private))
        rows.append([each.name, number(value), *ends, *own])
    if bounded:
        return table(["", "private", "[.025", ".975]", "without noise", "of the table"], rows)
    header = ["", "penalised", "[.025", ".975]", "without noise", "of the table"]
    return [*table(header, rows), "", *textwrap.wrap(_PENALISED, 100)]


_PENALISED = (
    "The coefficients cannot be told at this epsilon: noise of this size may hide that features depend on each other. "
    "Shown are those under a penalty that was fixed before looking, drawn towards 0; their intervals are about the "
    "penalised coefficients of these rows, not about the columns beside them."
)


def _remarks(trial: Trial) -> Iterator[str]:
    share = trial.clipped_share
    word = "few" if share <= FEW else "some" if share <= MANY else "many: answers are about shrunk rows"
    yield f"Bounds changed {100 * share:.2g} % of the rows ({word})."
    if trial.incomplete:
        yield f"In {trial.incomplete:,} of the rows a number is missing; such a row is sent, and counts nowhere."
    for name, reason in trial.left_out.items():
        yield f"Column {name!r} was left out: {reason}."
    if trial.unseen:
        yield f"The noise drowns {', '.join(trial.unseen)}: no coefficient is asked about it."
    for warning in trial.estimate.warnings:
        yield f"Warning: {warning}."


def _verdict(trial: Trial) -> str:
    here = trial.here.strength
    if here >= TELLS:
        return "Worth collecting: at this epsilon and size the coefficients can be told."
    if trial.dependent:
        return (
            f"Not worth it as it is: in your own table {', '.join(trial.dependent)} depend on each other exactly, so "
            "that no number of rows and no epsilon tells their coefficients apart; leave one of them out."
        )
    needed = trial.rows * TELLS / here if here > 0 else float("inf")
    more = f"about {needed:,.0f} rows would be needed" if needed < 1e12 else "no number of rows would be enough"
    if here >= HARDLY:
        return f"Worth a thought: some coefficients can be told; for all of them {more}, or fewer features."
    return f"Not worth it as it is: hardly any coefficient can be told; {more}, or fewer features."
