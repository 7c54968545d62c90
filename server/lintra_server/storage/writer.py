"""One writer with group commit: while one commit is on its way the next uploads gather, and it takes all of them.

There is no timer: groups form by themselves under load, and an idle server commits at once.
"""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import structlog

from lintra_protocol.errors import LintraError, OverloadedError, UnavailableError
from lintra_server.disk.journal import Halt
from lintra_server.storage.steps import ForkedError
from lintra_server.storage.store import Outcome, Upload

log = structlog.get_logger()

_FAILED_SYNC = "disk I/O error"
"""SQLite's words for a write or a synchronisation that failed: afterwards nobody knows what is on the disk."""

Commit = Callable[[Sequence[Upload]], list[list[Outcome]]]
Observe = Callable[[int, float], None]


class Writer:
    """A thread that stores uploads; a future is done only when its upload is durable, or will never be."""

    def __init__(self, commit: Commit, max_bytes: int, observe: Observe, halt: Halt) -> None:
        """Start the thread.

        Args:
            commit: stores some uploads in one durable transaction.
            max_bytes: of uploads that may wait.
            observe: is told the number of reports and the seconds of every commit.
            halt: ends the process, if the database is not where this process left it.
        """
        self._commit = commit
        self._halt = halt
        self._observe = observe
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[Upload, Future[list[Outcome]]]] = deque()
        self._bytes = 0
        self._closing = False
        self.failed = False
        """Whether a commit failed since somebody last looked why."""
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="lintra-writer", daemon=True)
        self._thread.start()

    def submit(self, upload: Upload) -> "Future[list[Outcome]]":
        """Queue an upload; the future gives what became of each report, or why the commit failed.

        Raises:
            OverloadedError: too much waits already.
            UnavailableError: the server is stopping.
        """
        future: Future[list[Outcome]] = Future()
        with self._changed:
            if self._closing:
                raise UnavailableError("the server is stopping")
            # An upload alone is taken whatever its size, or it could never be.
            if self._bytes and self._bytes + upload.size > self._max_bytes:
                raise OverloadedError(f"{self._bytes} bytes wait to be written")
            self._waiting.append((upload, future))
            self._bytes += upload.size
            self._changed.notify()
        return future

    def close(self) -> None:
        """Write what waits, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                group = list(self._waiting)
                self._waiting.clear()
                self._bytes = 0
            self._store(group)

    def _store(self, group: Sequence[tuple[Upload, "Future[list[Outcome]]"]]) -> None:
        started = time.monotonic()
        try:
            outcomes = self._commit([upload for upload, _ in group])
        except LintraError as error:
            _fail(group, error)
        except ForkedError as error:
            self._halt(f"the database cannot be trusted: {error}")
            _fail(group, UnavailableError("the database is not where this server left it"))
        except Exception as error:  # whatever it was, nothing of the group is durable
            # As text: a renderer of its own might show local variables, shares among them.
            self.failed = True
            log.error("commit failed", uploads=len(group), traceback=traceback.format_exc())
            if _FAILED_SYNC in str(error):
                self._halt(f"the database cannot be trusted: {type(error).__name__}")
            _fail(group, UnavailableError(f"the commit failed: {type(error).__name__}"))
        else:
            for (_, future), outcome in zip(group, outcomes, strict=True):
                future.set_result(outcome)
            self._observe(sum(map(len, outcomes)), time.monotonic() - started)


def _fail(group: Sequence[tuple[Upload, "Future[list[Outcome]]"]], error: LintraError) -> None:
    for _, future in group:
        future.set_exception(error)
