"""Windows of one second: the schedule goes on as fast as they are released, not as often as it looks at all tasks."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from lintra_analyzer.metrics import Metrics
from lintra_analyzer.storage.rows import ServerState, Stage
from lintra_analyzer.storage.store import Store
from lintra_analyzer.tasks.jobs import Jobs
from lintra_analyzer.tasks.schedule import MOST_AT_ONCE, SCHEDULE_SECONDS, Schedule, _Progress
from lintra_protocol.errors import AbandonedError, UnavailableError
from lintra_protocol.fields.windows import Windows
from lintra_protocol.task import Task
from support import make_task
from support.many_tasks import stored

SOME = 40
"""Windows that ended while the analyzer stood: ten times as many as run at once."""


class Quick:
    """The release of a window that takes a hundredth of a second, and finds a gap; its first tries may fail."""

    def __init__(self, task: Task, batch: int, tried: dict[int, list[float]], failing: int) -> None:
        self._batch = batch
        self._tried = tried
        self._failing = failing

    async def take(self, _: Stage) -> Stage:
        await asyncio.sleep(0.01)
        times = self._tried.setdefault(self._batch, [])
        times.append(time.time())
        if len(times) <= self._failing:
            raise UnavailableError("a server is away")
        raise AbandonedError("a gap")


@asynccontextmanager
async def following(
    folder: Path, begins: int, number: int, failing: int = 0, window: int = 1
) -> AsyncIterator[tuple[Task, dict[int, list[float]]]]:
    """Let a schedule follow a task whose windows begin at a time by the real clock; give when each was tried."""
    windows = Windows(window=window, grace=0, max_windows=number, reports_per_source=1)
    times = {"not_before": begins, "not_after": begins + windows.units, "time_precision": 1}
    task = make_task(batches="windowed", windows=windows, **times)  # type: ignore[arg-type]
    store, tried = Store(folder / "analyzer.sqlite"), dict[int, list[float]]()
    store.add_task(stored(task), 1, None)
    store.set_registration(task.task_id, ServerState(0, "accepted"))
    make = lambda _, batch: Quick(task, batch, tried, failing)  # noqa: E731
    jobs = Jobs(store, make, Metrics())  # type: ignore[arg-type]
    following = asyncio.create_task(Schedule(store, jobs, time.time).follow())
    try:
        yield task, tried
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await jobs.stop()
        store.close()


async def until(seconds: float, tried: dict[int, list[float]], windows: int, times: int = 1) -> None:
    async with asyncio.timeout(seconds):
        while sum(len(each) >= times for each in tried.values()) < windows:
            await asyncio.sleep(0.02)


async def test_windows_that_ended_meanwhile_are_caught_up_with_as_fast_as_they_are_released(tmp_path: Path) -> None:
    assert SOME / MOST_AT_ONCE * SCHEDULE_SECONDS == 100  # as long as it took by one look every ten seconds
    async with following(tmp_path, int(time.time()) - SOME - 1, SOME) as (_, tried):
        await until(SCHEDULE_SECONDS / 2, tried, SOME)
    assert sorted(tried) == list(range(SOME))
    assert all(len(times) == 1 for times in tried.values())


async def test_a_window_of_a_second_is_released_when_it_is_over(tmp_path: Path) -> None:
    begins, number = int(time.time()), 4
    async with following(tmp_path, begins, number) as (task, tried):
        await until(SCHEDULE_SECONDS - 1, tried, number)
    for batch, (at,) in tried.items():
        assert 0 <= at - task.span(batch)[1] < 1, (batch, at)


async def test_a_schedule_that_is_stopped_while_a_job_ends_stops(tmp_path: Path) -> None:
    store = Store(tmp_path / "analyzer.sqlite")
    jobs = Jobs(store, lambda *_: None, Metrics())  # type: ignore[arg-type, return-value]
    schedule = asyncio.create_task(Schedule(store, jobs, time.time).follow())
    await asyncio.sleep(0.3)  # it looks once, and then waits for a job's end
    jobs.ended.set()
    await asyncio.sleep(0)  # what the schedule waits for has come, and the schedule has not gone on yet
    schedule.cancel()
    done, _ = await asyncio.wait([schedule], timeout=2)
    assert done
    await jobs.stop()
    store.close()


async def test_what_is_refused_for_now_is_tried_again_ever_more_seldom(tmp_path: Path) -> None:
    async with following(tmp_path, int(time.time()) - 2, 1, failing=2) as (_, tried):
        await until(SCHEDULE_SECONDS + 5, tried, 1, times=2)
    first, second = tried[0]
    assert 2 <= second - first < SCHEDULE_SECONDS / 2


def test_the_longest_rest_is_a_minute() -> None:
    progress = _Progress(make_task())
    for times in range(1, 10):
        progress.try_now(0, 1000.0)
        rest = [2, 4, 8, 16, 32, 60, 60, 60, 60][times - 1]
        assert not progress.has_rested(0, 1000.0 + rest - 0.1)
        assert progress.has_rested(0, 1000.0 + rest)
