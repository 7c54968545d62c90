"""The database for a process that only reads: what a part of a release needs, and nothing else of a server."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import make_url

from lintra_server.storage.schema import prepare_sqlite


class Reader(Protocol):
    """What can be read, by others at the same address."""

    @property
    def url(self) -> str:
        """Its address, as SQLAlchemy has it; with a password, if it needs one."""

    def reading(self) -> AbstractContextManager[Connection]:
        """Give a transaction that sees one state of the database."""


class ReadOnlyDatabase:
    """A database that somebody else keeps; here nothing can be written to it."""

    def __init__(self, url: str) -> None:
        """Open it. `url` is as SQLAlchemy has it; a file of SQLite must be there."""
        self.url = url
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            parsed = parsed.set(database=f"file:{parsed.database}", query={"mode": "ro", "uri": "true"})
        # An error's text goes to a log, so it must not hold what was being read.
        self._engine = create_engine(parsed, hide_parameters=True)
        if parsed.get_backend_name() == "sqlite":
            event.listen(self._engine, "connect", lambda connection, _: prepare_sqlite(connection))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a transaction that sees one state of the database."""
        with self._engine.connect() as connection, connection.begin():
            yield connection

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()
