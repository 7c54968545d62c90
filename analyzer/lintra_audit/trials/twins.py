"""Small tasks that stand for large ones: the same mechanism and promise at a size that can be run often enough."""

from collections.abc import Sequence
from math import ceil

from lintra_audit.trials.case import numbers, task_of
from lintra_protocol.encoding.documents import real
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import AnyMechanism
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA
from lintra_protocol.privacy.statement import SMOOTHING, Claim
from lintra_protocol.task import Task

MAX_CLIENTS = 8
"""Clients behind each row of a twin's release."""


def small_claim(task: Task, num_clients: int, corrupt: int = 1) -> Claim:
    """Return the claim of a twin: the task's for a small cohort and a coalition of at most `corrupt` clients.

    All of delta that is the noise's goes to the noise, and the coalition may choose its place.
    """
    claim = task.claim
    return Claim(
        epsilon=claim.epsilon,
        delta=real(f"{claim.noise_delta:.12g}"),
        neighbours=claim.neighbours,
        min_clients=num_clients,
        max_corrupt_clients=min(claim.max_corrupt_clients, corrupt),
        threat="adaptive",
    )


def twin_with_mu(task: Task) -> Task:
    """Return the twin of a task whose mechanism fits any number of columns: two of them, and the task's mu."""
    clients, columns = min(task.claim.min_clients, MAX_CLIENTS), min(task.num_columns, 2)
    return twin_of(task, task.mechanism, clients, numbers(columns))


def twin_of(task: Task, mechanism: AnyMechanism, num_clients: int, columns: Sequence[Column]) -> Task:
    """Return a task with the mechanism given, its noise set so that mu is that of a task at its minimum cohort."""
    small, mechanism = small_claim(task, num_clients), mechanism.of_contributors(task.contributors)
    mu = task.privacy(task.claim.min_clients).mu
    return task_of(_with_mu(mechanism, small, len(columns), mu), small, columns)


def task_of_claim(mechanism: AnyMechanism, claim: Claim, columns: Sequence[Column]) -> Task:
    """Return a task with the mechanism given, calibrated to a claim."""
    return task_of(mechanism.calibrated(claim, len(columns), 1000), claim, columns)


def _with_mu(mechanism: AnyMechanism, claim: Claim, num_columns: int, mu: float) -> AnyMechanism:
    """Return the mechanism with the noise that gives `mu` at the minimum cohort; on a coarser grid if it must."""
    honest = mechanism.honest_draws(mechanism.smallest_row(claim.min_clients, claim))
    for bits in range(mechanism.fraction_bits, -1, -1):
        coarser = mechanism.model_copy(update={"fraction_bits": bits})
        distance = float(coarser.squared_shift(claim, num_columns))
        sigma = max(ceil(((distance / mu**2 + SMOOTHING) / honest) ** 0.5 * (1 + 1e-9)), MIN_SIGMA)
        coarser = coarser.model_copy(update={"sigma": sigma})
        # A total has more clients than a row, so less noise may be enough.
        if (found := coarser.privacy(claim, num_columns, claim.min_clients).mu) < mu * (1 - 1e-6):
            coarser = coarser.model_copy(update={"sigma": max(ceil(sigma * found / mu), MIN_SIGMA)})
        # Where words have noise of several sizes, all rounded to integers, the distance depends a little on sigma.
        while (found := coarser.privacy(claim, num_columns, claim.min_clients).mu) > mu * (1 + 1e-12):
            coarser = coarser.model_copy(update={"sigma": ceil(coarser.sigma * max(found / mu, 1 + 1e-9))})
        if int(coarser.sigmas(num_columns).max()) <= MAX_SIGMA:
            break
    return coarser
