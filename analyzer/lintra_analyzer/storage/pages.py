"""Lists of tasks and releases, a page at a time: whatever their number, a page reads its own rows and few more."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Select, func, or_, select

from lintra_analyzer.storage import tables
from lintra_analyzer.storage.access_tokens import Scope
from lintra_analyzer.storage.rows import (
    Job,
    ServerState,
    StoredModel,
    StoredRelease,
    StoredTask,
    job_of,
    server_state_of,
)
from lintra_protocol.messages.documents import BATCH

T = TypeVar("T")

PAGE = 25
"""Entries of one page, and the most that anybody may ask for: a page takes a few milliseconds of the analyzer."""

_AT_ONCE = 500
"""Rows that are held at once where many are read."""

_TASKS, _RELEASES, _JOBS, _SERVERS = tables.tasks, tables.releases, tables.jobs, tables.registrations
_MODELS = tables.models


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list, the newest first. `following` says where the next page begins; None on the last one."""

    rows: list[T]
    following: int | None


class Listed:
    """Pages of the lists in one database; thread-safe."""

    def __init__(self, engine: Engine) -> None:
        """List what a database holds."""
        self._engine = engine

    def tasks(self, scope: Scope, before: int | None = None, limit: int = PAGE) -> Page[StoredTask]:
        """Return the tasks in a scope that are older than a place in the list."""
        numbers = select(_TASKS.c.number).where(_in_scope(scope))
        with self._engine.connect() as connection:
            chosen, following = _chosen(connection, numbers, _TASKS.c.number, before, limit)
            query = select_task.where(_TASKS.c.number.in_(chosen)).order_by(_TASKS.c.number.desc())
            return Page([StoredTask(*row) for row in connection.execute(query)], following)

    def releases(self, scope: Scope, before: int | None = None, limit: int = PAGE) -> Page[StoredRelease]:
        """Return the releases in a scope that are older than a place in the list."""
        numbers = select(_RELEASES.c.number)
        if not scope.is_everything:
            numbers = numbers.where(_RELEASES.c.task_id.in_(select(_TASKS.c.task_id).where(_in_scope(scope))))
        with self._engine.connect() as connection:
            chosen, following = _chosen(connection, numbers, _RELEASES.c.number, before, limit)
            query = _select_release.where(_RELEASES.c.number.in_(chosen)).order_by(_RELEASES.c.number.desc())
            return Page([StoredRelease(*row) for row in connection.execute(query)], following)

    def models(self, scope: Scope, before: int | None = None, limit: int = PAGE) -> Page[StoredModel]:
        """Return the models in a scope that are older than a place in the list."""
        numbers = select(_MODELS.c.number)
        if not scope.is_everything:
            numbers = numbers.where(_MODELS.c.task_id.in_(select(_TASKS.c.task_id).where(_in_scope(scope))))
        with self._engine.connect() as connection:
            chosen, following = _chosen(connection, numbers, _MODELS.c.number, before, limit)
            query = select_model.where(_MODELS.c.number.in_(chosen)).order_by(_MODELS.c.number.desc())
            return Page([StoredModel(*row) for row in connection.execute(query)], following)

    def some_tasks(self, task_ids: Sequence[str]) -> list[StoredTask]:
        """Return some tasks, in any order."""
        with self._engine.connect() as connection:
            return [StoredTask(*row) for row in connection.execute(select_task.where(_TASKS.c.task_id.in_(task_ids)))]

    def new_tasks(self, after: int) -> list[tuple[int, str, str]]:
        """Return number, identifier and population of the tasks that were stored after a number, the oldest first."""
        query = select(_TASKS.c.number, _TASKS.c.task_id, _TASKS.c.population).where(_TASKS.c.number > after)
        with self._engine.connect() as connection:
            return [(row[0], row[1], row[2]) for row in connection.execute(query.order_by(_TASKS.c.number))]

    def new_releases(self, after: int) -> list[tuple[int, str]]:
        """Return number and task of the releases that were stored after a number, the oldest first."""
        query = select(_RELEASES.c.number, _RELEASES.c.task_id).where(_RELEASES.c.number > after)
        with self._engine.connect() as connection:
            return [(row[0], row[1]) for row in connection.execute(query.order_by(_RELEASES.c.number))]

    def tasks_at(self, numbers: Sequence[int]) -> Iterator[StoredTask]:
        """Yield the tasks of some numbers, the oldest first."""
        for some in _in_parts(numbers):
            query = select_task.where(_TASKS.c.number.in_(some)).order_by(_TASKS.c.number)
            with self._engine.connect() as connection:
                rows = connection.execute(query).all()
            yield from (StoredTask(*row) for row in rows)

    def releases_at(self, numbers: Sequence[int]) -> Iterator[StoredRelease]:
        """Yield the releases of some numbers, the oldest first."""
        for some in _in_parts(numbers):
            query = _select_release.where(_RELEASES.c.number.in_(some)).order_by(_RELEASES.c.number)
            with self._engine.connect() as connection:
                rows = connection.execute(query).all()
            yield from (StoredRelease(*row) for row in rows)

    def tasks_after(self, number: int) -> list[tuple[int, StoredTask]]:
        """Return the tasks that were stored after a number, the oldest first, each with its own."""
        query = select_task.add_columns(_TASKS.c.number).where(_TASKS.c.number > number).order_by(_TASKS.c.number)
        with self._engine.connect() as connection:
            return [(row[-1], StoredTask(*row[:-1])) for row in connection.execute(query)]

    def registrations(self, task_ids: Sequence[str]) -> dict[str, list[ServerState]]:
        """Return what each server said to some tasks, in server order."""
        columns = _SERVERS.c
        query = select(columns.task_id, columns.server, columns.state, columns.problem)
        found: dict[str, list[ServerState]] = {task_id: [] for task_id in task_ids}
        with self._engine.connect() as connection:
            for row in connection.execute(query.where(columns.task_id.in_(task_ids)).order_by(columns.server)):
                found[row[0]].append(server_state_of(*row[1:]))
        return found

    def jobs(self, task_ids: Sequence[str]) -> dict[str, Job]:
        """Return the jobs of the only batch of some tasks, as far as they were started."""
        query = select(*(_JOBS.c[name] for name in Job.__dataclass_fields__))
        with self._engine.connect() as connection:
            rows = connection.execute(query.where(_JOBS.c.task_id.in_(task_ids), _JOBS.c.batch == BATCH))
            return {row[0]: job_of(*row) for row in rows}

    def job_states(self) -> dict[str, str]:
        """Return the state of every job of a task's only batch, by task."""
        query = select(_JOBS.c.task_id, _JOBS.c.state).where(_JOBS.c.batch == BATCH)
        with self._engine.connect() as connection:
            return {row.task_id: row.state for row in connection.execute(query)}

    def unregistered(self) -> set[str]:
        """Return the tasks that some server did not accept."""
        query = select(_SERVERS.c.task_id).where(_SERVERS.c.state != "accepted").distinct()
        with self._engine.connect() as connection:
            return set(connection.scalars(query))

    def records(self, task_ids: Sequence[str]) -> dict[str, StoredRelease]:
        """Return the releases of the only batch of some tasks, as far as there are any."""
        query = _select_release.where(_RELEASES.c.task_id.in_(task_ids), _RELEASES.c.batch == BATCH)
        with self._engine.connect() as connection:
            return {row.task_id: StoredRelease(*row) for row in connection.execute(query)}

    def num_releases(self, task_ids: Sequence[str]) -> dict[str, int]:
        """Return how many batches of some tasks are released; those without any are left out."""
        query = select(_RELEASES.c.task_id, func.count()).where(_RELEASES.c.task_id.in_(task_ids))
        with self._engine.connect() as connection:
            return {task_id: int(count) for task_id, count in connection.execute(query.group_by(_RELEASES.c.task_id))}

    def populations(self, scope: Scope) -> list[str]:
        """Return the populations of the tasks in a scope, in alphabetical order."""
        query = select(_TASKS.c.population).where(_in_scope(scope)).distinct()
        with self._engine.connect() as connection:
            return sorted(connection.scalars(query))


select_task = select(*(_TASKS.c[name] for name in StoredTask.__dataclass_fields__))
select_model = select(*(_MODELS.c[name] for name in StoredModel.__dataclass_fields__))
_select_release = select(*(_RELEASES.c[name] for name in StoredRelease.__dataclass_fields__))


def _in_parts(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    return (numbers[first : first + _AT_ONCE] for first in range(0, len(numbers), _AT_ONCE))


def _in_scope(scope: Scope) -> ColumnElement[bool]:
    if scope.is_everything:
        return _TASKS.c.number.is_not(None)
    return or_(_TASKS.c.task_id.in_(scope.tasks), _TASKS.c.population.in_(scope.populations))


def _chosen(
    connection: Connection, numbers: Select[int], number: ColumnElement[int], before: int | None, limit: int
) -> tuple[list[int], int | None]:
    """Return the numbers of a page's rows, and the cursor of the page after it; an index has all that is looked at."""
    if before is not None:
        numbers = numbers.where(number < before)
    found = connection.scalars(numbers.order_by(number.desc()).limit(limit + 1)).all()
    return list(found[:limit]), found[limit - 1] if len(found) > limit else None
