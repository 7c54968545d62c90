"""What goes wrong at the writes of a server: a kill, a full disk, a failed synchronisation; beneath the real code.

Everything that a server makes durable passes through `os.fsync` or through the commit of a transaction, so those are
where it is interrupted. Real synchronisation is left out: the folders of a simulation are worth nothing after it.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Literal

import pytest
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import OperationalError

from lintra_server.durability.notes import Notes
from lintra_server.storage.database import SPAN, Database, segments

Kind = Literal["none", "crash", "full", "sync", "refused"]


class CrashError(RuntimeError):
    """The process ends here; from now on it writes nothing."""


@dataclass
class Trouble:
    """What is about to happen to the one server that is working now.

    Attributes:
        kind: nothing; the process is killed; the disk is full, as long as this lasts; a synchronisation fails;
            a transaction fails after its rows were sent.
        left: how many durable writes succeed before.
        after: whether the write at which it happens is still done.
        fired: whether it happened.
    """

    kind: Kind = "none"
    left: int = 0
    after: bool = False
    fired: bool = False
    refused: list[dict[str, object]] = field(default_factory=list, repr=False)
    """Rows of segments that a transaction sent which failed."""

    def arm(self, kind: Kind, left: int = 0, after: bool = False) -> None:
        """Let something happen."""
        self.kind, self.left, self.after, self.fired = kind, left, after, False

    def disarm(self) -> bool:
        """Let nothing happen any more; return whether it did."""
        fired = self.fired
        self.arm("none")
        return fired

    @contextmanager
    def write(self, *, sync: bool) -> Iterator[None]:
        """Surround one durable write; `sync` tells a file's from a transaction's."""
        if self.kind not in ("crash", "sync") or (self.kind == "sync" and not sync):
            yield
            return
        if self.fired and self.kind == "crash":
            raise CrashError
        self.left -= 1
        hit = self.left < 0 and not self.fired
        self.fired = self.fired or hit
        if hit and self.kind == "sync":
            raise OSError(errno.EIO, "a synchronisation failed", "the commit failed")
        if hit and not self.after:
            raise CrashError
        yield
        if hit:
            raise CrashError

    def refuses(self) -> bool:
        """Return whether the transaction that is about to end fails."""
        if self.kind != "refused":
            return False
        self.left -= 1
        self.fired = self.fired or self.left < 0
        return self.left < 0

    def need_room(self) -> None:
        """Refuse to write on a full disk."""
        if self.kind == "full":
            self.fired = True
            raise OSError(errno.ENOSPC, "no space left on device")


def install(patch: pytest.MonkeyPatch, trouble: Trouble) -> None:
    """Put the trouble beneath everything that writes, and make synchronisation cheap."""
    real_open, real_write = os.open, os.write
    put, sync = Notes.put, Notes.sync

    def fsync(_: int) -> None:
        with trouble.write(sync=True):
            pass

    def opened(path: str | os.PathLike[str], flags: int, *arguments: int, **options: int) -> int:
        if flags & os.O_EXCL:
            trouble.need_room()
        return real_open(path, flags, *arguments, **options)

    def written(descriptor: int, data: bytes) -> int:
        if trouble.kind == "full":  # some of it still fits
            real_write(descriptor, data[: len(data) // 2])
            trouble.need_room()
        return real_write(descriptor, data)

    def noted(notes: Notes, name: bytes, total: int, chain: bytes) -> None:
        with trouble.write(sync=False):
            put(notes, name, total, chain)

    def synced(notes: Notes) -> None:
        with trouble.write(sync=True):
            sync(notes)

    def troubled(begun: Callable[[Database], AbstractContextManager[Connection]]) -> Callable[[Database], object]:
        @contextmanager
        def transaction(database: Database) -> Iterator[Connection]:
            if trouble.kind == "full":
                trouble.fired = True
                raise OperationalError("INSERT", {}, Exception("database or disk is full"))
            # A kill before the commit rolls it back, as the next process to open the file does.
            with trouble.write(sync=False), begun(database) as connection:
                yield connection
                if trouble.refuses():
                    # A commit writes the last row of its batch, whichever batch that is.
                    last = select(func.max(segments.c.key)).group_by(segments.c.key // SPAN)
                    newest = select(segments).where(segments.c.key.in_(last))
                    trouble.refused += [dict(row) for row in connection.execute(newest).mappings()]
                    raise OperationalError("COMMIT", {}, Exception("the commit failed"))

        return transaction

    patch.setattr(os, "fsync", fsync)
    patch.setattr(Notes, "put", noted)
    patch.setattr(Notes, "sync", synced)
    patch.setattr(os, "open", opened)
    patch.setattr(os, "write", written)
    for name in ("writing", "appending"):
        patch.setattr(Database, name, troubled(getattr(Database, name)))


INJECTED = (
    "CrashError",
    "no space left on device",
    "database or disk is full",
    "a synchronisation failed",
    "the commit failed",
)
"""The last words of tracebacks that the simulation itself caused."""
