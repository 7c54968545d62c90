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

_OTHER_GRID = 1e-3
"""Of mu that nothing but a client's own noise leaves, for a later round: noise is whole numbers of another grid."""


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
    return _price(task, task.worst_charge()).with_alone(None if alone is None else _replacing(alone))


def set_aside_by(task: Task) -> Spending | None:
    """Return what a pilot sets aside for the main task of its study, or a round for all later ones; else None."""
    if task.mechanism.other_rounds.num_after:
        return _later_rounds(task)
    if task.study is None or task.study.pilot is not None:
        return None
    alone = task.bound_alone()
    aside = None if alone is None else _replacing(task.study.set_aside_alone(alone))
    return _price(task, task.study.set_aside(task.worst_privacy())).with_alone(aside)


def task_before(task: Task) -> str | None:
    """Return the task whose charge covers this one: the pilot of its study, or the round before; None of others."""
    return task.mechanism.other_rounds.before or (None if task.study is None else task.study.pilot)


def _later_rounds(task: Task) -> Spending:
    """Return what the rounds after this one may cost together, by the claim and not by the noise, which rounds up."""
    claim, (_, left, share) = task.claim, task.mechanism.other_rounds
    mu = gaussian_mu(claim.float_epsilon, claim.noise_delta) * sqrt(share) * (1 + left * _SPARE)
    worst, alone = task.worst_charge(), task.bound_alone(1)
    later = _price(task, replace(worst, epsilon=inf, mu=mu, slack=MAX_SLACK))
    if alone is not None:
        promised = gaussian_mu(claim.alone.float_epsilon, claim.alone.noise_delta)
        own = promised if claim.epsilon_alone is not None else alone.mu * (1 + _OTHER_GRID)
        most = own * sqrt(share) * (1 + left * _SPARE)
        later = later.with_alone(_replacing(replace(alone, epsilon=inf, mu=most, slack=MAX_SLACK)))
    if claim.epsilon_alone is None:
        # Of a later round more may be left than is called a bound; then it is counted as having none.
        later = later.model_copy(update={"unbounded": "1"})
    return sum((later for _ in range(left - 1)), later)


def _replacing(alone: PrivacyStatement) -> PrivacyStatement:
    """Return a statement about replaced rows: any two are at most twice as far apart as either is from none."""
    if alone.neighbours != "zero-out":
        return alone
    return replace(alone, neighbours="replace-one", mu=2 * alone.mu)


def _price(task: Task, statement: PrivacyStatement) -> Spending:
    if statement.neighbours == "zero-out":
        failure = task.measurement.noise_law.failure_of_two_steps(statement)
        statement = replace(statement, neighbours="replace-one", mu=2 * statement.mu, delta_coalition=failure)
    try:
        return Spending.of(statement)
    except ValueError as error:
        raise LedgerRefusedError(f"the task's privacy cannot be counted: {error}") from None
