"""The journal: one line for each decision of this server, in a folder that is never restored.

A line of `migrated` names the revision of the database's tables, and stands for all formats of both folders: whoever
changes one of them makes a new revision. A line needs no number of its own, since one with a right MAC that cannot be
read was written by another version.

A line is canonical JSON and a MAC over it and the line before, under a key that the root key wraps: nobody without the
root key can write one, leave one out or change the order. A line counts once it is synchronised to the disk. Whatever
the database says is held against it (see `storage.history`).
"""

import hashlib
import hmac
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from lintra_protocol.encoding.canonical import (
    HASH_BYTES,
    JsonValue,
    base64url,
    canonical_json,
    domain_hash,
    framed,
    parse_base64url,
    parse_canonical_json,
)
from lintra_protocol.errors import InvalidMessageError
from lintra_server.durability.private_files import FILE_MODE, sync_folder
from lintra_service.settings import InvalidSettingsError

JournalState = Literal[
    "started", "registered", "opened", "closed", "frozen", "checked", "judged", "released", "abandoned", "lost", "cut",
    "restored", "migrated",
]  # fmt: skip
"""What a line says: a gate process began, a task was registered, a batch was opened or changed its state, reports of it
were lost, what a task stored was deleted long after its end, or the database was restored or brought up to date."""

STATES: tuple[JournalState, ...] = get_args(JournalState)

NOT_AWAITED = frozenset[JournalState]({"registered", "opened", "lost", "cut", "migrated"})
"""Lines that change no batch's state, and that neither the database nor the witness has to know at once."""

FINAL_LINES = frozenset[JournalState]({"released", "abandoned"})
"""Behind such a line nothing can leave of a batch that did not leave before."""


class BatchId(NamedTuple):
    """Which batch of which task. `task_id` is 32 bytes; `number` is 0, or that of its window."""

    task_id: bytes
    number: int

    @property
    def name(self) -> bytes:
        """Return the name of its key file and of its note, 32 bytes."""
        return domain_hash("batch keys", *self.bound)

    @property
    def bound(self) -> tuple[bytes, bytes]:
        """Return what its keys and secrets are bound to."""
        return self.task_id, self.number.to_bytes(8, "big")

    @property
    def words(self) -> str:
        """Return how a command names it."""
        return f"{base64url(self.task_id)} {self.number}"

    def __str__(self) -> str:
        """Return how a message names it."""
        return f"task {base64url(self.task_id)}, batch {self.number}"


class DamagedJournalError(InvalidSettingsError):
    """The journal is not what this server wrote."""


class UnknownLineError(InvalidSettingsError):
    """This server wrote a line under another version of the software, which this one does not know."""


class UnsyncedError(OSError):
    """Nobody knows what is on the disk: the process must end, and read it again."""


@dataclass(frozen=True)
class Head:
    """Where a journal stands: how many lines it has, and the MAC of the last one."""

    length: int
    digest: bytes = field(repr=False)


EMPTY = Head(0, bytes(HASH_BYTES))


@dataclass(frozen=True)
class JournalEntry:
    """One thing that happened."""

    number: int  #: 1 for the first
    start: int  #: how often a gate process had begun on this folder
    state: JournalState
    task_id: bytes = b""  #: 32 bytes; empty if no task is meant
    step: bytes = b""  #: SHA-256 of the step file; empty if there was none
    batch: int = 0  #: the number of its batch: 0, or of a window
    first: int | None = None  #: of the windows that are one batch with it, if any were merged into it
    #: what else the line says. Of a change of state: what each column of the batch becomes (see `fact`).
    facts: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def of(self) -> BatchId:
        """Return which batch of which task it is about."""
        return BatchId(self.task_id, self.batch)

    @property
    def of_all(self) -> tuple[BatchId, ...]:
        """Return every batch that it is about: `of`, and before it those that were merged into that."""
        begins = self.batch if self.first is None else self.first
        return tuple(BatchId(self.task_id, number) for number in range(begins, self.batch + 1))

    def encode(self) -> bytes:
        """Return the line without its MAC."""
        return canonical_json(self._document())

    def _document(self) -> JsonValue:
        """Return what is encoded; what the line does not have is not named."""
        named: dict[str, JsonValue] = {"batch": self.batch} if self.batch else {}
        if self.first is not None:
            named["first"] = self.first
        if self.facts:
            named["facts"] = dict(self.facts)
        return {
            "line": self.number,
            "start": self.start,
            "state": self.state,
            "task": base64url(self.task_id),
            "step": base64url(self.step),
            **named,
        }

    @classmethod
    def decode(cls, data: bytes) -> "JournalEntry":
        """Parse what `encode` wrote; raise DamagedJournalError if it is something else."""
        try:
            match parsed := parse_canonical_json(data):
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
                    facts = named.get("facts", {})
                    if isinstance(facts, dict):
                        task_id, digest = parse_base64url(task), parse_base64url(step)
                        line = cls(number, start, state, task_id, digest, batch, first, facts)
                        if line._document() == parsed and (first is None or 0 <= first < batch):
                            return line
        except (InvalidMessageError, StopIteration):
            pass
        raise DamagedJournalError("not a line of a journal")


def fact(value: str | bytes | int | None) -> JsonValue:
    """Return what a line says of a column: a number, a word or nothing as it is, bytes by their SHA-256."""
    return {"sha256": base64url(hashlib.sha256(value).digest())} if isinstance(value, bytes) else value


def _numbers(named: Mapping[object, object]) -> tuple[int, int | None]:
    """Return the batch that a line names beside its task, 0 if it names none, and the first that was merged into it."""
    batch, first = named.get("batch", 0), named.get("first")
    return batch if isinstance(batch, int) else -1, first if isinstance(first, int) else None


class Journal:
    """The file.

    Whoever appends holds `lock` from the look at `head` until the line is written.
    """

    def __init__(self, path: Path, key: bytes, *, repair: bool = True) -> None:
        """Read and verify the whole file.

        `path` is that of the file; made if it is missing. `key` is that of the MAC, 32 bytes. `repair` says whether to
        cut off a torn last line, which was never synchronised.
        """
        self._path = path
        self._key = key
        self.lock = threading.RLock()
        self.lines: list[JournalEntry] = []
        self._of: dict[BatchId, JournalEntry] = {}
        self._last_start = 0
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

    def since(self, head: Head) -> Sequence[JournalEntry]:
        """Return the lines after a head that the journal has."""
        return self.lines[head.length :]

    def lacks_little(self, head: Head, until: Head, allowed: frozenset[JournalState] = NOT_AWAITED) -> bool:
        """Return whether the journal once stood at `head`, and has only lines that nobody waits for from there on.

        `head` says where somebody else thinks that it stands; `until` says where it really stood when that was asked.
        `allowed` is what may have happened in between.
        """
        if not self.has(head) or head.length > until.length:
            return False
        return all(line.state in allowed for line in self.lines[head.length : until.length])

    def of(self, task_id: bytes, batch: int) -> JournalEntry | None:
        """Return the line that says what became of a batch of a task, or None if it is open.

        `released` and `abandoned` are final: of the lines behind one of them, which a process can have written only
        onto a database that was set back beneath it, none ever took effect.
        """
        return self._of.get(BatchId(task_id, batch))

    @property
    def last_start(self) -> int:
        """Return the largest start number of any line, 0 without one."""
        return self._last_start

    def append(self, *lines: JournalEntry) -> None:
        """Write some lines; when this returns all are durable."""
        with self.lock:
            self._append(lines)

    def _append(self, lines: Sequence[JournalEntry]) -> None:
        if os.fstat(self._file).st_size != self._size:
            raise UnsyncedError("another process wrote to the journal")
        encoded, digests = b"", self._digests[-1:]
        for line in lines:
            body = line.encode()
            digests.append(self._mac(digests[-1], body))
            encoded += body + b" " + base64url(digests[-1]).encode() + b"\n"
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
        for line, digest in zip(lines, digests[1:], strict=True):
            self._add(line, digest)

    def mac(self, label: str, *parts: bytes) -> bytes:
        """Return a MAC of something else than a line, under the key of the journal, 32 bytes."""
        return hmac.new(self._key, framed(label, *parts), hashlib.sha256).digest()

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
        while self._size < len(data):
            end = data.find(b"\n", self._size)
            encoded = data[self._size :] if end < 0 else data[self._size : end]
            try:
                if end < 0 and not self._is_whole(encoded[:-1]):
                    return
                line, digest = self._verified(encoded)
            except DamagedJournalError as error:
                raise DamagedJournalError(
                    f"{self._path}, line {len(self.lines) + 1}: {error}. If its disk cannot bring it back, `lintra "
                    "server restore --journal-lost` begins anew and gives up every unreleased batch"
                ) from None
            self._add(line, digest)
            self._size += len(encoded) + 1

    def _is_whole(self, encoded: bytes) -> bool:
        """Return whether a whole line is followed by something else than its newline, which no crash writes."""
        body, _, mac = encoded.rpartition(b" ")
        return hmac.compare_digest(mac, base64url(self._mac(self._digests[-1], body)).encode())

    def _add(self, line: JournalEntry, digest: bytes) -> None:
        self.lines.append(line)
        self._digests.append(digest)
        self._last_start = max(self._last_start, line.start)
        for each in line.of_all if line.task_id and line.state not in NOT_AWAITED else ():
            last = self._of.get(each)
            if last is None or last.state not in FINAL_LINES:
                self._of[each] = line

    def _verified(self, encoded: bytes) -> tuple[JournalEntry, bytes]:
        body, _, mac = encoded.rpartition(b" ")
        digest = self._mac(self._digests[-1], body)
        if not hmac.compare_digest(mac, base64url(digest).encode()):
            raise DamagedJournalError("its MAC is wrong: the line was changed, or one before it is missing")
        try:
            line = JournalEntry.decode(body)
        except DamagedJournalError:  # its MAC is right, so this server wrote it
            raise UnknownLineError(
                f"{self._path}, line {len(self.lines) + 1}: another version of this software wrote it; go on with that "
                "version, or with a later one"
            ) from None
        if line.number != len(self.lines) + 1:
            raise DamagedJournalError(f"it is numbered {line.number}")
        return line, digest

    def _mac(self, before: bytes, body: bytes) -> bytes:
        return self.mac("journal line", before, body)


Halt = Callable[[str], None]
"""Ends the process at once, with a reason; never returns outside tests."""
