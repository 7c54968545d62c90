"""Bodies of check shares as files: bytes that are too many for the memory, named by their hash.

A file gets its name when it is whole and was hashed. Whoever reads one for a decision hashes it again: a name proves
nothing about a disk.
"""

import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

from lintra_protocol.canonical import ByteRows, base64url
from lintra_protocol.ring import IntArray
from lintra_protocol.verdicts import BodyHash

_BODY, _COMING = ".body", "coming-"
PIECE_BYTES = 1 << 20


class BodyWriter:
    """One body on its way into the folder; without `finish` nothing of it stays."""

    def __init__(self, folder: Path, size: int) -> None:
        """Begin with nothing of `size` bytes."""
        self.size = size
        self._folder = folder
        descriptor, name = tempfile.mkstemp(prefix=_COMING, dir=folder)
        self._path = Path(name)
        self._file = os.fdopen(descriptor, "w+b")

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def add(self, piece: bytes | memoryview) -> None:
        """Take the next bytes."""
        self._file.write(piece)

    def place(self, rows: ByteRows, ranks: IntArray) -> None:
        """Write rows of one length, shape `(k, n)`, each at its rank, shape `(k,)`, in any order; instead of `add`."""
        if not len(ranks):
            return
        if not self._file.tell():
            self._file.truncate(self.size)
            self._file.seek(0, os.SEEK_END)
        with mmap.mmap(self._file.fileno(), self.size) as mapped:
            # Released with the map: memory keeps what was touched in one call.
            whole = np.frombuffer(mapped, np.uint8).reshape(-1, rows.shape[1])
            whole[ranks] = rows
            del whole

    def finish(self) -> bytes:
        """Give the body the name of its hash, and return that.

        Raises:
            ChecksMismatchError: more or fewer bytes came.
        """
        self._file.flush()
        self._file.seek(0)
        found = BodyHash(self.size)
        for piece in iter(lambda: self._file.read(PIECE_BYTES), b""):
            found.add(piece)
        digest = found.digest()
        self._file.close()
        self._path.replace(path_of(self._folder, digest))
        return digest

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forget the body, unless it was finished."""
        self._file.close()
        self._path.unlink(missing_ok=True)


class BodyFolder:
    """A folder with bodies."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which is made if need be; what was left there half written is removed."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        for path in folder.glob(f"{_COMING}*"):
            path.unlink()

    def writer(self, size: int) -> BodyWriter:
        """Return a writer of a body of so many bytes."""
        return BodyWriter(self._folder, size)

    def has(self, digest: bytes, size: int) -> bool:
        """Return whether a body of this name and length is here."""
        path = path_of(self._folder, digest)
        return path.exists() and path.stat().st_size == size

    def is_whole(self, digest: bytes, size: int) -> bool:
        """Return whether a body of this length is here, and its bytes are those that its name says."""
        if not self.has(digest, size):
            return False
        found = BodyHash(size)
        for piece in self.pieces(digest):
            found.add(piece)
        return found.digest() == digest

    def open(self, digest: bytes) -> BinaryIO:
        """Open a body.

        Raises:
            FileNotFoundError: it is not here.
        """
        return path_of(self._folder, digest).open("rb")

    def pieces(self, digest: bytes) -> Iterator[bytes]:
        """Yield a body bit by bit (see `open` for errors)."""
        with self.open(digest) as file:
            yield from iter(lambda: file.read(PIECE_BYTES), b"")

    def forget(self, digests: Iterable[bytes]) -> None:
        """Remove bodies; what is not here is no loss."""
        for digest in digests:
            path_of(self._folder, digest).unlink(missing_ok=True)

    def keep_only(self, digests: Iterable[bytes]) -> None:
        """Remove all other bodies."""
        kept = {path_of(self._folder, digest) for digest in digests}
        for path in self._folder.glob(f"*{_BODY}"):
            if path not in kept:
                path.unlink(missing_ok=True)


def path_of(folder: Path, digest: bytes) -> Path:
    """Return where the body of a hash lies."""
    return folder / (base64url(digest) + _BODY)
