"""How batches change their state in the database. Every change is one transaction.

Changes that the outside world hears of come with a journal line (see `steps`): the transaction that applies one also
moves the stored head of the journal, and only from where that stood. What state a batch is in the journal says, and
memory while it is being closed; the column in the database only stops those who add reports at the same moment.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection, insert, select, update

from lintra_protocol.errors import CohortTooSmallError, UnavailableError
from lintra_protocol.messages.documents import BatchState
from lintra_server.durability.journal import BatchId, Head, Journal, JournalEntry, UnsyncedError
from lintra_server.durability.notes import Notes
from lintra_server.storage.database import AnyDatabase, batches, journal, looks, tasks
from lintra_server.storage.history import BatchHistory, History
from lintra_server.storage.raw_statement import Direct
from lintra_server.storage.schema import as_read
from lintra_server.storage.store import Store
from lintra_server.storage.tasks import enter
from lintra_server.storage.transition_log import ForkedError, Step, Values

FINAL_STATES: frozenset[BatchState] = frozenset({"released", "scrubbed", "abandoned"})
"""Nothing can leave a batch in one of these states that did not leave it before."""


@dataclass(frozen=True)
class StoredBatchState:
    """Where the database says that the journal stands.

    `start` is the number of the last gate process that began here.
    """

    head: Head
    start: int


@dataclass(frozen=True)
class BatchRow:
    """A batch as those see it who decide what becomes of it after a restore or with time; all of it says the journal.

    Attributes:
        task_id: 32 bytes.
        number: its number in its task: 0, or that of its window.
        ends: seconds since the epoch when it stops taking reports.
        task_ends: when its task ends.
        released_at: when it was released, in seconds since the epoch.
        first: of the windows that were merged into it, if any were.
        is_destroyed: whether its keys are gone.
        is_emptied: whether its shares are deleted, too.
        into: the batch that it was merged into, if it was.
    """

    batch: int
    task_id: bytes
    number: int
    state: BatchState
    ends: int
    task_ends: int
    retention: int
    released_at: int | None
    first: int | None
    is_destroyed: bool
    is_emptied: bool
    into: "BatchRow | None" = field(default=None, repr=False)

    @property
    def fate(self) -> "BatchRow":
        """Return the batch whose end is that of this one: itself, or what it was merged into."""
        return self.into or self


_ONE = journal.c.one == 1
"""The one row of its table; another one nobody looks at."""

_STANDING = Direct(select(journal.c.length, journal.c.digest, journal.c.start).where(_ONE))
"""Read before every change."""

_DOCUMENTS = (
    "inventory", "inventories", "cohort", "missing", "check_share", "verdict", "rejected", "request_hash", "aggregate",
)  # fmt: skip
"""Columns of a batch that go when its task is cut."""


class BatchStates:
    """The states of all batches; thread-safe."""

    def __init__(self, database: AnyDatabase, history: History, notes: Notes, log: Journal) -> None:
        """Keep them in a database. `notes` says where batches end."""
        self._database = database
        self._notes = notes
        self._history = history
        self._journal = log
        self._start: int | None = None
        self._length = 0
        database.expect(self._require_head, quick=True)

    # --- the journal's head ------------------------------------------------------------------------------------

    def standing(self) -> StoredBatchState | None:
        """Return where the journal stands as far as the database knows; None if it never belonged to one."""
        with self._database.reading() as connection:
            return standing_in(connection)

    def may(self, step: Step) -> bool:
        """Return whether the batch is in the state that a step leaves, and those that it merges are open."""
        with self._database.reading() as connection:
            self._require_last(connection)
        if not step.task_id:
            return True
        places = self._members(step)
        if None in places:
            return False
        states = [self._state(place) for place in places if place is not None]
        others: BatchState = "closing" if step.state == "closed" else "merged"
        return states[-1] == step.before and all(state == others for state in states[:-1])

    def expect_step(self, step: Step) -> None:
        """Note that a step has its journal line, and that the database may have it from now on."""
        self._history.waiting = step.of if step.task_id else None

    def commit_step(self, step: Step, line: JournalEntry, before: Head, after: Head) -> None:
        """Apply a step and move the stored head, in one transaction, if the head is `before`; once, if it is `after`.

        Raises:
            ForkedError: the head is neither.
        """
        with self._history.lock:
            with self._database.writing() as connection:
                row = connection.execute(select(journal.c.length, journal.c.digest).where(_ONE)).one_or_none()
                head = None if row is None else Head(*row)
                # It is `after` if the answer to this very commit was lost.
                if head is None or (head != after and not self._journal.lacks_little(head, before)):
                    raise ForkedError(
                        "the database is not where this server left it: it was set back, or another one writes"
                    )
                if head != after:
                    connection.execute(
                        update(journal).where(_ONE).values(length=after.length, digest=after.digest, start=step.start)
                    )
                    if step.task_id:
                        self._apply(connection, step)
            self._history.learn([line])
            self._history.waiting = None
            if step.state == "closed":
                self._history.closing.difference_update(place for place in self._members(step) if place is not None)
        self._start, self._length = step.start, after.length

    # --- what needs no journal line ----------------------------------------------------------------------------

    def begin_closing(self, batch: int, counts: Store, min_clients: int, others: Sequence[int] = ()) -> bool:
        """Take no more reports for the moment, if the batch is open; return whether it was, or is being closed.

        `counts` knows how many reports there are; `min_clients` is the fewest reports. `others` are the batches that
        are merged into it; all of them have to be open, too.

        Raises:
            CohortTooSmallError: there are fewer reports than `min_clients`; nothing changed.
        """
        places = [*others, batch]
        with self._history.adding:
            if any(self._history.batches[place].state != "open" for place in places):
                return False
            new = not self._history.closing.issuperset(places)
            if new and sum(counts.num_reports(place) for place in places) < min_clients:
                # Not how many: who asks again and again would hear when each came.
                raise CohortTooSmallError(f"fewer than {min_clients} reports are here; nothing was closed")
            # Memory first: whoever adds reports looks there, whatever the database says.
            self._history.closing.update(places)
        with self._database.writing() as connection:
            self._require_last(connection)
            for place in places:
                enter(connection, self._history, place)
            connection.execute(update(batches).where(batches.c.batch.in_(places)).values(state="closing"))
        return True

    def reopen(self, *places: int) -> None:
        """Take reports again if closing did not come to its journal line; without places, in every batch."""
        every = places or self._history.batches.keys()
        opened = [place for place in every if self._history.batches[place].state == "open"]
        change = update(batches).where(batches.c.state != "open").values(state="open")
        with self._database.writing() as connection:
            self._require_last(connection)
            if places:
                connection.execute(change.where(batches.c.batch.in_(opened)))
            else:
                known = {row.batch: row.state for row in connection.execute(select(batches.c.batch, batches.c.state))}
                for place in opened:
                    if place not in known:
                        enter(connection, self._history, place)
                    elif known[place] != "open":
                        connection.execute(change.where(batches.c.batch == place))
        self._history.closing.difference_update(opened)

    def mark_destroyed(self, batch: int) -> None:
        """Note that a batch's shares can never be opened again: what remains are the documents that were given out."""
        state = self._state(batch)
        values = {
            "state": "scrubbed" if state == "released" else state, "wrapped_nonce": None, "wrapped_matrix_nonce": None,
        }  # fmt: skip
        with self._database.writing() as connection:
            self._require_last(connection)
            _set(connection, batch, values)
        self._notes.remove(self._history.batches[batch].name)
        self._history.batches[batch].is_emptied = True

    def empty(self, task_id: bytes) -> None:
        """Keep of a task only its identifier, how it ended, and how many reports there were.

        A journal line of each batch, too, says for ever what became of it.
        """
        places = [history.place for history in self._history.of_task(task_id)]
        bare = {"definition": b"", "wrapped_token_key": None}
        place = self._history.tasks[task_id].place
        with self._database.writing() as connection:
            self._require_last(connection)
            connection.execute(looks.delete().where(looks.c.batch.in_(places)))
            emptied = update(batches).where(batches.c.batch.in_(places)).values(**dict.fromkeys(_DOCUMENTS))
            connection.execute(emptied)
            connection.execute(update(tasks).where(tasks.c.task == place).values(**bare))

    def catch_up(self, head: Head) -> None:
        """Move the stored head over lines that changed nothing in the database; the caller saw to that."""
        with self._database.writing() as connection:
            connection.execute(update(journal).where(_ONE).values(length=head.length, digest=head.digest))

    def rows(self) -> Sequence[BatchRow]:
        """Return all batches, in the order of their places."""
        known = list(self._history.batches.values())
        rows = {history.batch: self._row(history) for history in known}
        into = {
            batch: rows[history.batch]
            for history in known
            if history.line is not None and history.line.of == history.batch
            for batch in history.line.of_all[:-1]
        }
        return [replace(row, into=into[batch]) if batch in into else row for batch, row in rows.items()]

    def described(self) -> list[bytes]:
        """Return the signed inventories, cohorts and verdicts of all batches, as the database has them."""
        with self._database.reading() as connection:
            rows = connection.execute(as_read(batches, "inventory", "cohort", "verdict")).all()
        return [document for row in rows for document in row if document is not None]

    def waiting_checks(self, store: Store) -> list[bytes]:
        """Return the signed check shares of all batches that are not released yet, but of those that were edited."""
        shares = list[bytes]()
        for place, history in list(self._history.batches.items()):
            if history.state in ("checked", "judged"):
                try:
                    share = store.columns(place, "check_share")["check_share"]
                except UnavailableError:
                    continue
                if isinstance(share, bytes):
                    shares.append(share)
        return shares

    # --- beginning and restoring -------------------------------------------------------------------------------

    def establish(self, standing: StoredBatchState, *, release: Iterable[Step] = ()) -> None:
        """Make the database belong to a journal, whatever it belonged to before, in one transaction.

        `standing` says where that journal stands; `release` holds steps of releases whose bytes are stored again.
        """
        with self._database.writing() as connection:
            connection.execute(journal.delete())
            row = {"one": 1, "length": standing.head.length, "digest": standing.head.digest}
            connection.execute(insert(journal), {**row, "start": standing.start})
            for place, history in self._history.batches.items():
                enter(connection, self._history, place)
                _set(connection, place, {"state": history.state})
            for step in release:
                self._apply(connection, step)

    def _row(self, history: BatchHistory) -> BatchRow:
        task, line = self._history.tasks[history.batch.task_id], history.line
        own = line is not None and line.of == history.batch
        released_at = line.facts.get("released_at") if line is not None and own else None
        return BatchRow(
            history.place, history.batch.task_id, history.batch.number, history.state, history.ends, task.ends,
            task.retention, released_at if isinstance(released_at, int) else None,
            line.first if line is not None and own else None, history.is_destroyed, history.is_emptied,
        )  # fmt: skip

    def _state(self, place: int) -> BatchState:
        state = self._history.batches[place].state
        return "closing" if state == "open" and place in self._history.closing else state

    def _members(self, step: Step) -> list[int | None]:
        """Return the places of the batches that a step is about: its own last, those that it merges before it."""
        begins = step.batch if step.first is None else step.first
        return [self._history.place(BatchId(step.task_id, number)) for number in range(begins, step.batch + 1)]

    def _apply(self, connection: Connection, step: Step) -> None:
        *others, own = self._members(step)
        if own is None:
            raise ForkedError("a step is about a batch that was never opened")
        enter(connection, self._history, own)
        _set(connection, own, step.values)
        if step.state == "closed":
            for place in others:
                if place is not None:
                    _set(connection, place, {"state": "merged"})

    def _require_head(self, connection: Connection) -> None:
        """Refuse a database that lacks steps which this process committed."""
        length, start = self._length, self._start  # before the look: what is committed meanwhile is no loss
        standing = standing_in(connection)
        _require_start(start, standing)
        if length and (standing is None or standing.head.length < length):
            raise ForkedError("the database lacks the journal's last lines: it was set back")

    def _require_last(self, connection: Connection) -> None:
        start = self._start  # before the look: a step that begins this process may be committed meanwhile
        _require_start(start, standing_in(connection))


def _require_start(known: int | None, standing: StoredBatchState | None) -> None:
    if known is not None and (standing is None or standing.start != known):
        raise ForkedError("another process began on this database, or it was set back")


def _set(connection: Connection, batch: int, values: Values | Mapping[str, None]) -> None:
    connection.execute(update(batches).where(batches.c.batch == batch).values(**values))


def standing_in(connection: Connection) -> StoredBatchState | None:
    """Return where a database says that the journal stands; None if it says nothing of the kind."""
    match _STANDING.all(connection, {}):
        case [(int(length), bytes(digest), int(start))]:
            return StoredBatchState(Head(length, digest), start)
    return None


def abandoning(start: int, row: BatchRow) -> Step:
    """Return the step that gives a batch up, by the gate process of a start number."""
    return Step(start, "abandoned", row.task_id, row.state, {"state": "abandoned"}, row.number, row.first)


def cut(store: Store, states: BatchStates, task_id: bytes) -> None:
    """Delete what a task stored that is over for long; once more, if a crash came in between.

    Its line comes first: an emptied column without one was emptied by somebody else.
    """
    known = store.history
    if not known.tasks[task_id].is_cut:
        try:
            known.record("cut", BatchId(task_id, 0), {})
        except UnsyncedError as error:
            raise ForkedError(str(error)) from None
    for history in known.of_task(task_id):
        store.delete_ids(history.place)
    states.empty(task_id)


def destroy_batch(store: Store, states: BatchStates, row: BatchRow) -> None:
    """Destroy the keys and the shares of a batch that is over."""
    store.forget_key(row.batch)
    store.delete_shares(row.batch)
    states.mark_destroyed(row.batch)  # last, so that a crash before it leads here again
