"""Two worlds that an adversary must not tell apart: worst-case neighbours, near neighbours, and hostile rows."""

from collections.abc import Iterable
from math import isqrt

import numpy as np

from lintra_audit.trials.simulated_release import FAR, exact_report
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.mechanisms import AnyMechanism
from lintra_protocol.mechanisms.layout import CLIPPED
from lintra_protocol.task import Task

HOSTILE = FAR
"""A length far outside every bound, which only the encoder's clipping reduces."""

Pair = tuple[FloatArray, FloatArray]
"""The victim's normalised row in world 0 and in world 1, each of shape `(d,)`."""


def opposite(task: Task) -> Pair:
    """Return far too long rows along the first axis, in both directions: the farthest where the row itself is sent."""
    row = np.zeros(task.num_columns)
    row[0] = float(task.mechanism.row_bound) * HOSTILE
    return one_unclipped(task, (-row, row))


def one_unclipped(task: Task, pair: Pair) -> Pair:
    """Return two far too long rows, the first on the sphere if there is a clip counter, which then differs as well."""
    if CLIPPED not in task.measurement.layout:
        return pair
    norm = float(np.linalg.norm(pair[0]))
    return pair[0] * (float(task.mechanism.row_bound) / norm if norm else 1.0), pair[1]


def one_step(task: Task) -> Pair:
    """Return rows along the first axis that differ by one integer step, the longer as long as a row may be."""
    return step_below(task, isqrt(task.mechanism.squared_bound))


def step_below(task: Task, largest: int) -> Pair:
    """Return rows along the first axis of `largest` integer steps, and of one step less."""
    row = np.zeros(task.num_columns)
    row[0] = 2.0**-task.mechanism.fraction_bits
    return (largest - 1) * row, largest * row


def farthest(task: Task, candidates: Iterable[FloatArray]) -> Pair:
    """Return those two rows, shape `(d,)`, whose noiseless reports lie farthest apart, in multiples of the noise.

    Against the null report it is the one that lies farthest from it, twice.
    """
    rows = list(candidates)
    noised = slice(task.measurement.layout.num_noised)
    sigmas = task.measurement.layout.sigmas[noised].astype(np.float64)
    reports = np.array([exact_report(task.measurement, row)[noised] for row in rows]) / sigmas
    if task.claim.neighbours == "zero-out":
        row = rows[int(np.argmax(np.square(reports).sum(axis=1)))]
        return row, row
    squares = np.square(reports).sum(axis=1)
    distances = squares[:, np.newaxis] + squares - 2 * reports @ reports.T
    first, second = np.unravel_index(int(np.argmax(distances)), distances.shape)
    return rows[first], rows[second]


def worlds(task: Task, num_clients: int, victim: int, pair: Pair) -> tuple[FloatArray, FloatArray]:
    """Return the rows of all clients in both worlds, each of shape `(clients, d)`; those of others are alike."""
    both = np.zeros((2, num_clients, task.num_columns))
    both[:, :, -1] = float(task.mechanism.row_bound) / 2
    both[0, victim], both[1, victim] = pair
    return both[0], both[1]


def hostile_rows(mechanism: AnyMechanism, num_columns: int) -> FloatArray:
    """Return normalised rows that try to leave the ball, shape `(k, d)`: huge, barely outside, in all directions."""
    bound = float(mechanism.row_bound)
    directions = np.frombuffer(expand(bytes(32), "hostile rows")(8 * 8 * num_columns), np.int64).astype(np.float64)
    unit = directions.reshape(8, num_columns)
    unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
    axis = np.eye(1, num_columns)
    mixed = np.where(np.arange(num_columns) % 2, 1e-3, 1.0)[np.newaxis]
    lengths = np.array([1.0, 1 + 1e-9, 1.04, 1e3, 1e6, 1e150, 1e300, 1.0])[:, np.newaxis]
    spread = np.full((1, num_columns), 1.0)
    rows: FloatArray = bound * np.concatenate(
        [unit * lengths, -unit[:4] * lengths[2:6], axis * 2, -axis * 2, axis[:, ::-1] * 1e300, spread, -spread, mixed]
    )
    return rows
