"""One writer with group commit: while one commit is on its way the next uploads gather, and it takes all of them.

There is no timer: groups form by themselves under load, and an idle server commits at once.
"""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence

import structlog

from lintra_protocol.errors import LintraError, OverloadedError, UnavailableError
from lintra_server.durability.journal import Halt
from lintra_server.storage.store import Outcome, StoredUpload
from lintra_server.storage.transition_log import ForkedError
from lintra_service.supervisor import track_work

log = structlog.get_logger()

_FAILED_SYNC = "disk I/O error"
"""SQLite's words for a write or a synchronisation that failed: afterwards nobody knows what is on the disk."""

Told = list[Outcome] | LintraError
"""What became of each report of an upload that is durable now, or why nobody knows whether it is."""

Tell = Callable[[Told], None]
Commit = Callable[[Sequence[StoredUpload]], list[list[Outcome]]]
Observe = Callable[[int, float], None]


class Writer:
    """A thread that stores uploads; whoever asks is told only when an upload is durable, or will never be."""

    def __init__(self, commit: Commit, max_bytes: int, observe: Observe, halt: Halt) -> None:
        """Start the thread.

        `commit` stores some uploads in one durable transaction; `max_bytes` limits the bytes of uploads that may wait.
        `observe` is told the number of reports and the seconds of every commit. `halt` ends the process, if the
        database is not where this process left it.
        """
        self._commit = commit
        self._halt = halt
        self._observe = observe
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[StoredUpload, Tell]] = deque()
        self._bytes = 0
        self._closing = False
        self.failed = False
        """Whether a commit failed since somebody last looked why."""
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="lintra-writer", daemon=True)
        self._thread.start()

    def submit(self, upload: StoredUpload, tell: Tell) -> None:
        """Queue an upload.

        `tell` is called once, soon or late and in the writer's thread, with what became of it; must not wait.

        Raises:
            OverloadedError: too much waits already; `tell` will not be called.
            UnavailableError: the server is stopping; `tell` will not be called.
        """
        with self._changed:
            if self._closing:
                raise UnavailableError("the server is stopping")
            # An upload alone is taken whatever its size, or it could never be.
            if self._bytes and self._bytes + upload.size > self._max_bytes:
                raise OverloadedError(f"{self._bytes} bytes wait to be written")
            if not self._waiting:  # else the thread has been woken already, or is about to look
                self._changed.notify()
            self._waiting.append((upload, tell))
            self._bytes += upload.size

    @property
    def is_well(self) -> bool:
        """Return whether the thread is there, or was asked to end."""
        return self._closing or self._thread.is_alive()

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
            with track_work("the writer"):
                self._store(group)

    def _store(self, group: Sequence[tuple[StoredUpload, Tell]]) -> None:
        started = time.monotonic()
        told: Sequence[Told]
        try:
            told = outcomes = self._commit([upload for upload, _ in group])
        except LintraError as error:
            told = [error] * len(group)
        except ForkedError as error:
            self._halt(f"the database cannot be trusted: {error}")
            told = [UnavailableError("the database is not where this server left it")] * len(group)
        except Exception as error:  # whatever it was, nothing of the group is durable
            # As text: a renderer of its own might show local variables, shares among them.
            self.failed = True
            log.error("commit failed", uploads=len(group), traceback=traceback.format_exc())
            if _FAILED_SYNC in str(error):
                self._halt(f"the database cannot be trusted: {type(error).__name__}")
            told = [UnavailableError(f"the commit failed: {type(error).__name__}")] * len(group)
        else:
            self._observe(sum(map(len, outcomes)), time.monotonic() - started)
        for (_, tell), each in zip(group, told, strict=True):
            try:
                tell(each)
            except Exception as error:  # whoever asked is gone; the others are told all the same
                log.error("nobody could be told of an upload", reason=type(error).__name__)
