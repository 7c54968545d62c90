"""How many reports the servers of a task had when they were last asked, so that pages can show it at once.

Nothing here is stored: after a start the servers are asked again, as soon as somebody looks.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lintra_analyzer.storage.rows import ServerState
from lintra_protocol.errors import LintraError
from lintra_protocol.messages.documents import Counters

LiveStates = Sequence[tuple[ServerState, Counters | None]]

AGAIN_SECONDS = 60
"""How long an answer is good enough for a list; servers count once in a task's unit of time, which is longer."""

AT_ONCE = 4
"""Tasks whose servers are asked at the same time for a list."""

MOST_KEPT = 10_000


@dataclass(frozen=True)
class ReportCount:
    """What servers said last of their reports."""

    asked_at: int  #: seconds since the epoch
    reports: int | None  #: at the server that had fewest; None if one of them gave no answer


class ReportCounts:
    """The last counts of tasks. It is used from one event loop."""

    def __init__(self, ask: Callable[[str], Awaitable[LiveStates]], now: Callable[[], int]) -> None:
        """Ask about a task by a function; `now` is the clock."""
        self._ask, self._now = ask, now
        self._known: OrderedDict[str, ReportCount] = OrderedDict()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    def known(self, task_id: str) -> ReportCount | None:
        """Return what was said last of a task, if its servers were asked since the start."""
        return self._known.get(task_id)

    def keep(self, task_id: str, states: LiveStates) -> None:
        """Keep what servers said just now."""
        counts = [None if counters is None else counters.accepted for _, counters in states]
        fewest = None if None in counts or not counts else min(count for count in counts if count is not None)
        self._known[task_id] = ReportCount(self._now(), fewest)
        self._known.move_to_end(task_id)
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)

    def refresh(self, task_ids: Iterable[str]) -> None:
        """Ask the servers of some tasks in the background, where the last answer is old; the next look shows it."""
        before = self._now() - AGAIN_SECONDS
        for task_id in task_ids:
            known = self._known.get(task_id)
            if task_id not in self._asking and (known is None or known.asked_at < before):
                self._asking[task_id] = asyncio.create_task(self._look(task_id), name=f"counts of {task_id}")

    async def stop(self) -> None:
        """Give up what is being asked."""
        asking = list(self._asking.values())
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _look(self, task_id: str) -> None:
        try:
            async with self._room:
                with suppress(LintraError):
                    self.keep(task_id, await self._ask(task_id))
        finally:
            del self._asking[task_id]
