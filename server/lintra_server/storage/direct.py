"""The few statements that every upload needs, given to the driver itself: else they take longer than the database does.

SQLAlchemy runs a statement of one row in some 30 microseconds, of which SQLite takes 3. It still builds and compiles
these, connections and transactions are its own, and so is the word for what went wrong: it makes an error of its own of
the driver's, and says whether the connection is lost.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Dialect, Select
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection
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

        Raises:
            DBAPIError: as SQLAlchemy raises it; a connection that is lost is not used again.
        """
        text, names, fixed = self._compiled.get(connection.dialect.name) or self._compile(connection.dialect)
        values = {**fixed, **values}
        cursor = connection.connection.cursor()
        try:
            # A driver takes parameters by their places, or by their names.
            cursor.execute(text, values if names is None else tuple([values[name] for name in names]))
            row = cursor.fetchone() if self._answers else None
            cursor.close()
        except BaseException as error:
            raw = connection.connection.dbapi_connection
            found, gone = as_the_library_has_it(connection.dialect, raw, text, error)
            if gone or found is error:
                # It is lost, or ended in the middle of a statement: what the driver waits for nobody knows.
                connection.invalidate(error)
            if gone:
                connection.engine.dispose()  # those that wait led to the same place
            raise found from error
        return None if row is None else tuple(row)

    def _compile(self, dialect: Dialect) -> tuple[str, tuple[str, ...] | None, dict[str, Value]]:
        compiled = self._statement.compile(dialect=dialect)
        if not isinstance(compiled, SQLCompiler):
            raise TypeError("this statement takes no parameters")
        names = tuple(compiled.positiontup or ()) if compiled.positional else None
        # What the statement itself says, a limit among it, is a parameter, too.
        fixed = {name: value for name, value in compiled.params.items() if value is not None}
        self._compiled[dialect.name] = found = str(compiled), names, fixed
        return found


def as_the_library_has_it(
    dialect: Dialect, connection: DBAPIConnection | PoolProxiedConnection | None, text: str, error: BaseException
) -> tuple[BaseException, bool]:
    """Return an error of the driver as one of SQLAlchemy, any other as it is; and whether the connection is lost.

    `dialect` is the library's word for the kind of database.
    """
    if not isinstance(error, dialect.loaded_dbapi.Error):
        return error, False
    gone = dialect.is_disconnect(error, connection, None)
    made = DBAPIError.instance(
        text,
        None,
        error,
        dialect.loaded_dbapi.Error,
        hide_parameters=True,
        connection_invalidated=gone,
        dialect=dialect,
    )
    return made if isinstance(made, BaseException) else error, gone
