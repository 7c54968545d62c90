"""Lists of report identifiers as files, read by mapping them: memory holds a slice of a list, whatever its length.

A file is named by the Merkle root of the list that it holds, and holds 32 bytes an identifier. It is checked and hashed
while it is written, made durable, and only then given its name. So under its name a file is always whole, two equal
lists are one file, and whoever trusts no disk hashes it again and compares.
"""

import mmap
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

from lintra_protocol.canonical import HASH_BYTES, base64url
from lintra_protocol.manifest import Tree
from lintra_protocol.report_ids import ListBuilder, ReportIds
from lintra_protocol.row_order import Bytes
from lintra_protocol.sorted_rows import Rows

_LIST, _TREE, _COMING = ".ids", ".tree", "coming-"


class MappedRows(Rows):
    """Identifiers in a file that nobody changes any more; what was read is given back to the system."""

    def __init__(self, path: Path) -> None:
        """Map a file, which may be removed afterwards.

        Raises:
            FileNotFoundError: it is not there.
            ValueError: it does not hold whole identifiers.
        """
        self._map = _mapped(path)
        self._array = np.frombuffer(self._map, np.uint8).reshape(-1, HASH_BYTES)

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, asked: slice) -> Bytes:
        return self._array[asked]

    def one(self, place: int) -> bytes:
        """Return the identifier at a place."""
        found: bytes = self._array[place].tobytes()
        return found

    def forget(self, before: int) -> None:
        """Give back the pages of all that stand before a place."""
        whole = HASH_BYTES * before // mmap.PAGESIZE * mmap.PAGESIZE
        if whole and isinstance(self._map, mmap.mmap):
            self._map.madvise(mmap.MADV_DONTNEED, 0, whole)


class ListWriter:
    """One list on its way into the folder; without `finish` nothing of it stays."""

    def __init__(self, folder: Path, durable: bool) -> None:
        """Begin with an empty list."""
        self._folder = folder
        self._durable = durable
        self._builder = ListBuilder()
        descriptor, name = tempfile.mkstemp(prefix=_COMING, dir=folder)
        self._path = Path(name)
        self._file = os.fdopen(descriptor, "wb")

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def add(self, chunk: bytes | memoryview) -> None:
        """Take the next bytes.

        Raises:
            InvalidMessageError: they are not sorted, or an identifier stands twice.
        """
        self._builder.add(chunk)
        self._file.write(chunk)

    @property
    def count(self) -> int:
        """Return how many identifiers came."""
        return self._builder.num_bytes // HASH_BYTES

    @cached_property
    def root(self) -> bytes:
        """Return the root of what came; nothing more can come.

        Raises:
            InvalidMessageError: it is not a whole number of identifiers.
        """
        return self._builder.tree().root

    def finish(self) -> ReportIds:
        """Give the list the name of its root, durable before and after, and return it (see `root` for errors)."""
        root = self.root
        path = self._folder / (base64url(root) + _LIST)
        _name(self._file, self._path, path, self._durable)
        return ReportIds(MappedRows(path), root)

    def unnamed(self) -> ReportIds:
        """Return the list as it is, without a name: its file goes when nobody reads it any more (see `root`)."""
        root = self.root
        self._file.flush()
        return ReportIds(MappedRows(self._path), root)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forget the list, unless it was finished."""
        self._file.close()
        self._path.unlink(missing_ok=True)


class ListFolder:
    """A folder with lists, and with trees over lists."""

    def __init__(self, folder: Path, durable: bool = True) -> None:
        """Use a folder, which is made if need be; what was left there half written is removed.

        Args:
            folder: for nothing else.
            durable: whether a file waits for the disk before it has its name; not needed where it can be made again.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._durable = durable
        for path in folder.glob(f"{_COMING}*"):
            path.unlink()

    def writer(self) -> ListWriter:
        """Return a writer of a list that arrives bit by bit."""
        return ListWriter(self._folder, self._durable)

    def write(self, report_ids: ReportIds) -> ReportIds:
        """Store a list; return it as it stands in its file."""
        with self.writer() as writer:
            for piece in report_ids.rows.pieces():
                writer.add(np.ascontiguousarray(piece).reshape(-1).data)
            return writer.finish()

    def unnamed(self, report_ids: ReportIds) -> ReportIds:
        """Return a list as it stands in a file that goes when nobody reads it any more."""
        with self.writer() as writer:
            for piece in report_ids.rows.pieces():
                writer.add(np.ascontiguousarray(piece).reshape(-1).data)
            return writer.unnamed()

    def read(self, root: bytes) -> ReportIds:
        """Return the list that was stored under a root, which is not compared with what the file holds.

        Raises:
            FileNotFoundError: there is none.
            ValueError: the file does not hold whole identifiers.
        """
        return ReportIds(MappedRows(self._path(root, _LIST)))

    def find(self, root: bytes, count: int) -> ReportIds | None:
        """Return the list of a root and length if it is here, hashed anew, and new as far as `keep_only` can tell."""
        with suppress(OSError, ValueError):
            os.utime(self._path(root, _LIST))
            found = self.read(root)
            if len(found) == count and found.root == root:
                return found
        return None

    def write_tree(self, tree: Tree) -> None:
        """Store the tree over a list."""
        descriptor, name = tempfile.mkstemp(prefix=_COMING, dir=self._folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(tree.nodes)
            _name(file, Path(name), self._path(tree.root, _TREE), self._durable)

    def read_tree(self, root: bytes, count: int) -> Tree:
        """Return the tree over the list of a root and length; only its length is compared.

        Raises:
            FileNotFoundError: it was not stored.
            InventoryMismatchError: the file is not of this length.
        """
        return Tree(count, memoryview(_mapped(self._path(root, _TREE))))

    def keep_only(self, roots: Iterable[bytes], seconds: float = 0) -> None:
        """Remove the files of all other roots that are so many seconds older than the newest file, or more."""
        kept = set(map(base64url, roots))
        written = {path: path.stat().st_mtime for path in self._folder.iterdir() if path.suffix in (_LIST, _TREE)}
        newest = max(written.values(), default=0.0)
        for path, when in written.items():
            if path.stem not in kept and newest - when >= seconds:
                path.unlink(missing_ok=True)

    def _path(self, root: bytes, suffix: str) -> Path:
        return self._folder / (base64url(root) + suffix)


def _mapped(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        # Nothing cannot be mapped.
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""


def _name(file: BinaryIO, path: Path, name: Path, durable: bool) -> None:
    """End a file and give it its name."""
    file.flush()
    if durable:
        os.fsync(file.fileno())
    file.close()
    path.replace(name)
    if not durable:
        return
    descriptor = os.open(name.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
