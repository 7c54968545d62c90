"""The schedule: every window of a task is released when it is over, also those that ended while the analyzer stood.

It stands in the task itself, so there is nothing to remember but the jobs, which are durable. A window that few
answered is a gap and stays one; one that cannot be released now, since a server is away, is tried again.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf

import structlog

from lintra_analyzer.exchange.merged_windows import waits_for_next
from lintra_analyzer.storage.readable import task_in
from lintra_analyzer.storage.rows import Job
from lintra_analyzer.storage.store import Store
from lintra_analyzer.tasks.jobs import Jobs
from lintra_protocol.errors import LintraError
from lintra_protocol.task import Task

SCHEDULE_SECONDS = 10.0
"""How often the schedule looks at all tasks; at those with windows that are due, or will be before then, it looks when
one is due and when a job ends."""

LEAST_SECONDS = 0.1
"""Between two looks at least."""

RESTED_SECONDS = 1.0
"""How often it looks whether a window that was refused for now has rested."""

AGAIN_SECONDS = 60
"""How long a window rests at most that was refused for now: two seconds at first, and each time twice as long."""

MOST_AT_ONCE = 4
"""Jobs that run at once while the schedule starts new ones: catching up on a year leaves room for what analysts ask."""

SETTLED = frozenset({"released", "merged", "failed"})
"""States of jobs that the schedule leaves alone."""

_log = structlog.get_logger(__name__)


def num_due(task: Task, now: float) -> int:
    """Return how many windows of a task are over, grace included; their numbers are those below it.

    `task` has windows; of another one none is ever due.
    """
    if task.windows is None:
        return 0
    passed = int(now // task.time_precision) - task.windows.grace - task.not_before
    return min(max(passed // task.windows.window, 0), task.windows.max_windows)


def num_begun(task: Task, now: float) -> int:
    """Return how many windows of a task have begun; see `num_due`."""
    if task.windows is None:
        return 0
    passed = int(now // task.time_precision) - task.not_before
    return min(max(passed // task.windows.window + 1, 0), task.windows.max_windows)


@dataclass
class _Progress:
    """Where a task's schedule stands: all windows below `first` are settled.

    `tried` says when a window was last tried, and how often.
    """

    task: Task
    first: int = 0
    tried: dict[int, tuple[float, int]] = field(default_factory=dict)

    def wait(self, now: float) -> float:
        """Return after how many seconds there may be something to do; infinite if never."""
        task, due = self.task, num_due(self.task, now)
        if self.first < due:
            return RESTED_SECONDS
        if task.windows is None or due == task.windows.max_windows:
            return inf
        return (task.span(due)[1] + task.windows.grace) * task.time_precision - now

    def has_rested(self, batch: int, now: float) -> bool:
        """Return whether a window may be tried now."""
        when, times = self.tried.get(batch, (-inf, 0))
        return now - when >= min(AGAIN_SECONDS, 2.0**times)

    def try_now(self, batch: int, now: float) -> None:
        """Note that a window is tried."""
        self.tried[batch] = now, self.tried.get(batch, (now, 0))[1] + 1


class Schedule:
    """Starts the jobs of windows that are over."""

    def __init__(self, store: Store, jobs: Jobs, now: Callable[[], float]) -> None:
        """Look after all tasks of one store.

        `store` has the tasks and their jobs; `now` is the clock, in seconds since the epoch.
        """
        self._store = store
        self._jobs = jobs
        self._now = now
        self._last_task = 0
        self._progress: dict[str, _Progress] = {}
        self._lively: list[str] = []
        """Tasks with windows that are due, or will be before all tasks are looked at again."""

    async def follow(self) -> None:
        """Look again and again, for ever; a failure is logged, and the next look may succeed."""
        at_all = time.monotonic()
        while True:
            self._jobs.ended.clear()
            try:
                if time.monotonic() >= at_all:
                    at_all = time.monotonic() + SCHEDULE_SECONDS
                    # At a start every task is new, and requests go on while they are read.
                    await asyncio.to_thread(self._learn)
                    self.look()
                else:
                    self._look_at(self._lively)
            except Exception:
                _log.exception("the schedule failed")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause(at_all)):
                    await self._jobs.ended.wait()
            await asyncio.sleep(LEAST_SECONDS)

    def _pause(self, at_all: float) -> float:
        now = self._now()
        waits = [progress.wait(now) for progress in map(self._progress.__getitem__, self._lively)]
        return max(min(at_all - time.monotonic(), *waits, SCHEDULE_SECONDS), 0)

    def look(self) -> list[Job]:
        """Start the oldest windows that are due, of every task, as far as there is room; return what was started."""
        self._learn()
        now = self._now()
        started = self._look_at(list(self._progress))
        self._lively = [
            task_id for task_id, progress in self._progress.items() if progress.wait(now) <= SCHEDULE_SECONDS
        ]
        return started

    def _look_at(self, task_ids: Sequence[str]) -> list[Job]:
        started: list[Job] = []
        for task_id in task_ids:
            progress = self._progress[task_id]
            if self._jobs.num_running < MOST_AT_ONCE and self._is_registered(progress.task):
                started += self._start_due(task_id, progress)
        if started:
            _log.info("windows are over", jobs=len(started))
        return started

    def _learn(self) -> None:
        """Read the tasks that are new; one that cannot be read is said once, and keeps no other one waiting."""
        for number, stored in self._store.listed.tasks_after(self._last_task):
            self._last_task = number
            try:
                task = task_in(stored)
            except LintraError as error:
                _log.warning("a task is not looked after", task=stored.task_id, detail=error.detail)
                continue
            if task.windows is not None:
                self._progress[stored.task_id] = _Progress(task)

    def _is_registered(self, task: Task) -> bool:
        return all(state.state == "accepted" for state in self._store.registrations(task.task_id))

    def _start_due(self, task_id: str, progress: _Progress) -> list[Job]:
        now = self._now()
        due = num_due(progress.task, now)
        if progress.first >= due:
            return []
        known = {job.batch: job for job in self._store.jobs(task_id, progress.first, due - progress.first)}
        while progress.first < due and self._is_settled(known.get(progress.first)):
            progress.tried.pop(progress.first, None)
            progress.first += 1
        started: list[Job] = []
        for batch in range(progress.first, due):
            if self._jobs.num_running >= MOST_AT_ONCE:
                break
            job = known.get(batch)
            if progress.task.stream is not None and batch > progress.first:
                break  # a server gives up an earlier window when it releases a later one of the stream
            if progress.task.max_merge > 1 and self._is_settled(job):
                continue
            if progress.task.max_merge > 1 and job is not None and waits_for_next(job):
                continue  # what becomes of it is decided with a later one
            if progress.task.max_merge > 1 and (started or not self._is_decided_before(progress, batch)):
                break
            if (job is None or job.state == "waiting") and progress.has_rested(batch, now):
                progress.try_now(batch, now)
                started.append(self._jobs.start(task_id, batch))
        return started

    def _is_decided_before(self, progress: _Progress, batch: int) -> bool:
        """Return whether it is known of the window before, in a task that merges windows, what becomes of it."""
        before = self._store.job(progress.task.task_id, batch - 1) if batch else None
        if batch == 0 or (before is not None and (self._is_settled(before) or waits_for_next(before))):
            return True
        return self._store.decision(progress.task.task_id, batch - 1) is not None

    @staticmethod
    def _is_settled(job: Job | None) -> bool:
        return job is not None and job.state in SETTLED
