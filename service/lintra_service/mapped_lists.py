"""Lists of report identifiers as files, read by mapping them: memory holds a slice of a list, whatever its length.

A file is named by the Merkle root of the list that it holds, and holds 32 bytes an identifier. It is checked and hashed
while it is written, made durable, and only then given its name. So under its name a file is always whole, two equal
lists are one file, and whoever trusts no disk takes a copy that is hashed as it is made (`ListFolder.copied`).
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

from lintra_protocol.cohort.merkle import Tree
from lintra_protocol.cohort.report_ids import ListBuilder, ReportIds
from lintra_protocol.cohort.row_order import Bytes
from lintra_protocol.cohort.sorted_rows import SortedIds
from lintra_protocol.encoding.canonical import HASH_BYTES, base64url
from lintra_protocol.errors import InvalidMessageError, InventoryMismatchError
from lintra_service.scratch import PIECE_BYTES, Look, Scratch

_LIST, _TREE, _COMING = ".ids", ".tree", "coming-"


class MappedIdList(SortedIds):
    """Identifiers in a file that nobody changes any more; what was read is given back to the system."""

    def __init__(self, look: Look, *, in_memory: bool = False) -> None:
        """Read what is mapped; `in_memory` says that it is no file on a disk, so that there is nothing to give back."""
        self._map = look
        self._in_memory = in_memory
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
        # Whole pages only; a page that is needed again is read from the file again.
        if whole and isinstance(self._map, mmap.mmap) and not self._in_memory:
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
        """Take the next bytes."""
        self._builder.add(chunk)
        self._file.write(chunk)

    @property
    def count(self) -> int:
        """Return how many identifiers came."""
        return self._builder.num_bytes // HASH_BYTES

    @cached_property
    def root(self) -> bytes:
        """Return the root of what came; nothing more can come."""
        return self._builder.tree().root

    def finish(self) -> ReportIds:
        """Give the list the name of its root, durable before and after, and return it (see `root` for errors)."""
        root = self.root
        path = self._folder / (base64url(root) + _LIST)
        _name(self._file, self._path, path, self._durable)
        return ReportIds(MappedIdList(_mapped(path)), root)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forget the list, unless it was finished."""
        self._file.close()
        self._path.unlink(missing_ok=True)


class ListCopy:
    """One list on its way into a copy that nobody else can change: checked and hashed as it comes."""

    def __init__(self, scratch: Scratch, num_bytes: int) -> None:
        """Begin with an empty list.

        `scratch` says where the copy is made; `num_bytes` says how long it will be.
        """
        self._num_bytes = num_bytes
        self._builder = ListBuilder()
        self._file = scratch.file(num_bytes)

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def add(self, chunk: bytes | memoryview) -> None:
        """Take the next bytes.

        Raises InvalidMessageError if they are too many, not sorted, or an identifier stands twice.
        """
        if self._builder.num_bytes + len(chunk) > self._num_bytes:
            raise InvalidMessageError(f"a list of {self._num_bytes} bytes is longer than that")
        self._builder.add(chunk)
        self._file.write(chunk)

    def finish(self) -> ReportIds:
        """Return the list; its copy goes when nobody reads it any more.

        Raises InvalidMessageError if it is shorter than it was to be, or not a whole number of identifiers.
        """
        if self._builder.num_bytes != self._num_bytes:
            raise InvalidMessageError(f"a list of {self._num_bytes} bytes has {self._builder.num_bytes} only")
        rows = MappedIdList(self._file.look(), in_memory=self._file.in_memory)
        return ReportIds(rows, self._builder.tree().root)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the file."""
        self._file.__exit__(kind, error, trace)


def copy_of(report_ids: ReportIds, scratch: Scratch) -> ReportIds:
    """Return a list that is in memory as a copy that nobody else can change."""
    with scratch.file(HASH_BYTES * len(report_ids)) as file:
        for piece in report_ids.rows.pieces():
            file.write(np.ascontiguousarray(piece).reshape(-1).data)
        return ReportIds(MappedIdList(file.look(), in_memory=file.in_memory))


class ListFolder:
    """A folder with lists, and with trees over lists."""

    def __init__(self, folder: Path, durable: bool = True) -> None:
        """Use a folder, which is made if need be; what was left there half written is removed.

        `folder` is for nothing else. `durable` says whether a file waits for the disk before it has its name; not
        needed where it can be made again.
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

    def read(self, root: bytes) -> ReportIds:
        """Return the list that was stored under a root, which is not compared with what the file holds."""
        return ReportIds(MappedIdList(_mapped(self._path(root, _LIST))))

    def copied(self, root: bytes, count: int, scratch: Scratch) -> ReportIds | None:
        """Return a copy of the list of a root and length that nobody else can change; None if it is not here.

        It is hashed as it is made, so whoever changes the file changes nothing that is returned.
        """
        with suppress(OSError, InvalidMessageError), self._path(root, _LIST).open("rb") as source:
            if os.fstat(source.fileno()).st_size != HASH_BYTES * count:
                return None
            with ListCopy(scratch, HASH_BYTES * count) as copy:
                for chunk in iter(lambda: source.read(PIECE_BYTES), b""):
                    copy.add(chunk)
                found = copy.finish()
                return found if found.root == root else None
        return None

    def find(self, root: bytes, count: int) -> ReportIds | None:
        """Return the list of a root and length if it is here, hashed anew, and new as far as `keep_only` can tell."""
        with suppress(OSError, ValueError):
            # First, so that `keep_only` in another thread sees a new file and leaves it.
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

    def copied_tree(self, root: bytes, count: int, scratch: Scratch) -> Tree | None:
        """Return a copy of the tree over the list of a root and length; None if none of that length is here.

        Its nodes are not compared with anything: a proof from it shows whether they are right.
        """
        with suppress(OSError, ValueError, InventoryMismatchError), self._path(root, _TREE).open("rb") as source:
            size = os.fstat(source.fileno()).st_size
            if size > HASH_BYTES * (count + 1):
                return None
            with scratch.file(size) as file:
                for chunk in iter(lambda: source.read(PIECE_BYTES), b""):
                    file.write(chunk)
                return Tree(count, memoryview(file.look()))
        return None

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


def _mapped(path: Path) -> Look:
    with path.open("rb") as file:
        # Nothing cannot be mapped.
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""


def _name(file: BinaryIO, path: Path, name: Path, durable: bool) -> None:
    """End a file and give it its name."""
    file.flush()
    if durable:
        os.fsync(file.fileno())
    file.close()
    # The content is durable before the name, so that a name never leads to half a list.
    path.replace(name)
    if not durable:
        return
    descriptor = os.open(name.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
