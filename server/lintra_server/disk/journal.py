"""The journal: which changes of state this server ever made, one line each, in a folder that is never restored.

A line is canonical JSON and a MAC over it and the line before, under a key that the root key wraps: nobody without the
root key can write one, leave one out or change the order. A line counts once it is synchronised to the disk.
"""

import hashlib
import hmac
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lintra_protocol.canonical import (
    HASH_BYTES,
    JsonValue,
    base64url,
    canonical_json,
    framed,
    parse_base64url,
    parse_canonical_json,
)
from lintra_protocol.errors import InvalidMessageError
from lintra_server.disk.folders import FILE_MODE, sync_folder
from lintra_service.settings import InvalidSettingsError

JournalState = Literal["started", "closed", "frozen", "checked", "judged", "released", "abandoned", "restored"]
"""What a line says: a gate process began, a batch changed its state, or the database was restored."""

STATES: tuple[JournalState, ...] = (
    "started", "closed", "frozen", "checked", "judged", "released", "abandoned", "restored",
)  # fmt: skip


FINAL_LINES = frozenset[JournalState]({"released", "abandoned"})
"""Behind such a line nothing can leave of a batch that did not leave before."""


class DamagedJournalError(InvalidSettingsError):
    """The journal is not what this server wrote."""


class UnsyncedError(OSError):
    """Nobody knows what is on the disk: the process must end, and read it again."""


@dataclass(frozen=True)
class Head:
    """Where a journal stands: how many lines it has, and the MAC of the last one."""

    length: int
    digest: bytes = field(repr=False)


EMPTY = Head(0, bytes(HASH_BYTES))


@dataclass(frozen=True)
class Line:
    """One change of state.

    Attributes:
        number: 1 for the first.
        start: how often a gate process had begun on this folder.
        state: what happened.
        task_id: 32 bytes; empty if no task is meant.
        batch: the number of its batch: 0, or of a window.
        step: SHA-256 of the step file; empty if there was none.
        first: of the windows that are one batch with it, if any were merged into it.
    """

    number: int
    start: int
    state: JournalState
    task_id: bytes = b""
    step: bytes = b""
    batch: int = 0
    first: int | None = None

    @property
    def of(self) -> tuple[bytes, int]:
        """Return which batch of which task it is about."""
        return self.task_id, self.batch

    @property
    def of_all(self) -> tuple[tuple[bytes, int], ...]:
        """Return every batch that it is about: `of`, and before it those that were merged into that."""
        begins = self.batch if self.first is None else self.first
        return tuple((self.task_id, number) for number in range(begins, self.batch + 1))

    def encode(self) -> bytes:
        """Return the line without its MAC; a batch of number 0 is not named."""
        named: dict[str, JsonValue] = {"batch": self.batch} if self.batch else {}
        if self.first is not None:
            named["first"] = self.first
        return canonical_json(
            {
                "line": self.number,
                "start": self.start,
                "state": self.state,
                "task": base64url(self.task_id),
                "step": base64url(self.step),
                **named,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> "Line":
        """Parse what `encode` wrote.

        Raises:
            DamagedJournalError: it is something else.
        """
        try:
            match parse_canonical_json(data):
                case {
                    "line": int(number),
                    "start": int(start),
                    "state": str(name),
                    "task": str(task),
                    "step": str(step),
                    **named,
                }:
                    state = next(known for known in STATES if known == name)
                    batch, first = _numbers(named)
                    line = cls(number, start, state, parse_base64url(task), parse_base64url(step), batch, first)
                    if line.encode() == data and (first is None or 0 <= first < batch):
                        return line
        except (InvalidMessageError, StopIteration):
            pass
        raise DamagedJournalError("not a line of a journal")


def _numbers(named: dict[object, object]) -> tuple[int, int | None]:
    """Return the batch that a line names beside its task, 0 if it names none, and the first that was merged into it."""
    batch, first = named.get("batch", 0), named.get("first")
    return batch if isinstance(batch, int) else -1, first if isinstance(first, int) else None


class Journal:
    """The file; not thread-safe, since one step is in flight at a time."""

    def __init__(self, path: Path, key: bytes, *, repair: bool = True) -> None:
        """Read and verify the whole file.

        Args:
            path: of the file; made if it is missing.
            key: of the MAC, 32 bytes.
            repair: whether to cut off a torn last line, which was never synchronised.

        Raises:
            DamagedJournalError: a line that ends with its newline is not the one that was written.
        """
        self._path = path
        self._key = key
        self.lines: list[Line] = []
        self._of: dict[tuple[bytes, int], Line] = {}
        self._digests: list[bytes] = [EMPTY.digest]
        self._size = 0
        data = path.read_bytes() if path.exists() else b""
        self._read(data)
        if repair:
            created = not path.exists()
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, FILE_MODE)
            if self._size < len(data):
                os.ftruncate(self._file, self._size)
            os.fsync(self._file)
            if created:
                sync_folder(path.parent)
        else:
            self._file = -1

    @property
    def head(self) -> Head:
        """Return where the journal stands."""
        return Head(len(self.lines), self._digests[-1])

    def head_at(self, length: int) -> Head | None:
        """Return where the journal stood after some lines, or None if it never did."""
        return Head(length, self._digests[length]) if 0 <= length <= len(self.lines) else None

    def has(self, head: Head) -> bool:
        """Return whether the journal once stood there."""
        return self.head_at(head.length) == head

    def since(self, head: Head) -> Sequence[Line]:
        """Return the lines after a head that the journal has."""
        return self.lines[head.length :]

    def of(self, task_id: bytes, batch: int) -> Line | None:
        """Return the line that says what became of a batch of a task, or None if there is none.

        `released` and `abandoned` are final: of the lines behind one of them, which a process can have written only
        onto a database that was set back beneath it, none ever took effect.
        """
        return self._of.get((task_id, batch))

    @property
    def last_start(self) -> int:
        """Return the largest start number of any line, 0 without one."""
        return max((line.start for line in self.lines), default=0)

    def append(self, line: Line) -> None:
        """Write a line; when this returns it is durable.

        Raises:
            OSError: it could not be written, and nothing of it is left.
            UnsyncedError: nobody knows whether it was written; or another process wrote to the file.
        """
        if os.fstat(self._file).st_size != self._size:
            raise UnsyncedError("another process wrote to the journal")
        digest = self._mac(self._digests[-1], line.encode())
        encoded = line.encode() + b" " + base64url(digest).encode() + b"\n"
        try:
            self._write(encoded)
        except OSError:
            try:
                os.ftruncate(self._file, self._size)
                os.fsync(self._file)
            except OSError as error:
                raise UnsyncedError("a journal line could be neither written nor taken back") from error
            raise
        try:
            os.fsync(self._file)
        except OSError as error:
            raise UnsyncedError("a journal line could not be synchronised") from error
        self._size += len(encoded)
        self._add(line, digest)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._file, data) :]

    def _read(self, data: bytes) -> None:
        # What a crash leaves of a line lacks its end. So a last line without one was never synchronised, and nothing
        # followed from it; a line with one was written whole, and if it is wrong now somebody or the disk changed it.
        rest = data
        while rest:
            encoded, newline, rest = rest.partition(b"\n")
            try:
                if not newline and not self._is_whole(encoded[:-1]):
                    return
                line, digest = self._verified(encoded)
            except DamagedJournalError as error:
                raise DamagedJournalError(f"{self._path}, line {len(self.lines) + 1}: {error}") from None
            self._add(line, digest)
            self._size += len(encoded) + 1

    def _is_whole(self, encoded: bytes) -> bool:
        """Return whether a whole line is followed by something else than its newline, which no crash writes."""
        body, _, mac = encoded.rpartition(b" ")
        return hmac.compare_digest(mac, base64url(self._mac(self._digests[-1], body)).encode())

    def _add(self, line: Line, digest: bytes) -> None:
        self.lines.append(line)
        self._digests.append(digest)
        for each in line.of_all if line.task_id else ():
            last = self._of.get(each)
            if last is None or last.state not in FINAL_LINES:
                self._of[each] = line

    def _verified(self, encoded: bytes) -> tuple[Line, bytes]:
        body, _, mac = encoded.rpartition(b" ")
        digest = self._mac(self._digests[-1], body)
        if not hmac.compare_digest(mac, base64url(digest).encode()):
            raise DamagedJournalError("its MAC is wrong: the line was changed, or one before it is missing")
        line = Line.decode(body)
        if line.number != len(self.lines) + 1:
            raise DamagedJournalError(f"it is numbered {line.number}")
        return line, digest

    def _mac(self, before: bytes, body: bytes) -> bytes:
        return hmac.new(self._key, framed("journal line", before, body), hashlib.sha256).digest()


Halt = Callable[[str], None]
"""Ends the process at once, with a reason; never returns outside tests."""
