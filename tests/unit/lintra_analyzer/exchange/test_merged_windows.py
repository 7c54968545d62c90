"""How many small windows in a row are released together: as many as the task allows, and none more."""

from typing import cast

import pytest

from lintra_analyzer.exchange.merged_windows import Merging
from lintra_analyzer.exchange.servers import Server
from lintra_analyzer.storage.rows import Job
from lintra_analyzer.storage.store import Store
from lintra_protocol.errors import CohortTooSmallError
from lintra_protocol.fields.windows import Windows
from lintra_protocol.http.problems import to_problem
from lintra_protocol.task import Task
from support import make_task

LAST = 4


class _Kept:
    """What is known of the windows before the last one: each was too small and waits."""

    def __init__(self, task: Task) -> None:
        problem = to_problem(CohortTooSmallError("too few"))
        self.jobs = {number: Job(task.task_id, "inventory", "waiting", problem, batch=number) for number in range(LAST)}
        self.decided: dict[int, int] = {}

    def job(self, _task_id: str, number: int) -> Job | None:
        return self.jobs.get(number)

    def decision(self, _task_id: str, number: int) -> int | None:
        return self.decided.get(number)

    def decide(self, _task_id: str, number: int, first: int, merged: list[Job]) -> None:
        self.decided[number] = first
        self.jobs |= {job.batch: job for job in merged}

    def set_job(self, job: Job) -> None:
        self.jobs[job.batch] = job


class _Holding(Merging):
    """Servers that all hold the same number of reports of every window."""

    def __init__(self, task: Task, store: _Kept, each: int) -> None:
        super().__init__(task, LAST, cast("list[Server]", []), cast("Store", store))
        self._each = each

    async def _counts(self, number: int) -> list[int] | None:
        del number
        return [self._each] * 3


def merging(most: int) -> Task:
    windows = Windows(window=3, grace=1, max_windows=6, reports_per_source=6, max_merge=most)
    times = {"not_before": 10, "not_after": 10 + windows.units}
    return make_task(batches="windowed", windows=windows, check=False, min_clients=8, **times)  # type: ignore[arg-type]


@pytest.mark.parametrize("most", [2, 3, 5])
async def test_at_most_max_merge_windows_in_a_row_are_merged_and_exactly_so_many_are(most: int) -> None:
    task, first = merging(most), LAST + 1 - most
    store = _Kept(task)
    assert await _Holding(task, store, 8).decide() == first
    states = [store.jobs[number].state for number in range(LAST)]
    assert states[first:] == ["merged"] * (most - 1)
    # With what came before these nothing can be merged any more; what lies farther back was given up before.
    given_up = max(LAST - most, 0)
    assert states[given_up:first] == ["failed"] * (first - given_up)


@pytest.mark.parametrize("most", [2, 3, 5])
async def test_a_window_waits_exactly_as_long_as_it_can_still_be_merged(most: int) -> None:
    task = merging(most)
    store = _Kept(task)
    # Even together they have too few, so the last one waits for the next, and with it all that this may join.
    with pytest.raises(CohortTooSmallError, match="waits to be merged with the next"):
        await _Holding(task, store, 1).decide()
    waiting = [number for number in range(LAST) if store.jobs[number].state == "waiting"]
    assert [number for number in waiting if number >= LAST - most] == list(range(max(LAST + 2 - most, 0), LAST))
