"""Servers that believe their database in one thing: each must be found by an editor."""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from lintra_protocol.crypto.tokens import Admission, key_commitment
from lintra_protocol.errors import UnavailableError
from lintra_protocol.messages.documents import TaskRecord, sign
from lintra_protocol.task import Task
from lintra_server.batches import gate
from lintra_server.batches.registry import RegisteredTask, Registry
from lintra_server.durability.encryption_at_rest import KEY_BYTES, BatchKey, PayloadKey
from lintra_server.durability.journal import BatchId
from lintra_server.durability.notes import Notes
from lintra_server.operations.manifests import Manifest
from lintra_server.storage import chains, database, looks, store
from lintra_server.storage import segments as segment_rows
from lintra_server.storage.batch_reader import BatchReader
from lintra_server.storage.chains import Chains
from lintra_server.storage.database import SPAN, AnyDatabase, batches, segments, tasks
from lintra_server.storage.history import BatchHistory, History, edited
from lintra_server.storage.marks import NO_CHAIN, End, Marks, Row
from lintra_server.storage.store import Store
from lintra_server.storage.tasks import StoredTasks, TaskRow
from simulation.attacks import (
    Attack,
    list_taken_away,
    look_changed,
    look_taken_away,
    opened_while_it_is_closed,
    payloads_of_another_row,
    places_exchanged,
    row_of_a_failed_commit,
    row_of_a_failed_commit_at_the_end,
    row_of_a_failed_commit_at_the_last_moment,
    row_of_a_failed_commit_that_is_joined,
    rows_of_another_batch_in_a_new_one,
    victim_left_alone,
)
from simulation.editor import EARLIER
from simulation.mutants import LATE, SILENT, TWO, UNLISTED, UNSTORED, Mutant, no_notes

STRANGERS = "an inventory lists reports that never arrived"
TWICE = "a report is in two inventories of one server"
OTHER_LIST = "an inventory is not of its list"
OTHER_SUM = ("a sketch share is not the reference's", "a sum is not the reference's and noise")
OTHER_CHECK = "a check share is not the reference's"
REFUSED_AGAIN = "a report that was acknowledged is refused when it comes again"
LEFT_OUT = "a release leaves out more than its task allows"
OTHER_PROMISE = "a task is served with another promise"
UNREGISTERED = "a task that nobody registered is served"
UNKNOWN = "a healthy server does not know a task"
OTHER_KEY = "tokens are checked with another key"
OLDER = "a database that calls itself another version's was started"
DOCTORED = "a backup that was changed was put in place"
FALSE_CENSUS = ("a census names reports that never arrived", "a census is not of its list")

Patch = pytest.MonkeyPatch


# --- definitions and the keys of tokens ---------------------------------------------------------------------------


def _loading(patch: Patch, *, hashed: bool = True, committed: bool = True) -> None:
    def loaded(self: Registry, task_id: str, row: Any) -> RegisteredTask:
        try:
            task = Task.from_canonical(row.definition)
            server = next(i for i, each in enumerate(task.servers) if each.identity_key == self._identity.public_key)
        except Exception:
            raise edited("another definition") from None
        if hashed and task.task_id != task_id:
            raise edited("another definition")
        if committed and task.uses_tokens and key_commitment(row.token_key or b"") != task.token_keys[server]:
            raise edited("another key of tokens")
        record = sign(self._identity, TaskRecord(definition=task)).canonical()
        admission = Admission(row.token_key, task.id_bytes) if task.uses_tokens and row.token_key else None
        return RegisteredTask(row.task, task, server, record, admission, row.token_key)

    patch.setattr(Registry, "_loaded", loaded)


def any_definition(patch: Patch) -> None:
    """A definition is not hashed when it is read."""
    _loading(patch, hashed=False)


def any_token_key(patch: Patch) -> None:
    """The key of a task's tokens is not compared with the one that the task names."""
    _loading(patch, committed=False)


def unregistered(patch: Patch) -> None:
    """That a task has a row is enough to serve it."""
    task = StoredTasks.task

    def found(self: StoredTasks, task_id: bytes) -> Any:
        if task_id in self.history.tasks:
            return task(self, task_id)
        query = select(tasks.c.task, tasks.c.definition).where(tasks.c.task_id == task_id)
        with self.database.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else TaskRow(row.task, row.definition)

    patch.setattr(StoredTasks, "task", found)


def unknown_if_gone(patch: Patch) -> None:
    """A task whose row is gone, or holds no definition, is unknown."""
    task = StoredTasks.task

    def found(self: StoredTasks, task_id: bytes) -> Any:
        try:
            return task(self, task_id)
        except UnavailableError as error:
            if "is gone" in error.detail:
                return None
            raise

    patch.setattr(StoredTasks, "task", found)


# --- rows of reports -------------------------------------------------------------------------------------------------


def unmarked(patch: Patch) -> None:
    """Marks are not checked, nor where a batch ends."""

    def confirmed(self: Chains, connection: Connection, batch: int) -> End:
        return chains._tail(connection, batch)

    patch.setattr(Marks, "follows", _grows)
    patch.setattr(Marks, "fitting", _all_that_grow)
    patch.setattr(Chains, "confirmed", confirmed)
    patch.setattr(Chains, "end", lambda self, batch: _shown(self, batch))
    patch.setattr(Chains, "known", lambda *_: None)


def _grows(_: Marks, before: End | Row, row: Row) -> bool:
    return row.number > before.number and row.total > before.total


def _all_that_grow(marks: Marks, before: End | Row, rows: Sequence[Row]) -> int:
    for count, row in enumerate(rows):
        if not _grows(marks, before, row):
            return count
        before = row
    return len(rows)


def _shown(self: Chains, batch: int) -> End:
    with self._reading() as connection:
        return chains._tail(connection, batch)


def unchained(patch: Patch) -> None:
    """A mark does not cover the chain value before it."""
    context = Marks._context
    patch.setattr(
        Marks, "_context", lambda self, last, start, _, row, joined: context(self, last, start, NO_CHAIN, row, joined)
    )


def counted_ends(patch: Patch) -> None:
    """Memory and notes hold how many reports a batch has, and not the chain value at its end."""
    chain, mark, fitting = End.chain, Marks.mark, Marks.fitting

    def with_chains(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            with Patch.context() as true:
                true.setattr(End, "chain", chain)
                true.setattr(Row, "chain", chain)
                return function(*arguments)

        return called

    patch.setattr(Marks, "mark", with_chains(mark))
    patch.setattr(Marks, "fitting", with_chains(fitting))
    for kind in (End, Row):
        patch.setattr(kind, "chain", property(lambda _: NO_CHAIN))
    patch.setattr(End, "__eq__", lambda one, other: one[:2] == other[:2], raising=False)
    patch.setattr(End, "__ne__", lambda one, other: one[:2] != other[:2], raising=False)


def unbound(patch: Patch) -> None:
    """All batches have one key, and nothing that is under it names the batch."""
    key_of, init = StoredTasks._key, Marks.__init__

    def one_key(self: StoredTasks, batch: int) -> BatchKey:
        key_of(self, batch)
        return BatchKey(bytes(KEY_BYTES), self._random_bytes)

    def marks(self: Marks, batch: BatchId, key: BatchKey) -> None:
        init(self, batch, key)
        self._prefix = b""

    patch.setattr(StoredTasks, "_key", one_key)
    patch.setattr(Marks, "__init__", marks)


def payloads_unbound(patch: Patch) -> None:
    """Payloads are not bound to the mark of their row."""
    encrypt, decrypt = PayloadKey.encrypt, PayloadKey.decrypt
    patch.setattr(PayloadKey, "encrypt", lambda self, payloads, mark: encrypt(self, payloads, b""))
    patch.setattr(PayloadKey, "decrypt", lambda self, encrypted, mark: decrypt(self, encrypted, b""))


def marks_read_again(patch: Patch) -> None:
    """Who opens payloads takes the marks that stand there then, and not those that were checked."""
    opened = segment_rows.opened_payloads

    def again(connection: Connection, batch: int, key: bytes, table: segment_rows.SegmentTable) -> Iterator[Any]:
        query = select(segments.c.key, segments.c.mark).where(
            segments.c.key.between(batch * SPAN, batch * SPAN + SPAN - 1)
        )
        now = {row.key - batch * SPAN: row.mark for row in connection.execute(query)}
        marks = [now.get(number, mark) for number, mark in zip(table.numbers.tolist(), table.marks, strict=True)]
        return opened(connection, batch, key, table._replace(marks=marks))

    patch.setattr(segment_rows, "opened_payloads", again)


class _Unchecked:
    """The marks of a batch, made and not checked."""

    def __init__(self, marks: Marks) -> None:
        self.mark = marks.mark

    def follows(self, before: End, row: Row) -> bool:
        return row.number > before.number and row.total > before.total


def joined_unchecked(patch: Patch) -> None:
    """Who joins rows does not check their marks."""
    merge = segment_rows.merge_some
    patch.setattr(store, "merge_some", lambda *known: merge(*known[:-1], _Unchecked(known[-1])))  # type: ignore[call-arg]


def unended(patch: Patch) -> None:
    """A pass over a batch need not end where memory says that the batch ends."""

    def rows(self: Chains, connection: Connection, batch: int, start: End, end: End) -> Iterable[Row]:
        marks, at = self.marks(batch), start
        for row in chains.raw_rows(connection, batch, start.number + 1):
            if not marks.follows(at, row) or row.total > end.total:
                return
            at = row.end
            yield row

    patch.setattr(Chains, "rows", rows)


def unnoted_start(patch: Patch) -> None:
    """A start does not note the ends that it finds."""
    load = Chains._load

    def silently(self: Chains, batch: int) -> None:
        with Patch.context() as quiet:
            quiet.setattr(Notes, "put", lambda *_: None)
            load(self, batch)

    patch.setattr(Chains, "_load", silently)


# --- batches ---------------------------------------------------------------------------------------------------------


def columns_believed(patch: Patch) -> None:
    """What a batch's columns hold is not compared with the journal's lines."""
    patch.setattr(BatchHistory, "contradiction", lambda *_: "")


def gaps_believed(patch: Patch) -> None:
    """Of a batch that is over an empty column, or a list that is not the signed one, means that nothing is known."""
    listed = BatchReader.listed
    patch.setattr(BatchHistory, "_may_be_empty", lambda self, _: self.is_final)

    def known(self: BatchReader, batch: int) -> Any:
        try:
            return listed(self, batch)
        except UnavailableError:
            return None

    patch.setattr(BatchReader, "listed", known)


def places_believed(patch: Patch) -> None:
    """Where a batch lies says the database."""
    init, place = StoredTasks.__init__, History.place

    def found(self: StoredTasks, batch: BatchId) -> int | None:
        query = select(batches.c.batch).join(tasks, tasks.c.task == batches.c.task)
        query = query.where(tasks.c.task_id == batch.task_id, batches.c.number == batch.number)
        with self.database.reading() as connection:
            number = connection.execute(query).scalar()
        return number if number in self.history.batches else place(self.history, batch)

    def begun(self: StoredTasks, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        vars(self.history)["place"] = partial(found, self)

    patch.setattr(StoredTasks, "__init__", begun)


def states_believed(patch: Patch) -> None:
    """Whether a batch that is being closed takes reports says the database."""
    refusal = Store._refusal

    def believing(self: Store, batch: int) -> Any:
        return None if batch in self.history.closing else refusal(self, batch)

    patch.setattr(Store, "_refusal", believing)


def lost_forgotten(patch: Patch) -> None:
    """Lost reports do not count as this server's own and missing."""
    patch.setattr(gate, "_once_held", lambda own: own.count)


def looks_believed(patch: Patch) -> None:
    """Looks are not authenticated."""
    patch.setattr(looks.hmac, "compare_digest", lambda *_: True)


def looks_told_again(patch: Patch) -> None:
    """When somebody looked last is in the database alone."""
    patch.setattr(Notes, "tell", lambda *_: None)


# --- the whole server ------------------------------------------------------------------------------------------------


def any_migration(patch: Patch) -> None:
    """A database is brought up to date whatever the journal says of that; there is an earlier version."""
    bring = AnyDatabase._bring_up_to_date
    patch.setattr(AnyDatabase, "_bring_up_to_date", lambda self, _, put_aside: bring(self, "", put_aside))
    folder = Path(tempfile.mkdtemp(prefix="lintra-migrations-")) / "migrations"
    shutil.copytree(database._MIGRATIONS, folder)
    for revision, before in ((EARLIER, None), (database.REVISION, EARLIER)):
        text = f"revision, down_revision = {revision!r}, {before!r}\n\n\ndef upgrade() -> None:\n    pass\n"
        (folder / f"versions/r{revision}.py").write_text(text)
    patch.setattr(database, "_MIGRATIONS", folder)


def any_backup(patch: Patch) -> None:
    """A backup is not compared with its manifest."""
    patch.setattr(Manifest, "require", lambda *_: None)


@dataclass(frozen=True)
class Believing:
    """A server without a rule, and how the laws begin of which one must find it.

    Its histories begin with the attacks in `begins`, if there are any.
    """

    plants: tuple[Mutant, ...]
    found_by: tuple[str, ...]
    begins: tuple[Attack, ...] = ()


EDITED: dict[str, Believing] = {
    "the hash of a definition": Believing((any_definition,), (OTHER_PROMISE,)),
    "the line `registered`": Believing((unregistered,), (UNREGISTERED,)),
    "rows of tasks that are gone": Believing((unknown_if_gone,), (UNKNOWN,)),
    "marks": Believing((unmarked,), (UNLISTED, STRANGERS, TWICE, OTHER_LIST)),
    "the chain value before, in a mark": Believing(
        (unchained,), (UNLISTED, STRANGERS, OTHER_LIST), (row_of_a_failed_commit,)
    ),
    "chain values at ends, and not counts": Believing(
        (counted_ends,), (UNLISTED, STRANGERS, OTHER_LIST), (row_of_a_failed_commit_at_the_end,)
    ),
    "notes": Believing((no_notes,), (UNLISTED, SILENT, UNSTORED)),
    "ends noted by a start": Believing((unnoted_start,), (UNLISTED, SILENT, UNSTORED)),
    "the mark in payloads": Believing((payloads_unbound,), (*OTHER_SUM, OTHER_CHECK), (payloads_of_another_row,)),
    "marks kept from the pass that was checked": Believing(
        (marks_read_again,), (*OTHER_SUM, OTHER_CHECK), (row_of_a_failed_commit_at_the_last_moment,)
    ),
    "marks of rows that are joined": Believing(
        (joined_unchecked,), (UNLISTED, STRANGERS, TWICE), (row_of_a_failed_commit_that_is_joined,)
    ),
    "the end of a pass": Believing((unended,), (UNLISTED,)),
    "columns held against lines": Believing((columns_believed,), (TWO,)),
    "lists of batches that are over": Believing((gaps_believed,), (REFUSED_AGAIN,), (list_taken_away,)),
    "places from the journal": Believing((places_believed,), (STRANGERS, TWICE, UNLISTED), (places_exchanged,)),
    "the state of a closing in memory": Believing((states_believed,), (LATE, UNLISTED), (opened_while_it_is_closed,)),
    "lost reports counted as missing": Believing((lost_forgotten,), (LEFT_OUT,), (victim_left_alone,)),
    "MACs of looks": Believing((looks_believed,), (TWO, *FALSE_CENSUS), (look_changed,)),
    "the last look in its note": Believing((looks_told_again,), (TWO,), (look_taken_away,)),
    "the manifest of a backup": Believing((any_backup,), (DOCTORED,)),
    "the key of tokens that a task names": Believing((any_token_key,), (OTHER_KEY,)),
    "task and batch in keys and marks": Believing(
        (unbound,), (STRANGERS, TWICE), (rows_of_another_batch_in_a_new_one,)
    ),
    "the line `migrated`": Believing((any_migration,), (OLDER,)),
}
"""By the rule that is missing."""
