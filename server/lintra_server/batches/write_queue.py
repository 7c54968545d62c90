"""Queues uploads from the event loop to the storage thread; all uploads of one loop iteration are stored by one call.

Waking a thread, and being woken by one, costs about as much as opening a report. There is no timer: uploads of one
iteration are handed over at its end, and all results that are there at the next iteration are told together.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Protocol

from lintra_protocol.errors import LintraError
from lintra_server.batches.registry import RegisteredTask
from lintra_server.storage.store import Outcome, StoredUpload
from lintra_server.storage.writer import Tell, Told

Stored = list[Outcome]


class ReportWriter(Protocol):
    """What stores uploads: the writer of this process, or the way to that of another.

    `failed` says whether something went wrong with the disk since somebody last looked why.
    """

    failed: bool

    def submit(self, upload: StoredUpload, tell: Tell) -> None:
        """Store an upload; see `Writer.submit`."""


class WriteQueue:
    """Hands uploads over from one event loop at a time."""

    def __init__(self, writer: ReportWriter) -> None:
        """Hand over to a writer."""
        self._writer = writer
        self._turn: _Turn | None = None

    def submit(self, upload: StoredUpload) -> asyncio.Future[Stored]:
        """Store an upload; the future gives what became of each report, or why nobody knows (see `Writer.submit`)."""
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn.loop is not loop:
            self._turn = _Turn(loop, self._writer)
        return self._turn.submit(upload)


class Lookups:
    """Asks for reports that may be stored, in another thread, together for all of one batch in one turn of the loop."""

    def __init__(
        self, executor: Callable[[], Executor], find: Callable[[RegisteredTask, int, Sequence[bytes]], set[bytes]]
    ) -> None:
        """Ask by a function that may take its time.

        `executor` returns where it runs; `find` returns which of some reports of a batch of a task are stored.
        """
        self._executor = executor
        self._find = find
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: dict[tuple[int, int], tuple[list[bytes], asyncio.Task[set[bytes]]]] = {}

    async def find(self, held: RegisteredTask, batch: int, report_ids: Sequence[bytes]) -> set[bytes]:
        """Return which of some reports of a batch of a task are stored, and of others that came in the same turn."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._asked = loop, {}
        key = held.key, batch
        if key not in self._asked:
            asked: list[bytes] = []
            self._asked[key] = asked, loop.create_task(self._ask(held, batch, asked))
        together, answer = self._asked[key]
        together += report_ids
        return await asyncio.shield(answer)  # if one who asks goes away, the others still wait

    async def _ask(self, held: RegisteredTask, batch: int, asked: list[bytes]) -> set[bytes]:
        # A new task begins after all that are ready now; what comes later belongs to the next one.
        del self._asked[held.key, batch]
        return await asyncio.get_running_loop().run_in_executor(self._executor(), self._find, held, batch, asked)


class _Turn:
    """What waits in one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, writer: ReportWriter) -> None:
        self.loop = loop
        self._writer = writer
        self._waiting: list[tuple[StoredUpload, asyncio.Future[Stored]]] = []
        self._done: deque[tuple[asyncio.Future[Stored], Told]] = deque()
        self._called = False

    def submit(self, upload: StoredUpload) -> asyncio.Future[Stored]:
        answer: asyncio.Future[Stored] = self.loop.create_future()
        if not self._waiting:
            self.loop.call_soon(self._hand_over)
        self._waiting.append((upload, answer))
        return answer

    def _hand_over(self) -> None:
        waiting, self._waiting = self._waiting, []
        for upload, answer in waiting:
            try:
                self._writer.submit(upload, partial(self._note, answer))
            except Exception as error:  # whatever it is, nobody may wait for ever
                if not answer.done():
                    answer.set_exception(error)

    def _note(self, answer: asyncio.Future[Stored], told: Told) -> None:
        """Note, in the writer's thread, that an upload was dealt with."""
        self._done.append((answer, told))
        # The loop first says that it was not called, and then looks: what is appended after its look calls it again.
        if not self._called and not self.loop.is_closed():
            self._called = True
            self.loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._called = False
        while self._done:
            answer, told = self._done.popleft()
            if answer.done():  # whoever asked is gone
                continue
            if isinstance(told, LintraError):
                answer.set_exception(told)
            else:
                answer.set_result(told)
