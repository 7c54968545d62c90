"""Bodies of check shares as files: bytes that are too many for the memory, named by their hash.

A body is hashed as it comes, and gets its name when it is whole. Whoever reads one for a decision hashes what is read:
a name proves nothing about a disk.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.rules.verification import BodyHash
from lintra_service.scratch import PIECE_BYTES

_BODY, _COMING = ".body", "coming-"


class BodyWriter:
    """One body on its way into the folder; without `finish` nothing of it stays."""

    def __init__(self, folder: Path, size: int) -> None:
        """Begin with nothing of `size` bytes."""
        self.size = size
        self._folder = folder
        self._hash = BodyHash(size)
        descriptor, name = tempfile.mkstemp(prefix=_COMING, dir=folder)
        self._path = Path(name)
        self._file = os.fdopen(descriptor, "wb")

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def add(self, piece: bytes | memoryview) -> None:
        """Take the next bytes."""
        self._hash.add(piece)
        self._file.write(piece)

    def finish(self) -> bytes:
        """Give the body the name of the hash of what came, and return that."""
        digest = self._hash.digest()
        self._file.close()
        # The name stands for a whole body at every moment: a rename happens or does not.
        self._path.replace(path_of(self._folder, digest))
        return digest

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forget the body, unless it was finished."""
        self._file.close()
        # A finished body has another name by now, and stays.
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
        """Open a body."""
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
