"""A database changed beneath a real server, while uploads come: none is acknowledged afterwards, and it ends itself.

The machine may be busy: a server has three seconds to notice what it looks for every half a second.
"""

import asyncio
import itertools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psycopg
import pytest
from typer.testing import CliRunner

from lintra_protocol.encoding.canonical import HASH_BYTES
from lintra_protocol.task import ServerEntry, Task
from lintra_server.cli import app
from lintra_server.settings import Settings
from lintra_service.supervisor import HALTED
from support.postgres import Cluster
from support.server_world import PRECISION, World, _wait_until_ready, a_world, configured

BOUND = 3.0
SENDERS, BEFORE, PAGES, TASKS = 3, 20, 150, 3
"""How many send at once, how many reports come before a change, how many fill several pages of a
database, and how many tasks come before it."""

RUN = "from lintra_server.cli import app; app()"
BLIND = (
    "from lintra_server.storage import identity, sqlite_files; identity.LOOK_SECONDS = 1e6; "
    "sqlite_files.WatchedSqlite.begin = lambda _: None; "
)
"""A server that looks at no file."""

FORGETFUL = (
    "from lintra_server.storage import batch_states, identity, postgres, tasks; "
    "identity.LOOK_SECONDS = 1e6; "
    "postgres.PostgresDatabase._require_same = lambda *_: None; "
    "postgres.require_position = lambda *_: None; "
    "batch_states.BatchStates._require_head = lambda *_: None; "
    "tasks.StoredTasks._require_entered = lambda *_: None; "
)
"""A server that does not look which PostgreSQL answers, nor compares anything with what it knows."""


@dataclass
class Live:
    """A real server, and clients that send to it.

    Attributes:
        acknowledged: when each answer's request was sent, and the identifiers of its reports.
        registered: when each request was sent by which a task was registered.
    """

    world: World
    settings: Settings
    process: subprocess.Popen[str]
    acknowledged: list[tuple[float, list[bytes]]] = field(default_factory=list)
    registered: list[float] = field(default_factory=list)
    ended: bool = False

    async def send(self, number: int) -> None:
        """Send one report after the other until told to end; whatever fails, another one is tried."""
        for count in itertools.count():
            if self.ended:
                return
            (report,) = self.world.reports(1, f"sender {number}, {count}")
            began = time.monotonic()
            with suppress(httpx2.HTTPError, AssertionError):
                answer = await self.world.upload(0, [report])
                if not answer.failures:
                    self.acknowledged.append((began, [report.report_id]))
                    continue
            await asyncio.sleep(0.01)

    async def register(self) -> None:
        """Register one task after the other."""
        for number in itertools.count():
            if self.ended:
                return
            task = self.world.task.model_copy(update={"purpose": f"task {number}"})
            began = time.monotonic()
            with suppress(httpx2.HTTPError):
                if (await self.world.register(0, task)).status_code == 201:
                    self.registered.append(began)
            await asyncio.sleep(0.05)

    async def change(
        self, change: Callable[[], object], senders: int = SENDERS, authors: int = 1, before: int = BEFORE
    ) -> tuple[float, float | None]:
        """Change something while clients send; return when that was done, and how long the server then lived."""
        sending = [asyncio.create_task(self.send(number)) for number in range(senders)]
        sending += [asyncio.create_task(self.register()) for _ in range(authors)]
        while (senders and len(self.acknowledged) < before) or (authors and len(self.registered) < TASKS):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(change)
        changed = time.monotonic()
        while self.process.poll() is None and time.monotonic() < changed + BOUND:
            await asyncio.sleep(0.01)
        lived = None if self.process.poll() is None else time.monotonic() - changed
        self.ended = True
        await asyncio.gather(*sending)
        return changed, lived

    def after(self, moment: float) -> list[bytes]:
        """Return what was acknowledged although it was sent after a moment."""
        return [report_id for began, ids in self.acknowledged if began > moment for report_id in ids]

    def last_words(self) -> str:
        """Return what the server wrote last; it has ended."""
        assert self.process.returncode == HALTED
        assert self.process.stderr is not None
        return [line for line in self.process.stderr.read().splitlines() if "halted" in line][-1]


@asynccontextmanager
async def a_live_server(folder: Path, without: str = "", url: str | None = None) -> AsyncIterator[Live]:
    """Give a real server that has a task and some reports; `without` takes a rule out of it."""
    config, settings = configured(folder)
    environment = {} if url is None else {"LINTRA_SERVER_DATABASE_URL": url}
    identity_key = CliRunner().invoke(app, ["keys", "--config", str(config)], env=environment).output.strip()
    async with a_world(folder / "made", "sum", num_servers=2) as made:
        servers = (ServerEntry(url=settings.public_url, identity_key=identity_key), *made.task.servers[1:])
        hour = int(time.time()) // PRECISION
        changes = {"servers": servers, "not_before": hour - 1, "not_after": hour + 24}
        made.task = Task.from_canonical(made.task.model_copy(update=changes).canonical())
        command = [sys.executable, "-c", without + RUN, "run", "--config", str(config)]
        environment |= os.environ
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
            try:
                _wait_until_ready(f"http://127.0.0.1:{settings.internal_port}/readyz", process)
                async with httpx2.AsyncClient(base_url=settings.public_url) as http:
                    made.http[0] = http
                    assert (await made.register(0)).status_code == 201
                    await made.upload(0, made.reports(5, "first"))
                    yield Live(made, settings, process)
            finally:
                process.kill()


def split(ids: bytes) -> set[bytes]:
    return {ids[start : start + HASH_BYTES] for start in range(0, len(ids), HASH_BYTES)}


# --- SQLite ---------------------------------------------------------------------------------------------------------


def copied(path: Path) -> Path:
    """Copy a database through SQLite while a server has it, as a backup does."""
    old = path.with_name("old.sqlite")
    with closing(sqlite3.connect(path)) as live, closing(sqlite3.connect(old)) as copy:
        live.backup(copy)
    return old


def in_files(path: Path) -> set[bytes]:
    """Return the reports in the database that a path names, as the next process would find it."""
    with closing(sqlite3.connect(path)) as named:
        try:
            return {each for (ids,) in named.execute("SELECT ids FROM segments") for each in split(ids)}
        except sqlite3.DatabaseError:
            return set()


CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "an old copy is moved over it": lambda path, old: old.replace(path),
    "a new empty file is moved over it": lambda path, old: (old.write_bytes(b""), old.replace(path)),
    "it is deleted": lambda path, _: path.unlink(),
    "an old copy is written into it": lambda path, old: shutil.copyfile(old, path),
    "its log is deleted": lambda path, _: path.with_name(f"{path.name}-wal").unlink(),
}  # fmt: skip


@pytest.mark.slow  # a process of its own each
@pytest.mark.parametrize("busy", [True, False], ids=["busy", "quiet"])
@pytest.mark.parametrize("change", CHANGES)
async def test_nothing_is_acknowledged_after_a_file_was_changed_and_the_server_ends(
    tmp_path: Path, change: str, busy: bool
) -> None:
    async with a_live_server(tmp_path) as live:
        path = live.settings.data_dir / "lintra.sqlite"
        old = copied(path)
        changed, lived = await live.change(lambda: CHANGES[change](path, old), SENDERS * busy, int(busy))
        assert lived is not None
        assert live.after(changed) == []
        assert not [began for began in live.registered if began > changed]
        said = live.last_words()
        assert "this is not the database that the server wrote" in said
        assert "lintra server doctor" in said


# What is written into it other rules find, sooner or later.
@pytest.mark.slow  # a process of its own each
@pytest.mark.parametrize("change", [change for change in CHANGES if "into it" not in change])
async def test_a_server_that_looks_at_no_file_acknowledges_what_no_database_holds(tmp_path: Path, change: str) -> None:
    async with a_live_server(tmp_path, BLIND) as live:
        path = live.settings.data_dir / "lintra.sqlite"
        old = copied(path)

        def changed_later() -> None:
            with closing(sqlite3.connect(path)) as live_too:  # as a server does now and then
                live_too.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            CHANGES[change](path, old)

        changed, lived = await live.change(changed_later, before=PAGES)
        assert lived is None
        assert live.after(changed)
        live.process.send_signal(signal.SIGKILL if "log" in change else signal.SIGTERM)
        live.process.wait()
        assert not {each for _, ids in live.acknowledged for each in ids} <= in_files(path)


# --- PostgreSQL -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def on_a_cluster(folder: Path, without: str = "") -> AsyncIterator[tuple[Live, Cluster]]:
    """Give a real server, and the cluster that only it uses."""
    cluster = Cluster()
    try:
        async with a_live_server(folder, without, cluster.url) as live:
            yield live, cluster
    finally:
        cluster.close()


def in_postgres(url: str) -> tuple[set[bytes], int]:
    """Return the reports of a database, and how many tasks it has."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT ids FROM segments").fetchall()
        (tasks,) = connection.execute("SELECT count(*) FROM tasks").fetchone() or (0,)
        return {each for (ids,) in rows for each in split(ids)}, tasks


@pytest.mark.slow  # a cluster of its own
@pytest.mark.parametrize("senders", [SENDERS, 0], ids=["reports and tasks", "tasks"])
async def test_an_old_base_backup_in_the_place_of_its_original_takes_nothing_and_ends_the_server(
    tmp_path: Path, senders: int
) -> None:
    async with on_a_cluster(tmp_path) as (live, cluster):
        await asyncio.to_thread(cluster.copy)
        changed, lived = await live.change(cluster.start_copy, senders)
        assert lived is not None
        assert live.after(changed) == []
        assert not [began for began in live.registered if began > changed]
        assert in_postgres(cluster.url)[1] == 1
        assert "set back" in live.last_words()


@pytest.mark.slow  # a cluster of its own
async def test_a_server_that_compares_nothing_takes_a_task_into_an_old_base_backup(tmp_path: Path) -> None:
    async with on_a_cluster(tmp_path, FORGETFUL) as (live, cluster):
        await asyncio.to_thread(cluster.copy)
        changed, _ = await live.change(cluster.start_copy, 0)
        assert [began for began in live.registered if began > changed]


@pytest.mark.slow  # a cluster of its own
async def test_a_postgresql_that_was_only_started_again_is_believed(tmp_path: Path) -> None:
    async with on_a_cluster(tmp_path) as (live, cluster):

        def again() -> None:
            cluster.kill()
            cluster.start()

        changed, lived = await live.change(again)
        assert lived is None
        assert live.after(changed)
        held, tasks = in_postgres(cluster.url)
        assert {each for _, ids in live.acknowledged for each in ids} <= held
        assert tasks == 1 + len(live.registered)
