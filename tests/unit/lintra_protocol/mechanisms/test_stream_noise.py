"""A server's noise in a stream: its law over windows, lost memory included, and what a task with a stream promises."""

from collections.abc import Mapping
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import FalseClaimError, UnsupportedFeatureError
from lintra_protocol.fields.windows import Stream, Windows
from lintra_protocol.mechanisms.stream_noise import blur_deviation, stream_noise
from lintra_protocol.privacy.stream_matrix import StreamMatrix
from lintra_protocol.privacy.windows import repeated
from lintra_protocol.task import Task
from support import make_task
from support.tasks import columns_of

COLUMNS = 400
STREAM = Stream(damping="1", blur="1")
WINDOWS = Windows(window=1, grace=0, max_windows=6, reports_per_source=2, stream=STREAM)


def a_task(windows: Windows = WINDOWS, **fields: object) -> Task:
    times = {"batches": "windowed", "windows": windows, "not_before": 1, "not_after": 1 + windows.units}
    return make_task(
        "sum", columns=columns_of(f"c{number}" for number in range(COLUMNS)), noise="servers", **times, **fields
    )


def histories(task: Task, lost: Mapping[int, int], count: int) -> FloatArray:
    """Return the noise of many histories, shape `(6, words)`; the memory of a window is lost from a later one on."""
    found = []
    for number in range(count):
        source, memories, rows = expand(bytes(32), f"history {number}"), dict[int, IntArray](), []
        for row in range(6):
            there = {window: memory for window, memory in memories.items() if row < lost.get(window, 6)}
            noise, memories[row] = stream_noise(task.measurement, row, there, source)
            rows.append(noise)
        found.append(np.array(rows))
    return np.concatenate(found, axis=1).astype(np.float64)


def covariance(stream: StreamMatrix, lost: Mapping[int, int], blur: float) -> FloatArray:
    part = stream.dense() - np.eye(6)
    for window, row in lost.items():
        part[row:, window] = 0.0
    back = np.linalg.inv(np.eye(6) + part)
    found: FloatArray = back @ (np.eye(6) + blur**2 * part @ part.T) @ back.T
    return found


@pytest.mark.parametrize("lost", [{}, {0: 2, 1: 2, 2: 4}], ids=["kept", "lost"])
def test_noise_over_windows_has_the_stated_covariance_and_a_wrong_blur_or_a_forgotten_loss_is_noticed(
    lost: dict[int, int],
) -> None:
    """4,800 draws of 21 entries: each is off by more than 5.5 deviations with a chance of 8e-7 in all."""
    task = a_task()
    stream, sigma = task.stream, task.mechanism.sigma
    assert stream is not None
    noise = histories(task, lost, 12) / sigma
    size = noise.shape[1]

    def off(expected: FloatArray) -> float:
        spread = np.sqrt((np.outer(expected.diagonal(), expected.diagonal()) + expected**2) / size)
        return float(np.abs((noise @ noise.T / size - expected) / spread).max())

    assert off(covariance(stream, lost, 1.0)) < 5.5
    assert off(covariance(stream, lost, 0.0)) > 5.5
    assert off(covariance(stream, {} if lost else {0: 1}, 1.0)) > 5.5


def test_blur_is_rounded_up_exactly() -> None:
    stream = StreamMatrix(2, 1, Fraction(1), Fraction(1, 10))
    assert [blur_deviation(stream, sigma) for sigma in (10, 11, 20, 21)] == [1, 2, 2, 3]


def test_the_claim_is_about_all_reports_and_less_noise_is_refused() -> None:
    task = a_task()
    stream, sigma = task.stream, task.mechanism.sigma
    assert stream is not None
    assert task.worst_together() == task.worst_charge() == task.worst_privacy()
    distance = sqrt(task.measurement.squared_distance)
    moved = float(stream.squared_norm) ** 0.5 * distance + sqrt(6 * COLUMNS)
    assert task.worst_together().mu == pytest.approx(moved / sqrt(sigma**2 - 4), rel=1e-9)
    with pytest.raises(FalseClaimError):
        task.model_copy(update={"mechanism": task.mechanism.model_copy(update={"sigma": int(sigma * 0.999)})}).check()
    # The formula of plain windows would promise more than there is, so that it is never used.
    plain = a_task(WINDOWS.model_copy(update={"stream": None, "reports_per_source": 2}))
    one = plain.model_copy(update={"mechanism": task.mechanism}).privacy(7)
    assert repeated(one, 2).mu < task.worst_together().mu / 1.4


def test_what_is_no_noise_counts_for_every_report() -> None:
    verified = {"verification": "norm", "max_rejected": "0.1"}
    task = a_task(**verified)
    plain = a_task(WINDOWS.model_copy(update={"stream": None}), **verified)
    assert task.shares_seen is not None
    assert task.worst_together().delta_shares >= 2 * float(task.shares_seen.of_reports(1).shifted) / 2
    ratio = task.shares_seen.shifted / plain.model_copy(update={"mechanism": task.mechanism}).shares_seen.shifted
    assert ratio == 2


@pytest.mark.parametrize("kind", ["osnap", "sum"])
def test_sketches_and_noise_of_clients_are_refused_in_words(kind: str) -> None:
    task = a_task()
    other = make_task(kind, columns=26, min_clients=200, check=False)
    changes: dict[str, object] = {"mechanism": other.mechanism, "noise": "servers" if kind == "osnap" else "clients"}
    with pytest.raises(UnsupportedFeatureError, match="sum, second_moment or histogram"):
        task.model_copy(update=changes).check()
