"""The few statements that every upload needs, given to the driver itself: else they take longer than the database does.

SQLAlchemy runs a statement of one row in some 30 microseconds, of which SQLite takes 3. It still builds and compiles
these, connections and transactions are its own, and so is the word for what went wrong: it makes an error of its own of
the driver's, and says whether the connection is lost. A pool's connection costs it another 50 microseconds, so
transactions that add reports have a connection of their own.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, Select
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import Pool
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement

Value = int | str | bytes | None


class Direct:
    """A statement whose parameters all have names and plain types, compiled once for each kind of database."""

    def __init__(self, statement: ClauseElement) -> None:
        """Compile nothing yet."""
        self._statement = statement
        self._answers = isinstance(statement, Select)
        self._compiled: dict[str, tuple[str, tuple[str, ...] | None, dict[str, Value]]] = {}

    def run(self, connection: Connection, values: Mapping[str, Value]) -> tuple[Any, ...] | None:
        """Run it in a transaction; return the first row as the driver gives it, None if there is no row.

        Raises DBAPIError as SQLAlchemy does; a connection that is lost is not used again.
        """
        row: tuple[Any, ...] | None = self._run(connection, values, "fetchone" if self._answers else "")
        return row

    def all(self, connection: Connection, values: Mapping[str, Value]) -> Sequence[tuple[Any, ...]]:
        """Run it in a transaction; return all rows as the driver gives them (see `run` for errors)."""
        rows: Sequence[tuple[Any, ...]] = self._run(connection, values, "fetchall")
        return rows

    def _run(self, connection: Connection, values: Mapping[str, Value], fetch: str) -> Any:
        text, names, fixed = self._compiled.get(connection.dialect.name) or self._compile(connection.dialect)
        if fixed:
            values = {**fixed, **values}
        try:
            cursor = connection.connection.cursor()
            # A driver takes parameters by their places, or by their names.
            cursor.execute(text, values if names is None else tuple([values[name] for name in names]))
            found = getattr(cursor, fetch)() if fetch else None
            cursor.close()
        except BaseException as error:
            raise _found(connection, text, error) from error
        return found

    def _compile(self, dialect: Dialect) -> tuple[str, tuple[str, ...] | None, dict[str, Value]]:
        compiled = self._statement.compile(dialect=dialect)
        if not isinstance(compiled, SQLCompiler):
            raise TypeError("this statement takes no parameters")
        names = tuple(compiled.positiontup or ()) if compiled.positional else None
        # What the statement itself says, a limit among it, is a parameter, too.
        fixed = {name: value for name, value in compiled.params.items() if value is not None}
        self._compiled[dialect.name] = found = str(compiled), names, fixed
        return found


class KeptConnection:
    """A connection that stays open, for one transaction at a time; thread-safe."""

    def __init__(self, engine: Engine, begin: Direct | None = None) -> None:
        """Open nothing yet; `begin` begins a transaction if the driver does not by itself."""
        self._engine = engine
        self._begin = begin
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._raw: DBAPIConnection | None = None
        self._pool: Pool | None = None

    @contextmanager
    def begun(self) -> Iterator[Connection]:
        """Give a transaction, which is committed when the block has ended without error.

        After any error the connection is not used again.
        """
        with self._lock:
            connection = self._opened()
            try:
                if self._begin is not None:
                    self._begin.run(connection, {})
                yield connection
                self._commit(connection)
            except BaseException:
                self._let_go()
                raise

    def doubt(self) -> None:
        """Open another connection next time: one that led to the same place is lost."""
        self._pool = None

    def close(self) -> None:
        """Close the connection, if there is one."""
        with self._lock:
            self._let_go()

    def _opened(self) -> Connection:
        if self._pool is not self._engine.pool:  # the library gave up all that it had
            self._let_go()
        if self._connection is None:
            self._pool = self._engine.pool
            self._connection = self._engine.connect()
            self._connection.detach()
            self._raw = self._connection.connection.dbapi_connection
        return self._connection

    def _commit(self, connection: Connection) -> None:
        if connection.in_transaction():  # the library did something in it
            connection.commit()
            return
        try:
            connection.connection.commit()
        except BaseException as error:
            raise _found(connection, "COMMIT", error) from error

    def _let_go(self) -> None:
        connection, raw, self._connection, self._raw = self._connection, self._raw, None, None
        if connection is not None and raw is not None:
            raw.close()  # the library no longer does it once it gave the connection up
            connection.invalidate()
            connection.close()


def _found(connection: Connection, text: str, error: BaseException) -> BaseException:
    """Return an error of the driver as one of SQLAlchemy, any other as it is.

    A connection that is lost is not used again.
    """
    dialect = connection.dialect
    made, gone = None, False
    if isinstance(error, dialect.loaded_dbapi.Error):
        # Where a disk fails while a file is opened, SQLite opens it for reading only, and would never try again.
        only_reads = str(getattr(error, "sqlite_errorname", "")).startswith("SQLITE_READONLY")
        gone = only_reads or dialect.is_disconnect(error, connection.connection.dbapi_connection, None)
        made = DBAPIError.instance(
            text,
            None,
            error,
            dialect.loaded_dbapi.Error,
            hide_parameters=True,
            connection_invalidated=gone,
            dialect=dialect,
        )
    if gone or made is None:
        # It is lost, or ended in the middle of a statement: what the driver waits for nobody knows.
        connection.invalidate(error)
    if gone:
        connection.engine.dispose()  # those that wait led to the same place
    return made if isinstance(made, BaseException) else error
