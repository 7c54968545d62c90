"""The database is durable by its settings, and is never opened by the wrong version."""

from pathlib import Path

import pytest
from sqlalchemy import update

from lintra_server.storage.database import Database, alembic_version


def test_every_connection_logs_ahead_and_synchronises_fully(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.sqlite")
    with database.reading() as one, database.reading() as other:
        for connection in (one, other):
            found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
            assert found == ["wal", 2]
    database.close()


def test_a_database_of_another_version_is_not_opened(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.sqlite")
    with database.writing() as connection:
        connection.execute(update(alembic_version).values(version_num="0099"))
    database.close()
    with pytest.raises(ValueError, match="schema version 0099"):
        Database(tmp_path / "a.sqlite")


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.sqlite")

    def fail() -> None:
        with database.writing() as connection:
            connection.execute(update(alembic_version).values(version_num="0099"))
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        fail()
    database.check()
    database.close()


def test_a_database_older_than_the_journal_says_is_not_opened_and_not_migrated(tmp_path: Path) -> None:
    Database(tmp_path / "a.sqlite").close()
    with pytest.raises(ValueError, match="schema version 0001, but the journal says"):
        Database(tmp_path / "a.sqlite", "0002")
