"""A trial of organisations as a text for people."""

from collections.abc import Iterator

from lintra_analysis.estimators.tabular import number, table
from lintra_analysis.trial.organisations import OrganisationTrial
from lintra_analysis.trial.text import parts
from lintra_protocol.mechanisms.collusion import in_words

_WIDTH = 40


def show_organisations(trial: OrganisationTrial) -> str:
    """Return what organisations learn together and each alone, then the pooled regression as any trial shows it."""
    pooled = trial.pooled
    features = len(pooled.coefficients) - 1
    whose = f"{pooled.rows:,} rows of {trial.organisations:,} organisations"
    lines = [
        f"{pooled.target} by {features} numbers; {whose}; epsilon {number(pooled.epsilon)}",
        f"Promised to {trial.promised_to}; {in_words(trial.colluding, trial.organisations)}.",
        *_dropped(trial),
        "",
        *_alone(trial),
        "",
        *_gain(trial),
        "",
        "All together:",
        *parts(pooled),
    ]
    return "\n".join(lines) + "\n"


def _dropped(trial: OrganisationTrial) -> Iterator[str]:
    if trial.dropped_rows:
        yield f"{trial.dropped_rows:,} rows beyond those that are kept of each person are in nothing below."


def _alone(trial: OrganisationTrial) -> list[str]:
    together = ["all together", f"{trial.pooled.rows:,}", _r2(trial.r2), _r2(trial.r2_non_private)]
    rows = [[_name(each.name), f"{each.rows:,}", _r2(each.r2), _r2(each.r2_non_private)] for each in trial.alone]
    found = table(["R2 over all rows", "rows", "private", "without privacy"], [together, *rows])
    if trial.organisations > len(trial.alone):
        found.append(f"{trial.organisations - len(trial.alone):,} smaller ones are not shown.")
    return found


def _gain(trial: OrganisationTrial) -> Iterator[str]:
    """Say how many of those that are shown learn more together than alone, under the same promise and without one."""
    if trial.r2 is None:
        yield "Together they learn nothing at this epsilon."
        return
    under = sum(each.r2 is None or each.r2 < trial.r2 for each in trial.alone)
    without = sum(each.r2_non_private is None or each.r2_non_private < trial.r2 for each in trial.alone)
    yield (
        f"Together, {under} of {len(trial.alone)} predict everybody's rows better than alone with the same promise, "
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
