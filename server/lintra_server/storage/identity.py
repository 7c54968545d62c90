"""Whether the database is still the one that this process began with, and no older.

SQLite's connections hold files that were opened long ago: somebody may put another file in their place, and what is
committed then is in no database that the next process would open (`sqlite_files` tells). PostgreSQL may be stopped, and
started again from an older copy of its files (its log's position tells, and what is stored). Whoever finds that ends
the process; nothing is answered afterwards.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import structlog
from sqlalchemy import Connection

from lintra_protocol.errors import UnavailableError
from lintra_server.durability.journal import Halt
from lintra_server.storage.transition_log import ForkedError
from lintra_service.supervisor import track_work

log = structlog.get_logger()

LOOK_SECONDS = 0.5
"""How often a running server looks by itself."""

SHARE = 0.01
"""Of one core: what takes more of it is looked at less often."""

Check = Callable[[Connection], None]


class WatchedDatabase(ABC):
    """A database that is looked at again and again, and before every answer, if somebody watches it."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._expected: list[Check] = []
        self._quick: list[Check] = []
        self._slow_again = 0.0
        self._looking: _Regularly | None = None
        self.halt: Halt | None = None
        """Ends the process if this is another database than it began with, or was set back."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """Give a transaction that sees one state of the database."""

    def expect(self, check: Check, *, quick: bool = False) -> None:
        """Have a check made of whether the database lacks something; it raises `ForkedError`.

        `check` compares with what was known before its first look. `quick` says whether it reads one row only. Then it
        is made before every change but the storing of reports, too.
        """
        self._expected.append(check)
        if quick:
            self._quick.append(check)

    def watch(self, halt: Halt) -> None:
        """Look from now on; `halt` ends the process."""
        self.halt = halt
        self._begin_looking()
        self._looking = _Regularly(self._look_regularly)

    @property
    def is_looked_at(self) -> bool:
        """Return whether somebody looks, or need not any more."""
        return self._looking is None or self._looking.is_well

    def look_no_more(self) -> None:
        """End what `watch` began."""
        if self._looking is not None:
            self._looking.close()
            self._end_looking()

    @abstractmethod
    def _begin_looking(self) -> None:
        """Note which database this is."""

    @abstractmethod
    def _look_regularly(self) -> None:
        """Look whether it is still that one."""

    @abstractmethod
    def _end_looking(self) -> None:
        """Let go of what was opened for it."""

    def _compare(self) -> None:
        """Compare what is stored with what this process knows: all of it as often as that costs only a small share."""
        with self._ending():
            self._make(self._quick)
            if (began := time.monotonic()) >= self._slow_again:
                self._make(self._expected)
                self._slow_again = began + (time.monotonic() - began) / SHARE

    def _make(self, checks: Sequence[Check]) -> None:
        for check in checks:
            with self.reading() as connection:  # each in its own: it compares with what was known before
                check(connection)

    def _require_each(self, connection: Connection) -> None:
        """Make the quick checks in transactions of their own: nobody holds off writers, so each sees what it knew."""
        with self._ending():
            for check in self._quick:
                with connection.begin():
                    check(connection)

    def _require_head(self, connection: Connection) -> None:
        """Make the quick checks in a transaction that writes and was just begun (see `_ending` for errors)."""
        with self._ending():
            for check in self._quick:
                check(connection)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """End the process if what is done here finds that this is another database, or an older one."""
        try:
            yield
        except ForkedError as error:
            if self.halt is not None:
                self.halt(f"this is not the database that the server wrote: {error}; run `lintra server doctor` next")
            raise UnavailableError("the database is not where this server left it") from None


class LogPosition:
    """How far PostgreSQL's log was when this process last committed: no database of its is ever behind; thread-safe.

    A position that was read in a transaction is noted when that has committed: then the log is durable up to there, on
    a synchronous standby, too. Transactions that add reports note none: where their batches end is known.
    """

    def __init__(self) -> None:
        """Know of no commit yet."""
        self._lock = threading.Lock()
        self.highest = 0

    def note(self, position: int) -> None:
        """Note a position, in bytes from the log's beginning."""
        with self._lock:
            self.highest = max(self.highest, position)


def require_position(position: int, before: int) -> None:
    """Compare the position of PostgreSQL's log with the highest that was noted before it was asked for.

    Raises ForkedError if it is behind.
    """
    if position < before:
        raise ForkedError(f"PostgreSQL's log ends {before - position} bytes before its last commit; it was set back")


class _Regularly:
    """A thread that looks every `LOOK_SECONDS`."""

    def __init__(self, look: Callable[[], None]) -> None:
        """Start it."""
        self._look = look
        self._stopping = threading.Event()
        self._failed = ""
        self._thread = threading.Thread(target=self._run, name="lintra-identity", daemon=True)
        self._thread.start()

    @property
    def is_well(self) -> bool:
        """Return whether the thread is there, or was asked to end."""
        return self._stopping.is_set() or self._thread.is_alive()

    def close(self) -> None:
        """End it."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            failed = ""
            try:
                with track_work("the look at the database"):
                    self._look()
            except Exception as error:  # it may not answer now: readiness says so, and half a second later it may
                failed = type(error).__name__
                if failed != self._failed:
                    log.warning("the database cannot be looked at", reason=failed)
            self._failed = failed
