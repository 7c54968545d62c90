"""How batches change their state in the database. Every change is one transaction, conditional on what it leaves.

Changes that the outside world hears of come with a journal line (see `steps`): the transaction that applies one also
moves the stored head of the journal, and only from the line before. The others, `open` to `closing` and back, and the
deletion of shares, are the database's own affair; they are made only while this process is the last that began.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import ColumnElement, Connection, ScalarSelect, and_, insert, select, update

from lintra_protocol.errors import CohortTooSmallError
from lintra_protocol.messages import BatchState
from lintra_server.disk.journal import Head
from lintra_server.storage.database import NUM_REPORTS, AnyDatabase, batches, journal, looks, sealing_keys, tasks
from lintra_server.storage.steps import ForkedError, Step

FINAL_STATES: frozenset[BatchState] = frozenset({"released", "scrubbed", "abandoned"})
"""Nothing can leave a batch in one of these states that did not leave it before."""


@dataclass(frozen=True)
class Standing:
    """Where the database says that the journal stands.

    Attributes:
        start: number of the last gate process that began here.
        barred_before: tasks that take reports earlier, in seconds since the epoch, are not registered.
    """

    head: Head
    start: int
    barred_before: int


@dataclass(frozen=True)
class BatchRow:
    """A batch as those see it who decide what becomes of it after a restore or with time.

    Attributes:
        batch: its number here, over all tasks.
        task: the number of its task.
        number: its number in that task: 0, or that of its window.
        ends: seconds since the epoch when it stops taking reports.
        task_ends: when its task ends.
        first: of the windows that were merged into it, if any were.
        into: the batch that it was merged into, if it was.
    """

    batch: int
    task: int
    task_id: bytes
    number: int
    state: BatchState
    ends: int
    task_ends: int
    retention: int
    released_at: int | None
    is_cut: bool
    secret: bytes | None = field(repr=False)
    first: int | None = None
    into: "BatchRow | None" = field(default=None, repr=False)

    @property
    def fate(self) -> "BatchRow":
        """Return the batch whose end is that of this one: itself, or what it was merged into."""
        return self.into or self


_ROWS = select(
    batches.c.batch, batches.c.task, tasks.c.task_id, batches.c.number, batches.c.state, batches.c.ends, tasks.c.ends,
    tasks.c.retention, batches.c.released_at, tasks.c.definition == b"", batches.c.secret, batches.c.first,
).join(tasks)  # fmt: skip

_DOCUMENTS = (
    "inventory", "inventories", "cohort", "excluded", "missing", "check_share", "verdict", "rejected", "request_hash",
    "aggregate",
)  # fmt: skip
"""Columns of a batch that go when its task is cut."""


class BatchStates:
    """The states of all batches; thread-safe."""

    def __init__(self, database: AnyDatabase) -> None:
        """Keep them in a database."""
        self._database = database
        self._start: int | None = None
        self._length = 0
        database.expect(self._require_head)

    # --- the journal's head ------------------------------------------------------------------------------------

    def standing(self) -> Standing | None:
        """Return where the journal stands as far as the database knows; None if it never belonged to one."""
        with self._database.reading() as connection:
            row = connection.execute(select(journal)).one_or_none()
        return None if row is None else Standing(Head(row.length, row.digest), row.start, row.barred_before)

    def may(self, step: Step) -> bool:
        """Return whether the batch is in the state that a step leaves.

        Raises:
            ForkedError: another process began on this database since this one did.
        """
        query = select(batches.c.state).where(batches.c.batch == _batch_of(step))
        with self._database.reading() as connection:
            self._require_last(connection)
            if not step.task_id:
                return True
            if connection.execute(query).scalar() != step.before:
                return False
            members = connection.execute(select(batches.c.state).where(_merged_by(step))).scalars().all()
        return all(state == ("closing" if step.state == "closed" else "merged") for state in members)

    def commit_step(self, step: Step, before: Head, after: Head) -> None:
        """Apply a step and move the stored head, in one transaction, if the head is `before`; once, if it is `after`.

        Raises:
            ForkedError: the head is neither, or the batch is in another state than the step leaves.
        """
        with self._database.writing() as connection:
            row = connection.execute(select(journal.c.length, journal.c.digest)).one_or_none()
            head = None if row is None else Head(*row)
            # It is `after` if the answer to this very commit was lost.
            if head not in (before, after):
                raise ForkedError(
                    "the database is not where this server left it: it was set back, or another one writes"
                )
            if head == before:
                connection.execute(update(journal).values(length=after.length, digest=after.digest, start=step.start))
                if step.task_id and not _apply(connection, step):
                    raise ForkedError(f"a batch is not {step.before} any more, though nothing else may change it")
        self._start, self._length = step.start, after.length

    # --- what needs no journal line ----------------------------------------------------------------------------

    def begin_closing(self, batch: int, min_clients: int, others: Sequence[int] = ()) -> bool:
        """Take no more reports for the moment, if the batch is open; return whether it was, or is being closed.

        Args:
            batch: its number here.
            min_clients: fewest reports.
            others: the batches that are merged into it; all of them have to be open, too.

        Raises:
            CohortTooSmallError: there are fewer reports than `min_clients`; nothing changed.
        """
        numbers = [*others, batch]
        with self._database.writing() as connection:
            self._require_last(connection)
            found = connection.execute(select(batches.c.state, NUM_REPORTS).where(batches.c.batch.in_(numbers))).all()
            states, count = {row[0] for row in found}, sum(row[1] for row in found)
            if not states <= {"open", "closing"}:
                return False
            if "open" in states and count < min_clients:
                # Not how many: who asks again and again would hear when each came.
                raise CohortTooSmallError(f"fewer than {min_clients} reports are here; nothing was closed")
            connection.execute(update(batches).where(batches.c.batch.in_(numbers)).values(state="closing"))
        return True

    def reopen(self, *numbers: int) -> None:
        """Take reports again if closing did not come to its journal line; without numbers, in every batch."""
        with self._database.writing() as connection:
            self._require_last(connection)
            change = update(batches).where(batches.c.state == "closing").values(state="open")
            connection.execute(change.where(batches.c.batch.in_(numbers)) if numbers else change)

    def mark_destroyed(self, batch: int) -> None:
        """Note that a batch's shares can never be opened again: what remains are the documents that were given out."""
        with self._database.writing() as connection:
            self._require_last(connection)
            state = connection.execute(select(batches.c.state).where(batches.c.batch == batch)).scalar_one()
            last = {"released": "scrubbed"}.get(state, state)
            wrapped = dict.fromkeys(("wrapped_key", "wrapped_nonce", "wrapped_matrix_nonce", "secret"))
            _set(connection, batch, {"state": last, **wrapped})

    def cut(self, task: int) -> None:
        """Keep of a task only its identifier, how it ended, and how many reports there were.

        What its batches stored was deleted before; a journal line of each, too, says for ever what became of it.
        """
        with self._database.writing() as connection:
            self._require_last(connection)
            of_task = select(batches.c.batch).where(batches.c.task == task)
            connection.execute(looks.delete().where(looks.c.batch.in_(of_task)))
            connection.execute(update(batches).where(batches.c.task == task).values(**dict.fromkeys(_DOCUMENTS)))
            bare = {"definition": b"", "author": "", "wrapped_token_key": None}
            connection.execute(update(tasks).where(tasks.c.task == task).values(**bare))

    def rows(self) -> Sequence[BatchRow]:
        """Return all batches."""
        with self._database.reading() as connection:
            rows = [BatchRow(*row) for row in connection.execute(_ROWS.order_by(batches.c.batch))]
        into = {
            (row.task, number): row for row in rows if row.first is not None for number in range(row.first, row.number)
        }
        return [replace(row, into=into.get((row.task, row.number))) if row.state == "merged" else row for row in rows]

    def described(self) -> list[bytes]:
        """Return the signed inventories, cohorts and verdicts of all batches."""
        with self._database.reading() as connection:
            rows = connection.execute(select(batches.c.inventory, batches.c.cohort, batches.c.verdict)).all()
        return [document for row in rows for document in row if document is not None]

    def check_shares(self) -> list[bytes]:
        """Return the signed check shares of all batches that are not released yet."""
        waiting = batches.c.state.in_(("checked", "judged"))
        with self._database.reading() as connection:
            return list(connection.execute(select(batches.c.check_share).where(waiting)).scalars())

    def secrets(self) -> set[bytes]:
        """Return the names of all secrets that the database still needs."""
        with self._database.reading() as connection:
            found = [
                connection.execute(select(column)).scalars().all()
                for column in (batches.c.secret, sealing_keys.c.secret)
            ]
        return {name for names in found for name in names if name is not None}

    # --- beginning and restoring -------------------------------------------------------------------------------

    def establish(
        self,
        standing: Standing,
        *,
        abandon: Iterable[int] = (),
        release: Iterable[Step] = (),
        enter: Iterable[tuple[bytes, int]] = (),
    ) -> None:
        """Make the database belong to a journal, whatever it belonged to before, in one transaction.

        Args:
            standing: where that journal stands.
            abandon: numbers of batches that are given up.
            release: steps of releases whose bytes are stored again.
            enter: tasks and numbers of batches that only the journal knows; they are entered as abandoned.
        """
        with self._database.writing() as connection:
            connection.execute(journal.delete())
            row = {"one": 1, "length": standing.head.length, "digest": standing.head.digest}
            connection.execute(
                insert(journal), {**row, "start": standing.start, "barred_before": standing.barred_before}
            )
            for task_id, number in enter:
                _enter(connection, task_id, number)
            for batch in abandon:
                _set(connection, batch, {"state": "abandoned"})
            for step in release:
                connection.execute(update(batches).where(batches.c.batch == _batch_of(step)).values(**step.values))

    def _require_head(self, connection: Connection) -> None:
        """Refuse a database that lacks steps which this process committed."""
        self._require_last(connection)
        if (connection.execute(select(journal.c.length)).scalar() or 0) < self._length:
            raise ForkedError("the database lacks the journal's last lines: it was set back")

    def _require_last(self, connection: Connection) -> None:
        start = connection.execute(select(journal.c.start)).scalar()
        if self._start is not None and start != self._start:
            raise ForkedError("another process began on this database, or it was set back")


def _batch_of(step: Step) -> ScalarSelect[int]:
    named = (tasks.c.task_id == step.task_id) & (batches.c.number == step.batch)
    return select(batches.c.batch).join(tasks).where(named).scalar_subquery()


def _apply(connection: Connection, step: Step) -> bool:
    of_step = batches.c.batch == _batch_of(step)
    change = update(batches).where(of_step, batches.c.state == step.before).values(**step.values)
    if connection.execute(change).rowcount != 1:
        return False
    if step.first is None or step.state != "closed":
        return True
    members = connection.execute(select(batches.c.batch).where(_merged_by(step))).scalars().all()
    merging = update(batches).where(batches.c.batch.in_(members), batches.c.state == "closing").values(state="merged")
    return connection.execute(merging).rowcount == len(members)


def _merged_by(step: Step) -> ColumnElement[bool]:
    """Return the condition on batches that a step merges, or has merged, into its own: none, of most steps."""
    task = select(tasks.c.task).where(tasks.c.task_id == step.task_id).scalar_subquery()
    begins = step.batch if step.first is None else step.first
    return and_(batches.c.task == task, batches.c.number >= begins, batches.c.number < step.batch)


def _set(connection: Connection, batch: int, values: Mapping[str, str | bytes | int | None]) -> None:
    connection.execute(update(batches).where(batches.c.batch == batch).values(**values))


def _enter(connection: Connection, task_id: bytes, number: int) -> None:
    """Enter an abandoned batch, and its task without the definition, which comes if somebody registers it again."""
    values = {"task_id": task_id, "definition": b"", "server": 0, "ends": 0, "retention": 0}
    task = connection.execute(select(tasks.c.task).where(tasks.c.task_id == task_id)).scalar()
    if task is None:
        task = connection.execute(insert(tasks).returning(tasks.c.task), values).scalar_one()
    empty = {"task": task, "number": number, "ends": 0, "state": "abandoned", "num_reports": 0, "capacity": 0}
    connection.execute(insert(batches), empty)
