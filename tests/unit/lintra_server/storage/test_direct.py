"""Statements given to the driver itself: what goes wrong is told as SQLAlchemy tells it, in both databases."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, bindparam, insert, select
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from lintra_server.storage.database import batches, segments
from lintra_server.storage.direct import Direct
from support import postgres
from support.stores import KINDS, Stored, allow_any_schema, an_id, empty

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
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            with psycopg.connect(postgres.database("stores"), autocommit=True) as other:
                other.execute(f"{ended} AND pid <> pg_backend_pid()")
            with pytest.raises(DBAPIError) as caught:
                AT.run(connection, {"of_key": 7})
            assert caught.value.connection_invalidated
            assert connection.invalidated
        assert engine.pool is not waiting


class _Interrupted:
    def execute(self, *_: object) -> None:
        raise KeyboardInterrupt
