"""Says in words what a trial of a logistic regression found."""

from collections.abc import Iterator

from lintra_analysis.estimators.tabular import number, table
from lintra_analysis.trial.logistic import LogisticComparison
from lintra_protocol.mechanisms.newton_step import MAX_ROUNDS

LEGEND = (
    "Yours: the logistic regression of the table. Weighted: what a collection estimates, without noise. Seen in: the "
    "share of simulated collections whose 95 % interval excludes 0, in steps of 5 %. 80 % from: the smallest slope "
    "that would be seen in 80 % of them. Off by: the median distance of the printed slope from yours. Example: one "
    "collection, with its 95 % interval for the weighted slope."
)


def opening(answer: LogisticComparison) -> Iterator[str]:
    """Say how well chances would be predicted, and how the rounds of the example went."""
    judged = answer.judgement
    yield f"Deviance that the table's own fit explains: {_share(judged.own_r2)}"
    yield f"Deviance that a collection explains of these rows: {_share(judged.r2)} (median of {judged.draws} draws)"
    yield f"Deviance that the example explains: {_share(answer.explained)}"
    yield ""
    lines = [
        [str(one.number), number(one.statistic), "" if one.statistic is None else "yes" if one.passes else "no"]
        for one in answer.estimate.rounds
    ]
    yield from table(["round", "T", "agrees with the one before"], lines)


def rounds_in_words(answer: LogisticComparison) -> Iterator[str]:
    """Say whether the rounds were enough for intervals, in the example and in simulated collections."""
    ran, told = len(answer.estimate.rounds), f"{100 * answer.told:.0f} % of simulated collections have intervals."
    if answer.estimate.status == "another round":
        more = (
            f'Reserve more of them: "rounds" in the specification may be up to {MAX_ROUNDS}.'
            if answer.rounds < MAX_ROUNDS
            else "More cannot be reserved for the same people: ask more of them, or leave out a column that nearly "
            "separates the ones from the zeros."
        )
        yield f"{ran} rounds were not enough for the example: the last two do not agree, so it has no interval. {more}"
    elif answer.estimate.status == "not told":
        where = ", ".join(answer.estimate.undetermined)
        yield f"{ran} rounds were enough, but at this epsilon nothing can be told along {where}: leave one of them out."
    else:
        yield f"{ran} of {answer.rounds} rounds were enough: the last two agree, so that the intervals hold."
    yield told


def _share(value: float) -> str:
    return "below 0" if value < 0 else f"{value:.3f}"
