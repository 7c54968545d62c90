"""The price of a task's report for the person whose facts it states."""

from dataclasses import replace

from lintra_protocol.errors import LedgerRefusedError
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.task import Task


def price_of(task: Task) -> Spending:
    """Return what a release of a task costs each of its sources at most: at the smallest cohort, replacing a row.

    That is what the servers' gate lets pass and no more (see `Task.worst_privacy`). A report that may be released
    together with others of its source costs more (`Task.worst_charge`).

    Where the task's neighbours leave a row out instead, any two rows are at most twice as far apart as either is from
    none, so that mu doubles; the ledger then compares all tasks by the same measure. Of a task with contributors it is
    what replacing one person's rows costs at the task's own noise.
    """
    if task.contributors is not None:
        # Exactly, and not by two steps: a person's rows replaced by those of another, at the noise that there is.
        replaced = task.claim.model_copy(update={"neighbours": "replace-one"})
        return _price(task, replace(task.measurement, claim=replaced).privacy(task.claim.min_clients))
    return _price(task, task.worst_charge())


def set_aside_by(task: Task) -> Spending | None:
    """Return what a pilot sets aside for the main task of its study; None of any other task."""
    if task.study is None or task.study.pilot is not None:
        return None
    return _price(task, task.study.set_aside(task.worst_privacy()))


def _price(task: Task, statement: PrivacyStatement) -> Spending:
    if statement.neighbours == "zero-out":
        failure = task.measurement.noise_law.failure_of_two_steps(statement)
        statement = replace(statement, neighbours="replace-one", mu=2 * statement.mu, delta_coalition=failure)
    try:
        return Spending.of(statement)
    except ValueError as error:
        raise LedgerRefusedError(f"the task's privacy cannot be counted: {error}") from None
