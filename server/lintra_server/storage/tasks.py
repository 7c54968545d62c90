"""The tasks that a server remembers, and the batches that it opens for them: one, or one for each window.

Where a task or a batch lies is chosen here, and said in a line of the journal before it is written to the database.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Select, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.errors import UnavailableError
from lintra_server.durability.encryption_at_rest import KEY_BYTES, BatchKey, Vault
from lintra_server.durability.journal import BatchId, UnsyncedError, fact
from lintra_server.durability.key_files import KeyFiles
from lintra_server.durability.notes import Notes
from lintra_server.storage.chains import Chains
from lintra_server.storage.database import AnyDatabase, batches, tasks
from lintra_server.storage.history import History, Registered, edited
from lintra_server.storage.marks import NO_CHAIN
from lintra_server.storage.schema import MOST_SMALL_BYTES, bounded
from lintra_server.storage.transition_log import ForkedError
from lintra_service.settings import InvalidSettingsError

TOKEN_KEY = "token key"


@dataclass(frozen=True)
class TaskRow:
    """A registered task: its number here, and its canonical definition, as the database has it.

    `token_key` checks the tokens of its reports, if it has any.
    """

    task: int
    definition: bytes
    token_key: bytes | None = field(default=None, repr=False)


class StoredTasks:
    """What is known of tasks; thread-safe."""

    def __init__(
        self,
        database: AnyDatabase,
        vault: Vault,
        key_files: KeyFiles,
        notes: Notes,
        history: History,
        random_bytes: RandomBytes,
    ) -> None:
        """Keep them in one database.

        `database` holds definitions, and the rows of batches; `vault` wraps the keys of tokens. `key_files` hold the
        keys of batches; `notes` says where each batch ends.
        """
        self.database = database
        self.history = history
        self.notes = notes
        self._vault = vault
        self._key_files = key_files
        self._random_bytes = random_bytes
        self._keys: dict[int, BatchKey] = {}
        self.chains = Chains(history, notes, self._key, database.reading)
        self._last_entered = 0
        database.expect(self._require_entered)

    def left_of_cut(self) -> list[bytes]:
        """Return the tasks that were cut and still have a definition here, after a crash or in an old copy."""
        cut = {task.place: task_id for task_id, task in list(self.history.tasks.items()) if task.is_cut}
        if not cut:
            return []
        query = select(tasks.c.task).where(func.length(tasks.c.definition) > 0)
        with self.database.reading() as connection:
            return [cut[place] for place in connection.execute(query).scalars() if place in cut]

    # --- registering -------------------------------------------------------------------------------------------

    def add_task(
        self,
        task_id: bytes,
        definition: bytes,
        *,
        author: str = "",
        ends: int,
        batch_ends: int | None = None,
        retention: int,
        token_key: bytes | None = None,
        policy: bytes = b"",
    ) -> bool:
        """Remember a task and open its first batch; return whether its definition is new here.

        `task_id` is 32 bytes. `definition` is canonical; the caller checked that it hashes to `task_id`. `author` is
        the public key of who signed it. `ends` is the time, in seconds since the epoch, when the task stops taking
        reports. `batch_ends` says when its first batch does, if that is earlier. `retention` says for how many seconds
        shares are kept after a release. `token_key` checks the tokens of its reports, if it has any. `policy` is the
        one under which the operator took it.
        """
        with self._deciding():
            known = self.history.tasks.get(task_id)
            if known is None or known.is_cut:
                if known is None:
                    known = Registered(self.history.next_task(), task_id, author, ends, retention, len(definition))
                # Once more if it was cut: else the next start would miss the documents of its batches.
                facts = known.facts(fact(token_key), fact(policy))
                self.history.record("registered", BatchId(task_id, 0), facts)
            # A crash may have come between the line and the row; what the row holds is checked by whoever reads it.
            values = {
                "task_id": task_id, "definition": definition,
                "wrapped_token_key": None if token_key is None else self._vault.wrap(token_key, TOKEN_KEY, task_id),
            }  # fmt: skip
            with self.database.writing() as connection:
                read = _as_read(len(definition)).where(tasks.c.task == known.place)
                there = connection.execute(read).one_or_none()
                if there is not None and there.definition == definition and self._wraps(there[1], task_id, token_key):
                    return False
                if there is None:
                    connection.execute(insert(tasks), {"task": known.place, **values})
                else:
                    connection.execute(update(tasks).where(tasks.c.task == known.place).values(**values))
            self._last_entered = max(self._last_entered, known.place)
            self.open_batch(task_id, 0, ends if batch_ends is None else batch_ends)
        return True

    def _wraps(self, wrapped: bytes | None, task_id: bytes, token_key: bytes | None) -> bool:
        """Return whether a row holds the key of a task's tokens, or none if the task has no tokens."""
        try:
            return (None if wrapped is None else self._vault.unwrap(wrapped, TOKEN_KEY, task_id)) == token_key
        except (ValueError, TypeError):
            return False

    def open_batch(self, task_id: bytes, number: int, ends: int) -> int:
        """Open a batch of a registered task if that was not done before; return its place.

        `ends` is the time, in seconds since the epoch, when it stops taking reports.
        """
        batch = BatchId(task_id, number)
        with self._deciding():
            place = self.history.place(batch)
            if place is not None:
                return place
            place = self.history.next_batch()
            # A file of this name protects nothing: no line says that its batch was opened.
            self._key_files.write(batch.name, self._random_bytes(KEY_BYTES), *batch.bound)
            self.notes.put(batch.name, 0, NO_CHAIN)
            self.notes.sync()
            self.history.record("opened", batch, {"place": place, "ends": ends})
            with self.database.writing() as connection:
                enter(connection, self.history, place)
        return place

    @contextmanager
    def _deciding(self) -> Iterator[None]:
        """Let nobody else choose places meanwhile."""
        try:
            with self.history.numbering():
                yield
        except UnsyncedError as error:
            raise ForkedError(str(error)) from None
        except OSError as error:
            raise UnavailableError(f"the disk does not take it: {type(error).__name__}") from None

    # --- looking up --------------------------------------------------------------------------------------------

    def task(self, task_id: bytes) -> TaskRow | None:
        """Return a registered task as the database has it, or None; the caller compares it with its identifier.

        Raises UnavailableError if the key of its tokens is not the one that came with it.
        """
        known = self.history.tasks.get(task_id)
        if known is None or known.is_cut:
            return None
        with self.database.reading() as connection:
            row = connection.execute(_as_read(known.size).where(tasks.c.task == known.place)).one_or_none()
        if row is None or not row.definition:
            # Else a crash came before the row, and its author was not answered.
            if known.may_lack or not self.history.of_task(task_id):
                return None
            raise edited(f"table tasks, row {known.place} is gone, or its definition was emptied or replaced")
        wrapped = row.wrapped_token_key
        for name, value in (("definition", row.definition), ("wrapped_token_key", wrapped or b"")):
            if not isinstance(value, bytes):  # SQLite takes a value of any kind
                raise edited(f"table tasks, row {known.place}, column {name} was changed")
        try:
            key = None if wrapped is None else self._vault.unwrap(wrapped, TOKEN_KEY, task_id)
        except (ValueError, TypeError):
            raise edited(f"table tasks, row {known.place}, column wrapped_token_key was changed") from None
        return TaskRow(known.place, row.definition, key)

    def _require_entered(self, connection: Connection) -> None:
        """Refuse a database that lacks the last task which this process entered: no step tells it from an old copy."""
        place = self._last_entered  # before the look: what is committed meanwhile is no loss
        if (connection.execute(select(func.max(tasks.c.task))).scalar() or 0) < place:
            raise ForkedError("the database lacks tasks that were registered in it: it was set back")

    def _key(self, batch: int) -> BatchKey:
        """Return the keys of a batch."""
        key = self._keys.get(batch)
        if key is None:
            known = self.history.batches[batch].batch
            try:
                secret = self._key_files.read(known.name, *known.bound)
            except InvalidSettingsError:
                raise UnavailableError(
                    f"{known}: the file of its keys was changed: lintra server abandon {known.words}"
                ) from None
            if secret is None:
                raise UnavailableError("the keys of this batch were destroyed, or are missing from key_dir")
            key = self._keys[batch] = BatchKey(secret, self._random_bytes)
        return key


def _as_read(size: int) -> Select[*tuple[Any, ...]]:
    """Return what reads the definitions of tasks, of so many bytes at most, and the keys of their tokens."""
    return select(bounded(tasks.c.definition, size), bounded(tasks.c.wrapped_token_key, MOST_SMALL_BYTES))


def enter(connection: Connection, history: History, place: int) -> None:
    """Write the row of a batch at its place, if there is none: open, or as far as the journal got with it."""
    known = history.batches[place]
    if connection.execute(select(batches.c.batch).where(batches.c.batch == place)).scalar() is None:
        task = history.tasks[known.batch.task_id].place
        values = {"batch": place, "task": task, "number": known.batch.number, "state": known.state, "num_reports": 0}
        # PostgreSQL lets the writer of the first report and whoever opened the batch for it come here at once.
        connection.execute(_insert(connection).on_conflict_do_nothing(), values)


def _insert(connection: Connection) -> postgresql.Insert | sqlite.Insert:
    return postgresql.insert(batches) if connection.dialect.name == "postgresql" else sqlite.insert(batches)
