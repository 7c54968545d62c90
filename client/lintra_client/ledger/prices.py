"""The price of a task's report for the person whose facts it states, and what prices add up to."""

from dataclasses import dataclass, replace
from math import inf, sqrt

from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import LedgerRefusedError
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import MAX_SLACK, PrivacyStatement
from lintra_protocol.task import Task

_SPARE = 1e-7
"""Of mu, for each later round: a claim has nine digits."""


@dataclass(frozen=True)
class Balance:
    """What one source has spent: `epsilon` at the device's `delta`, of at most `max_epsilon`.

    `epsilon_alone`, of at most `max_epsilon_alone`, is that of everybody else being invented; `unbounded` releases are
    not in it, since their source trusts whoever enrols the others.
    """

    spent: Spending
    epsilon: float
    delta: float
    max_epsilon: float
    epsilon_alone: float
    max_epsilon_alone: float

    @property
    def unbounded(self) -> int:
        """Return how many releases nothing bounds if everybody else is invented."""
        return int(fraction(self.spent.unbounded))


def price_of(task: Task) -> Spending:
    """Return what a release of a task costs each of its sources at most: at the smallest cohort, replacing a row.

    That is what the servers' gate lets pass and no more (see `Task.worst_privacy`). A report that may be released
    together with others of its source costs more (`Task.worst_charge`).

    Where the task's neighbours leave a row out instead, any two rows are at most twice as far apart as either is from
    none, so that mu doubles; the ledger then compares all tasks by the same measure. Of a task with contributors it is
    what replacing one person's rows costs at the task's own noise. The second sum has what is bounded if all others are
    invented (`Task.bound_alone`).
    """
    if task.contributors is not None:
        # Exactly, and not by two steps: a person's rows replaced by those of another, at the noise that there is.
        replaced = task.claim.model_copy(update={"neighbours": "replace-one"})
        measurement = replace(task.measurement, claim=replaced)
        alone = None if task.bound_alone() is None else measurement.alone()
        return _price(task, measurement.privacy(task.claim.min_clients)).with_alone(alone)
    alone = task.bound_alone(1)
    if alone is not None and alone.neighbours == "zero-out":
        alone = replace(alone, neighbours="replace-one", mu=2 * alone.mu)
    return _price(task, task.worst_charge()).with_alone(alone)


def set_aside_by(task: Task) -> Spending | None:
    """Return what a pilot sets aside for the main task of its study, or a round for all later ones; else None."""
    if task.mechanism.other_rounds.num_after:
        return _later_rounds(task)
    if task.study is None or task.study.pilot is not None:
        return None
    return _price(task, task.study.set_aside(task.worst_privacy())).with_alone(None)


def task_before(task: Task) -> str | None:
    """Return the task whose charge covers this one: the pilot of its study, or the round before; None of others."""
    return task.mechanism.other_rounds.before or (None if task.study is None else task.study.pilot)


def _later_rounds(task: Task) -> Spending:
    """Return what the rounds after this one may cost together, by the claim and not by the noise, which rounds up."""
    claim, (_, left, share) = task.claim, task.mechanism.other_rounds
    mu = gaussian_mu(claim.float_epsilon, claim.noise_delta) * sqrt(share) * (1 + left * _SPARE)
    worst = task.worst_charge()
    later = _price(task, replace(worst, epsilon=inf, mu=mu, slack=MAX_SLACK)).with_alone(None)
    return sum((later for _ in range(left - 1)), later)


def _price(task: Task, statement: PrivacyStatement) -> Spending:
    if statement.neighbours == "zero-out":
        failure = task.measurement.noise_law.failure_of_two_steps(statement)
        statement = replace(statement, neighbours="replace-one", mu=2 * statement.mu, delta_coalition=failure)
    try:
        return Spending.of(statement)
    except ValueError as error:
        raise LedgerRefusedError(f"the task's privacy cannot be counted: {error}") from None
