"""Shows a trial as text, and its coefficients as a picture."""

import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from lintra_analysis.estimators.table import Table
from lintra_analysis.estimators.tabular import number, table
from lintra_analysis.releases.clipped import FEW, MANY
from lintra_analysis.trial import logistic_text
from lintra_analysis.trial.coefficients import RegressionComparison
from lintra_analysis.trial.directions import DirectionComparison
from lintra_analysis.trial.logistic import LogisticComparison
from lintra_analysis.trial.organisations import PooledComparison, gains
from lintra_analysis.trial.trial import Trial
from lintra_analysis.trial.verdict import SEEN, Size, SlopeVerdict, Verdict
from lintra_analysis.trial.what_if import prospects_table
from lintra_protocol.errors import InvalidAnalysisError, install_command
from lintra_protocol.mechanisms.collusion import in_words as colluding_in_words

SHOWN = 10
"""Directions that a text shows."""

SlopesComparison = RegressionComparison | LogisticComparison

_WIDTH = 40
_LINE = 100
_MOST_MISSING = 3


def show(trial: Trial) -> str:
    """Return what a trial found: what collections like it would tell of the table's own answer, and the verdict."""
    answer = trial.answer
    if not isinstance(answer, DirectionComparison):
        header, rows = slopes_table(answer)
        said = "\n\n".join(textwrap.fill(each, _LINE) for each in in_words(trial, answer))
        legend = textwrap.fill(_legend(answer), _LINE)
        parts = [*_predictions(answer), "", *table(header, rows), "", legend, "", said]
        return "\n".join([*_opening(trial), *parts, "", *_remarks(trial), ""])
    return "\n".join(
        [
            *_opening(trial),
            *_directions(answer),
            "",
            *_remarks(trial),
            "",
            "How many of this table's directions would stand out of the noise, from so many rows like these:",
            *prospects_table(answer.prospects),
            "",
            _verdict_of_directions(answer),
            "",
        ]
    )


def html(trial: Trial) -> str:
    """Return the same as HTML for a notebook."""
    answer = trial.answer
    if isinstance(answer, DirectionComparison):
        return f"<pre>{escape(show(trial))}</pre>"
    header, rows = slopes_table(answer)
    notes = [*_opening(trial), *_predictions(answer), _legend(answer), *in_words(trial, answer), *_remarks(trial)]
    own = Table(f"Trial: {trial.target}", (), (), shown=[(header, rows)])
    return own.html() + "".join(f"<p>{escape(note)}</p>" for note in notes if note)


def _opening(trial: Trial) -> Iterator[str]:
    """Say what was collected from whom, and what organisations learn alone."""
    answer, pooled = trial.answer, trial.pooled
    size = f"{trial.rows:,} rows"
    if isinstance(answer, DirectionComparison):
        yield f"{trial.target} by {answer.columns - 1} numbers, along the directions of a range finder"
        yield f"{size}; epsilon {number(trial.epsilon)}; {answer.words:,} words a report"
    else:
        size += "" if pooled is None else f" of {pooled.organisations:,} organisations"
        names = f"{len(answer.coefficients) - 1} numbers"
        names += ", a logistic regression" if isinstance(answer, LogisticComparison) else ""
        yield f"{trial.target} by {names}; {size}; epsilon {number(trial.epsilon)}"
    if pooled is not None:
        yield f"Promised to {pooled.promised_to}; {colluding_in_words(pooled.colluding, pooled.organisations)}."
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
    parts = []
    for shares, than in (
        ([each.better for each in pooled.alone], "alone with the same promise"),
        ([each.better_than_own_rows for each in pooled.alone], "by their own rows without any"),
    ):
        better, unclear = gains(shares)
        open_ = f", and of {unclear} there is no clear difference" if unclear else ""
        parts.append(f"{better} of {len(shares)} predict everybody's rows better than {than}{open_}")
    return f"Together, in at least 80 % of simulated collections, {'; '.join(parts)}."


def _r2(value: float | None) -> str:
    if value is None:
        return "nothing"
    return "below 0" if value < 0 else f"{value:.3f}"


def _name(name: str) -> str:
    """Return an organisation's name as a terminal can show it, on one line."""
    shown = name if name.isprintable() else ascii(name)[1:-1]
    return shown if len(shown) <= _WIDTH else shown[: _WIDTH - 1] + "…"


def _predictions(answer: SlopesComparison) -> Iterator[str]:
    """Say how well predictions would do, beside those of the table itself."""
    if isinstance(answer, LogisticComparison):
        yield from logistic_text.opening(answer)
        return
    judged, example = answer.judgement, answer.r2
    low, high = example.interval
    told = "not told" if example.private is None else f"{example.private:.2f}"
    yield f"R2 of the table itself: {judged.own_r2:.2f}"
    yield f"R2 of a collection's predictions of these rows: {_r2(judged.r2)} (median of {judged.draws} draws)"
    yield f"R2 that the example states: {told}, between {low:.2f} and {high:.2f}"


def slopes_table(answer: SlopesComparison) -> tuple[list[str], list[list[str]]]:
    """Return the heading and the lines of the table of slopes, the intercept last."""
    header = ["", "yours", "weighted", "seen in", "80 % from", "off by", "example", "[.025", ".975]"]
    judged = {slope.name: slope for slope in answer.judgement.slopes}
    lines = []
    for each in answer.coefficients:
        slope = judged.get(each.name)
        ends = ["none", ""] if each.interval is None else [number(end) for end in each.interval]
        own = ["not determined" if value is None else number(value) for value in (each.own, each.weighted)]
        lines.append([each.name, *own, *_seen(slope), number(each.private), *ends])
    return header, lines


def _seen(slope: SlopeVerdict | None) -> list[str]:
    if slope is None:
        return ["", "", ""]
    off = "" if slope.off_by is None else f"{slope.off_by:.2g}"
    if slope.seen is None:
        return ["small", "", off]
    return [f"{100 * slope.seen:.0f} %", "no size" if slope.seen_from is None else f"{slope.seen_from:.2g}", off]


_LEGEND = (
    "Yours: ordinary least squares of the table. Weighted: what a collection estimates, without noise. Seen in: the "
    "share of simulated collections whose 95 % interval excludes 0, in steps of 5 %. 80 % from: the smallest slope "
    "that would be seen in 80 % of them. Off by: the median distance of the printed slope from yours. Example: one "
    "collection, with its 95 % interval for the weighted slope."
)


def _legend(answer: SlopesComparison) -> str:
    return logistic_text.LEGEND if isinstance(answer, LogisticComparison) else _LEGEND


_VERDICTS: dict[Verdict, str] = {
    "good": "Good",
    "part": "Part of it",
    "prediction only": "Prediction only",
    "not at this size": "Not at this size",
}


def in_words(trial: Trial, answer: SlopesComparison) -> Iterator[str]:
    """Yield the verdict, and what would help."""
    judged = answer.judgement
    large = [slope for slope in judged.slopes if slope.large]
    measure = "R2" if isinstance(answer, RegressionComparison) else "explained deviance"
    told = [slope.name for slope in large if slope.told]
    lost = [slope.name for slope in large if not slope.told]
    why = {
        "good": f"{_all(len(told))} of at least a tenth of a deviation is seen in 80 % of collections"
        if large
        else "no slope reaches a tenth of a deviation, and one that did would be seen in 80 % of collections",
        "part": f"seen in 80 % of collections: {', '.join(told)}; not: {', '.join(lost)}",
        "prediction only": "no slope is seen in 80 % of collections, but predictions keep more than half of your "
        f"{measure}",
        "not at this size": "no slope is seen in 80 % of collections, and predictions keep at most half of "
        f"your {measure}",
    }[judged.verdict]
    yield f"{_VERDICTS[judged.verdict]}: {why}."
    if isinstance(answer, LogisticComparison):
        yield from logistic_text.rounds_in_words(answer)
    shrunk = [slope.name for slope in large if slope.seen is not None and slope.seen >= SEEN and not slope.kept]
    if shrunk:
        yield f"Of {', '.join(shrunk)} the collection estimates less than half of your slope: rows count unlike yours."
    if answer.dependent:
        yield (
            f"In your own table {', '.join(answer.dependent)} depend on each other exactly, so that no size tells "
            "their slopes apart: leave one of them out."
        )
    elif judged.verdict != "good":
        yield _sizes(trial, judged.sizes)
    if answer.drowned:
        options = " ".join(f"--drop '{name}'" for name in answer.drowned_columns)
        yield (
            f"The noise drowns what varies in few rows: {', '.join(answer.drowned)}. No slope can be told while these "
            f"take part. Write rare levels as one level, or leave columns out: {options}."
        )
    if answer.choice is not None:
        few = answer.choice
        options = " ".join(f"--column '{name}'" for name in few.columns)
        yield (
            f"With {len(few.columns)} of {few.among} columns predictions have R2 {_r2(few.r2)} instead of "
            f"{_r2(few.all_r2)}: {options}. A specification of these has read this table."
        )


def _all(count: int) -> str:
    return "the only slope" if count == 1 else f"each of the {count} slopes"


def _sizes(trial: Trial, sizes: Sequence[Size]) -> str:
    good = [f"{size.rows:,} rows like these at epsilon {number(size.epsilon)}" for size in sizes if size.good]
    if good:
        return f"Simulated to be good: {', or '.join(good)}."
    most = max((size.rows for size in sizes), default=trial.rows)
    return f"No size that was simulated is good, up to {most:,} rows like these at four times the epsilon."


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
        yield f"In {trial.incomplete_rows:,} of the rows a number is missing; {fate}. {_most(trial.missing)}."
    for name, reason in trial.left_out.items():
        yield f"Column {name!r} was left out: {reason}."
    if isinstance(answer, RegressionComparison) and answer.absent:
        yield f"The same in every row, and so not asked about: {', '.join(answer.absent)}."
    for warning in answer.warnings:
        yield f"Warning: {warning}."


def _most(missing: dict[str, int]) -> str:
    """Return the columns that are missing most often, and in how many rows."""
    shown = [f"{name} in {count:,}" for name, count in list(missing.items())[:_MOST_MISSING]]
    rest = f", and {len(missing) - len(shown)} others in fewer" if len(missing) > len(shown) else ""
    return f"Missing is {', '.join(shown)}{rest}"


def _verdict_of_directions(answer: DirectionComparison) -> str:
    if not answer.directions:
        return "Not worth it as it is: no direction stands out of the noise at this epsilon and size."
    if answer.r2.private is None or answer.r2.private <= 0:
        return "Worth a thought: directions can be told, but predictions along them are no better than the mean."
    return "Worth collecting: at this epsilon and size directions can be told, and predictions along them."


def draw(trial: Trial, answer: SlopesComparison, file: Path) -> None:
    """Draw every coefficient in units of its table's own size, so that all fit on one axis.

    Raises:
        InvalidAnalysisError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise InvalidAnalysisError(f"pictures need matplotlib; {install_command('plot')}") from None
    shown = [each for each in answer.coefficients if each.own]
    figure = Figure(figsize=(7, 1.6 + 0.35 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    for position, each in enumerate(reversed(shown)):
        unit = abs(each.own or 1.0)
        if each.interval is not None:
            axes.plot([end / unit for end in each.interval], [position, position], color="C0", linewidth=2)
        axes.plot(each.private / unit, position, "o", color="C0", label="private, 95 %" if position == 0 else None)
        axes.plot((each.own or 0) / unit, position, "x", color="C1", label="the table" if position == 0 else None)
    axes.set_yticks(range(len(shown)), [each.name for each in reversed(shown)])
    # Where nothing bounds a coefficient its point may lie anywhere; the axis stays where things can be read.
    axes.set_xlim(-4, 4)
    axes.axvline(0, color="grey", linewidth=0.5)
    axes.set_xlabel("coefficient, in units of the table's own")
    axes.set_title(f"{trial.target}: epsilon {trial.epsilon:.3g}, {trial.rows:,} rows")
    axes.legend(loc="lower right")
    figure.savefig(file, dpi=150)
