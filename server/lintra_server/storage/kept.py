"""Statements that are transactions of their own, on one connection that is kept for them, without the library between.

Such a statement says what must be so, and writes if it is: one way to the database and back, where a transaction that
looks first has five. SQLAlchemy builds and compiles it, opens the connection, and has the word for what went wrong.
"""

import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Generic, TypeVar

from sqlalchemy import Dialect, Engine
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import IntegrityError
from sqlalchemy.pool import Pool
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement

from lintra_server.storage.direct import Value, as_the_library_has_it

C = TypeVar("C")

Ordered = Callable[[Mapping[str, Value]], tuple[Value, ...]]

Info = Mapping[object, object]
"""What was noted of a connection when it was opened."""


class Conditional:
    """A statement that changes one row, if what it says is so; all of its parameters have names and plain types."""

    def __init__(self, statement: ClauseElement) -> None:
        """Compile nothing yet."""
        self._statement = statement
        self._compiled: dict[str, tuple[str, Ordered]] = {}

    def compiled(self, dialect: Dialect) -> tuple[str, Ordered]:
        """Return its text for a kind of database whose parameters stand in order, and what puts a row in that order.

        Raises:
            TypeError: it takes fewer than two parameters.
        """
        found = self._compiled.get(dialect.name)
        if found is None:
            compiled = self._statement.compile(dialect=dialect)
            if not isinstance(compiled, SQLCompiler) or not compiled.positiontup or len(compiled.positiontup) < 2:
                raise TypeError("this statement does not take several parameters")
            found = self._compiled[dialect.name] = str(compiled), itemgetter(*compiled.positiontup)
        return found


class Kept(ABC, Generic[C]):
    """Runs such statements, one transaction at a time; thread-safe. `C` is the driver's kind of connection."""

    begin = "BEGIN"

    def __init__(self, engine: Engine, dialect: Dialect) -> None:
        """Open nothing yet."""
        self._engine = engine
        self._dialect = dialect
        self._lock = threading.Lock()
        self._connection: C | None = None
        self._raw: DBAPIConnection | None = None
        self._info: Info = {}
        self._pool: Pool | None = None

    def run(
        self,
        statement: Conditional,
        rows: Sequence[Mapping[str, Value]],
        believed: Callable[[Info], bool] | None = None,
    ) -> bool:
        """Run a statement for each of some rows of parameters, in one transaction, durable when this returns.

        Return False, and change nothing, if one of them finds that it is not as it says, or that its row is there.
        `believed` returns whether a connection leads where it should, if that is asked; if not, nothing is done.

        Raises:
            DBAPIError: as SQLAlchemy raises it; the connection is not used again.
        """
        text, ordered = statement.compiled(self._dialect)
        values = [ordered(row) for row in rows]
        with self._lock:
            connection = self._opened()
            if believed is not None and not believed(self._info):
                self._let_go()
                return False
            try:
                return self._all(connection, text, values)
            except BaseException as error:
                found, gone = as_the_library_has_it(self._engine.dialect, self._raw, text, error)
                self._let_go()
                if gone:
                    self._engine.dispose()  # those that wait led to the same place
                if isinstance(found, IntegrityError):
                    return False
                raise found from error

    def doubt(self) -> None:
        """Open another connection next time: one that led to the same place is lost."""
        self._pool = None

    def close(self) -> None:
        """Close the connection, if there is one."""
        with self._lock:
            self._let_go()

    def _all(self, connection: C, text: str, rows: Sequence[tuple[Value, ...]]) -> bool:
        if len(rows) == 1:
            return self._one(connection, text, rows[0])
        self._say(connection, self.begin)
        done = all(self._one(connection, text, row) for row in rows)
        self._say(connection, "COMMIT" if done else "ROLLBACK")
        return done

    @abstractmethod
    def _one(self, connection: C, text: str, values: tuple[Value, ...]) -> bool:
        """Run a statement; return whether it changed a row."""

    @abstractmethod
    def _say(self, connection: C, command: str) -> None:
        """Begin or end a transaction."""

    @abstractmethod
    def _own(self, connection: DBAPIConnection) -> C:
        """Prepare a connection that was just opened."""

    def _opened(self) -> C:
        if self._pool is not self._engine.pool:  # the library gave up all that it had
            self._let_go()
        if self._connection is None:
            self._pool = self._engine.pool
            lent = self._engine.raw_connection()
            self._info = dict(lent.info)
            raw = self._raw = lent.dbapi_connection
            lent.detach()
            if raw is None:
                raise TypeError("a connection that was just opened is closed")
            self._connection = self._own(raw)
        return self._connection

    def _let_go(self) -> None:
        raw, self._raw, self._connection = self._raw, None, None
        if raw is not None:
            raw.close()


class KeptSqlite(Kept[sqlite3.Connection]):
    """A connection to a file."""

    begin = "BEGIN IMMEDIATE"

    def _one(self, connection: sqlite3.Connection, text: str, values: tuple[Value, ...]) -> bool:
        return connection.execute(text, values).rowcount == 1

    def _say(self, connection: sqlite3.Connection, command: str) -> None:
        connection.execute(command)

    def _own(self, connection: DBAPIConnection) -> sqlite3.Connection:
        if not isinstance(connection, sqlite3.Connection):
            raise TypeError("the driver is not sqlite3")
        return connection
