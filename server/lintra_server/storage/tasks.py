"""The tasks that a server remembers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import func, select, update

from lintra_server.disk.vault import Vault
from lintra_server.storage.database import AnyDatabase, batches, tasks


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

    def __init__(self, database: AnyDatabase, vault: Vault) -> None:
        """Read them from one database, and the keys of their tokens through one vault."""
        self.database = database
        self._vault = vault

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
        """Return the state of a task's batch, also of one without a definition, or None."""
        query = select(batches.c.state).join(tasks).where(tasks.c.task_id == task_id)
        with self.database.reading() as connection:
            return connection.execute(query).scalar()

    def number(self, task_id: bytes) -> int | None:
        """Return the number of a task, also of one without a definition, or None."""
        with self.database.reading() as connection:
            return connection.execute(select(tasks.c.task).where(tasks.c.task_id == task_id)).scalar()

    def _known_task(self, task_id: bytes, values: Mapping[str, object]) -> bool:
        """Return whether a task is known; one that only a restored journal knew gets its definition."""
        with self.database.reading() as connection:
            known = connection.execute(select(tasks.c.definition).where(tasks.c.task_id == task_id)).scalar()
        if known == b"":
            with self.database.writing() as connection:
                connection.execute(update(tasks).where(tasks.c.task_id == task_id).values(**values))
        return known is not None
