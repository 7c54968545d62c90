"""Formats are kept: what servers of any tagged version left on their disks is listed, goes on and is released."""

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lintra_protocol import __version__
from lintra_protocol.task import Task
from lintra_server.operations.doctor import Doctor
from lintra_server.storage.database import REVISION, Database
from lintra_server.storage.postgres import PostgresDatabase
from lintra_server.storage.server_resources import DATABASE_FILE
from support import postgres
from support.frozen_server import (
    POSTGRES,
    REPORTS,
    SAID,
    SERVERS,
    database_of,
    fixed,
    released,
    tables_at,
    thawed_world,
    versions,
)
from support.server_world import World
from support.windowed_world import at, frozen, shares_of

VERSIONS = versions()
NAMES = [path.name for path in VERSIONS]


def then(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / SAID).read_text("utf-8"))
    return found


def tasks_of(folder: Path) -> dict[str, Task]:
    said = then(folder)["tasks"]
    return {purpose: Task.from_canonical(each["definition"].encode()) for purpose, each in said.items()}


@contextmanager
def started(folder: Path, here: Path, kind: str = "sqlite") -> Iterator[World]:
    """Give servers of today that run on the files of an earlier version."""
    world = thawed_world(folder, here, postgres.fresh("frozen") if kind == "postgres" else None)
    for server in range(SERVERS):
        world.start(server)
    try:
        yield world
    finally:
        world.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("folder", VERSIONS, ids=NAMES)
async def test_what_was_said_of_old_tasks_is_said_again_byte_by_byte(folder: Path, kind: str, tmp_path: Path) -> None:
    with started(folder, tmp_path, kind) as world:
        assert await fixed(world, tasks_of(folder)) == then(folder)["tasks"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("folder", VERSIONS, ids=NAMES)
async def test_old_batches_go_on_from_every_state_and_give_the_sums_that_they_would_have_given(
    folder: Path, kind: str, tmp_path: Path
) -> None:
    sums, tasks = then(folder)["sums"], tasks_of(folder)
    with started(folder, tmp_path, kind) as world:
        for purpose in ("closed", "frozen"):
            world.task = tasks[purpose]
            assert await released(world, await world.aggregate_request()) == sums[purpose]
        world.task = tasks["open"]
        before, late = world.reports(REPORTS), world.reports(1, "late")
        for server in range(SERVERS):
            assert (await world.upload(server, [*before, *late])).failures == ()
        inventory = (await world.inventories())[0].message
        assert inventory.count == REPORTS + 1
        assert len(await released(world, await world.aggregate_request())) == len(sums["closed"])
        world.task = tasks["windows"]
        at(world, 4)
        _, request = await frozen(world, 0)
        assert len(await shares_of(world, 0, request)) == SERVERS
        for server in range(SERVERS):
            world.apps[server].node.maintain()
            world.reopen(server)


@pytest.mark.parametrize("folder", VERSIONS, ids=NAMES)
def test_the_doctor_finds_nothing_wrong_with_old_data(folder: Path, tmp_path: Path) -> None:
    world = thawed_world(folder, tmp_path)
    for settings in world.settings:
        doctor = Doctor(settings, Path("server.toml"), world.clock, world.clock, lambda _: None)
        assert [one.what for one in doctor.examine() if one.severity == "trouble"] == []


# --- rows that nobody can read ------------------------------------------------------------------------------------

NO_ANSWER = {"journal", "alembic_version"}
"""Tables without which a start is refused, in words (see the tests of the doctor)."""


def columns_of(folder: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript((folder / database_of(0)).read_text("utf-8"))
        tables = [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [
            (table, str(column))
            for table in tables
            for _, column, _, _, _, key in connection.execute(f"PRAGMA table_info({table})")
            if not key and table not in NO_ANSWER
        ]


def spoil(connection: sqlite3.Connection, columns: Sequence[tuple[str, str]], row: int, value: str) -> None:
    """Write a value into some columns of all rows of a task and of its batch, which have one number."""
    for table, column in columns:
        where = {"tasks": f"task = {row}", "segments": f"key >> 32 = {row}"}.get(table, f"batch = {row}")
        assert connection.execute(f"UPDATE {table} SET {column} = {value} WHERE {where}").rowcount


@pytest.mark.parametrize("each", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["together", "one by one"])
@pytest.mark.parametrize("value", ["x'00'", "'x'", "9223372036854775807"], ids=["bytes", "text", "number"])
@pytest.mark.parametrize("folder", VERSIONS[-1:], ids=NAMES[-1:])
async def test_rows_of_a_task_that_nobody_can_read_break_neither_the_start_nor_the_upkeep_nor_another_task(
    folder: Path, value: str, each: bool, tmp_path: Path
) -> None:
    said, tasks, spoilt = then(folder)["tasks"], tasks_of(folder), "closed"
    world = thawed_world(folder, tmp_path)
    path = world.settings[0].data_dir / DATABASE_FILE
    sound = path.read_bytes()
    columns = columns_of(folder)
    for group in [[column] for column in columns] if each else [columns]:
        path.write_bytes(sound)
        with closing(sqlite3.connect(path)) as connection, connection:
            spoil(connection, group, list(tasks).index(spoilt) + 1, value)
        world.start(0)
        world.apps[0].node.maintain()
        for purpose, task in tasks.items():
            world.task = task
            listed = await world.ask(0, "GET", "/batches")
            if purpose != spoilt:
                assert (listed.status_code, listed.json()) == (200, said[purpose]["batches"]), group
            else:
                assert listed.status_code in (200, 404, 503), (group, listed.text)
                assert (await world.close_batch(0)).status_code in (200, 404, 410, 503), group
        world.kill(0)
        for beside in path.parent.glob(f"{path.name}-*"):
            beside.unlink()
    assert world.halts == []


# --- the schema ---------------------------------------------------------------------------------------------------


def revision_of(folder: Path) -> str:
    found = re.search(r"INSERT INTO \"?alembic_version\"? VALUES\('(\d+)'\)", (folder / database_of(0)).read_text())
    assert found is not None
    return found[1]


def schema_of(connection: sqlite3.Connection) -> list[str]:
    made = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
    return [" ".join(sql.split()) for (sql,) in made]


@pytest.mark.parametrize("folder", [path for path in VERSIONS if revision_of(path) == REVISION])
def test_a_schema_that_was_tagged_does_not_change_under_the_same_revision(folder: Path, tmp_path: Path) -> None:
    Database(tmp_path / "now.sqlite").close()
    with closing(sqlite3.connect(tmp_path / "now.sqlite")) as now, closing(sqlite3.connect(":memory:")) as before:
        before.executescript((folder / database_of(0)).read_text("utf-8"))
        assert schema_of(now) == schema_of(before)
    url = postgres.fresh("frozen")
    PostgresDatabase(url).close()
    assert tables_at(url) == (folder / POSTGRES).read_text("utf-8")


def test_every_revision_of_a_tag_is_known_and_this_version_is_frozen() -> None:
    # A new tag adds a folder: PYTHONPATH=tests python -m support.frozen_server VERSION
    assert VERSIONS[-1].name == f"server-{__version__}"
    assert all(revision_of(folder) <= REVISION for folder in VERSIONS)
