"""Decoding and the plausible band, on releases whose every client is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lintra_analyzer.reconstruct import FrozenCohort, as_release, implausible_rows, reconstruct
from lintra_analyzer.releases import SecondMoment, Sketch, Sum
from lintra_protocol.errors import InvalidReleaseError
from lintra_protocol.randomness import expand
from lintra_protocol.ring import FloatArray, IntArray
from lintra_protocol.task import Task
from support import make_task, sealing_key

SEED = bytes(range(32))
CLIENTS = 400
KINDS = ("osnap", "sum", "second_moment")


def released(task: Task, rows: FloatArray, label: str = "noise") -> tuple[IntArray, IntArray]:
    """Return the released integers and the row counts, without shares."""
    matrix = task.mechanism.public_matrix(len(rows), SEED)
    sketch = np.zeros((matrix.rows, task.num_words), np.uint64)
    words = task.encode(rows, expand(SEED, label)).view(np.uint64)
    matrix.add_reports(sketch, np.arange(len(rows)), words)
    return sketch.view(np.int64), matrix.row_counts()


def a_task(kind: str) -> Task:
    return make_task(kind, rows=8, epsilon=2, min_clients=CLIENTS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_stated_noise_is_the_noise_and_this_test_would_notice_if_not(kind: str) -> None:
    task = a_task(kind)
    drawn = []
    for repetition in range(40):
        release = as_release(task, *released(task, np.zeros((CLIENTS, 3)), f"noise {repetition}"))
        if isinstance(release, Sketch):
            drawn.append((release.values / np.sqrt(release.noise_variance)[:, np.newaxis]).ravel())
        elif isinstance(release, SecondMoment):
            drawn.append(release.values[np.triu_indices(3)] / release.noise_sd / [2**0.5, 1, 1, 2**0.5, 1, 2**0.5])
        else:
            drawn.append(release.values / release.noise_sd)
    ratios = np.concatenate(drawn)
    # The mean square of k standard normals has deviation sqrt(2 / k); 4 deviations are a false alarm in 16 000.
    allowance = 4 * np.sqrt(2 / ratios.size)
    assert abs(np.mean(ratios**2) - 1) < allowance
    assert abs(np.mean((2 * ratios) ** 2) - 1) > allowance


def test_every_mechanism_becomes_its_own_kind_of_release() -> None:
    rows = np.random.default_rng(1).uniform(-0.5, 0.5, (CLIENTS, 3))
    for kind, expected in zip(KINDS, (Sketch, Sum, SecondMoment), strict=True):
        task = a_task(kind)
        sketch, row_counts = released(task, rows)
        release = as_release(task, sketch, row_counts)
        assert isinstance(release, expected)
        assert release.num_clients == CLIENTS
        assert_array_equal(release.values, task.mechanism.decode(sketch, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_honest_rows_are_never_flagged_and_a_lie_is(kind: str) -> None:
    task = a_task(kind)
    # All clients sit in one corner of the ball: nobody honest can give larger sums.
    rows = np.full((CLIENTS, 3), 3**-0.5)
    sketch, row_counts = released(task, rows)
    assert implausible_rows(task, sketch, row_counts)[1] == []
    lie = sketch.copy()
    lie[0, 1] += 4 * CLIENTS * task.mechanism.largest_word()
    assert implausible_rows(task, lie, row_counts)[1] == [0]


def test_the_threshold_grows_with_the_number_of_entries() -> None:
    few, many = make_task("sum"), make_task("sum", columns=26)
    ones = np.zeros((1, 3), np.int64), np.zeros((1, 26), np.int64)
    counts = np.array([10])
    assert implausible_rows(few, ones[0], counts)[0] < implausible_rows(many, ones[1], counts)[0]
    assert_allclose(implausible_rows(few, ones[0], counts)[0], np.sqrt(2 * np.log(6e9)))


def test_all_sketch_shares_are_needed() -> None:
    task = a_task("sum")
    cohort = FrozenCohort([], bytes(32), SEED, task.privacy(CLIENTS), np.array([CLIENTS]))
    with pytest.raises(InvalidReleaseError, match="2 of 3"):
        reconstruct(task, [b"", b""], cohort, sealing_key("analyzer"))
