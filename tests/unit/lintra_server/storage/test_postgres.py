"""A server on PostgreSQL gives the same bytes as one on SQLite, and trusts no database that forgets or was set back."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import psycopg
import pytest
from sqlalchemy import event, func, insert, inspect, select

from lintra_protocol.errors import UnavailableError
from lintra_protocol.messages.documents import AggregateRequest, Cohort, Signed
from lintra_server.durability.journal import BatchId
from lintra_server.operations.backup import back_up
from lintra_server.operations.doctor import Doctor
from lintra_server.operations.losses import Begun, begun
from lintra_server.operations.restore import put_database, restore
from lintra_server.storage import postgres as module
from lintra_server.storage.database import AnyDatabase, looks, segments
from lintra_server.storage.postgres import JournalPosition, PostgresDatabase
from lintra_server.storage.server_resources import NotStartedError, lock_folders
from lintra_service.settings import InvalidSettingsError
from support import postgres
from support.postgres_world import a_server, start
from support.server_world import World, seeded, token
from support.stores import Stored, add, empty


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    with empty("postgres", tmp_path) as made:
        yield made


@contextmanager
def operated(world: World) -> Iterator[Begun]:
    folder = lock_folders(world.settings[0], seeded("operator"))
    try:
        with begun(world.settings[0], seeded("operator"), folder) as server:
            yield server
    finally:
        folder.close()


# --- the same bytes -----------------------------------------------------------------------------------------------


async def life(folder: Path, url: str | None) -> tuple[list[bytes], np.ndarray]:
    """Return every document that a server gives out for the same reports and nonces, and its sketch share."""
    folder.mkdir()
    with a_server(folder, url) as world:
        for server in (0, 1):
            assert (await world.register(server)).status_code == 201
        reports = world.reports(15)
        for start_at in (0, 4, 9):
            await world.upload(0, reports[start_at : start_at + 6])  # some come twice
        await world.upload(1, reports[1:])
        said = [(await world.ask(0, "GET", "/counters")).content, (await world.close_batch(0)).content]
        await world.close_batch(1)
        frozen = [await world.freeze(server) for server in (0, 1)]
        assert [answer.status_code for answer in frozen] == [200, 200]
        request = AggregateRequest(cohorts=tuple(Signed[Cohort].from_canonical(each.content) for each in frozen))
        released = await world.release(0, request)
        assert (await world.release(0, request)).content == released.content
        said += [frozen[0].content, (await world.ask(0, "GET", "/batches/0/inventory/ids")).content]
        record, words = world.opened(0, released.content)
        return [*said, record.model_copy(update={"sealed": ""}).canonical()], words


async def test_sqlite_and_postgresql_give_the_same_bytes_for_the_same_reports_and_nonces(tmp_path: Path) -> None:
    file = await life(tmp_path / "sqlite", None)
    server = await life(tmp_path / "postgres", postgres.fresh("servers"))
    assert server[0] == file[0]
    np.testing.assert_array_equal(server[1], file[1])


# --- what is trusted ----------------------------------------------------------------------------------------------


def test_a_session_that_does_not_wait_for_the_disk_is_refused() -> None:
    with pytest.raises(InvalidSettingsError, match="synchronous_commit = off"):
        PostgresDatabase(postgres.emptied("stores") + "&options=-c%20synchronous_commit%3Doff")


@pytest.mark.slow  # of a cluster of its own
@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_a_postgresql_that_may_forget_a_commit_is_refused(name: str) -> None:
    with postgres.a_cluster() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET {name} = off")
            connection.execute("SELECT pg_reload_conf()")
            while connection.execute(f"SHOW {name}").fetchone() == ("on",):
                time.sleep(0.05)
        with pytest.raises(InvalidSettingsError, match=f"{name} = off"):
            PostgresDatabase(url)


def test_an_address_is_never_shown_and_one_that_leads_nowhere_is_refused_in_words() -> None:
    for url, said in {
        "postgresql://lintra:hunter2@127.0.0.1:1/nowhere": "cannot be used",
        "mysql://lintra:hunter2@host/name": "postgresql://",
        "hunter2": "postgresql://",
    }.items():
        with pytest.raises(InvalidSettingsError, match=said) as refused:
            PostgresDatabase(url)
        assert "hunter2" not in str(refused.value)


def test_a_database_that_holds_something_else_is_refused_and_stays_as_it_is() -> None:
    url = postgres.fresh("servers")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE patients (name text)")
    with pytest.raises(InvalidSettingsError, match="tables of something else"):
        PostgresDatabase(url)
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert tables == [("patients",)]


def test_after_a_failover_everything_that_this_process_knows_is_compared_first(stored: Stored) -> None:
    store = stored.open()
    database = store.database
    assert isinstance(database, PostgresDatabase)
    add(store, 1)
    add(store, 2)
    here = database._place
    assert here is not None
    # What a promoted replica looks like: another timeline. Nothing is missing.
    database._place = JournalPosition(here.cluster, "00000000")
    assert add(store, 2, 3) == [False, True]
    assert database._place == here
    # It was behind: nothing is read and nothing written any more.
    with database.writing() as connection:
        connection.execute(segments.delete().where(segments.c.total == 3))
    database._place = JournalPosition(here.cluster, "00000000")
    halts: list[str] = []
    database.halt = halts.append
    for use in (database.reading, database.writing, database.appending):
        with pytest.raises(UnavailableError), use():
            pass
    assert len(halts) == 3
    assert "set back" in halts[0]
    # Another cluster is another database, whatever it holds.
    database._place = JournalPosition(here.cluster + 1, here.timeline)
    with pytest.raises(UnavailableError):
        store.report_ids(1)
    assert "another database cluster" in halts[-1]


def test_what_is_stored_while_another_postgresql_is_compared_is_seen_by_who_asked_for_it(stored: Stored) -> None:
    """Whoever reads first after a failover knows of all that is stored until then; it must not miss that."""
    store, halts = stored.open(), list[str]()
    database = store.database
    assert isinstance(database, PostgresDatabase)
    add(store, 1)
    database.halt, waiting = halts.append, [2]

    def meanwhile(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "pg_" in statement and waiting:
            assert add(store, waiting.pop()) == [True]

    here = database._place
    assert here is not None
    database._place = JournalPosition(here.cluster, "00000000")
    event.listen(database._engine, "after_cursor_execute", meanwhile)
    try:
        with database.reading() as connection:
            seen = connection.execute(select(func.max(segments.c.total))).scalar()
    finally:
        event.remove(database._engine, "after_cursor_execute", meanwhile)
    assert seen == 2
    assert not waiting
    assert halts == []


def test_who_waited_for_a_lock_sees_what_was_committed_meanwhile_whatever_the_clusters_default_is() -> None:
    url = postgres.fresh("servers")
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    database = PostgresDatabase(url)
    for use in (database.writing, database.appending):
        with use() as connection:
            level = connection.exec_driver_sql("SHOW transaction_isolation").scalar_one()
        assert level == "read committed"
    database.close()


@pytest.mark.slow  # two clusters of its own
@pytest.mark.parametrize("behind", [False, True], ids=["a replica with everything", "a replica that was behind"])
async def test_a_server_goes_on_after_a_failover_unless_the_replica_was_behind(tmp_path: Path, behind: bool) -> None:
    pair = postgres.Pair()
    try:
        with a_server(tmp_path, pair.url) as world:
            assert (await world.register(0)).status_code == 201
            reports = world.reports(15)
            await world.upload(0, reports[:13])
            if behind:
                pair.copy()
                await world.upload(0, reports[13:])
            else:
                await world.upload(0, reports[13:])
                pair.copy()
            world.apps[0].node.note()  # as it does every second
            pair.fail_over()
            body = await world.body(0, world.reports(1, "late"))
            answers = [(await world.post(0, body)).status_code for _ in range(4)]  # the first meet dead connections
            assert answers[-1] == (503 if behind else 200)
            assert bool(world.halts) == behind
            if not behind:
                assert world.apps[0].node.store.num_reports(1) == 16
                assert (await world.close_batch(0)).status_code == 200
                return
            assert "set back" in world.halts[0]
            world.kill(0)
            # The next start holds the batch that was cut, and says what it lacks.
            start(world, pair.url)
            refused = [await world.post(0, body), await world.close_batch(0)]
            assert [answer.status_code for answer in refused] == [503, 503], [answer.text for answer in refused]
            assert all("reports 14 to 15 of 15 are gone" in answer.text for answer in refused)
            (what,) = troubles(world)
            assert "reports 14 to 15 of 15 are gone" in what
            world.kill(0)
            with operated(world) as server:
                loss = server.loss(BatchId(world.task.id_bytes, 0))
                # Nobody knows whether the only row that is left is one that was acknowledged.
                assert (loss.lost, loss.noted, loss.end.total) == (15, 15, 13)
                server.accept(loss)
            start(world, pair.url)
            assert (await world.post(0, body)).status_code == 200
    finally:
        pair.close()


@pytest.mark.slow  # a cluster of its own
def test_a_base_backup_that_lacks_a_write_which_nobody_counts_is_told_by_the_position_of_its_log() -> None:
    cluster = postgres.Cluster()
    halts: list[str] = []
    try:
        database = PostgresDatabase(cluster.url)
        database.halt = halts.append
        cluster.copy()
        with database.writing() as connection:
            connection.execute(
                insert(looks).values(batch=1, told_at=1, counters=os.urandom(1 << 16), reports=1, mac=b"")
            )
        database.check()
        cluster.start_copy()
        with pytest.raises(UnavailableError, match="does not answer"):
            database.check()
        with pytest.raises(UnavailableError, match="not where this server left it"):
            database.check()
        assert "PostgreSQL's log ends" in halts[0]
        database.close()
    finally:
        cluster.close()


def test_a_postgresql_that_was_only_started_again_is_compared_and_believed(stored: Stored) -> None:
    store = stored.open()
    database = store.database
    assert isinstance(database, PostgresDatabase)
    add(store, 1)
    compared: list[bool] = []
    database.expect(lambda _: compared.append(True))
    database.watch(lambda reason: pytest.fail(reason))
    here = database._place
    assert here is not None
    database._place = replace(here, started=here.started - 1)
    assert add(store, 2) == [True]
    assert compared
    assert database._place == here
    database._look_regularly()


def test_an_ordinary_user_who_owns_the_database_is_enough() -> None:
    url, name = postgres.fresh("servers"), f"plain_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP ROLE IF EXISTS {name}")
        connection.execute(f"CREATE ROLE {name} LOGIN")
        connection.execute(f"GRANT CREATE, USAGE ON SCHEMA public TO {name}")
    database = PostgresDatabase(url.replace("postgres:@", f"{name}:@"))
    database.touch()
    database.forget_log()
    database.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP OWNED BY {name}")
        connection.execute(f"DROP ROLE {name}")


def test_a_standby_is_no_database_for_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STANDBY", "SELECT true")
    with pytest.raises(InvalidSettingsError, match="standby"):
        PostgresDatabase(postgres.emptied("stores"))


def test_a_lost_connection_costs_an_answer_and_nothing_that_was_stored(stored: Stored) -> None:
    store = stored.open()
    add(store, 1)
    with psycopg.connect(postgres.database("stores"), autocommit=True) as connection:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        connection.execute(f"{others} AND pid <> pg_backend_pid()")
    with pytest.raises(UnavailableError, match="does not answer"):
        add(store, 2)
    assert add(store, 1, 2) == [False, True]


# --- operating ----------------------------------------------------------------------------------------------------


def troubles(world: World) -> list[str]:
    """Return what the doctor finds wrong with the first server."""
    doctor = Doctor(world.settings[0], Path("server.toml"), world.clock, world.clock, lambda _: None)
    return [finding.what for finding in doctor.examine() if finding.severity == "trouble"]


async def test_an_edited_row_in_postgresql_is_named_and_a_running_server_is_well(tmp_path: Path) -> None:
    with a_server(tmp_path, postgres.fresh("servers")) as world:
        assert (await world.register(0)).status_code == 201
        await world.upload(0, world.reports(13))
        assert troubles(world) == []
        world.apps[0].node.close()
        with psycopg.connect(postgres.database("servers"), autocommit=True) as connection:
            connection.execute("UPDATE segments SET ids = repeat('x', length(ids))::bytea")
            connection.execute("UPDATE tasks SET definition = ''")
        found = troubles(world)
        assert any("reports 1 to 13 of 13 are gone" in what for what in found)
        assert any("table tasks, row 1, column definition" in what for what in found)
        start(world, postgres.database("servers"))
        assert (await world.close_batch(0)).status_code in (404, 503)


async def test_a_server_on_an_old_copy_of_its_database_does_not_start_until_it_is_restored(tmp_path: Path) -> None:
    with a_server(tmp_path, postgres.fresh("servers")) as world:
        assert (await world.register(0)).status_code == 201
        await world.upload(0, world.reports(13))
        world.apps[0].node.close()
        copy = postgres.copied("servers", "old_copy")
        start(world, postgres.database("servers"))
        assert (await world.close_batch(0)).status_code == 200
        world.apps[0].node.close()
        with pytest.raises(NotStartedError, match="lintra server restore"):
            start(world, copy)
        assert any("the journal's last 1 steps" in what for what in troubles(world))
        folder = lock_folders(world.settings[0], seeded("restore"))
        done = restore(world.settings[0], seeded("restore"), folder, world.apps[0].node.clock)
        folder.close()
        assert (done.kept, done.abandoned) == (0, 1)
        start(world, copy)
        refused = await world.close_batch(0)
        assert (refused.status_code, token(refused)) == (410, "abandoned")


def test_a_lost_database_is_not_made_anew_and_copies_are_postgresqls_own(tmp_path: Path) -> None:
    with a_server(tmp_path, postgres.fresh("servers")) as world:
        world.apps[0].node.close()
        assert troubles(world) == []
        with pytest.raises(NotStartedError, match="pg_dump"):
            list(back_up(world.settings[0], tmp_path / "backup"))
        with pytest.raises(NotStartedError, match="PostgreSQL's own commands"):
            put_database(world.settings[0], tmp_path)
        with pytest.raises(NotStartedError, match="missing: the database"):
            start(world, postgres.fresh("servers"))
        folder = lock_folders(world.settings[0], seeded("restore"))
        restore(world.settings[0], seeded("restore"), folder, world.apps[0].node.clock, never_copied=True)
        folder.close()
        start(world, postgres.database("servers"))


# --- tables -------------------------------------------------------------------------------------------------------


def layout(database: AnyDatabase) -> dict[str, list[tuple[str, str, bool]]]:
    with database.reading() as connection:
        tables = inspect(connection)
        return {
            name: sorted((str(c["name"]), str(c["type"]), bool(c["nullable"])) for c in tables.get_columns(name))
            for name in tables.get_table_names()
        }


def test_a_number_has_sixty_three_bits_in_every_table() -> None:
    database = PostgresDatabase(postgres.fresh("servers"))
    kinds = {kind for columns in layout(database).values() for _, kind, _ in columns}
    database.close()
    assert kinds == {"BIGINT", "BYTEA", "VARCHAR", "VARCHAR(32)"}
