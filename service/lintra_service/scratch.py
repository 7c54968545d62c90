"""Copies that only this process can read or change: of a file that was hashed, and must still be what it was when used.

A copy has no name. Small ones are in memory (memfd), larger ones in a folder, from which they are removed before the
first byte is written; so a crash leaves nothing. They go when nobody looks at them any more.
"""

import errno
import mmap
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import ByteRows
from lintra_protocol.errors import UnavailableError

IN_MEMORY_BYTES = 64 << 20
"""What all copies in memory have together at most; whatever is larger, or comes later, is in the folder."""

PIECE_BYTES = 1 << 20

Look = mmap.mmap | bytes
"""A copy as it is read; nothing cannot be mapped, and is `b""`."""


class ScratchFile:
    """One copy while it is made; it goes at the end unless somebody looks at it. `in_memory` says where it is."""

    def __init__(self, file: BinaryIO, size: int, forget: "_Forget", *, in_memory: bool) -> None:
        """Begin with nothing of `size` bytes."""
        self.in_memory = in_memory
        self._file = file
        self._size = size
        self._left = size
        self._forget: _Forget | None = forget

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def write(self, chunk: bytes | memoryview) -> None:
        """Take the next bytes; raise ValueError if they are more than were announced."""
        self._left -= len(chunk)
        if self._left < 0:
            raise ValueError(f"more than {self._size} bytes")
        self._file.write(chunk)

    def place(self, rows: ByteRows, ranks: IntArray) -> None:
        """Write rows of one length, shape `(k, n)`, at their ranks, shape `(k,)`, in any order; instead of `write`."""
        if not len(ranks):
            return
        with mmap.mmap(self._file.fileno(), self._size) as mapped:
            # Released with the map: memory keeps what was touched in one call.
            whole = np.frombuffer(mapped, np.uint8).reshape(-1, rows.shape[1])
            whole[ranks] = rows
            del whole

    def pieces(self) -> Iterator[bytes]:
        """Yield all that was written, from its beginning."""
        self._file.flush()
        self._file.seek(0)
        yield from iter(lambda: self._file.read(PIECE_BYTES), b"")

    def look(self) -> Look:
        """Return what was written; it stays as long as this is held."""
        self._file.flush()
        if not self._size:
            return b""
        mapped = mmap.mmap(self._file.fileno(), self._size, access=mmap.ACCESS_READ)
        forget, self._forget = self._forget, None
        if forget is not None:
            # Room in memory is given back when the map is collected, and not when the file is closed.
            weakref.finalize(mapped, forget)
        return mapped

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of it; who looks at it keeps it."""
        self._file.close()
        if self._forget is not None:
            self._forget()


class Scratch:
    """Where such copies are made; thread-safe."""

    def __init__(self, folder: Path, in_memory: int = IN_MEMORY_BYTES) -> None:
        """Hold none.

        `folder` is for nothing else; it is made if need be, and emptied. Whoever can write to it is trusted.
        `in_memory` limits the bytes of all copies in memory together.
        """
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        self._folder = folder
        self._in_memory = in_memory if hasattr(os, "memfd_create") else 0
        self._lock = threading.Lock()
        self._held: dict[object, int] = {}

    def file(self, size: int) -> ScratchFile:
        """Return a copy that is to be made, with the room for it. `size` is its length in bytes.

        Raises UnavailableError if there is no room for it.
        """
        forget = _Forget(self._held)
        with self._lock:
            # A copy in memory may go at any moment: it is forgotten without the lock.
            fits = sum(list(self._held.values())) + size <= self._in_memory
            if fits:
                self._held[forget] = size
        file: BinaryIO | None = None
        try:
            file = self._unnamed(fits)
            _make_room(file, size, fits)
        except OSError as error:
            forget()
            if file is not None:
                file.close()
            why = "is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else os.strerror(error.errno or errno.EIO)
            raise UnavailableError(
                f"{self._folder.parent.name}/{self._folder.name}: {why}; a copy of {size} bytes is needed to go on: "
                "free some room"
            ) from None
        return ScratchFile(file, size, forget, in_memory=fits)

    def _unnamed(self, in_memory: bool) -> BinaryIO:
        if in_memory:
            return os.fdopen(os.memfd_create("lintra-scratch"), "w+b")
        descriptor, name = tempfile.mkstemp(dir=self._folder)
        # Without a name nobody else opens it, and it is gone when the process is.
        Path(name).unlink()
        return os.fdopen(descriptor, "w+b")


class _Forget:
    """Counts a copy in memory no longer."""

    def __init__(self, held: dict[object, int]) -> None:
        self._held = held

    def __call__(self) -> None:
        self._held.pop(self, None)


def _make_room(file: BinaryIO, size: int, in_memory: bool) -> None:
    """Give a file its length; on a disk also its room, or writing to a map of it would end the process."""
    if in_memory or not size or not hasattr(os, "posix_fallocate"):
        file.truncate(size)
    else:
        os.posix_fallocate(file.fileno(), 0, size)
