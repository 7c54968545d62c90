"""Small tasks that stand for large ones: the same mechanism and promise at a size that can be run often enough."""

from collections.abc import Sequence
from math import ceil

from lintra_audit.trials.audit_case import most_clients, numbers, task_of
from lintra_protocol.encoding.documents import real
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import AnyMechanism
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA
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
        epsilon_alone=claim.epsilon_alone,
    )


def twin_with_mu(task: Task) -> Task:
    """Return the twin of a task whose mechanism fits any number of columns: two of them, and the task's mu."""
    clients, columns = min(task.claim.min_clients, MAX_CLIENTS), min(task.num_columns, 2)
    return twin_of(task, task.mechanism, clients, numbers(columns))


def twin_of(task: Task, mechanism: AnyMechanism, num_clients: int, columns: Sequence[Column]) -> Task:
    """Return a task with the mechanism given, its noise set so that mu is that of a task at its minimum cohort.

    With two layers of noise it is calibrated to both of the task's promises.
    """
    small = small_claim(task, num_clients)
    if task.setting.floor_servers:
        return task_of_claim(task, mechanism, small, columns)
    mu = task.privacy(task.claim.min_clients).mu
    return task_of(_with_mu(Measurement(mechanism, len(columns), task.setting, small), mu), columns)


def task_of_claim(task: Task, mechanism: AnyMechanism, claim: Claim, columns: Sequence[Column]) -> Task:
    """Return a task in the setting of another with the mechanism given, calibrated to a claim."""
    measurement = Measurement(mechanism, len(columns), task.setting, claim)
    return task_of(measurement.calibrated(most_clients(task.contributors, claim)), columns)


def _with_mu(measurement: Measurement, mu: float) -> Measurement:
    """Return the measurement with the noise that gives `mu` at the minimum cohort; on a coarser grid if it must."""
    clients, coarser = measurement.claim.min_clients, measurement
    honest = measurement.setting.honest_draws(measurement.emptiest_row(clients))
    for bits in range(measurement.mechanism.fraction_bits, -1, -1):
        coarser = measurement.changed(fraction_bits=bits)
        distance = float(coarser.squared_shift)
        sigma = max(ceil(((distance / mu**2 + SMOOTHING) / honest) ** 0.5 * (1 + 1e-9)), MIN_SIGMA)
        coarser = coarser.changed(sigma=sigma)
        # Behind a total stand more clients than behind a row, so that less noise may do.
        if (reached := coarser.privacy(clients).mu) < mu * (1 - 1e-6):
            coarser = coarser.changed(sigma=max(ceil(sigma * reached / mu), MIN_SIGMA))
        # Where words have noise of several sizes, all rounded to integers, the distance depends a little on sigma.
        while (reached := coarser.privacy(clients).mu) > mu * (1 + 1e-12):
            coarser = coarser.changed(sigma=ceil(coarser.mechanism.sigma * max(reached / mu, 1 + 1e-9)))
        if coarser.layout.largest_sigma <= MAX_SIGMA:
            break
    return coarser
