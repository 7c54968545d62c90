"""The files of a SQLite database beneath a running server: whether they are those that its connections hold.

To look at a file's times would make the next synchronisation of it dearer, so a commit only asks whether the kernel has
an event (see `disk.file_events`). Half a second later at most, somebody looks at the files themselves.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.engine.interfaces import DBAPIConnection

from lintra_server.durability.file_events import CLOSED_AFTER_WRITING, MODIFIED, NAMES_CHANGED, OPENED, FileEvents
from lintra_server.storage.raw_statement import Direct
from lintra_server.storage.schema import prepare_sqlite
from lintra_server.storage.transition_log import ForkedError
from lintra_service.sqlite import forget_read_only

LONG_LOG = 1000
"""Frames after which the log is moved into the database, as SQLite does by itself: one for each page that changed."""

_HEADER, _FRAME_HEADER, _SALT = 32, 24, slice(16, 24)
"""Bytes before the first frame of a log, and before the page in each; and where the first have the random number of
this log, which frames repeat (sqlite.org, "Database File Format", 4.1)."""

_INDEX = Struct("=12xBxHI12x8s")
_INDEX_BYTES = 48
"""Of the index of the log, which SQLite keeps in shared memory: whether it is there, the size of a page, the last
committed frame, and the random number of the log (sqlite.org, "WAL-mode File Format", 2.2.1). It stands there twice."""

_TRIES, _TRY_AGAIN_SECONDS = 5, 0.002

_BEGIN, BEGIN_WRITING = Direct(text("BEGIN")), Direct(text("BEGIN IMMEDIATE"))


class _File(NamedTuple):
    """A file as the kernel describes it: another one differs, and so does this one when somebody wrote to it."""

    device: int
    inode: int
    size: int
    changed: int

    @property
    def name(self) -> tuple[int, int]:
        """Return what no other file has as long as somebody has this one open."""
        return self.device, self.inode


class SqliteFiles:
    """The files as they were when this process opened them; thread-safe.

    SQLite must not move its log into the database by itself: then the database is written only in `move_log`, and
    whatever else writes to it is somebody else. What SQLite believes of its log stands in its shared memory; a log that
    is not so is somebody else's. To close a descriptor of the database or of its shared memory drops SQLite's locks on
    it. So the first is never opened here, and the second is closed after every connection.
    """

    def __init__(self, path: Path) -> None:
        """Note how the files are now; a connection must have read from them before, and stay open."""
        self._path = path
        self._log_path, memory = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
        self._log, self._memory = (os.open(file, os.O_RDONLY | os.O_CLOEXEC) for file in (self._log_path, memory))
        self._events = FileEvents(
            {path.parent: NAMES_CHANGED, path: MODIFIED, self._log_path: OPENED | CLOSED_AFTER_WRITING}
        )
        self._lock, self._moving_log = threading.Lock(), threading.Lock()
        self._database = _there(path)
        self._names = {beside: _there(beside).name for beside in (self._log_path, memory)}
        self._last = 0, b""
        self._is_moving = self._is_looking = False

    def may_differ(self) -> bool:
        """Return whether they may not be what they were; costs one question to the kernel."""
        # In this order: who looks closely says so before it forgets the events.
        return self._events.happened() or self._is_looking

    def look_closely(self) -> None:
        """Look at the files themselves."""
        with self._lock:
            self._is_looking = True  # and stays so if this raises
            self._events.forget()
            self._compare()
            self._is_looking = False

    def frames(self) -> int:
        """Return how many frames of the log SQLite has committed since it began the log."""
        return self._index()[1]

    def move_log(self, move: Callable[[], object]) -> None:
        """Let this process move the log into the database, which `move` does (see `look_closely` for errors)."""
        with self._moving_log:
            self.look_closely()
            with self._lock:  # nobody is in the middle of a look
                self._is_moving = True
            try:
                move()
            finally:
                with self._lock:
                    now = _found(self._path)
                    if now is not None and now.name == self._database.name:
                        self._database = now
                    self._is_moving = False
            self.look_closely()

    def close(self) -> None:
        """Look no more; every connection to the database is closed."""
        self._events.close()
        os.close(self._log)
        os.close(self._memory)

    def _compare(self) -> None:
        now = _found(self._path)
        if now is None:
            raise ForkedError(f"{self._path} was deleted or moved away")
        if now.name != self._database.name:
            raise ForkedError(f"another file lies at {self._path}")
        if now != self._database and not self._is_moving:
            raise ForkedError(f"somebody else wrote to {self._path}")
        for path, name in self._names.items():
            beside = _found(path)
            if beside is None or beside.name != name:
                raise ForkedError(f"{path} was {'deleted or moved away' if beside is None else 'replaced'}")
        if not self._is_moving:
            self._compare_log()

    def _compare_log(self) -> None:
        for again in range(_TRIES):
            if again:  # SQLite may have been between two writes
                time.sleep(_TRY_AGAIN_SECONDS)
            page, last, salt = self._index()
            place = _HEADER + (last - 1) * (_FRAME_HEADER + page)
            if last == 0:  # it begins its log anew: nothing in it counts
                return
            frame = os.pread(self._log, _FRAME_HEADER, place)
            begins = os.pread(self._log, _HEADER, 0)[_SALT] == frame[8:16] == salt
            if begins and os.fstat(self._log).st_size >= place + _FRAME_HEADER + page and self._is_still_there(salt):
                self._last = place, frame
                return
        raise ForkedError(f"somebody else wrote to {self._log_path}")

    def _is_still_there(self, salt: bytes) -> bool:
        """Return whether the frame that was the last at the last look is where it was, if the log is the same."""
        place, frame = self._last
        return frame[8:16] != salt or os.pread(self._log, _FRAME_HEADER, place) == frame

    def _index(self) -> tuple[int, int, bytes]:
        """Return the size of a page, the last committed frame and the random number of the log, as SQLite has them."""
        while True:
            twice = os.pread(self._memory, 2 * _INDEX_BYTES, 0)
            if twice[:_INDEX_BYTES] == twice[_INDEX_BYTES:]:  # else it is just being written
                is_there, page, last, salt = _INDEX.unpack_from(twice)
                return (65536 if page == 1 else page), (last if is_there else 0), salt
            time.sleep(_TRY_AGAIN_SECONDS)


class WatchedSqlite:
    """The connections to a database; if somebody watches it, their files are looked at, and the log is moved here."""

    def __init__(self, engine: Engine, path: Path) -> None:
        """Prepare every connection but for `configure`, which its owner calls; watch nothing yet."""
        self._engine = engine
        event.listen(engine, "begin", _begin)
        forget_read_only(engine)
        self._path = path
        self._files: SqliteFiles | None = None
        self._open: DBAPIConnection | None = None
        self._moves_log = False

    def begin(self) -> None:
        """Note how the files are; connections that were opened before are closed: they move the log by themselves."""
        self._moves_log = True
        self._engine.dispose()
        # One stays open: when the last is closed, SQLite moves the log, and its file's number may be another's.
        lent = self._engine.raw_connection()
        self._open = lent.dbapi_connection
        lent.detach()
        lent.cursor().execute("SELECT count(*) FROM sqlite_master").close()
        self._files = SqliteFiles(self._path)

    def configure(self, connection: DBAPIConnection) -> None:
        """Prepare a connection that was just opened, and look what it was opened on (see `SqliteFiles` for errors)."""
        # The driver must not begin transactions by itself: `_begin` says which kind.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        if self._moves_log:
            cursor.execute("PRAGMA wal_autocheckpoint=0")
        cursor.close()
        prepare_sqlite(connection)
        self.look_closely()

    def may_differ(self) -> bool:
        """Return whether a close look is needed before anything is said."""
        files = self._files
        return files is not None and files.may_differ()

    def look_closely(self) -> None:
        """Look at the files themselves, if somebody watches them (see `SqliteFiles` for errors)."""
        if self._files is not None:
            self._files.look_closely()

    def look_regularly(self, writing: Callable[[], AbstractContextManager[object]]) -> None:
        """Look closely, and move the log if it is long; `writing` keeps others from writing to it."""
        files = self._files
        if files is None:
            return

        def move() -> None:
            with writing():  # or the log would grow for as long as others write to it
                self._move("PASSIVE")

        files.look_closely()
        if files.frames() >= LONG_LOG:
            files.move_log(move)

    def empty_log(self) -> None:
        """Move the log into the database and empty it."""
        if self._files is None:
            self._move("TRUNCATE")
        else:
            self._files.move_log(lambda: self._move("TRUNCATE"))

    def close(self) -> None:
        """Look no more, and close every connection."""
        files, self._files = self._files, None
        self._engine.dispose()
        if self._open is not None:
            self._open.close()
        if files is not None:
            files.close()

    def _move(self, how: str) -> None:
        connection = self._engine.raw_connection()
        try:
            connection.cursor().execute(f"PRAGMA wal_checkpoint({how})").close()
        finally:
            connection.close()


def _begin(connection: Connection) -> None:
    """Begin a transaction, unless one was begun beside the library: one that writes takes its lock at once."""
    if not getattr(connection.connection.dbapi_connection, "in_transaction", False):
        immediate = connection.get_execution_options().get("lintra_immediate", False)
        (BEGIN_WRITING if immediate else _BEGIN).run(connection, {})


def _found(path: Path) -> _File | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return _File(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _there(path: Path) -> _File:
    found = _found(path)
    if found is None:
        raise ForkedError(f"{path} was deleted or moved away")
    return found
