"""A server in a process of its own whose database is a real PostgreSQL, which is killed and started by itself.

A backup is what pg_dump would write of it: all rows as one transaction sees them.
"""

import pickle
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import IsolationLevel, sql
from pydantic import SecretStr

from simulation.books import Snapshot, read_tables
from simulation.outside import OutsideServer
from support.postgres import Cluster

TABLES = ("alembic_version", "journal", "sealing_keys", "tasks", "batches", "looks", "segments")
"""In an order in which their rows can be entered."""


@dataclass
class PostgresServer(OutsideServer):
    """One server's folders and process, its proxy, and the cluster that only it uses."""

    cluster: Cluster | None = None

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
        if self.cluster is not None:
            self.cluster.close()

    def held(self) -> Snapshot:
        with psycopg.connect(self._cluster.url) as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            return _read(connection)

    def back_up(self, folder: Path) -> Snapshot:
        folder.mkdir(mode=0o700, parents=True)
        with psycopg.connect(self._cluster.url) as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            rows = {table: _copied(connection, table) for table in TABLES}
            (folder / "rows").write_bytes(pickle.dumps(rows))
            return _read(connection)

    def fall_back(self, backup: Path) -> None:
        rows = pickle.loads((backup / "rows").read_bytes())
        with psycopg.connect(self._cluster.url) as connection:
            for table in reversed(TABLES):
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
            for table in TABLES:
                into = sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(sql.Identifier(table))
                with connection.cursor().copy(into) as copy:
                    copy.write(rows[table])
            for table, number in (("tasks", "task"), ("batches", "batch")):
                last = sql.SQL("SELECT max({}) FROM {}").format(sql.Identifier(number), sql.Identifier(table))
                then = sql.SQL("SELECT setval(pg_get_serial_sequence({}, {}), coalesce(({}), 0) + 1, false)")
                connection.execute(then.format(table, number, last))

    def put_raw(self, backup: Path) -> None:
        self.fall_back(backup)

    def put_back(self, backup: Path) -> None:
        self.fall_back(backup)


def _read(connection: psycopg.Connection) -> Snapshot:
    return read_tables(lambda query: connection.execute(query).fetchall())


def _copied(connection: psycopg.Connection, table: str) -> bytes:
    out = sql.SQL("COPY {} TO STDOUT (FORMAT binary)").format(sql.Identifier(table))
    with connection.cursor().copy(out) as copy:
        return b"".join(bytes(part) for part in copy)
