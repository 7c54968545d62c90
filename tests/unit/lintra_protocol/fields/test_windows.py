"""Tasks with windows: which window a time belongs to, and what all reports of one source promise together."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lintra_protocol.cli import describe
from lintra_protocol.errors import InvalidMessageError, InvalidTaskError, PolicyRefusedError
from lintra_protocol.fields.windows import Windows
from lintra_protocol.messages.documents import nonce_commitment
from lintra_protocol.privacy.limits import Ceiling
from lintra_protocol.rules.release import aggregate_context, late_seed
from lintra_protocol.task import Task
from support import make_task

SINGLE = make_task()
WINDOWS = Windows(window=3, grace=1, max_windows=4, reports_per_source=2)


def windowed(windows: Windows = WINDOWS, **fields: object) -> Task:
    times = {"not_before": 10, "not_after": 10 + windows.units}
    return make_task(batches="windowed", windows=windows, **times, **fields)  # type: ignore[arg-type]


TASK = windowed(check=False)


def test_a_task_without_windows_does_not_name_them() -> None:
    assert b"windows" not in SINGLE.canonical()
    assert (SINGLE.num_batches, SINGLE.reports_per_source) == (1, 1)
    assert SINGLE.span(0) == (SINGLE.not_before, SINGLE.not_after)
    assert SINGLE.worst_together() == SINGLE.worst_privacy()


@given(st.integers(1, 50), st.integers(1, 50), st.data())
def test_every_time_of_a_task_lies_in_exactly_the_window_that_it_is_counted_to(
    length: int, count: int, data: st.DataObject
) -> None:
    windows = Windows(window=length, grace=0, max_windows=count, reports_per_source=1)
    task = TASK.model_copy(update={"windows": windows, "not_after": 10 + windows.units})
    time = data.draw(st.integers(10, task.not_after - 1))
    holding = [number for number in range(count) if task.span(number)[0] <= time < task.span(number)[1]]
    assert holding == [task.batch_of(time)]


@pytest.mark.parametrize("time", [9, 22])
def test_a_time_outside_the_task_lies_in_no_window(time: int) -> None:
    with pytest.raises(ValueError, match=rf"time {time} lies outside \[10, 22\)"):
        TASK.batch_of(time)


@pytest.mark.parametrize("batch", [-1, 4])
def test_a_task_has_no_window_beyond_its_last(batch: int) -> None:
    with pytest.raises(ValueError, match="batches 0 to 3"):
        TASK.span(batch)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"windows": None}, "windows belong to a task with batches 'windowed'"),
        ({"batches": "single"}, "windows belong to a task with batches 'windowed'"),
        ({"not_after": 23}, "4 windows of 3 units from 10 on end at 22, not at 23"),
    ],
)
def test_windows_that_do_not_fit_the_task_are_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Task.model_validate({**dict(TASK), **fields})


def test_a_source_cannot_answer_more_windows_than_there_are() -> None:
    with pytest.raises(ValidationError, match="reports_per_source 5 is more than the 4 windows"):
        Windows(window=3, grace=1, max_windows=4, reports_per_source=5)


def test_the_number_of_a_window_changes_every_context() -> None:
    root, nonces = bytes(32), [bytes(32)] * 3
    for of_batch in (
        lambda batch: nonce_commitment(TASK, batch, bytes(32)),
        lambda batch: late_seed(TASK, batch, root, nonces),
        lambda batch: aggregate_context(TASK, batch, 0, root, bytes(32)),
    ):
        assert len({of_batch(batch) for batch in range(4)}) == 4


def test_a_ceiling_counts_all_reports_of_a_source() -> None:
    one, both = TASK.worst_privacy(), TASK.worst_together()
    assert 0.99 < one.epsilon <= 1 < both.epsilon
    ceiling = Ceiling(max_epsilon=None)
    ceiling.require(TASK.claim, both)
    with pytest.raises(PolicyRefusedError, match=r"epsilon is 1\.45467 .* promised are epsilon 1 "):
        Ceiling(max_epsilon=1).require(TASK.claim, both)  # type: ignore[arg-type]


def test_parts_of_delta_that_add_up_to_delta_are_refused() -> None:
    claim = TASK.claim.model_copy(update={"delta_coalition": "0.0000005", "max_corrupt_clients": 1})
    assert windowed(mechanism="osnap", claim=claim, check=False).worst_together().epsilon == math.inf
    with pytest.raises(InvalidTaskError, match=r"adds up over 2 windows to more than delta 0\.000001"):
        windowed(mechanism="osnap", claim=claim)


def test_a_task_says_both_epsilons_to_people() -> None:
    lines = "\n".join(describe(TASK))
    assert "in 4 windows of 180 s, each released by itself" in lines
    assert f"2 windows together: epsilon {TASK.worst_together().epsilon:.6g}" in lines


def merging(most: int, corrupt: int, **fields: object) -> Task:
    windows = WINDOWS.model_copy(update={"max_windows": 6, "max_merge": most})
    return windowed(windows, min_clients=20, max_corrupt_clients=corrupt, check=False, **fields)


@pytest.mark.parametrize(("most", "corrupt"), [(2, 1), (2, 3), (3, 1), (3, 4), (3, 8)])
def test_max_corrupt_clients_is_a_multiple_of_max_merge(most: int, corrupt: int) -> None:
    with pytest.raises(
        InvalidTaskError, match=f"{corrupt} counts reports: with max_merge {most} it must be a multiple of {most}"
    ):
        merging(most, corrupt)._require_mergeable()
    merging(most, corrupt - corrupt % most)._require_mergeable()
    # Where servers add the noise no client weakens it, so none is counted; alone a window has one report of each.
    merging(most, corrupt, noise="servers")._require_mergeable()
    merging(1, corrupt)._require_mergeable()


@given(st.integers(1, 6), st.integers(-2, 6), st.integers(0, 5))
def test_at_most_max_merge_windows_in_a_row_are_merged_and_so_many_are(most: int, first: int, batch: int) -> None:
    task = merging(most, 0)
    if 0 <= first < batch and batch - first + 1 <= most:
        assert list(task.group(batch, first)) == list(range(first, batch + 1))
    else:
        with pytest.raises(InvalidMessageError, match=f"this task merges at most {most} in a row"):
            task.group(batch, first)
    assert list(task.group(batch, None)) == [batch]
