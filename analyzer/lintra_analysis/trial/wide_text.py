"""A trial of very many columns as a text for people."""

from collections.abc import Iterator

from lintra_analysis.estimators.tabular import number, table
from lintra_analysis.releases.clipped import FEW, MANY
from lintra_analysis.trial.wide import WideTrial

SHOWN = 10
"""Directions that a text shows."""


def show_wide(trial: WideTrial) -> str:
    """Return what a trial found: directions, predictions, what was clipped, and what other sizes would give."""
    lines = [
        f"{trial.target} by {trial.columns - 1} numbers, along the directions of a range finder",
        f"{trial.rows:,} rows; epsilon {number(trial.epsilon)}; {trial.words:,} words a report",
        "",
        *_directions(trial),
        *_predictions(trial),
        "",
        *_remarks(trial),
        "",
        "How many of this table's directions would stand out of the noise, from so many rows like these:",
        *_prospects(trial),
        "",
        _verdict(trial),
    ]
    return "\n".join(lines) + "\n"


def _directions(trial: WideTrial) -> Iterator[str]:
    if not trial.directions:
        return
    rows = [
        [str(place), number(one.private), number(one.without_noise)] for place, one in enumerate(trial.directions, 1)
    ]
    yield from table(["direction", "variance, private", "of the rows along it"], rows[:SHOWN])
    if len(rows) > SHOWN:
        yield f"and {len(rows) - SHOWN} more; --json has all of them"
    if trial.share is not None:
        yield (
            f"These {len(rows)} hold {100 * trial.share:.3g} % of the variance that the {len(rows)} best directions of "
            "the rows hold."
        )
    yield ""


def _predictions(trial: WideTrial) -> Iterator[str]:
    if trial.r2 is not None:
        told = trial.explained
        said = (
            "" if told is None else f"; the release itself says {number(told.value)} +- {number(told.standard_error)}"
        )
        yield f"R2 private            {number(trial.r2)}, of predictions of your own rows{said}"
        yield f"R2 of best directions {number(trial.r2_components)}, as many, without noise"
    yield f"R2 of all columns     {number(trial.r2_non_private)}, least squares on the table itself"


def _remarks(trial: WideTrial) -> Iterator[str]:
    share = trial.clipped_share
    word = "few" if share <= FEW else "some" if share <= MANY else "many: answers are about shrunk rows"
    yield f"Bounds changed {100 * share:.2g} % of the rows ({word})."
    if trial.incomplete:
        yield f"In {trial.incomplete:,} of the rows a number is missing; it stood at its column's centre."
    for name, reason in trial.left_out.items():
        yield f"Column {name!r} was left out: {reason}."
    for warning in trial.warnings:
        yield f"Warning: {warning}."


def _prospects(trial: WideTrial) -> list[str]:
    epsilons = sorted({each.epsilon for each in trial.prospects})
    cells = {(each.num_clients, each.epsilon): str(each.directions) for each in trial.prospects}
    sizes = sorted({each.num_clients for each in trial.prospects})
    header = ["rows", *(f"epsilon {number(epsilon)}" for epsilon in epsilons)]
    return table(header, [[f"{size:,}", *(cells[size, epsilon] for epsilon in epsilons)] for size in sizes])


def _verdict(trial: WideTrial) -> str:
    if not trial.directions:
        return "Not worth it as it is: no direction stands out of the noise at this epsilon and size."
    if trial.r2 is None or trial.r2 <= 0:
        return "Worth a thought: directions can be told, but predictions along them are no better than the mean."
    return "Worth collecting: at this epsilon and size directions can be told, and predictions along them."
