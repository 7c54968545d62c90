"""The database is durable by its settings, and is never opened by the wrong version."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, update

from lintra_protocol.randomness import system_randomness
from lintra_server.disk.batch_secrets import Secrets
from lintra_server.disk.vault import Vault
from lintra_server.storage.database import Database, alembic_version
from lintra_server.storage.store import Store, Upload


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


def test_reports_that_come_while_their_task_is_still_being_entered_stay_counted(tmp_path: Path) -> None:
    class Quick(Database):
        """Lets reports of the new task come right after the commit that entered it."""

        @contextmanager
        def writing(self) -> Iterator[Connection]:
            with super().writing() as connection:
                yield connection
            if waiting:
                store.add_reports([waiting.pop()])

    waiting: list[Upload] = []
    database = Quick(tmp_path / "a.sqlite")
    vault = Vault([bytes(32)], system_randomness)
    store = Store(database, vault, Secrets(tmp_path / "secrets", system_randomness), system_randomness)
    waiting.append(Upload(1, [b"i" * 32], [bytes(112)]))
    store.add_task(bytes(32), b"{}", server=0, capacity=9, ends=9, retention=0)
    assert store.commits() == 2
    database.close()
