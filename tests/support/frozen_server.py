"""What two servers of some tagged version left on their disks: frozen once at its tag, opened by every later version.

    PYTHONPATH=tests .venv/bin/python -m support.frozen_server 0.1.0

writes `tests/support/frozen/server-0.1.0/` from the present code: a task in each state that lasts, one with tokens and
one with windows. The root keys are in it. A frozen folder is never changed again: a new tag adds one.
"""

import asyncio
import base64
import json
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from psycopg import sql
from pydantic import SecretStr

from lintra_protocol.crypto.sharing import combine
from lintra_protocol.crypto.tokens import key_commitment
from lintra_protocol.messages.documents import AggregateRequest
from lintra_protocol.task import Task
from lintra_server.storage.server_resources import DATABASE_FILE
from support import postgres
from support.server_world import TOKEN_KEYS, World, new_world
from support.windowed_world import reports_of, windowed

FROZEN = Path(__file__).with_name("frozen")
POSTGRES, FILES, SAID = "postgres.sql", "files.json", "said.json"
PURPOSES = ("open", "closed", "frozen", "released")
REPORTS = 14
SERVERS = 2
_WITHOUT = ("lock", "reserve", "scratch", ".probe")


def versions() -> list[Path]:
    """Return the frozen folders, the oldest first."""
    return sorted(FROZEN.glob("server-*"), key=lambda path: [int(part) for part in path.name[7:].split(".")])


def database_of(server: int) -> str:
    """Return the name of the file that holds the database of a server as text."""
    return f"database{server}.sql"


# --- what happens before ------------------------------------------------------------------------------------------


async def furnish(world: World) -> dict[str, Task]:
    """Let a task come to each state, and return the tasks by what they are."""
    made = {purpose: _changed(world.task, purpose=purpose) for purpose in PURPOSES}
    keys = tuple(map(key_commitment, TOKEN_KEYS[:SERVERS]))
    made["open"] = _changed(made["open"], client_auth="token", token_keys=keys)
    made["windows"] = windowed(_changed(world.task, purpose="windows"))
    for purpose, task in made.items():
        world.task = task
        for server in range(SERVERS):
            assert (await world.register(server)).status_code == 201
        reports = reports_of(world, 0, REPORTS) if purpose == "windows" else world.reports(REPORTS)
        for server in range(SERVERS):
            # In several commits, and one report reached one server only.
            for first, last in ((0, 9), (9, 13), (13, REPORTS - server)):
                if first < last:
                    assert (await world.upload(server, reports[first:last])).failures == ()
    await step(world, made["closed"], "closed")
    await step(world, made["frozen"], "frozen")
    await step(world, made["released"], "released")
    for task in made.values():
        world.task = task
        assert (await world.ask(0, "GET", "/batches")).status_code == 200  # leaves a look
    return made


async def step(world: World, task: Task, until: str) -> list[int] | None:
    """Bring a task to a state, through those before; of a released one return the sum of its sketch, word by word."""
    world.task = task
    if until == "closed":
        await world.inventories()
        return None
    request = await world.aggregate_request()
    if until == "frozen":
        return None
    return await released(world, request)


async def released(world: World, request: AggregateRequest) -> list[int]:
    """Let both servers release, and return the sum of the sketch."""
    shares = []
    for server in range(SERVERS):
        answer = await world.release(server, request)
        assert answer.status_code == 200, answer.text
        shares.append(world.opened(server, answer.content)[1])
    return [int(word) for word in combine(np.stack(shares)).ravel()]


async def fixed(world: World, tasks: dict[str, Task]) -> dict[str, Any]:
    """Return what the first server says of each task and will say for ever, and the states of their batches."""
    found: dict[str, Any] = {}
    for purpose, task in tasks.items():
        world.task = task
        record = await world.http[0].get(f"/v1/tasks/{task.task_id}")
        batches = await world.ask(0, "GET", "/batches")
        assert (record.status_code, batches.status_code) == (200, 200), batches.text
        documents = {"task": record.content}
        if purpose in ("closed", "frozen", "released"):
            documents["inventory"] = (await world.close_batch(0)).content
            documents["identifiers"] = (await world.ask(0, "GET", "/batches/0/inventory/ids")).content
        if purpose in ("frozen", "released"):
            documents["cohort"] = (await world.freeze(0)).content
        if purpose == "released":
            documents["share"] = (await world.release(0)).content
        found[purpose] = {
            "definition": task.canonical().decode(),
            "batches": batches.json(),
            "documents": {name: base64.b64encode(body).decode() for name, body in documents.items()},
        }
    return found


def _changed(task: Task, **changes: object) -> Task:
    return Task.from_canonical(task.model_copy(update=changes).canonical())


# --- to text and back ---------------------------------------------------------------------------------------------


def freeze(world: World, folder: Path) -> None:
    """Write what the servers, which were killed, have on their disks, as text."""
    folder.mkdir(parents=True)
    files: dict[str, str] = {}
    for server, settings in enumerate(world.settings):
        with closing(sqlite3.connect(settings.data_dir / DATABASE_FILE)) as connection:
            (folder / database_of(server)).write_text("\n".join(connection.iterdump()) + "\n", "utf-8")
        for name, place in (("data", settings.data_dir), ("keys", settings.key_dir)):
            for path in sorted(place.rglob("*")):
                inside = path.relative_to(place)
                if path.is_file() and inside.parts[0] not in _WITHOUT and not path.name.startswith(DATABASE_FILE):
                    kept = f"{name}{server}/{inside.as_posix()}"
                    files[kept] = base64.b64encode(path.read_bytes()).decode()
    (folder / FILES).write_text(json.dumps(files, indent=1) + "\n", "utf-8")
    (folder / POSTGRES).write_text(_tables_of_postgres(), "utf-8")


def thaw(frozen: Path, world: World, url: str | None = None) -> None:
    """Write the frozen servers' files where a world's servers, which were killed, look for theirs.

    Args:
        frozen: what they left.
        world: its first server may have its database at an address.
        url: of an empty database.
    """
    for server, settings in enumerate(world.settings):
        for place in (settings.data_dir, settings.key_dir):
            shutil.rmtree(place)
            place.mkdir(mode=0o700)
        with closing(sqlite3.connect(settings.data_dir / DATABASE_FILE)) as connection:
            connection.executescript((frozen / database_of(server)).read_text("utf-8"))
        (settings.data_dir / DATABASE_FILE).chmod(0o600)
    for name, content in json.loads((frozen / FILES).read_text("utf-8")).items():
        first, _, inside = name.partition("/")
        settings = world.settings[int(first[-1])]
        path = (settings.data_dir if first.startswith("data") else settings.key_dir) / inside
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(content))
        path.chmod(0o600)
    if url is not None:
        database = world.settings[0].data_dir / DATABASE_FILE
        _fill(url, (frozen / POSTGRES).read_text("utf-8"), database)
        database.unlink()


def _fill(url: str, tables: str, database: Path) -> None:
    """Make PostgreSQL's tables, with the rows of a SQLite database: their values are the same."""
    with psycopg.connect(url) as target, closing(sqlite3.connect(database)) as source:
        target.execute(tables.encode())
        names = [str(name) for (name,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            found = source.execute(f"SELECT * FROM {name}")
            columns = [sql.Identifier(each[0]) for each in found.description]
            places = sql.SQL(", ").join([sql.Placeholder()] * len(columns))
            into = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                sql.Identifier(name), sql.SQL(", ").join(columns), places
            )
            with target.cursor() as cursor:
                cursor.executemany(into, found.fetchall())


def _tables_of_postgres() -> str:
    """Return the statements that make the tables of today in PostgreSQL."""
    from lintra_server.storage.postgres import PostgresDatabase

    url = postgres.fresh("frozen")
    PostgresDatabase(url).close()
    return tables_at(url)


def tables_at(url: str) -> str:
    """Return the statements that make the tables of a database in PostgreSQL, in the order of their names."""
    made = []
    with psycopg.connect(url) as connection:
        tables = "SELECT oid, relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
        for oid, table in connection.execute(tables + " ORDER BY relname").fetchall():
            columns = connection.execute(
                "SELECT attname, format_type(atttypid, atttypmod), attnotnull, attstorage FROM pg_attribute "
                "WHERE attrelid = %s AND attnum > 0 ORDER BY attnum",
                [oid],
            ).fetchall()
            lines = [f"{name} {kind}{' NOT NULL' if required else ''}" for name, kind, required, _ in columns]
            keys = connection.execute(
                "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s AND contype = 'p'", [oid]
            ).fetchall()
            lines += [key for (key,) in keys]
            body = ",\n  ".join('"first"' + line[5:] if line.startswith("first ") else line for line in lines)
            made.append(f"CREATE TABLE {table} (\n  {body}\n);\n")
            made += [
                f"ALTER TABLE {table} ALTER {name} SET STORAGE EXTERNAL;\n"
                for name, _, _, storage in columns
                if storage == "e"
            ]
    return "".join(made)


def thawed_world(frozen: Path, folder: Path, url: str | None = None) -> World:
    """Give servers of today on the files of an earlier version; they are not started yet, and the caller ends them."""
    world = new_world(folder, "sum", num_servers=SERVERS)
    for server in range(SERVERS):
        world.kill(server)
    thaw(frozen, world, url)
    if url is not None:
        world.settings[0] = world.settings[0].model_copy(update={"database_url": SecretStr(url)})
    return world


async def _freeze_new(frozen: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = new_world(Path(folder), "sum", num_servers=SERVERS)
        with closing(world):
            tasks = await furnish(world)
            for server in range(SERVERS):
                world.apps[server].node.maintain()  # as at the next start
            heard = await fixed(world, tasks)
            for server in range(SERVERS):
                world.apps[server].node.close()
            freeze(world, frozen)
            for server in range(SERVERS):
                world.start(server)
            # How it went on: what every later version has to make of the same disks.
            sums = {purpose: await step(world, tasks[purpose], "released") for purpose in ("closed", "frozen")}
            (frozen / SAID).write_text(json.dumps({"tasks": heard, "sums": sums}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    asyncio.run(_freeze_new(FROZEN / f"server-{sys.argv[1]}"))
