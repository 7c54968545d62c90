"""A connection that is kept for statements by themselves: each is one transaction, and what goes wrong is told."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Select, bindparam, delete, insert, literal_column, select, update
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from lintra_protocol.errors import UnavailableError
from lintra_server.storage.database import batches, journal, segments
from lintra_server.storage.kept import Conditional
from lintra_server.storage.postgres import Place, PostgresDatabase
from support import postgres
from support.stores import KINDS, Stored, add, allow_any_schema, an_id, empty

HALF: Select[*tuple[Any, ...]] = select(*(bindparam(column.name) for column in segments.c))
SMALL = Conditional(
    insert(segments).from_select(list(segments.c.keys()), HALF.where(bindparam("key") < literal_column("50")))
)
"""Writes a segment if its key is below 50."""

TERMINATED = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"


@pytest.fixture(params=KINDS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stored]:
    with empty(request.param, tmp_path) as made:
        yield made


def row(key: int) -> dict[str, int | str | bytes | None]:
    return {"key": key, "total": 1, "ids": an_id(key), "serials": None, "mark": b"", "payloads": b"secret share"}


def keys(stored: Stored) -> list[int]:
    with stored.opened[0].database.reading() as connection:
        return list(connection.execute(select(segments.c.key).order_by(segments.c.key)).scalars())


def test_all_rows_of_a_call_are_written_or_none(stored: Stored) -> None:
    database = stored.open().database
    assert database.at_once(SMALL, [row(1)])
    assert database.at_once(SMALL, [row(2), row(3)])
    assert not database.at_once(SMALL, [row(51)])  # it says no
    assert not database.at_once(SMALL, [row(4), row(51)])
    assert not database.at_once(SMALL, [row(4), row(1)])  # it is there
    assert not database.at_once(SMALL, [row(2)])
    assert keys(stored) == [1, 2, 3]
    assert database.at_once(SMALL, [row(4)])
    with database.reading() as connection:
        written = connection.execute(select(segments).where(segments.c.key == 4)).one()
    assert dict(written._mapping) == row(4)


def test_an_error_of_the_driver_is_the_library_s_shows_no_value_and_leaves_nothing(stored: Stored) -> None:
    database = stored.open().database
    allow_any_schema(database)
    assert database.at_once(SMALL, [row(1)])
    with database.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE segments RENAME TO elsewhere")
    for rows in ([row(2)], [row(2), row(3)]):
        with pytest.raises((OperationalError, ProgrammingError), match="segments") as caught:
            database.at_once(SMALL, rows)
        assert not caught.value.connection_invalidated
        assert "secret" not in str(caught.value)
    with database.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO segments")
    assert keys(stored) == [1]
    assert database.at_once(SMALL, [row(2), row(3)])


def test_what_was_begun_when_the_process_was_interrupted_is_undone(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = stored.open().database
    assert database.at_once(SMALL, [row(1)])
    kept = database._kept
    used, one = kept._connection, type(kept)._one

    def interrupted(self: Any, connection: object, text: str, values: tuple[Any, ...]) -> bool:
        if values[0] == 3:
            raise KeyboardInterrupt
        return bool(one(self, connection, text, values))

    with monkeypatch.context() as patched:
        patched.setattr(type(kept), "_one", interrupted)
        with pytest.raises(KeyboardInterrupt):
            database.at_once(SMALL, [row(2), row(3)])
    assert keys(stored) == [1]
    assert database.at_once(SMALL, [row(3)])
    assert kept._connection is not used


def test_a_statement_waits_for_whoever_writes_and_nobody_waits_for_the_connection(stored: Stored) -> None:
    database = stored.open().database
    assert add(stored.opened[0], 1) == add(stored.opened[0], 2) == [True]
    done = threading.Event()

    def late() -> None:
        add(stored.opened[0], 3)
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


# --- PostgreSQL alone ---------------------------------------------------------------------------------------------


def test_a_statement_that_waited_for_a_closing_writes_nothing(tmp_path: Path) -> None:
    with empty("postgres", tmp_path) as stored:
        store = stored.open()
        assert add(store, 1) == add(store, 2) == [True]
        outcomes: list[object] = []
        thread = threading.Thread(target=lambda: outcomes.extend(add(store, 3)))
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
        assert add(store, 1) == add(store, 2) == [True]
        waiting = engine.pool
        with psycopg.connect(postgres.database("stores"), autocommit=True) as other:
            other.execute(f"{TERMINATED} AND pid <> pg_backend_pid()")
        with pytest.raises(UnavailableError, match="does not answer"):
            add(store, 3)
        assert engine.pool is not waiting
        assert add(store, 3) == add(store, 4) == [True]
        assert store.num_reports(1) == 4
        # If another connection was found lost, this one is not tried.
        with psycopg.connect(postgres.database("stores"), autocommit=True) as other:
            assert len(other.execute(f"{TERMINATED} AND pid <> pg_backend_pid()").fetchall()) == 2
        with pytest.raises(UnavailableError):
            store.batch(1)
        assert add(store, 5) == [True]
        assert store.num_reports(1) == 5


def test_a_machine_in_another_place_is_asked_for_what_it_holds_before_a_statement_runs(tmp_path: Path) -> None:
    with empty("postgres", tmp_path) as stored:
        store = stored.open()
        database = store.database
        assert isinstance(database, PostgresDatabase)
        assert add(store, 1) == add(store, 2) == [True]
        here = database._place
        assert here is not None
        database._place = Place(here.cluster, "00000000")
        assert not database.at_once(SMALL, [row(7)])
        compared: list[bool] = []
        database.expect(lambda _: compared.append(True))
        assert add(store, 3) == [True]
        assert compared
        assert database._place == here
        database._place = Place(here.cluster + 1, here.timeline)
        halts: list[str] = []
        database.halt = halts.append
        with pytest.raises(UnavailableError):
            add(store, 4)
        assert "another database cluster" in halts[0]


def test_an_error_without_a_code_and_one_of_a_later_version_have_a_kind(tmp_path: Path) -> None:
    with empty("postgres", tmp_path) as stored:
        database = stored.open().database
        allow_any_schema(database)
        with database.writing() as connection:
            connection.exec_driver_sql(
                "CREATE FUNCTION odd() RETURNS trigger AS $$ BEGIN RAISE 'odd' USING errcode = 'ZZ999'; END $$ "
                "LANGUAGE plpgsql; CREATE TRIGGER odd BEFORE INSERT ON segments FOR EACH ROW EXECUTE FUNCTION odd()"
            )
        try:
            with pytest.raises(DBAPIError, match="odd"):
                database.at_once(SMALL, [row(1)])
        finally:
            with database.writing() as connection:
                connection.exec_driver_sql("DROP TRIGGER odd ON segments; DROP FUNCTION odd()")
        assert database.at_once(SMALL, [row(1)])
