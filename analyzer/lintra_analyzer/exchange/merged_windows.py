"""Which windows are released together: one with too few reports waits for the next, and is released with it.

It is decided once, before any server closes anything, from how many reports each server holds, and kept: whatever
happens afterwards, the same windows are closed together everywhere, or never.
"""

import asyncio
from collections.abc import Sequence

from lintra_analyzer.exchange.servers import Server
from lintra_analyzer.storage.rows import Job
from lintra_analyzer.storage.store import Store
from lintra_protocol.encoding.canonical import parse_canonical_json
from lintra_protocol.errors import (
    AbandonedError,
    CohortTooSmallError,
    InvalidMessageError,
    UnavailableError,
    UnknownBatchError,
)
from lintra_protocol.http.problems import from_problem, to_problem
from lintra_protocol.messages.documents import BatchStatus
from lintra_protocol.rules.release import fewest_reports
from lintra_protocol.task import Task


def waits_for_next(job: Job) -> bool:
    """Return whether a window had too few reports alone and waits to be merged."""
    return (
        job.state == "waiting"
        and job.stage == "inventory"
        and job.problem is not None
        and isinstance(from_problem(job.problem), CohortTooSmallError)
    )


class Merging:
    """Decides about one window of a task that merges windows."""

    def __init__(self, task: Task, number: int, servers: Sequence[Server], store: Store) -> None:
        """Ask `servers`, in the task's order, about the window of this number and those before it."""
        self._task = task
        self._number = number
        self._servers = servers
        self._store = store

    async def decide(self) -> int | None:
        """Return the first of the windows that this one is released with, None if it is released alone.

        Raises:
            CohortTooSmallError: there are too few reports, and the next window may be merged with it.
            AbandonedError: there are too few reports, and no next window.
            UnavailableError: a window before it has to be decided about first.
        """
        known = self._store.decision(self._task.task_id, self._number)
        if known is None:
            known = await self._first()
            parts = range(known, self._number)
            self._store.decide(self._task.task_id, self._number, known, [self._part(each) for each in parts])
            self._give_up(range(max(self._number - self._task.max_merge, 0), known))
        return None if known == self._number else known

    async def _first(self) -> int:
        """Return the first window of the largest group that ends with this one, if it has enough reports."""
        first, counts = self._number, await self._counts(self._number)
        for earlier in range(self._number - 1, max(self._number - self._task.max_merge, -1), -1):
            if not self._waits(earlier):
                break
            more = await self._counts(earlier)
            together = [own + other for own, other in zip(counts or [], more or [], strict=False)]
            if not together or max(together) > self._task.max_clients:
                break
            first, counts = earlier, together
        least = fewest_reports(self._task)
        if counts is not None and min(counts) < least:
            detail = f"fewer than {least} reports are at some server in windows {first} to {self._number}"
            if self._number + 1 == self._task.num_batches:
                self._give_up(range(max(self._number - self._task.max_merge, 0), self._number))
                raise AbandonedError(f"{detail}, and there is no next one")
            # With the next window this one could not be merged any more.
            self._give_up(range(max(self._number - self._task.max_merge, 0), self._number + 2 - self._task.max_merge))
            raise CohortTooSmallError(f"{detail}; it waits to be merged with the next")
        return first

    def _waits(self, number: int) -> bool:
        """Return whether a window before this one waits for it."""
        job = self._store.job(self._task.task_id, number)
        decided = self._store.decision(self._task.task_id, number) is not None
        if job is not None and (decided or job.state in ("failed", "merged", "released")):
            return False
        if job is None or not waits_for_next(job):
            raise UnavailableError(f"window {number} comes first")
        return True

    async def _counts(self, number: int) -> list[int] | None:
        """Return how many reports of a window each server holds; None if one of them does not keep it open."""
        statuses = await asyncio.gather(*(self._status(server, number) for server in self._servers))
        if any(status is not None and status.state not in ("open", "closing") for status in statuses):
            return None
        return [0 if status is None else status.count for status in statuses]

    async def _status(self, server: Server, number: int) -> BatchStatus | None:
        """Return where a window stands at a server; None if nobody answered it there."""
        path = f"/v1/tasks/{self._task.task_id}/batches/{number}"
        try:
            body = await server.ask("GET", path, "batches")
        except CohortTooSmallError:
            return None
        with server.blame():
            return batch_status(body, number)

    def _give_up(self, numbers: range) -> None:
        """Say of windows that still wait that no other one can be merged with them any more."""
        for number in numbers:
            job = self._store.job(self._task.task_id, number)
            if job is not None and waits_for_next(job):
                error = AbandonedError(f"window {number} is a gap: it was too small, also with those that it may join")
                problem = to_problem(error, task=job.task_id, batch=str(number))
                self._store.set_job(Job(job.task_id, job.stage, "failed", problem, batch=number))

    def _part(self, number: int) -> Job:
        error = AbandonedError(f"window {number} is released together with window {self._number}")
        problem = to_problem(error, task=self._task.task_id, batch=str(number))
        return Job(self._task.task_id, "inventory", "merged", problem, batch=number)


def batch_status(body: bytes, number: int) -> BatchStatus:
    """Return what a server says of a batch, from its answer.

    Raises InvalidMessageError if it is no list of batches; UnknownBatchError if it says nothing of this one.
    """
    document = parse_canonical_json(body)
    batches = document.get("batches") if isinstance(document, dict) else None
    if not isinstance(batches, list):
        raise InvalidMessageError("expected a list of batches")
    for value in batches:
        status = BatchStatus.from_value(value)
        if status.batch == number:
            return status
    raise UnknownBatchError(f"the server knows no batch {number}")
