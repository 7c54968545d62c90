"""The analyzer's store: tasks, their registrations, jobs, the servers' answers, and releases.

SQLite with a write-ahead log and full synchronisation: what a method stored survives a power cut. Every method is one
transaction and may be called from any thread. Lists of identifiers are files in a folder beside it, which the database
names (see `list_files`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.exc import SQLAlchemyError

from lintra_analyzer.storage import tables
from lintra_analyzer.storage.database import TrustedCounter, damaged, open_database, require_intact
from lintra_analyzer.storage.list_files import ALL_SERVERS, NAMING_SECONDS, KeptLists
from lintra_analyzer.storage.pages import Listed, select_model, select_task
from lintra_analyzer.storage.rows import (
    DocumentKind,
    Job,
    ServerState,
    StoredModel,
    StoredTask,
    as_json,
    job_of,
    server_state_of,
)
from lintra_analyzer.storage.trusted_file import FILE, Trusted, TrustedFile
from lintra_analyzer.storage.users import Users
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.errors import TaskConflictError, UnknownResourceError, UnknownTaskError
from lintra_protocol.fields.windows import MAX_WINDOWS
from lintra_protocol.messages.documents import BATCH
from lintra_service.settings import InvalidSettingsError
from lintra_service.spooled_bodies import BodyFolder


class KnownServers:
    """Keys and numbers of starts, in the trusted file; thread-safe."""

    def __init__(self, file: TrustedFile) -> None:
        """Keep them in the trusted file."""
        self._file = file

    def pinned_key(self, url: str) -> str | None:
        """Return the identity key that the server at an address had when it was first met."""
        return self._file.state().pins.get(url)

    def pin(self, url: str, identity_key: str) -> str:
        """Keep a server's identity key, unless there is one already; return the one that counts."""

        def step(old: Trusted) -> tuple[Trusted, str]:
            if url in old.pins:
                return old, old.pins[url]
            return replace(old, pins={**old.pins, url: identity_key}), identity_key

        return self._file.change(step)

    def highest_start(self, identity_key: str, start: int) -> int:
        """Remember how often a server says it has begun; return the largest number it ever said."""
        # A census asks for this each time, and the number seldom rises.
        known = self._file.state().starts.get(identity_key, -1)
        if known >= start:
            return known

        def step(old: Trusted) -> tuple[Trusted, int]:
            highest = max(old.starts.get(identity_key, start), start)
            return replace(old, starts={**old.starts, identity_key: highest}), highest

        return self._file.change(step)


T = TypeVar("T")

DATABASE = "analyzer.sqlite"
"""Its name in the folder of the data."""


class Store:
    """The analyzer's database, the lists beside it, and the file in the key folder that says whom to trust.

    Attributes:
        users: who may ask, and who is signed in.
        servers: with which keys they were met.
        listed: tasks and releases in pages.
        lists: what is kept of lists of identifiers.
        bodies: of check shares, named by the documents.
    """

    def __init__(self, path: Path, key_dir: Path | None = None) -> None:
        """Open or create the database; one of an earlier version is copied aside and then brought up to date.

        `key_dir` is the folder of the keys; `keys` beside the database if it is not given. Raises InvalidSettingsError
        if the database belongs to another version of this program that is not an earlier one, or the file of those who
        are trusted is missing, damaged or old.
        """
        keys = key_dir or path.with_name("keys")
        self._engine = open_database(path, is_known=(keys / FILE).exists())
        try:
            require_intact(self._engine, path)
            self._trusted = TrustedFile(keys, TrustedCounter(self._engine))
            self.lists = KeptLists(self._engine, path.with_name("lists"))
        except SQLAlchemyError as error:
            self._engine.dispose()
            raise damaged(path, error) from None
        except InvalidSettingsError:
            self._engine.dispose()
            raise
        self.users = Users(self._trusted)
        self.servers = KnownServers(self._trusted)
        self.listed = Listed(self._engine)
        self.bodies = BodyFolder(path.with_name("checks"))

    def close(self) -> None:
        """Close all connections."""
        self._trusted.close()
        self._engine.dispose()

    def check(self) -> None:
        """Read one row, and whom to trust, as a sign of life."""
        self._trusted.state()
        self._read(lambda connection: connection.scalar(select(tables.alembic_version.c.version_num)))

    # --- tasks ---------------------------------------------------------------------------------------------------

    def add_task(self, task: StoredTask, num_servers: int, request_key: str | None) -> None:
        """Store a task before any server hears of it."""
        with self._engine.begin() as connection:
            connection.execute(insert(tables.tasks).values(**vars(task), request_key=request_key))
            rows = [{"task_id": task.task_id, "server": i, "state": "pending"} for i in range(num_servers)]
            connection.execute(insert(tables.registrations), rows)

    def task_of_request(self, request_key: str, specification: bytes) -> StoredTask | None:
        """Return the task that an earlier request with this key made.

        Raises TaskConflictError if that request asked for something else.
        """
        with self._engine.connect() as connection:
            row = connection.execute(select_task.where(tables.tasks.c.request_key == request_key)).one_or_none()
        if row is None:
            return None
        stored = StoredTask(*row)
        if stored.specification != specification:
            raise TaskConflictError("this Idempotency-Key was used before, with another specification")
        return stored

    def task(self, task_id: str) -> StoredTask:
        """Return a task; raise UnknownTaskError if there is none."""
        with self._engine.connect() as connection:
            row = connection.execute(select_task.where(tables.tasks.c.task_id == task_id)).one_or_none()
        if row is None:
            raise UnknownTaskError(task_id)
        return StoredTask(*row)

    def tasks(self) -> list[StoredTask]:
        """Return all tasks, the newest first."""
        with self._engine.connect() as connection:
            return [StoredTask(*row) for row in connection.execute(select_task.order_by(tables.tasks.c.number.desc()))]

    def task_named(self, request_key: str) -> str | None:
        """Return the identifier of the task that a request with this key made, or None."""
        table = tables.tasks
        return self._read(lambda c: c.scalar(select(table.c.task_id).where(table.c.request_key == request_key)))

    def task_of_release(self, release_id: str) -> str | None:
        """Return the identifier of the task that a release is of, or None if there is no such release."""
        table = tables.releases
        return self._read(lambda c: c.scalar(select(table.c.task_id).where(table.c.release_id == release_id)))

    def registrations(self, task_id: str) -> list[ServerState]:
        """Return what each server said to a task, in server order."""
        table = tables.registrations
        query = select(table.c.server, table.c.state, table.c.problem).where(table.c.task_id == task_id)
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(table.c.server)).all()
        return [server_state_of(*row) for row in rows]

    def set_registration(self, task_id: str, state: ServerState) -> None:
        """Keep what one server said to a task."""
        table = tables.registrations
        where = (table.c.task_id == task_id) & (table.c.server == state.server)
        with self._engine.begin() as connection:
            values = {"state": state.state, "problem": as_json(state.problem)}
            connection.execute(update(table).where(where).values(**values))

    # --- jobs and what they gathered -----------------------------------------------------------------------------

    def job(self, task_id: str, batch: int = BATCH) -> Job | None:
        """Return the job of a task's batch, if it was ever started."""
        query = _select_job.where(tables.jobs.c.task_id == task_id, tables.jobs.c.batch == batch)
        with self._engine.connect() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else job_of(*row)

    def jobs(self, task_id: str, first: int = 0, count: int = MAX_WINDOWS) -> list[Job]:
        """Return the jobs of so many of a task's batches that were ever started, by batch."""
        mine = (tables.jobs.c.task_id == task_id) & (tables.jobs.c.batch >= first)
        query = _select_job.where(mine, tables.jobs.c.batch < first + count).order_by(tables.jobs.c.batch)
        with self._engine.connect() as connection:
            return [job_of(*row) for row in connection.execute(query)]

    def running_jobs(self) -> list[Job]:
        """Return the jobs that a restart interrupted."""
        with self._engine.connect() as connection:
            found = connection.execute(_select_job.where(tables.jobs.c.state == "running"))
            return [job for job in (job_of(*row) for row in found) if job.state == "running"]

    def set_job(self, job: Job) -> None:
        """Keep how far a job is."""
        with self._engine.begin() as connection:
            _put_job(connection, job)

    def document(self, task_id: str, batch: int, kind: DocumentKind, server: int = ALL_SERVERS) -> bytes | None:
        """Return what was stored under this name, or None."""
        columns, where = tables.documents.c, _place(task_id, batch, kind, server)
        return self._read(lambda c: c.scalar(select(columns.body).where(where)))

    def has_document(self, task_id: str, batch: int, kind: DocumentKind, server: int = ALL_SERVERS) -> bool:
        """Return whether something is stored under this name."""
        columns, where = tables.documents.c, _place(task_id, batch, kind, server)
        return self._read(lambda c: c.scalar(select(columns.server).where(where))) is not None

    def put_document(
        self, task_id: str, batch: int, kind: DocumentKind, body: bytes, server: int = ALL_SERVERS
    ) -> None:
        """Store a server's answer that was already checked; the first one stays."""
        place = {"task_id": task_id, "batch": batch, "kind": kind, "server": server}
        statement = upsert(tables.documents).values(**place, body=body)
        with self._engine.begin() as connection:
            connection.execute(statement.on_conflict_do_nothing())

    def replace_census(self, task_id: str, batch: int, server: int, census: bytes, report_ids: ReportIds) -> None:
        """Store a server's census and its list, which is a file already, in place of those before."""
        place = {"task_id": task_id, "batch": batch, "kind": "census", "server": server}
        statement = upsert(tables.documents).values(**place, body=census)
        with self._engine.begin() as connection:
            connection.execute(statement.on_conflict_do_update(index_elements=list(place), set_={"body": census}))
            self.lists.replace(connection, task_id, batch, "census_ids", report_ids, server)
        self.lists.forget_unnamed(NAMING_SECONDS)

    def decision(self, task_id: str, batch: int) -> int | None:
        """Return the first of the windows that a window is released with, itself if alone; None if nobody decided."""
        body = self.document(task_id, batch, "first")
        return None if body is None else int(body)

    def decide(self, task_id: str, batch: int, first: int, merged: Sequence[Job]) -> None:
        """Keep, in one transaction, which windows are released together; what was decided before stays.

        `merged` is the jobs of all but the last.
        """
        place = {"task_id": task_id, "batch": batch, "kind": "first", "server": ALL_SERVERS}
        statement = upsert(tables.documents).values(**place, body=str(first).encode())
        with self._engine.begin() as connection:
            connection.execute(statement.on_conflict_do_nothing())
            for job in merged:
                _put_job(connection, job)

    # --- releases ------------------------------------------------------------------------------------------------

    def add_release(self, release_id: str, task_id: str, batch: int, record: bytes) -> str:
        """Store a release's signed record and end its job in one transaction; a batch's first release stays."""
        table = tables.releases
        statement = upsert(table).values(release_id=release_id, task_id=task_id, batch=batch, record=record)
        with self._engine.begin() as connection:
            connection.execute(statement.on_conflict_do_nothing())
            mine = (table.c.task_id == task_id) & (table.c.batch == batch)
            kept = str(connection.scalar(select(table.c.release_id).where(mine)))
            _put_job(connection, Job(task_id, "released", "released", None, kept, batch))
        return kept

    def release(self, release_id: str) -> bytes:
        """Return a release's signed record; raise UnknownResourceError if there is none."""
        record = self._read(
            lambda c: c.scalar(select(tables.releases.c.record).where(tables.releases.c.release_id == release_id))
        )
        if record is None:
            raise UnknownResourceError(f"no release {release_id}")
        return bytes(record)

    def releases(self) -> Sequence[bytes]:
        """Return the signed records of all releases, the newest first."""
        return self._read(
            lambda c: c.scalars(select(tables.releases.c.record).order_by(tables.releases.c.number.desc())).all()
        )

    def num_releases(self, task_id: str) -> int:
        """Return how many of a task's batches are released."""
        query = select(func.count()).where(tables.releases.c.task_id == task_id)
        return self._read(lambda connection: int(connection.scalar(query) or 0))

    def releases_of(self, task_id: str, first: int, count: int) -> dict[int, bytes]:
        """Return the signed records of the releases of so many of a task's batches, by batch."""
        table = tables.releases
        mine = (table.c.task_id == task_id) & (table.c.batch >= first) & (table.c.batch < first + count)
        query = select(table.c.batch, table.c.record).where(mine).order_by(table.c.batch)
        return self._read(lambda connection: {row.batch: row.record for row in connection.execute(query)})

    # --- models --------------------------------------------------------------------------------------------------

    def add_model(self, model: StoredModel) -> None:
        """Keep that the rounds after a task are made by themselves; a repetition changes nothing."""
        with self._engine.begin() as connection:
            connection.execute(upsert(tables.models).values(**vars(model)).on_conflict_do_nothing())

    def model(self, task_id: str) -> StoredModel:
        """Return the model whose first round is a task; raise UnknownTaskError if there is none."""
        query = select_model.where(tables.models.c.task_id == task_id)
        row = self._read(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            raise UnknownTaskError(task_id)
        return StoredModel(*row)

    def open_models(self) -> list[StoredModel]:
        """Return the models that have not ended, the oldest first."""
        query = select_model.where(tables.models.c.ended.is_(None)).order_by(tables.models.c.number)
        return self._read(lambda connection: [StoredModel(*row) for row in connection.execute(query)])

    def end_model(self, task_id: str, why: str) -> None:
        """Keep why no further round of a model is made; the first reason stays."""
        table = tables.models
        where = (table.c.task_id == task_id) & table.c.ended.is_(None)
        with self._engine.begin() as connection:
            connection.execute(update(table).where(where).values(ended=why))

    def _read(self, query: Callable[[Connection], T]) -> T:
        with self._engine.connect() as connection:
            return query(connection)


_select_job = select(*(tables.jobs.c[name] for name in Job.__dataclass_fields__))


def _put_job(connection: Connection, job: Job) -> None:
    values = {**vars(job), "problem": as_json(job.problem)}
    keys = ["task_id", "batch"]
    changes = {name: value for name, value in values.items() if name not in keys}
    statement = upsert(tables.jobs).values(**values)
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changes))


def _place(task_id: str, batch: int, kind: DocumentKind, server: int) -> ColumnElement[bool]:
    columns = tables.documents.c
    of_batch = (columns.task_id == task_id) & (columns.batch == batch)
    return of_batch & (columns.kind == kind) & (columns.server == server)
