"""The tables are the ones that this version makes, and nothing beside them acts on what is stored: a second wall.

What a server believes of its database is held against the key folder, row by row. This only keeps triggers, views and
rules from being there at all, and bounds what one value may take of the memory before it is read.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Integer,
    MetaData,
    Select,
    Table,
    case,
    literal_column,
    select,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from lintra_server.storage.transition_log import ForkedError
from lintra_service.settings import InvalidSettingsError

SEARCH_PATH = "-csearch_path=public,pg_temp"
"""For every connection to PostgreSQL: no other schema's tables are taken for these, whatever a role's settings say."""

MOST_IDS_BYTES = MOST_SERIALS_BYTES = 32 << 20
"""Of the reports in one row of `segments`: their payloads, of a byte at least, have a megabyte."""

MOST_PAYLOADS_BYTES = 64 << 20
"""In one row of `segments`: a megabyte, or one report alone."""

MOST_DOCUMENT_BYTES, MOST_LARGE_BYTES = 32 << 20, 512 << 20
"""What is signed; and a sketch, or the positions of reports that a cohort lacks."""

_LARGE = frozenset({"aggregate", "missing", "rejected"})

MOST_SMALL_BYTES = 1 << 12
"""Of a mark, a wrapped key, a word."""

_MASTER = "SELECT type, name, tbl_name, substr(sql, 1, 65536) FROM sqlite_master"

Entry = tuple[str, str, str, str | None]


class Complaint(NamedTuple):
    """Something that this version did not make, and the command that mends it."""

    what: str
    command: str


class SchemaError(ForkedError):
    """The database holds what this version did not make."""


@contextmanager
def at_the_start() -> Iterator[None]:
    """Refuse to begin where a running process would end.

    Raises InvalidSettingsError if the database holds what this version did not make.
    """
    try:
        yield
    except SchemaError as error:
        raise InvalidSettingsError(f"this is not the database that the server wrote: {error}") from None


def prepare_sqlite(connection: DBAPIConnection) -> None:
    """Have a connection trust nothing that the file says but its rows."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA trusted_schema=OFF")
    cursor.execute("PRAGMA cell_size_check=ON")
    cursor.close()
    set_config = getattr(connection, "setconfig", None)
    if set_config is not None:  # from Python 3.12 on
        set_config(vars(sqlite3)["SQLITE_DBCONFIG_DEFENSIVE"], True)


def acting(connection: Connection, metadata: MetaData) -> Iterator[Complaint]:
    """Yield what acts on what is read and written, in tables of any version."""
    if connection.dialect.name == "postgresql":
        return _acting(connection, metadata)
    return (_foreign(entry) for entry in _entries(connection) if entry[0] not in ("table", "index"))


def foreign(connection: Connection, metadata: MetaData) -> Iterator[Complaint]:
    """Yield in what the tables are not exactly those of this version, after what acts on them."""
    if connection.dialect.name == "postgresql":
        return chain(_acting(connection, metadata), _other_columns(connection, metadata))
    return _differences(_entries(connection), _made(metadata))


def require_none(complaints: Iterator[Complaint]) -> None:
    """Check that nothing is complained of; raise SchemaError if something is."""
    for what, command in complaints:
        raise SchemaError(f"{what}: `{command}`")


def bounded(column: Column[Any], most: int) -> ColumnElement[Any]:
    """Return a column as it is read if it has at most so many bytes; else it is read as if nothing stood there."""
    read: ColumnElement[Any] = case((_Size(column) <= literal_column(str(most)), column)).label(column.name)
    return read


def as_read(table: Table, *names: str) -> Select[*tuple[Any, ...]]:
    """Return what reads columns of any table but `segments`, all if none is named (see `bounded`)."""
    columns = [table.c[name] for name in names or table.c.keys()]
    return select(
        *(bounded(each, MOST_LARGE_BYTES if each.name in _LARGE else MOST_DOCUMENT_BYTES) for each in columns)
    )


class _Size(FunctionElement[int]):
    """The bytes of a value, found without reading it where that is possible."""

    type = BigInteger()
    inherit_cache = True


@compiles(_Size, "sqlite")
def _size_in_sqlite(element: _Size, compiler: SQLCompiler, **options: Any) -> str:
    # Any kind of value may stand in any column; the length of a blob is known without its bytes.
    value = compiler.process(element.clauses, **options)
    return f"CASE typeof({value}) WHEN 'integer' THEN 8 WHEN 'null' THEN 0 ELSE length({value}) END"


@compiles(_Size, "postgresql")
def _size_in_postgres(element: _Size, compiler: SQLCompiler, **options: Any) -> str:
    if any(isinstance(each.type, Integer) for each in element.clauses):
        return "8"
    return f"octet_length({compiler.process(element.clauses, **options)})"


# --- SQLite --------------------------------------------------------------------------------------------------------


def _entries(connection: Connection) -> list[Entry]:
    return [(str(kind), str(name), str(of), sql) for kind, name, of, sql in connection.exec_driver_sql(_MASTER)]


@cache
def _made(metadata: MetaData) -> Sequence[Entry]:
    """Return what SQLite says of the tables of this version when they are just made."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for table in metadata.sorted_tables:
            connection.execute(str(CreateTable(table).compile(dialect=sqlite_dialect.dialect())))
        return connection.execute(_MASTER).fetchall()


def _differences(found: Sequence[Entry], made: Sequence[Entry]) -> Iterator[Complaint]:
    names = {name for _, name, _, _ in made}
    for entry in found:
        if entry not in made:
            yield _other(entry[1]) if entry[0] == "table" and entry[1] in names else _foreign(entry)
    present = {name for _, name, _, _ in found}
    for name in sorted(names - present):
        yield Complaint(f"{_short(name)} is missing", "lintra server restore")


def _foreign(entry: Entry) -> Complaint:
    kind, name, of, _ = entry
    on = "" if of == name else f" on table {_short(of)}"
    return _not_made(f"{kind} {_short(name)}{on}", f'DROP {kind.upper()} "{_short(name)}"')


# --- PostgreSQL ----------------------------------------------------------------------------------------------------

_OWN = "(SELECT * FROM pg_catalog.pg_class WHERE relnamespace = 'public'::regnamespace AND relname IN ({names})) own"

_ACTING = """
SELECT relkind::text, relname::text, relname::text, 1 AS nth FROM {own} WHERE relkind <> 'r'
UNION ALL SELECT 'unlogged', relname, relname, 2 FROM {own} WHERE relpersistence <> 'p'
UNION ALL SELECT 'trigger', tgname, relname, 3 FROM pg_catalog.pg_trigger JOIN {own} ON tgrelid = own.oid
UNION ALL SELECT 'rule', rulename, relname, 4 FROM pg_catalog.pg_rewrite JOIN {own} ON ev_class = own.oid
UNION ALL SELECT 'policy', polname, relname, 5 FROM pg_catalog.pg_policy JOIN {own} ON polrelid = own.oid
UNION ALL SELECT 'row security', relname, relname, 6 FROM {own} WHERE relrowsecurity OR relforcerowsecurity
UNION ALL SELECT 'inheritance', relname, relname, 7 FROM pg_catalog.pg_inherits JOIN {own}
    ON own.oid IN (inhrelid, inhparent)
UNION ALL SELECT 'constraint', conname, relname, 8 FROM pg_catalog.pg_constraint JOIN {own} ON conrelid = own.oid
    WHERE contype NOT IN ('p', 'n')
UNION ALL SELECT 'index', indexrelid::regclass::text, relname, 9 FROM pg_catalog.pg_index JOIN {own}
    ON indrelid = own.oid WHERE NOT indisprimary OR indexprs IS NOT NULL OR indpred IS NOT NULL
UNION ALL SELECT 'default', attname, relname, 10 FROM pg_catalog.pg_attrdef JOIN {own} ON adrelid = own.oid
    JOIN pg_catalog.pg_attribute ON attrelid = adrelid AND attnum = adnum
ORDER BY nth
"""

_COLUMNS = """
SELECT relname::text, attname::text, pg_catalog.format_type(atttypid, atttypmod), attnotnull
FROM pg_catalog.pg_attribute JOIN {own} ON attrelid = own.oid WHERE attnum > 0 AND NOT attisdropped
"""

_KINDS = {"v": "view", "m": "materialized view", "f": "foreign table", "p": "partitioned table"}

_REMOVED_BY = {
    "unlogged": 'ALTER TABLE "{of}" SET LOGGED',
    "trigger": 'DROP TRIGGER "{name}" ON "{of}"',
    "rule": 'DROP RULE "{name}" ON "{of}"',
    "policy": 'DROP POLICY "{name}" ON "{of}"',
    "row security": 'ALTER TABLE "{of}" DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY',
    "inheritance": 'ALTER TABLE "{of}" NO INHERIT, or drop the table that inherits',
    "constraint": 'ALTER TABLE "{of}" DROP CONSTRAINT "{name}"',
    "index": "DROP INDEX {name}",
    "default": 'ALTER TABLE "{of}" ALTER "{name}" DROP DEFAULT',
}


@cache
def _own(metadata: MetaData) -> str:
    return _OWN.format(names=", ".join(f"'{name}'" for name in metadata.tables))


def _acting(connection: Connection, metadata: MetaData) -> Iterator[Complaint]:
    for kind, name, of, _ in connection.exec_driver_sql(_ACTING.format(own=_own(metadata))):
        on = "" if of == name else f" on table {_short(of)}"
        if kind in _REMOVED_BY:
            yield _not_made(f"{kind} {_short(name)}{on}", _REMOVED_BY[kind].format(name=_short(name), of=_short(of)))
        else:
            named = _KINDS.get(kind, "relation")
            yield _not_made(f"{named} {_short(name)}", f'DROP {named.upper()} "{_short(name)}"')


def _other_columns(connection: Connection, metadata: MetaData) -> Iterator[Complaint]:
    rows = {tuple(row) for row in connection.exec_driver_sql(_COLUMNS.format(own=_own(metadata)))}
    for table, *_ in sorted(rows ^ _columns_made(metadata)):
        yield _other(str(table))


@cache
def _columns_made(metadata: MetaData) -> frozenset[tuple[Any, ...]]:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    return frozenset(
        (table.name, column.name, _type_name(column.type.compile(dialect)), not column.nullable)
        for table in metadata.tables.values()
        for column in table.columns
    )


def _type_name(text: str) -> str:
    return text.lower().replace("varchar", "character varying")


# --- words ---------------------------------------------------------------------------------------------------------


def _not_made(what: str, command: str) -> Complaint:
    return Complaint(f"it holds the {what}, which this software did not make; find out who did, and remove it", command)


def _other(table: str) -> Complaint:
    return Complaint(f"table {_short(table)} has other columns than this version makes", "lintra server restore")


def _short(name: str) -> str:
    """Return a name that somebody else chose, as a log and a terminal can show it."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:80])
