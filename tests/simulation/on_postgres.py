"""A server whose database is a real PostgreSQL: in this process, or in one of its own.

A backup is what pg_dump would write of it: all rows as one transaction sees them.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import IsolationLevel, sql
from pydantic import SecretStr

from simulation.inside import InsideServer
from simulation.outside import OutsideServer
from simulation.reading import Snapshot, read_journal, read_tables
from support.postgres import Cluster

TABLES = ("alembic_version", "journal", "tasks", "batches", "looks", "segments")
"""In an order in which their rows can be entered."""


def _copied(connection: psycopg.Connection, table: str) -> bytes:
    out = sql.SQL("COPY {} TO STDOUT (FORMAT binary)").format(sql.Identifier(table))
    with connection.cursor().copy(out) as copy:
        return b"".join(bytes(part) for part in copy)


@dataclass
class InsidePostgres(InsideServer):
    """One server in this process, and the cluster that only it uses."""

    cluster: Cluster | None = None
    has_manifests: bool = False
    editing: psycopg.Connection | None = None

    @property
    def _cluster(self) -> Cluster:
        if self.cluster is None:
            raise RuntimeError("there is no PostgreSQL")
        return self.cluster

    def open(self) -> None:
        """Start the cluster."""
        self.cluster = Cluster()
        self.settings = self.settings.model_copy(update={"database_url": SecretStr(self.cluster.url)})

    def close(self) -> None:
        """End the cluster."""
        if self.editing is not None:
            self.editing.close()
        if self.cluster is not None:
            self.cluster.close()

    def held(self) -> Snapshot:
        with psycopg.connect(self._cluster.url) as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            return self._read(connection)

    def back_up(self, folder: Path) -> Snapshot:
        folder.mkdir(mode=0o700, parents=True)
        self._save_rows(folder)
        return self.held()

    def fall_back(self, backup: Path) -> None:
        rows = pickle.loads((backup / "rows").read_bytes())
        with psycopg.connect(self._cluster.url) as connection:
            for table in reversed(TABLES):
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
            for table in TABLES:
                into = sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(sql.Identifier(table))
                with connection.cursor().copy(into) as copy:
                    copy.write(rows[table])

    def _read(self, connection: psycopg.Connection) -> Snapshot:
        return read_tables(lambda query: connection.execute(query).fetchall(), read_journal(self.key_dir / "journal"))

    def past(self, statement: str, values: Sequence[object] = ()) -> list[dict[str, Any]]:
        cursor = self._editing().execute(statement.replace("?", "%s"), values or None)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()] if names else []

    def past_at_once(self, statements: Sequence[tuple[str, Sequence[object]]]) -> None:
        connection = self._editing()
        with connection.transaction():
            for statement, values in statements:
                connection.execute(statement.replace("?", "%s"), values or None)

    def _editing(self) -> psycopg.Connection:
        if self.editing is None:
            self.editing = psycopg.connect(self._cluster.url, autocommit=True)
            self.editing.execute("SET lock_timeout = '5s'")
        return self.editing

    def save(self, folder: Path) -> None:
        super().save(folder)
        self._save_rows(folder)

    def load(self, folder: Path) -> None:
        super().load(folder)
        self.fall_back(folder)

    def _save_rows(self, folder: Path) -> None:
        with psycopg.connect(self._cluster.url) as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            rows = {table: _copied(connection, table) for table in TABLES}
            (folder / "rows").write_bytes(pickle.dumps(rows))

    untrigger = "DROP FUNCTION IF EXISTS planted CASCADE"

    def triggers(self, place: int) -> dict[str, list[str]]:
        made = {
            "no row is written": ("INSERT ON segments", f"IF NEW.key >> 32 = {place} THEN RETURN NULL; END IF;"),
            "identifiers change": (
                "INSERT ON segments", f"IF NEW.key >> 32 = {place} THEN NEW.ids := substr(NEW.ids, 33); END IF;"
            ),
            "it stays open": ("UPDATE ON batches", f"IF NEW.batch = {place} THEN NEW.state := 'open'; END IF;"),
            "no inventory": ("UPDATE ON batches", f"IF NEW.batch = {place} THEN NEW.inventory := NULL; END IF;"),
        }  # fmt: skip
        function = "CREATE OR REPLACE FUNCTION planted() RETURNS trigger LANGUAGE plpgsql AS"
        return {
            name: [
                f"{function} $$BEGIN {body} RETURN NEW; END$$",
                f"CREATE OR REPLACE TRIGGER planted BEFORE {when} FOR EACH ROW EXECUTE FUNCTION planted()",
            ]
            for name, (when, body) in made.items()
        }

    def put_raw(self, backup: Path) -> None:
        self.fall_back(backup)

    def put_back(self, backup: Path) -> None:
        self.fall_back(backup)


@dataclass
class PostgresServer(InsidePostgres, OutsideServer):
    """One server's folders and process, its proxy, and the cluster that only it uses."""
