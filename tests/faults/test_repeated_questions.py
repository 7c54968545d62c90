"""Asking the same person again and again: what the ledger (R12) prevents, and what happens without it."""

from pathlib import Path

import numpy as np

from lintra_client import Ledger
from lintra_client.ledger.ledger import SELF
from lintra_client.ledger.prices import price_of
from lintra_protocol.crypto.ring import FloatArray
from support import make_task, source
from support.measured import measurement_of

NUM_TASKS = 1500
ROW = np.array([0.5, -0.25, 0.125])


def releases(count: int) -> tuple[FloatArray, FloatArray]:
    """Return what `count` tasks release in which one person's row meets seven rows of zeros, and the truth.

    The attacker knows the seven, and sees every release; shape `(count, 3)` and `(3,)`, in normalised units.
    """
    task = make_task(epsilon=5, min_clients=8)
    rows = np.zeros((count, 8, 3))
    rows[:, 0] = ROW
    noised = task.encode(rows.reshape(-1, 3), source("many tasks")).reshape(count, 8, 3)
    released = np.stack([measurement_of(task, 3).decode(each[np.newaxis]).ravel() for each in noised.sum(axis=1)])
    return released, task.schema_arrays.normalise(ROW[np.newaxis])[0]


def answered(path: Path, count: int) -> int:
    """Return how many of `count` such tasks a device with a ceiling of 10 answers, once each."""
    task = make_task(epsilon=5, min_clients=8)
    price = price_of(task)
    with Ledger(path, max_epsilon=10) as ledger:
        tasks = [task.model_copy(update={"purpose": f"question {number}"}).task_id for number in range(count)]
        return sum(not ledger.charge(each, price, {each.encode(): SELF}) for each in tasks)


def test_without_a_ledger_the_average_of_many_tasks_shows_the_row() -> None:
    released, truth = releases(NUM_TASKS)
    # One release is off by 2.0 in each column, their average by 0.05: ten standard deviations below the largest value.
    assert np.abs(released.mean(axis=0) - truth).max() < 0.2
    assert np.abs(truth).max() == 0.5


def test_with_a_ledger_only_the_first_few_tasks_are_answered_and_their_average_shows_nothing(tmp_path: Path) -> None:
    count = answered(tmp_path / "ledger", 50)
    assert count == 3
    released, truth = releases(NUM_TASKS)
    # Over many such attackers the average misses each value by more than the whole row is long.
    attacks = released[: NUM_TASKS // count * count].reshape(-1, count, 3).mean(axis=1)
    typical = float(np.sqrt(np.mean((attacks - truth) ** 2)))
    assert typical > float(np.linalg.norm(truth))
