"""A connection that SQLite opened only for reading, since the disk refused it, is not kept."""

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

from lintra_service.sqlite import forget_read_only


def test_a_connection_that_is_read_only_is_opened_anew_after_its_first_refusal(tmp_path: Path) -> None:
    path, modes = tmp_path / "a.sqlite", iter(["rwc", "ro", "rw"])

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(f"file:{path}?mode={next(modes)}", uri=True)

    engine = create_engine("sqlite://", creator=connect)
    forget_read_only(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a INTEGER)")
    engine.dispose()

    def write() -> None:
        with engine.begin() as connection:
            connection.exec_driver_sql("INSERT INTO t VALUES (1)")

    with pytest.raises(OperationalError, match="readonly"):
        write()
    write()
    engine.dispose()
