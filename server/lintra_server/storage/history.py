"""What the journal says of tasks and batches: the state of each, and what every column of the database has to hold.

The database is a disk that anybody may have written to. Where a task or a batch lies in it says the journal's line, and
what is read there is compared with the line that put it there. What a line does not vouch for is not used.
"""

import threading
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import structlog

from lintra_protocol.encoding.canonical import JsonValue
from lintra_protocol.errors import UnavailableError
from lintra_protocol.messages.documents import BatchState
from lintra_server.durability.journal import (
    FINAL_LINES,
    BatchId,
    Journal,
    JournalEntry,
    JournalState,
    UnsyncedError,
    fact,
)

log = structlog.get_logger()

_MOST_SAID = 1000
_said = set[str]()

Value = str | bytes | int | None

COLUMNS: Mapping[JournalState, tuple[str, ...]] = {
    "closed": ("inventory", "wrapped_nonce", "wrapped_matrix_nonce", "closed_at", "first"),
    "frozen": ("cohort", "inventories", "missing"),
    "checked": ("check_share",),
    "judged": ("verdict", "rejected"),
    "released": ("request_hash", "aggregate", "released_at"),
    "abandoned": ("ended_by",),
}
"""The columns of a batch that each change of state sets; those that it leaves empty its line says to be empty."""


def edited(what: str) -> UnavailableError:
    """Return the error that says that the database contradicts the journal, or a key; what it says is not used.

    The log says it once: whoever asks again and again must not fill it.
    """
    if what not in _said and len(_said) < _MOST_SAID:
        _said.add(what)
        log.critical("the database was edited", what=what)
    return UnavailableError(f"{what}: lintra server doctor")


@dataclass
class Registered:
    """A line `registered`."""

    place: int  #: the number of its row in the database
    task_id: bytes
    author: str  #: the public key of who signed it
    ends: int  #: seconds since the epoch when the task takes no more reports
    retention: int  #: seconds that shares are kept after a release
    size: int  #: bytes of its definition
    is_cut: bool = False  #: whether it is over so long that its definition was deleted
    may_lack: bool = False  #: whether its row may be missing: a restore came later, or it was cut before

    def facts(self, token_key: JsonValue, policy: JsonValue) -> Mapping[str, JsonValue]:
        """Return what its line says, with hashes of the key of its tokens, if it has any, and of the policy."""
        return {
            "place": self.place, "author": self.author, "ends": self.ends, "retention": self.retention,
            "size": self.size, "token_key": token_key, "policy": policy,
        }  # fmt: skip


@dataclass
class BatchHistory:
    """What the journal says of one batch."""

    place: int  #: the number of its row in the database
    batch: BatchId
    ends: int  #: seconds since the epoch when it takes no more reports
    task: Registered | None = None  #: the line of its task
    line: JournalEntry | None = None  #: the last line about it, None while it is open
    #: what its columns have to hold, and the number of the line that says so
    expected: dict[str, tuple[JsonValue, int]] = field(default_factory=dict)
    lost: int = 0  #: reports that are gone, and whose loss the operator accepted
    is_destroyed: bool = False  #: whether its keys are, so that its shares never open again
    is_emptied: bool = False  #: whether its shares are deleted, too; until then it has its note
    is_bare: bool = False  #: whether what it gave out may be gone: a restore came later, or its task was cut

    @cached_property
    def name(self) -> bytes:
        """Return the name of its key file and of its note (see `BatchId.name`)."""
        return self.batch.name

    @property
    def state(self) -> BatchState:
        """Return its state; of a batch that is being closed it is still `open`."""
        if self.line is None:
            return "open"
        if self.line.of != self.batch:
            return "merged"
        state = _STATES[self.line.state]
        return "scrubbed" if state == "released" and self.is_emptied else state

    @property
    def is_final(self) -> bool:
        """Return whether nothing can leave of it that did not leave before."""
        return self.line is not None and self.line.state in FINAL_LINES

    def apply(self, line: JournalEntry) -> None:
        """Learn of a line about it."""
        if self.is_final:
            return
        self.line = line
        if line.of == self.batch:
            for name in {*COLUMNS[line.state], *line.facts}:
                self.expected[name] = line.facts.get(name), line.number

    def contradiction(self, row: Mapping[str, Value]) -> str:
        """Return what is wrong with some columns of its row, empty if nothing is.

        Of a batch in a final state a column may be empty if a restore came later or its task was cut, and a nonce once
        its keys are destroyed.
        """
        for name, value in row.items():
            said, number = self.expected.get(name, (None, 0))
            if fact(value) != said and not (value is None and self._may_be_empty(name)):
                line = f"line {number} of the journal" if number else "the journal, which has no line that sets it"
                return f"table batches, row {self.place}, column {name} contradicts {line}"
        return ""

    def _may_be_empty(self, name: str) -> bool:
        is_cut = self.task is not None and self.task.is_cut
        return self.is_final and (self.is_bare or is_cut or (name in _NONCES and self.is_destroyed))


_NONCES = ("wrapped_nonce", "wrapped_matrix_nonce")

_STATES: Mapping[JournalState, BatchState] = {
    "closed": "closed",
    "frozen": "frozen",
    "checked": "checked",
    "judged": "judged",
    "released": "released",
    "abandoned": "abandoned",
}


class History:
    """What the journal says, as far as the database has to know it; thread-safe.

    Attributes:
        tasks: by identifier.
        batches: by their place in the database.
        barred_before: tasks that take reports earlier are not registered, in seconds since the epoch.
        revision: of the database's schema that this server was last brought up to.
        definition_bytes: of the definitions of all tasks that were not cut.
        closing: places of batches that take no reports because they are being closed.
        adding: held while reports are committed; who closes a batch holds it while it begins to.
        lock: held while a step is applied to the database and here.
        waiting: the batch of a step that has its journal line, and that the database may have or not.
    """

    def __init__(self, journal: Journal) -> None:
        """Know nothing yet (see `learn`)."""
        self.tasks: dict[bytes, Registered] = {}
        self.batches: dict[int, BatchHistory] = {}
        self.barred_before = 0
        self.revision = ""
        self.definition_bytes = 0
        self.closing = set[int]()
        self.adding = threading.RLock()
        self.waiting: BatchId | None = None
        self.lock = threading.RLock()
        self._journal = journal
        self._places: dict[BatchId, int] = {}
        self._of_task: defaultdict[bytes, list[int]] = defaultdict(list)
        self._ends: defaultdict[str, list[int]] = defaultdict(list)
        self._last_task = self._last_batch = 0

    def learn(self, lines: Iterable[JournalEntry]) -> None:
        """Learn of lines, in their order."""
        with self.lock:
            for line in lines:
                self._apply(line)

    def record(self, state: JournalState, batch: BatchId, facts: Mapping[str, JsonValue]) -> None:
        """Write a line that changes no batch's state, durably, and learn of it.

        Raises UnavailableError if the disk does not take it.
        """
        with self._journal.lock:
            head = self._journal.head
            line = JournalEntry(
                head.length + 1, self._journal.last_start, state, batch.task_id, batch=batch.number, facts=facts
            )
            try:
                self._journal.append(line)
            except UnsyncedError:
                raise
            except OSError as error:
                raise UnavailableError(f"the journal does not take a line: {type(error).__name__}") from None
            self.learn([line])

    @contextmanager
    def numbering(self) -> Iterator[None]:
        """Let nobody else choose places or write lines."""
        with self._journal.lock:
            yield

    # --- tasks -------------------------------------------------------------------------------------------------

    def next_task(self) -> int:
        """Return the place of the next task."""
        return self._last_task + 1

    def next_batch(self) -> int:
        """Return the place of the next batch."""
        return self._last_batch + 1

    def unended(self, author: str, now: int) -> int:
        """Return how many tasks of an author end after `now`, in seconds since the epoch."""
        ends = self._ends.get(author, [])
        return len(ends) - bisect_right(ends, now)

    def of_task(self, task_id: bytes) -> list[BatchHistory]:
        """Return the batches of a task that were opened, in the order of their numbers."""
        return sorted((self.batches[place] for place in self._of_task.get(task_id, ())), key=lambda b: b.batch.number)

    # --- batches -----------------------------------------------------------------------------------------------

    def place(self, batch: BatchId) -> int | None:
        """Return the place of a batch, None if it was never opened."""
        return self._places.get(batch)

    def members(self, place: int) -> list[int]:
        """Return the places of the batches that are released as one: itself, and before it those it merged."""
        own = self.batches[place]
        line = own.line
        first = own.batch.number
        if line is not None and own.batch in line.of_all and line.of == own.batch:
            first = own.batch.number if line.first is None else line.first
        numbers = range(first, own.batch.number + 1)
        return [self._places[BatchId(own.batch.task_id, number)] for number in numbers]

    def require(self, place: int, row: Mapping[str, Value]) -> None:
        """Check that some columns of a batch hold what the journal's lines say, or raise UnavailableError."""
        own = self.batches[place]
        if wrong := own.contradiction(row):
            raise edited(f"{own.batch}: {wrong}; it gives nothing")

    def _apply(self, line: JournalEntry) -> None:
        facts = line.facts
        match line.state, facts:
            case "registered", {
                "place": int(place), "author": str(author), "ends": int(ends), "retention": int(retention),
                "size": int(size),
            }:  # fmt: skip
                before = self.tasks.get(line.task_id)
                if before is None or before.is_cut:
                    self.definition_bytes += size
                if before is not None:  # it was cut, and came back without what its batches gave out
                    before.is_cut, before.may_lack = False, True
                    for history in self.of_task(line.task_id):
                        history.is_bare = True
                    return
                self.tasks[line.task_id] = Registered(place, line.task_id, author, ends, retention, size)
                self._last_task = max(self._last_task, place)
                insort(self._ends[author], ends)
            case "cut", _:
                over = self.tasks[line.task_id]
                if not over.is_cut:
                    over.is_cut, self.definition_bytes = True, self.definition_bytes - over.size
            case "opened", {"place": int(place), "ends": int(ends)}:
                self.batches[place] = BatchHistory(place, line.of, ends, self.tasks.get(line.task_id))
                self._places[line.of] = place
                self._last_batch = max(self._last_batch, place)
                self._of_task[line.task_id].append(place)
            case "lost", {"from": int(first), "to": int(last)}:
                self.batches[self._places[line.of]].lost += last - first + 1
            case "migrated", {"revision": str(revision)}:
                self.revision = revision
            case "restored", {"barred_before": int(barred_before)}:
                self.barred_before = barred_before
                for held in self.batches.values():
                    held.is_bare = held.is_bare or held.is_final
                for each in self.tasks.values():
                    each.may_lack = True
            case _:
                for batch in line.of_all if line.state in _STATES else ():
                    if (known := self._places.get(batch)) is not None:
                        self.batches[known].apply(line)
