"""The tasks that a server remembers, and the batches that it opens for them: one, or one for each window."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, func, insert, select, update

from lintra_protocol.randomness import RandomBytes
from lintra_server.disk.batch_secrets import Secrets
from lintra_server.disk.vault import KEY_BYTES, Vault
from lintra_server.storage.database import AnyDatabase, batches, tasks
from lintra_server.storage.steps import SET_BACK, ForkedError

_ADD_TASK = insert(tasks).returning(tasks.c.task)
_ADD_BATCH = insert(batches).returning(batches.c.batch)


@dataclass(frozen=True)
class TaskRow:
    """A registered task: its number here, its canonical definition, and which server of it this one is.

    Attributes:
        token_key: checks the tokens of its reports, if it has any.
    """

    task: int
    definition: bytes
    server: int
    token_key: bytes | None = field(default=None, repr=False)


class Tasks:
    """What is known of tasks; thread-safe."""

    def __init__(self, database: AnyDatabase, vault: Vault, secrets: Secrets, random_bytes: RandomBytes) -> None:
        """Keep them in one database, the keys of their tokens and batches through one vault and secrets."""
        self.database = database
        self._vault = vault
        self._secrets = secrets
        self._random_bytes = random_bytes
        self._held = database.num_reports()

    def add_task(
        self,
        task_id: bytes,
        definition: bytes,
        *,
        author: str = "",
        server: int,
        capacity: int,
        ends: int,
        batch_ends: int | None = None,
        retention: int,
        token_key: bytes | None = None,
    ) -> bool:
        """Remember a task and open its first batch; return whether it is new here.

        Args:
            task_id: 32 bytes.
            definition: canonical.
            author: the public key of who signed it.
            server: this server's index in it.
            capacity: most reports the batch may take.
            ends: seconds since the epoch when the task stops taking reports.
            batch_ends: when its first batch does, if that is earlier.
            retention: seconds that shares are kept after a release.
            token_key: checks the tokens of its reports, if it has any.
        """
        values = {
            "task_id": task_id, "definition": definition, "author": author, "server": server, "ends": ends,
            "retention": retention,
            "wrapped_token_key": None if token_key is None else self._vault.wrap(token_key, "token key", task_id),
        }  # fmt: skip
        if self._known_task(task_id, values):
            return False
        name, secret = self._secrets.new()
        batch: int | None = None
        with self.database.writing() as connection:
            known = connection.execute(select(tasks.c.task).where(tasks.c.task_id == task_id)).scalar()
            task = connection.execute(_ADD_TASK, values).scalar_one() if known is None else None
            if task is not None:
                batch = self._open(
                    connection, (task, 0), ends if batch_ends is None else batch_ends, capacity, (name, secret)
                )
        if batch is None:  # somebody else was faster
            self._secrets.destroy(name)
            return False
        self._held.setdefault(batch, 0)  # not set to 0: reports may have come since the commit
        return True

    def open_batch(self, task: int, number: int, *, ends: int, capacity: int) -> int:
        """Open a batch of a task if that was not done before; return its number here.

        Args:
            task: the task's number here.
            number: of the batch in its task.
            ends: seconds since the epoch when it stops taking reports.
            capacity: most reports that it may take.

        Raises:
            ForkedError: a batch that this process knows is not there any more: the database was set back.
        """
        secret = self._secrets.new()
        with self.database.writing() as connection:
            opened = self._open(connection, (task, number), ends, capacity, secret)
            # Numbers grow. A first batch is opened with its task, so one that is missing is lost, too.
            if opened is not None and opened <= max(self._held, default=0):
                raise ForkedError(SET_BACK)
            named = (batches.c.task == task) & (batches.c.number == number)
            batch = int(connection.execute(select(batches.c.batch).where(named)).scalar_one())
        if opened is None:
            self._secrets.destroy(secret[0])
        self._held.setdefault(batch, 0)
        return batch

    def _open(
        self, connection: Connection, named: tuple[int, int], ends: int, capacity: int, secret: tuple[bytes, bytes]
    ) -> int | None:
        """Open a batch, given by its task and number, under a secret and its name; None if it is there already."""
        known = (batches.c.task == named[0]) & (batches.c.number == named[1])
        if connection.execute(select(batches.c.batch).where(known)).scalar() is not None:
            return None
        if connection.execute(select(tasks.c.task).where(tasks.c.task == named[0])).scalar() is None:
            raise ForkedError(SET_BACK)
        values = {"task": named[0], "number": named[1], "ends": ends, "state": "open", "num_reports": 0}
        batch = int(connection.execute(_ADD_BATCH, {**values, "capacity": capacity, "secret": secret[0]}).scalar_one())
        wrapped = self._vault.under(secret[1]).wrap(
            self._random_bytes(KEY_BYTES), "batch key", batch.to_bytes(8, "big")
        )
        connection.execute(update(batches).where(batches.c.batch == batch).values(wrapped_key=wrapped))
        return batch

    def _known_task(self, task_id: bytes, values: Mapping[str, object]) -> bool:
        """Return whether a task is known; one that only a restored journal knew gets its definition."""
        with self.database.reading() as connection:
            known = connection.execute(select(tasks.c.definition).where(tasks.c.task_id == task_id)).scalar()
        if known == b"":
            with self.database.writing() as connection:
                connection.execute(update(tasks).where(tasks.c.task_id == task_id).values(**values))
        return known is not None

    def task(self, task_id: bytes) -> TaskRow | None:
        """Return a registered task, or None."""
        columns = select(tasks.c.task, tasks.c.definition, tasks.c.server, tasks.c.wrapped_token_key)
        with self.database.reading() as connection:
            row = connection.execute(columns.where(tasks.c.task_id == task_id)).one_or_none()
        if row is None or not row.definition:
            return None
        wrapped = row.wrapped_token_key
        key = None if wrapped is None else self._vault.unwrap(wrapped, "token key", task_id)
        return TaskRow(row.task, row.definition, row.server, key)

    def unended_tasks(self, author_key: str, now: int) -> int:
        """Return how many tasks of an author end after `now`, in seconds since the epoch."""
        query = select(func.count()).select_from(tasks).where(tasks.c.ends > now, tasks.c.author == author_key)
        with self.database.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def definition_bytes(self) -> int:
        """Return how many bytes the definitions of all tasks have that are still kept."""
        with self.database.reading() as connection:
            return int(connection.execute(select(func.sum(func.length(tasks.c.definition)))).scalar() or 0)

    def ending(self, task_id: bytes) -> str | None:
        """Return the state of a task's first batch, also of one without a definition, or None."""
        query = (
            select(batches.c.state).join(tasks).where(tasks.c.task_id == task_id).order_by(batches.c.number).limit(1)
        )
        with self.database.reading() as connection:
            return connection.execute(query).scalar()

    def batch_number(self, task_id: bytes, number: int) -> int | None:
        """Return the number here of a batch, from its number in its task; None if there is none (yet)."""
        named = (tasks.c.task_id == task_id) & (batches.c.number == number)
        with self.database.reading() as connection:
            return connection.execute(select(batches.c.batch).join(tasks).where(named)).scalar()

    def batch_numbers(self, task: int, first: int, last: int) -> list[int]:
        """Return the numbers here of a task's batches that were opened, from one to another, in their order."""
        query = select(batches.c.batch).where(batches.c.task == task, batches.c.number.between(first, last))
        with self.database.reading() as connection:
            return list(connection.execute(query.order_by(batches.c.number)).scalars())

    def number(self, task_id: bytes) -> int | None:
        """Return the number of a task, also of one without a definition, or None."""
        with self.database.reading() as connection:
            return connection.execute(select(tasks.c.task).where(tasks.c.task_id == task_id)).scalar()
