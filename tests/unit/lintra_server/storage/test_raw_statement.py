"""Statements given to the driver itself: what goes wrong is told as SQLAlchemy tells it, in both databases."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, bindparam, delete, insert, select, update
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from lintra_protocol.errors import UnavailableError
from lintra_server.storage.database import REVISION, Database, alembic_version, batches, journal, segments
from lintra_server.storage.postgres import JournalPosition, PostgresDatabase
from lintra_server.storage.raw_statement import Direct
from support import postgres
from support.stores import KINDS, Stored, allow_any_schema, an_id, empty
from support.stores import add as send

TERMINATED = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"

ADD = Direct(insert(segments))
AT = Direct(select(segments.c.ids, segments.c.total).where(segments.c.key == bindparam("of_key")))


@pytest.fixture(params=KINDS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stored]:
    with empty(request.param, tmp_path) as made:
        yield made


def add(connection: Connection, key: int) -> None:
    ADD.run(
        connection,
        {"key": key, "total": 1, "ids": an_id(key), "serials": None, "mark": b"", "payloads": b"secret share"},
    )


def test_what_one_statement_wrote_another_reads_and_no_row_is_none(stored: Stored) -> None:
    database = stored.open().database
    with database.appending() as connection:
        add(connection, 7)
        assert AT.run(connection, {"of_key": 7}) == (an_id(7), 1)
        assert AT.run(connection, {"of_key": 8}) is None
    with database.reading() as connection:
        assert AT.run(connection, {"of_key": 7}) == (an_id(7), 1)


def test_an_error_of_the_driver_is_the_library_s_rolls_back_and_shows_no_value(stored: Stored) -> None:
    database = stored.open().database

    def twice() -> None:
        with database.appending() as connection:
            add(connection, 7)
            add(connection, 7)

    with pytest.raises(DBAPIError) as caught:
        twice()
    assert not caught.value.connection_invalidated
    assert "secret" not in str(caught.value)
    with database.reading() as connection:
        assert AT.run(connection, {"of_key": 7}) is None


def test_a_statement_of_no_table_names_the_fault(stored: Stored) -> None:
    gone = Direct(select(batches.c.state).where(batches.c.batch == bindparam("of_batch")))
    database = stored.open().database
    allow_any_schema(database)
    with database.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE batches RENAME TO elsewhere")
    with pytest.raises((OperationalError, ProgrammingError), match="batches"), database.reading() as connection:
        gone.run(connection, {"of_batch": 1})
    with database.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO batches")


def test_a_connection_that_ended_in_a_statement_is_not_used_again(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = stored.open().database
    used: list[object] = []

    def interrupted() -> None:
        with database.appending() as connection:
            used.append(connection.connection.dbapi_connection)
            add(connection, 7)
            monkeypatch.setattr(type(connection.connection), "cursor", lambda _self: _Interrupted())
            add(connection, 8)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    monkeypatch.undo()
    with database.appending() as connection:
        assert connection.connection.dbapi_connection is not used[0]
        assert AT.run(connection, {"of_key": 7}) is None


def test_a_lost_connection_is_called_lost_and_none_that_waits_is_used_again(tmp_path: Path) -> None:
    with empty("postgres", tmp_path) as stored:
        engine = stored.open().database._engine
        with engine.connect() as first, engine.connect():
            first.exec_driver_sql("SELECT 1")
        waiting = engine.pool
        with engine.connect() as connection:
            with psycopg.connect(postgres.database("stores"), autocommit=True) as other:
                other.execute(f"{TERMINATED} AND pid <> pg_backend_pid()")
            with pytest.raises(DBAPIError) as caught:
                AT.run(connection, {"of_key": 7})
            assert caught.value.connection_invalidated
            assert connection.invalidated
        assert engine.pool is not waiting


def test_a_transaction_that_was_interrupted_leaves_nothing_and_its_connection_is_not_used_again(stored: Stored) -> None:
    database = stored.open().database
    used: list[object] = []

    def interrupted() -> None:
        with database.appending() as connection:
            used.append(connection.connection.dbapi_connection)
            add(connection, 7)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for key in (8, 9):
        with database.appending() as connection:
            used.append(connection.connection.dbapi_connection)
            add(connection, key)
            connection.execute(select(batches.c.state))  # the library may take part
    assert used[1] is used[2] is not used[0]
    with database.reading() as connection:
        assert connection.execute(select(segments.c.key).order_by(segments.c.key)).scalars().all() == [8, 9]


def test_a_commit_that_the_driver_refuses_is_told_as_the_library_tells_it(tmp_path: Path) -> None:
    with empty("postgres", tmp_path) as stored:
        database = stored.open().database
        allow_any_schema(database)
        with database.writing() as connection:
            connection.exec_driver_sql(
                "CREATE FUNCTION odd() RETURNS trigger AS $$ BEGIN RAISE 'odd' USING errcode = 'ZZ999'; END $$ "
                "LANGUAGE plpgsql; CREATE CONSTRAINT TRIGGER odd AFTER INSERT ON segments DEFERRABLE INITIALLY "
                "DEFERRED FOR EACH ROW EXECUTE FUNCTION odd()"
            )

        def refused() -> None:
            with database.appending() as connection:
                add(connection, 7)

        try:
            with pytest.raises(DBAPIError, match="odd"):
                refused()
        finally:
            with database.writing() as connection:
                connection.exec_driver_sql("DROP TRIGGER odd ON segments; DROP FUNCTION odd()")
        refused()
        with database.reading() as connection:
            assert AT.run(connection, {"of_key": 7}) == (an_id(7), 1)


def test_a_commit_waits_for_whoever_writes_and_nobody_waits_for_its_connection(stored: Stored) -> None:
    database = stored.open().database
    assert send(stored.opened[0], 1) == send(stored.opened[0], 2) == [True]
    done = threading.Event()

    def late() -> None:
        send(stored.opened[0], 3)
        done.set()

    with database.writing() as connection:
        connection.execute(update(batches).values(num_reports=0))
        thread = threading.Thread(target=late)
        thread.start()
        assert not done.wait(0.2)
    thread.join(30)
    assert done.is_set()
    with database.writing() as connection:
        connection.execute(delete(journal))
    database.forget_log()
    assert stored.opened[0].num_reports(1) == 3


def test_a_commit_that_waited_for_a_closing_writes_nothing(tmp_path: Path) -> None:
    with empty("postgres", tmp_path) as stored:
        store = stored.open()
        assert send(store, 1) == send(store, 2) == [True]
        outcomes: list[object] = []
        thread = threading.Thread(target=lambda: outcomes.extend(send(store, 3)))
        with store.database.writing() as connection:
            connection.execute(update(batches).values(state="closed"))
            thread.start()
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            with psycopg.connect(postgres.database("stores"), autocommit=True) as other:
                while other.execute(waiting).fetchone() != (1,):
                    time.sleep(0.01)
            assert not outcomes
        thread.join(30)
        assert isinstance(outcomes[0], UnavailableError)
        assert store.num_reports(1) == 2


def test_a_lost_connection_is_called_lost_and_the_next_commit_has_another(tmp_path: Path) -> None:
    with empty("postgres", tmp_path) as stored:
        store = stored.open()
        engine = store.database._engine
        assert send(store, 1) == send(store, 2) == [True]
        waiting = engine.pool
        with psycopg.connect(postgres.database("stores"), autocommit=True) as other:
            other.execute(f"{TERMINATED} AND pid <> pg_backend_pid()")
        with pytest.raises(UnavailableError, match="does not answer"):
            send(store, 3)
        assert engine.pool is not waiting
        assert send(store, 3) == send(store, 4) == [True]
        assert store.num_reports(1) == 4
        # If another connection was found lost, that of commits is not tried.
        store.batch(1)
        with psycopg.connect(postgres.database("stores"), autocommit=True) as other:
            assert len(other.execute(f"{TERMINATED} AND pid <> pg_backend_pid()").fetchall()) == 2
        with pytest.raises(UnavailableError):
            store.batch(1)
        assert send(store, 5) == [True]
        assert store.num_reports(1) == 5


def test_a_machine_in_another_place_is_asked_for_what_it_holds_before_a_commit(tmp_path: Path) -> None:
    with empty("postgres", tmp_path) as stored:
        store = stored.open()
        database = store.database
        assert isinstance(database, PostgresDatabase)
        assert send(store, 1) == send(store, 2) == [True]
        here = database._place
        assert here is not None
        database._place = JournalPosition(here.cluster, "00000000")
        compared: list[bool] = []
        database.expect(lambda _: compared.append(True))
        assert send(store, 3) == [True]
        assert compared
        assert database._place == here
        database._place = JournalPosition(here.cluster + 1, here.timeline)
        halts: list[str] = []
        database.halt = halts.append
        with pytest.raises(UnavailableError):
            send(store, 4)
        assert "another database cluster" in halts[0]


class _Interrupted:
    def execute(self, *_: object) -> None:
        raise KeyboardInterrupt


def test_a_connection_that_can_only_read_is_not_used_again(tmp_path: Path) -> None:
    """SQLite opens its log for reading only where the disk fails at that moment, and never tries again."""
    database = Database(tmp_path / "a.sqlite")
    with database._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only=ON")
        with pytest.raises(OperationalError, match="readonly"):
            Direct(update(alembic_version).values(version_num=REVISION)).run(connection, {"version_num": REVISION})
        assert connection.invalidated
    database.touch()
    database.close()
