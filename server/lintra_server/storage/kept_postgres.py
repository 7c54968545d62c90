"""Statements that are transactions of their own, in PostgreSQL: given to libpq, prepared once, with binary parameters.

Psycopg takes some 80 microseconds of CPU for a statement that is prepared, of which libpq takes 20. It opened the
connection, and its errors are what is raised.
"""

from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import errors
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from sqlalchemy import Dialect, Engine
from sqlalchemy.dialects.postgresql import psycopg as library
from sqlalchemy.engine.interfaces import DBAPIConnection

from lintra_server.storage.direct import Value
from lintra_server.storage.kept import Kept

_BINARY = 1
_BIGINT, _BYTEA = 20, 17
"""PostgreSQL's own numbers of its types (`pg_type.dat`)."""


class KeptPostgres(Kept[PGconn]):
    """A connection to a PostgreSQL server. What it is given are whole numbers of 63 bits, and bytes."""

    def __init__(self, engine: Engine) -> None:
        """Open nothing yet."""
        made: Callable[..., Dialect] = library.dialect
        super().__init__(engine, made(paramstyle="numeric_dollar"))
        self._prepared: dict[str, tuple[bytes, list[int]]] = {}

    def _one(self, connection: PGconn, text: str, values: tuple[Value, ...]) -> bool:
        name, formats = self._prepared.get(text) or self._prepare(connection, text, values)
        # None among them, too, which the driver's own types leave out.
        sent: list[Any] = [
            value.to_bytes(8, "big", signed=True) if isinstance(value, int) else value for value in values
        ]
        return _done(connection, connection.exec_prepared(name, sent, formats, _BINARY)).command_tuples == 1

    def _say(self, connection: PGconn, command: str) -> None:
        _done(connection, connection.exec_(command.encode("ascii")))

    def _own(self, connection: DBAPIConnection) -> PGconn:
        self._prepared.clear()
        if not isinstance(connection, psycopg.Connection):
            raise TypeError("the driver is not psycopg")
        own: psycopg.Connection[Any] = connection
        return own.pgconn

    def _prepare(self, connection: PGconn, text: str, values: tuple[Value, ...]) -> tuple[bytes, list[int]]:
        """Prepare a statement; which of its parameters are numbers its first values say, the others are bytes."""
        name = b"lintra_%d" % len(self._prepared)
        types = [_BIGINT if isinstance(value, int) else _BYTEA for value in values]
        _done(connection, connection.prepare(name, text.encode("ascii"), types))
        self._prepared[text] = found = name, [_BINARY] * len(values)
        return found


def _done(connection: PGconn, result: PGresult) -> PGresult:
    """Return what came of a command."""
    if result.status == ExecStatus.COMMAND_OK:
        return result
    code = result.error_field(DiagnosticField.SQLSTATE)
    text = connection.get_error_message() if code is None else result.get_error_message()
    try:
        kind = psycopg.OperationalError if code is None else errors.lookup(code.decode("ascii"))
    except KeyError:
        kind = psycopg.DatabaseError
    raise kind(text)
