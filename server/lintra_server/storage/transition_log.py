"""How a batch changes its state so that no crash and no restored copy undoes it: seven writes in one order.

A step's result is on the disk before the journal says that it happens, the journal before the database, and the
database before anybody is answered. So the journal always knows at least as much as the outside world.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import structlog

from lintra_protocol.encoding.canonical import (
    JsonValue,
    base64url,
    canonical_json,
    parse_base64url,
    parse_canonical_json,
)
from lintra_protocol.errors import InvalidMessageError, LintraError, UnavailableError
from lintra_server.durability.journal import (
    BatchId,
    Halt,
    Head,
    Journal,
    JournalEntry,
    JournalState,
    UnsyncedError,
    fact,
)
from lintra_server.durability.private_files import destroy, make_folder, write_new
from lintra_server.durability.witness import Witness, WitnessError
from lintra_server.storage.history import COLUMNS

log = structlog.get_logger()

T = TypeVar("T")

Values = Mapping[str, str | bytes | int | None]
"""Columns of a batch and what they become."""

KEPT_STATES = frozenset[JournalState]({"released"})
"""Step files of these states are kept a while: with one, a restored database gets the very bytes that left."""

_SUFFIX = ".step"


@dataclass(frozen=True)
class Step:
    """A change of one batch, with everything that it stores: also what was drawn, so that it is never drawn again."""

    start: int  #: number of the gate process that computed it
    state: JournalState  #: what the journal says of it
    task_id: bytes = b""  #: 32 bytes; empty for a step that changes no batch
    before: str = ""  #: the batch's state that it leaves
    values: Values = field(default_factory=dict, repr=False)  #: what the batch's columns become
    batch: int = 0  #: the number of the task's batch: 0, or of a window
    first: int | None = None  #: of the windows that are one batch with it, if any were merged into it

    @property
    def of(self) -> BatchId:
        """Return which batch of which task it changes."""
        return BatchId(self.task_id, self.batch)

    def line(self, number: int) -> JournalEntry:
        """Return its journal line, which says what becomes of every column that it sets or leaves empty."""
        names = {*COLUMNS.get(self.state, ()), *self.values} - {"state"}
        facts = {name: fact(self.values.get(name)) for name in sorted(names)}
        digest = hashlib.sha256(self.encode()).digest()
        return JournalEntry(number, self.start, self.state, self.task_id, digest, self.batch, self.first, facts)

    def encode(self) -> bytes:
        """Return the step as the bytes of a step file."""
        values: dict[str, JsonValue] = {
            name: {"bytes": base64url(value)} if isinstance(value, bytes) else value
            for name, value in self.values.items()
        }
        named: dict[str, JsonValue] = {"batch": self.batch} if self.batch else {}
        if self.first is not None:
            named["first"] = self.first
        return canonical_json(
            {
                **named,
                "start": self.start,
                "state": self.state,
                "task": base64url(self.task_id),
                "before": self.before,
                "values": values,
            }
        )

    @classmethod
    def decode(cls, data: bytes, line: JournalEntry) -> "Step | None":
        """Return the step of a journal line, or None if these are not the bytes that the line names."""
        if hashlib.sha256(data).digest() != line.step:
            return None
        try:
            match parse_canonical_json(data):
                case {"start": int(start), "before": str(before), "values": dict(values)} if start == line.start:
                    found = {name: _value(value) for name, value in values.items()}
                    return cls(start, line.state, line.task_id, before, found, line.batch, line.first)
        except InvalidMessageError:
            pass
        return None


def _value(value: JsonValue) -> str | bytes | int | None:
    match value:
        case {"bytes": str(text)}:
            return parse_base64url(text)
        case str() | int() | None:
            return value
    raise InvalidMessageError("not a value of a step")


class StepFiles:
    """The folder of step files, one for a journal line, which is of the same version as its file."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which is made if need be."""
        make_folder(folder)
        self._folder = folder

    def write(self, number: int, data: bytes) -> None:
        """Write the file of a line that is not in the journal yet, in the place of one that never got its line."""
        path = self._path(number)
        destroy(path)
        write_new(path, data)

    def read(self, line: JournalEntry) -> Step | None:
        """Return the step of a line, or None if its file is gone or another one."""
        try:
            return Step.decode(self._path(line.number).read_bytes(), line)
        except FileNotFoundError:
            return None

    def remove(self, number: int) -> None:
        """Destroy the file of a line, if there is one."""
        destroy(self._path(number))

    def numbers(self) -> list[int]:
        """Return the lines that have a file, in order."""
        return sorted(int(path.stem) for path in self._folder.glob(f"*{_SUFFIX}") if path.stem.isdigit())

    def age(self, number: int, now: float) -> float:
        """Return how many seconds ago the file of a line was written."""
        return now - self._path(number).stat().st_mtime

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}{_SUFFIX}"


SET_BACK = "the database holds fewer reports than were stored in it: it was set back"


class ForkedError(RuntimeError):
    """The database does not stand where this process left it: somebody restored it, or another process writes."""


class States(Protocol):
    """The database as steps see it."""

    def may(self, step: Step) -> bool:
        """Return whether the batch is in the state that a step leaves.

        Raises ForkedError if another process began since this one did.
        """

    def commit_step(self, step: Step, line: JournalEntry, before: Head, after: Head) -> None:
        """Apply a step and move the stored head, in one transaction, if the head is `before`; once, if it is `after`.

        Raises ForkedError if the head is neither.
        """

    def expect_step(self, step: Step) -> None:
        """Note that a step has its journal line, and that the database may have it from now on."""


class Stepper:
    """Performs steps, one at a time over all tasks; thread-safe."""

    def __init__(
        self,
        states: States,
        journal: Journal,
        files: StepFiles,
        witness: Witness | None,
        halt: Halt,
        make_room: Callable[[Exception], bool] = lambda _: False,
    ) -> None:
        """Perform steps.

        `journal` says where each step gets a line. `files` says where each step's bytes are kept until the database has
        them. `witness` is on another machine, if there is one. `make_room` is told why a write failed; returns whether
        there is room now that was kept for this.
        """
        self.start = 0
        self._make_room = make_room
        self._states = states
        self._journal = journal
        self._files = files
        self._witness = witness
        self._halt = halt
        self._lock = threading.Lock()
        self._in_flight: tuple[Step, JournalEntry, Head, Head] | None = None
        self._halted = False

    @property
    def witnessed(self) -> bool:
        """Return whether a witness is asked before every step, and moved on after it."""
        return self._witness is not None

    @property
    def in_flight(self) -> bool:
        """Return whether a step has its journal line, but the database does not have it yet."""
        return self._in_flight is not None

    def settle(self) -> None:
        """Finish a step that an error interrupted, if there is one."""
        with self._lock:
            self._finish()

    def resume(self, step: Step, line: JournalEntry) -> None:
        """Finish the step of a journal line that a crash interrupted, the last of those that the database waits for."""
        with self._lock:
            self._begin(step, line)
            self._finish()

    def perform(self, step: Step) -> bool:
        """Make a step durable everywhere; return False, and change nothing, if the batch is in another state."""
        with self._lock:
            self._finish()
            # The database is fenced by itself; the step file and the journal, which come first, only by this.
            with self.guarded():
                if not self._states.may(step):
                    return False
            self._require_witness()
            self._require_known(step)
            with self._journal.lock:
                line = step.line(self._journal.head.length + 1)
                self._write_down(line, step.encode())  # 1, 2
            self._begin(step, line)
            self._finish()  # 3, 4
        return True

    def _begin(self, step: Step, line: JournalEntry) -> None:
        before, after = self._journal.head_at(line.number - 1), self._journal.head_at(line.number)
        if before is None or after is None:
            raise ValueError("the journal does not have the line of this step")
        self._states.expect_step(step)
        self._in_flight = step, line, before, after

    def stop(self) -> None:
        """Begin no more steps, and return when the one that is being written is done."""
        with self._lock:
            self._halted = True

    def with_room(self, write: Callable[[], T]) -> T:
        """Do another write that a release needs, once more if the disk was full and there is room kept for it.

        Raises UnavailableError if the disk does not take it.
        """
        while True:
            try:
                return write()
            except (LintraError, ForkedError):
                raise
            except Exception as error:  # whatever it was, nothing of the write is durable
                if not self._make_room(error):
                    log.error("write failed", error=type(error).__name__)
                    raise UnavailableError("the disk does not take a step of the release") from None

    def _write_down(self, line: JournalEntry, data: bytes) -> None:
        while True:
            try:
                self._files.write(line.number, data)  # 1
                self._journal.append(line)  # 2
                return
            except UnsyncedError as error:
                self._end(str(error))
                raise UnavailableError("the journal could not be written") from None
            except OSError as error:  # nothing happened: at most a step file is left that no line names
                if self._make_room(error):
                    continue
                log.error("step not begun", error=type(error).__name__)
                raise UnavailableError("the step could not be written down") from None

    def _finish(self) -> None:
        if self._halted:
            raise UnavailableError("the server is ending")
        if self._in_flight is None:
            return
        step, line, before, after = self._in_flight
        try:
            # Lines that nobody waits for the witness may lack, and learns of now.
            known = self._witness is None or self._witness.advance(
                lambda seen: self._journal.lacks_little(seen, before), after
            )  # 3
            if not known:
                raise ForkedError("the witness knows another journal: this is a copy, or both folders were set back")
            self.with_room(lambda: self._states.commit_step(step, line, before, after))  # 4
        except ForkedError as error:
            self._end(str(error))
            raise UnavailableError("the database is not where this server left it") from None
        except Exception as error:  # whatever it was, the next step begins with another try
            log.error("step interrupted", state=step.state, error=type(error).__name__)
            raise UnavailableError("a step of the release is waiting for the disk or the witness") from None
        self._in_flight = None
        if step.state not in KEPT_STATES:
            self._files.remove(line.number)  # 7

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """End the process if what is done here finds that the database is not where this process left it.

        Raises UnavailableError if that was found.
        """
        try:
            yield
        except ForkedError as error:
            self._end(str(error))
            raise UnavailableError("the database is not where this server left it") from None

    def _require_known(self, step: Step) -> None:
        """End the process if the journal says that the batch is in another state than the database does."""
        begins = step.batch if step.first is None else step.first
        lines = [self._journal.of(step.task_id, batch) for batch in range(begins, step.batch + 1)]
        if step.task_id and any(line is not None and line.state != step.before for line in lines):
            self._end("the database is not where the journal says: it was set back beneath this server")
            raise UnavailableError("the database is not where this server left it")

    def _require_witness(self) -> None:
        if self._witness is None:
            return
        try:
            seen = self._witness.read()
        except WitnessError as error:
            raise UnavailableError(str(error)) from None
        if not self._journal.lacks_little(seen, self._journal.head):
            self._end("the witness knows another journal: this is a copy, or both folders were set back")
            raise UnavailableError("the witness knows another journal")

    def _end(self, reason: str) -> None:
        self._halted = True
        self._halt(reason)
