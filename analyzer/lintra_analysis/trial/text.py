"""Shows a trial as text, and its coefficients as a picture."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

from lintra_analysis.estimators.tabular import number, table
from lintra_analysis.releases.clipped import FEW, MANY
from lintra_analysis.trial.coefficients import RegressionComparison
from lintra_analysis.trial.directions import DirectionComparison
from lintra_analysis.trial.organisations import PooledComparison
from lintra_analysis.trial.trial import Trial
from lintra_analysis.trial.what_if import HARDLY, TELLS, prospects_table
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.mechanisms.collusion import in_words

SHOWN = 10
"""Directions that a text shows."""

_WIDTH = 40


def show(trial: Trial) -> str:
    """Return what a trial found: the answer beside the table's own, and what more rows or epsilon would give."""
    answer = trial.answer
    if isinstance(answer, DirectionComparison):
        parts, verdict = _directions(answer), _verdict_of_directions(answer)
        told = "many of this table's directions would stand out of the noise"
    else:
        parts, verdict = _coefficients(answer), _verdict(answer, trial.rows)
        told = "well coefficients could be told"
    return "\n".join(
        [
            *_opening(trial),
            *parts,
            "",
            *_remarks(trial),
            "",
            f"How {told}, from so many rows like these:",
            *prospects_table(answer.prospects),
            "",
            verdict,
            "",
        ]
    )


def _opening(trial: Trial) -> Iterator[str]:
    """Say what was collected from whom, and what organisations learn alone."""
    answer, pooled = trial.answer, trial.pooled
    size = f"{trial.rows:,} rows"
    if isinstance(answer, DirectionComparison):
        yield f"{trial.target} by {answer.columns - 1} numbers, along the directions of a range finder"
        yield f"{size}; epsilon {number(trial.epsilon)}; {answer.words:,} words a report"
    else:
        size += "" if pooled is None else f" of {pooled.organisations:,} organisations"
        yield f"{trial.target} by {len(answer.coefficients) - 1} numbers; {size}; epsilon {number(trial.epsilon)}"
    if pooled is not None:
        yield f"Promised to {pooled.promised_to}; {in_words(pooled.colluding, pooled.organisations)}."
        if pooled.dropped_rows:
            yield f"{pooled.dropped_rows:,} rows beyond those that are kept of each person are in nothing below."
        yield ""
        yield from _alone(pooled, trial.rows)
        yield ""
        yield _gain(pooled)
        yield from ("", "All together:")
    else:
        yield ""


def _alone(pooled: PooledComparison, rows: int) -> Iterator[str]:
    shown = [("all together", rows, pooled.r2), *((_name(one.organisation), one.rows, one.r2) for one in pooled.alone)]
    lines = [[name, f"{count:,}", _r2(r2.private), _r2(r2.non_private)] for name, count, r2 in shown]
    yield from table(["R2 over all rows", "rows", "private", "without privacy"], lines)
    if pooled.organisations > len(pooled.alone):
        yield f"{pooled.organisations - len(pooled.alone):,} smaller ones are not shown."


def _gain(pooled: PooledComparison) -> str:
    """Say how many of those that are shown learn more together than alone, under the same promise and without one."""
    together, alone = pooled.r2.private, [each.r2 for each in pooled.alone]
    if together is None:
        return "Together they learn nothing at this epsilon."
    under = sum(each.private is None or each.private < together for each in alone)
    without = sum(each.non_private is None or each.non_private < together for each in alone)
    return (
        f"Together, {under} of {len(alone)} predict everybody's rows better than alone with the same promise, "
        f"and {without} better than alone without any."
    )


def _r2(value: float | None) -> str:
    if value is None:
        return "nothing"
    return "below 0" if value < 0 else f"{value:.3f}"


def _name(name: str) -> str:
    """Return an organisation's name as a terminal can show it, on one line."""
    shown = name if name.isprintable() else ascii(name)[1:-1]
    return shown if len(shown) <= _WIDTH else shown[: _WIDTH - 1] + "…"


def _coefficients(answer: RegressionComparison) -> Iterator[str]:
    low, high = answer.r2.interval
    told = "not told" if answer.r2.private is None else number(answer.r2.private)
    yield f"R2 private      {told}, between {number(low)} and {number(high)} (95 %)"
    yield f"R2 without noise {number(answer.r2.clipped)}, of the table itself {number(answer.r2.non_private)}"
    yield ""
    rows = []
    for each in answer.coefficients:
        shown = each.penalised or each
        ends = ("not", "told") if shown.interval is None else map(number, shown.interval)
        own = ("not determined" if value is None else number(value) for value in (each.clipped, each.non_private))
        rows.append([each.name, number(shown.private), *ends, *own])
    bounded = answer.estimate.bounded
    yield from table(
        ["", "private" if bounded else "penalised", "[.025", ".975]", "without noise", "of the table"], rows
    )
    if not bounded:
        yield from ("", *textwrap.wrap(_PENALISED, 100))


_PENALISED = (
    "The coefficients cannot be told at this epsilon: noise of this size may hide that features depend on each other. "
    "Shown are those under a penalty that was fixed before looking, drawn towards 0; their intervals are about the "
    "penalised coefficients of these rows, not about the columns beside them."
)


def _directions(answer: DirectionComparison) -> Iterator[str]:
    if answer.directions:
        held = len(answer.directions)
        rows = [[str(i), number(one.private), number(one.without_noise)] for i, one in enumerate(answer.directions, 1)]
        yield from table(["direction", "variance, private", "of the rows along it"], rows[:SHOWN])
        if held > SHOWN:
            yield f"and {held - SHOWN} more; --json has all of them"
        if answer.share is not None:
            best = f"that the {held} best directions of the rows hold"
            yield f"These {held} hold {100 * answer.share:.3g} % of the variance {best}."
        yield ""
    if answer.r2.private is not None:
        told = answer.explained
        said = told and f"; the release itself says {number(told.value)} +- {number(told.standard_error)}"
        yield f"R2 private            {number(answer.r2.private)}, of predictions of your own rows{said or ''}"
        yield f"R2 of best directions {number(answer.r2.components)}, as many, without noise"
    yield f"R2 of all columns     {number(answer.r2.non_private)}, least squares on the table itself"


def _remarks(trial: Trial) -> Iterator[str]:
    share, answer = trial.clipped_share, trial.answer
    word = "few" if share <= FEW else "some" if share <= MANY else "many: answers are about shrunk rows"
    yield f"Bounds changed {100 * share:.2g} % of the rows ({word})."
    if trial.incomplete_rows:
        fate = "such a row is sent, and counts nowhere"
        if isinstance(answer, DirectionComparison):
            fate = "it stood at its column's centre"
        yield f"In {trial.incomplete_rows:,} of the rows a number is missing; {fate}."
    for name, reason in trial.left_out.items():
        yield f"Column {name!r} was left out: {reason}."
    if isinstance(answer, RegressionComparison) and answer.unseen:
        yield f"The noise drowns {', '.join(answer.unseen)}: no coefficient is asked about it."
    for warning in answer.warnings:
        yield f"Warning: {warning}."


def _verdict(answer: RegressionComparison, rows: int) -> str:
    here = answer.here.strength
    if here >= TELLS:
        return "Worth collecting: at this epsilon and size the coefficients can be told."
    if answer.dependent:
        return (
            f"Not worth it as it is: in your own table {', '.join(answer.dependent)} depend on each other exactly, so "
            "that no number of rows and no epsilon tells their coefficients apart; leave one of them out."
        )
    needed = rows * TELLS / here if here > 0 else float("inf")
    more = f"about {needed:,.0f} rows would be needed" if needed < 1e12 else "no number of rows would be enough"
    if here >= HARDLY:
        return f"Worth a thought: some coefficients can be told; for all of them {more}, or fewer features."
    return f"Not worth it as it is: hardly any coefficient can be told; {more}, or fewer features."


def _verdict_of_directions(answer: DirectionComparison) -> str:
    if not answer.directions:
        return "Not worth it as it is: no direction stands out of the noise at this epsilon and size."
    if answer.r2.private is None or answer.r2.private <= 0:
        return "Worth a thought: directions can be told, but predictions along them are no better than the mean."
    return "Worth collecting: at this epsilon and size directions can be told, and predictions along them."


def draw(trial: Trial, answer: RegressionComparison, file: Path) -> None:
    """Draw every coefficient in units of its table's own size, so that all fit on one axis.

    Raises:
        InvalidAnalysisError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise InvalidAnalysisError("pictures need matplotlib: pip install 'lintra[plot]'") from None
    shown = [each for each in answer.coefficients if each.non_private]
    figure = Figure(figsize=(7, 1.6 + 0.35 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    for position, each in enumerate(reversed(shown)):
        unit = abs(each.non_private or 1.0)
        if each.interval is not None:
            axes.plot([end / unit for end in each.interval], [position, position], color="C0", linewidth=2)
        axes.plot(each.private / unit, position, "o", color="C0", label="private, 95 %" if position == 0 else None)
        axes.plot(
            (each.non_private or 0) / unit, position, "x", color="C1", label="the table" if position == 0 else None
        )
    axes.set_yticks(range(len(shown)), [each.name for each in reversed(shown)])
    # Where nothing bounds a coefficient its point may lie anywhere; the axis stays where things can be read.
    axes.set_xlim(-4, 4)
    axes.axvline(0, color="grey", linewidth=0.5)
    axes.set_xlabel("coefficient, in units of the table's own")
    axes.set_title(f"{trial.target}: epsilon {trial.epsilon:.3g}, {trial.rows:,} rows")
    axes.legend(loc="lower right")
    figure.savefig(file, dpi=150)
