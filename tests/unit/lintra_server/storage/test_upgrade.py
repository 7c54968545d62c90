"""A database of the first schema is copied aside, brought up to date, and taken over by an explicit command only."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect

from lintra_protocol.randomness import system_randomness
from lintra_server.node import Node, new_clock
from lintra_server.operating.founding import found
from lintra_server.operating.restoring import Restored, restore
from lintra_server.settings import Settings
from lintra_server.storage.database import REVISION, Database
from lintra_server.storage.parts import NotStartedError, lock_folders
from lintra_service import migrations
from lintra_service.settings import InvalidSettingsError
from support.server_world import Clock

DUMP = Path(__file__).with_name("schema_1.sql")
"""A server of the first schema with three batches of 12, 5 and 12 reports: released, open and frozen."""


def upgraded(folder: Path) -> Settings:
    """Put the database and the keys of the first schema where a server of today looks for them."""
    lines = DUMP.read_text("utf-8").splitlines()
    settings = Settings(public_url="https://server0.example", data_dir=folder / "data", key_dir=folder / "keys")
    for path in (settings.data_dir, settings.key_dir):
        path.mkdir(mode=0o700)
    for line, name in zip(lines[:2], ("storage-root.key", "identity.key"), strict=True):
        path = settings.key_dir / name
        path.write_text(line.split()[-1] + "\n", "ascii")
        path.chmod(0o600)
    database = settings.data_dir / "lintra.sqlite"
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript("\n".join(lines[2:]))
    database.chmod(0o600)
    return settings


@contextmanager
def running(settings: Settings, clock: Clock) -> Iterator[Node]:
    node = Node(settings, system_randomness, clock, clock, pytest.fail)
    try:
        yield node
    finally:
        node.close()


def adopted(settings: Settings, clock: Clock, *, adopt: bool) -> None:
    folder = lock_folders(settings, system_randomness)
    try:
        found(settings, system_randomness, folder, new_clock(settings, folder, clock, clock), adopt=adopt)
    finally:
        folder.close()


def layout(database: Database) -> dict[str, list[tuple[str, str, bool]]]:
    """Return the columns of every table, with type and whether a value may be missing."""
    with database.reading() as connection:
        tables = inspect(connection)
        return {
            name: sorted((str(c["name"]), str(c["type"]), bool(c["nullable"])) for c in tables.get_columns(name))
            for name in tables.get_table_names()
        }


def test_migrated_tables_are_those_that_a_new_database_has(tmp_path: Path) -> None:
    settings = upgraded(tmp_path)
    old, new = Database(settings.data_dir / "lintra.sqlite"), Database(tmp_path / "new.sqlite")
    assert layout(old) == layout(new)
    old.close()
    new.close()


def test_the_database_as_it_was_is_put_aside_first(tmp_path: Path) -> None:
    settings = upgraded(tmp_path)
    path = settings.data_dir / "lintra.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        before = "\n".join(connection.iterdump())
    Database(path).close()
    aside = path.with_name("lintra.sqlite.before-0001")
    assert aside.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(aside)) as connection:
        assert "\n".join(connection.iterdump()) == before
    Database(path).close()  # a second start has nothing to do
    assert len(list(settings.data_dir.glob("*.before-*"))) == 1


def test_an_interrupted_migration_begins_again_from_the_old_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = upgraded(tmp_path)
    path = settings.data_dir / "lintra.sqlite"
    migrate = migrations.migrate

    def crashing(connection: Connection, folder: Path, revision: str, target: str) -> None:
        migrate(connection, folder, revision, target)
        raise RuntimeError("power cut")

    with monkeypatch.context() as patched:
        patched.setattr(migrations, "migrate", crashing)
        with pytest.raises(RuntimeError, match="power cut"):
            Database(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT schema_version FROM about").fetchall() == [(1,)]
    database = Database(path)
    assert database._revision() == REVISION
    database.close()


def test_an_old_database_is_taken_over_only_if_the_operator_vouches_for_it(tmp_path: Path) -> None:
    settings, clock = upgraded(tmp_path), Clock()
    with pytest.raises(NotStartedError, match="the journal"):
        Node(settings, system_randomness, clock, clock, pytest.fail)
    with pytest.raises(NotStartedError, match="init --adopt"):
        adopted(settings, clock, adopt=False)
    adopted(settings, clock, adopt=True)
    with running(settings, clock) as node:
        states = {row.task: row.state for row in node.states.rows()}
        assert states == {1: "released", 2: "open", 3: "frozen"}
        # Every share opens under the root key and a new secret; the root key alone opens nothing any more.
        assert [sum(1 for _ in node.store.segments(task).payloads()) for task in (1, 2, 3)] == [1, 1, 1]
        assert len(node.store.nonce(3)) == 32
        with node.database.reading() as connection:
            wrapped = connection.exec_driver_sql("SELECT task, wrapped_key FROM batches").all()
        for task, key in wrapped:
            with pytest.raises(ValueError, match="root key"):
                node._parts.vault.unwrap(key, "batch key", task.to_bytes(8, "big"))


def test_a_copy_of_the_old_database_that_is_put_back_after_the_upgrade_opens_nothing(tmp_path: Path) -> None:
    settings, clock = upgraded(tmp_path), Clock()
    adopted(settings, clock, adopt=True)
    with running(settings, clock):
        pass
    database = settings.data_dir / "lintra.sqlite"
    copy = (settings.data_dir / "lintra.sqlite.before-0001").read_bytes()
    for path in settings.data_dir.iterdir():
        if path.is_file():
            path.unlink()
    database.write_bytes(copy)
    database.chmod(0o600)
    with pytest.raises(NotStartedError, match="belongs to no journal"):
        Node(settings, system_randomness, clock, clock, pytest.fail)
    with pytest.raises(NotStartedError, match="has a journal"):
        adopted(settings, clock, adopt=True)
    assert journal_lost(settings, clock).abandoned == 2
    with running(settings, clock) as node:
        assert {row.state for row in node.states.rows()} <= {"released", "scrubbed", "abandoned"}


def journal_lost(settings: Settings, clock: Clock) -> Restored:
    folder = lock_folders(settings, system_randomness)
    try:
        guarded = new_clock(settings, folder, clock, clock)
        return restore(settings, system_randomness, folder, guarded, journal_lost=True)
    finally:
        folder.close()


def test_a_database_of_a_later_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    settings = upgraded(tmp_path)
    path = settings.data_dir / "lintra.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE about SET schema_version = 99")
        connection.commit()
    with pytest.raises(InvalidSettingsError, match="schema version 0099"):
        Database(path)
    assert not list(settings.data_dir.glob("*.before-*"))
