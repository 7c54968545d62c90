"""The tables of a server, and transactions on them. SQLite, the default: write-ahead log, full synchronisation.

The one row of `journal` says where the journal stood when the last change of state was committed here: a database that
was copied, lost or set back does not stand where the journal does.

A commit of reports writes one row of `segments`: a row of its own for each report, an index of identifiers or a counter
would each cost more than the reports do. That a report is stored once is seen to by the one who commits (see `known`).
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import structlog
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import ConnectionPoolEntry

from lintra_server.durability.private_files import write_new
from lintra_server.storage.identity import WatchedDatabase
from lintra_server.storage.raw_statement import Direct, KeptConnection
from lintra_server.storage.schema import acting, at_the_start, foreign, require_none
from lintra_server.storage.sqlite_files import BEGIN_WRITING, WatchedSqlite
from lintra_service.settings import InvalidSettingsError

REVISION = "0001"
"""The newest of `migrations/versions`; its tables are the ones below."""

BUSY_SECONDS = 30
_NEW = "lintra_new"
_MIGRATIONS = Path(__file__).with_name("migrations")

log = structlog.get_logger()

_metadata = MetaData()

Whole = BigInteger().with_variant(Integer, "sqlite")
"""A whole number of up to 63 bits: SQLite's INTEGER has as many as a value needs."""

SPAN = 1 << 32
"""Segments that a batch may have: the key of a segment is its batch's number times this, plus its own."""

alembic_version = Table("alembic_version", _metadata, Column("version_num", String(32), primary_key=True))

journal = Table(
    "journal",
    _metadata,
    Column("one", Whole, primary_key=True, autoincrement=False),
    Column("length", Whole, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("start", Whole, nullable=False),
)

# Where a task or a batch lies says the journal; identifiers and numbers here are for those who look at the tables.
tasks = Table(
    "tasks",
    _metadata,
    Column("task", Whole, primary_key=True, autoincrement=False),
    Column("task_id", LargeBinary, nullable=False),
    Column("definition", LargeBinary, nullable=False),
    Column("wrapped_token_key", LargeBinary),
)

batches = Table(
    "batches",
    _metadata,
    Column("batch", Whole, primary_key=True, autoincrement=False),
    Column("task", Whole, nullable=False),
    # In its task: 0, or that of its window.
    Column("number", Whole, nullable=False),
    Column("state", String, nullable=False),
    # Of a batch that was cut: its segments are gone. Else the last segment says it.
    Column("num_reports", Whole, nullable=False),
    Column("wrapped_nonce", LargeBinary),
    Column("closed_at", Whole),
    Column("inventory", LargeBinary),
    Column("inventories", LargeBinary),
    Column("cohort", LargeBinary),
    # Where reports that the cohort lacks stand in the sorted list of the inventory, as gaps.
    Column("missing", LargeBinary),
    Column("request_hash", LargeBinary),
    Column("aggregate", LargeBinary),
    Column("released_at", Whole),
    # Of the windows of its task that were merged into it.
    Column("first", Whole),
    # Of a verified task: its other nonce, what left of its checks, and which places of the cohort were rejected.
    Column("wrapped_matrix_nonce", LargeBinary),
    Column("check_share", LargeBinary),
    Column("verdict", LargeBinary),
    Column("rejected", LargeBinary),
    # The token of the rule that gave it up, if one did.
    Column("ended_by", String),
)

# The last look at a batch that the analyst heard of: what it held at `counted_at`, and what became of all reports that
# came until `told_at`, both in time units of the task.
looks = Table(
    "looks",
    _metadata,
    Column("batch", Whole, primary_key=True, autoincrement=False),
    Column("told_at", Whole, nullable=False),
    Column("counters", LargeBinary, nullable=False),
    Column("counted_at", Whole),
    Column("reports", Whole, nullable=False),
    Column("census", LargeBinary),
    # Under the journal's key, over which batch it is of and all columns.
    Column("mac", LargeBinary, nullable=False),
)

segments = Table(
    "segments",
    _metadata,
    Column("key", Whole, primary_key=True, autoincrement=False),
    # Reports of the batch up to the end of this segment.
    Column("total", Whole, nullable=False),
    # Shows that the row is the one that was stored here (see `marks`); before what is long, for who looks at the last.
    Column("mark", LargeBinary, nullable=False),
    Column("ids", LargeBinary, nullable=False),
    # Of the tokens of its reports, in their order.
    Column("serials", LargeBinary),
    # Encrypted under the batch's key; last, so that the others are read without it. None after scrubbing.
    Column("payloads", LargeBinary),
)


@event.listens_for(segments, "after_create")
def _store_as_it_is(_table: Table, connection: Connection, **_: object) -> None:
    # Ciphertext and hashes do not compress: PostgreSQL need not try.
    if connection.dialect.name == "postgresql":
        columns = "ALTER ids SET STORAGE EXTERNAL, ALTER payloads SET STORAGE EXTERNAL"
        connection.exec_driver_sql(f"ALTER TABLE segments {columns}")


class AnyDatabase(WatchedDatabase):
    """A database of any kind; every use of it is one transaction."""

    def __init__(self, engine: Engine, begin: Direct | None = None) -> None:
        """Use an engine; `begin` begins a transaction that adds reports, if the driver does not by itself.

        Whoever extends this makes the tables, or brings them up to date.
        """
        super().__init__()
        self._engine = engine
        self._appender = KeptConnection(engine, begin)

    @property
    def url(self) -> str:
        """The address, with a password if it needs one: for the processes of a release, through their door only."""
        return self._engine.url.render_as_string(hide_password=False)

    @abstractmethod
    def writing(self) -> AbstractContextManager[Connection]:
        """Give the only transaction that may write now; it is durable when the block has ended without error."""

    @abstractmethod
    def appending(self) -> AbstractContextManager[Connection]:
        """Give a transaction that locks the batches to which it adds reports, and durably as `writing` does."""

    def check(self) -> None:
        """Check that the database answers and has this version's schema, and nothing else.

        Raises InvalidSettingsError if it was written by another version of this software, or changed by somebody.
        """
        if (revision := self._revision()) != REVISION:
            raise InvalidSettingsError(f"the database has schema version {revision}, this software needs {REVISION}")
        with self.reading() as connection, at_the_start():
            require_none(foreign(connection, _metadata))

    def touch(self) -> None:
        """Write one row durably, and change nothing; a full or read-only disk raises here."""
        with self.writing() as connection:
            connection.execute(update(alembic_version).values(version_num=alembic_version.c.version_num))

    @abstractmethod
    def intact(self) -> list[str]:
        """Return what the database's own check of every page complains of, as far as it has one."""

    @abstractmethod
    def sound(self) -> bool:
        """Return whether it can be read; takes as long as reading it all where the pages are checked."""

    @abstractmethod
    def forget_log(self) -> None:
        """Let go of deleted bytes, as far as that is the database's to do, and of the room that they took."""

    def close(self) -> None:
        """Close every connection."""
        self.look_no_more()
        self._appender.close()
        self._engine.dispose()

    def _found(self) -> None:
        """Make the tables if there are none."""
        with self.writing() as connection, at_the_start():
            require_none(acting(connection, _metadata))
            if not inspect(connection).get_table_names():
                _metadata.create_all(connection, checkfirst=False)
                connection.execute(insert(alembic_version).values(version_num=REVISION))

    @abstractmethod
    def _revision(self) -> str:
        """Return the version of the tables."""

    def _require_schema(self, connection: Connection) -> None:
        require_none(foreign(connection, _metadata))

    def holds_tasks(self) -> bool:
        """Return whether there is a task or a batch in it."""
        with self.reading() as connection:
            return any(connection.execute(select(table).limit(1)).first() is not None for table in (tasks, batches))

    def clear(self) -> None:
        """Delete every row but the version of the tables."""
        with self.writing() as connection:
            for table in (journal, looks, segments, batches, tasks):
                connection.execute(table.delete())

    def _bring_up_to_date(self, brought_to: str, put_aside: Callable[[str], str]) -> None:
        """Migrate tables of an earlier version, unless the journal says that they were migrated before."""
        revision = self._revision()
        if revision < brought_to:
            raise InvalidSettingsError(
                f"the database has schema version {revision}, but the journal says that this server brought it to "
                f"{brought_to}: it is an old copy, or somebody changed the table alembic_version; run `lintra server "
                "restore`"
            )
        if revision != REVISION:
            self._migrate(revision, put_aside)

    def _migrate(self, revision: str, put_aside: Callable[[str], str]) -> None:
        # Alembic takes a while to import, and is needed once in a version's life.
        from lintra_service import migrations

        migrations.require_known(_MIGRATIONS, revision, REVISION)
        copy = put_aside(revision)
        with self.writing() as connection:
            migrations.migrate(connection, _MIGRATIONS, revision, REVISION)
        log.warning("database migrated", before=revision, now=REVISION, copy=copy)


class Database(AnyDatabase):
    """A SQLite file."""

    def __init__(self, path: Path, brought_to: str = "") -> None:
        """Open the file, or make it; one of an earlier version is copied aside and then brought up to date.

        `brought_to` is the version up to which it was brought before, as the journal says.
        """
        self.path = path
        if not path.exists():
            # With its final mode from the first moment; the files beside it get the same.
            write_new(path, b"")
        # An error's text goes to the log, so it must not hold what was being written.
        engine = create_engine(
            f"sqlite:///{path.absolute()}",
            connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
            hide_parameters=True,
        )
        super().__init__(engine, BEGIN_WRITING)
        self._files = WatchedSqlite(engine, path)
        event.listen(self._engine, "connect", self._configure)
        self._found()
        self._bring_up_to_date(brought_to, self._put_aside)
        self.check()
        self.expect(self._require_schema, quick=True)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a transaction that sees one state of the database."""
        with self._engine.connect() as connection:
            if connection.info.pop(_NEW, False):
                self._require_each(connection)
            with connection.begin():
                yield connection
        self._look()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give the only transaction that may write now; it is durable when the block has ended without error."""
        with self._engine.connect().execution_options(lintra_immediate=True) as connection, connection.begin():
            self._require_head(connection)
            yield connection
        self._look()

    @contextmanager
    def appending(self) -> Iterator[Connection]:
        """Give a transaction that adds reports, durably as `writing` does."""
        with self._appender.begun() as connection:
            if connection.info.pop(_NEW, False):
                self._require_head(connection)
            yield connection
        self._look()

    def intact(self) -> list[str]:
        """Return what SQLite's own check of every page complains of."""
        with self.reading() as connection:
            found = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        return [] if found == ["ok"] else [str(each) for each in found]

    def _revision(self) -> str:
        with self.reading() as connection:
            if alembic_version.name not in inspect(connection).get_table_names():
                raise InvalidSettingsError(f"{self.path} holds no tables of a server that this software knows")
            return str(connection.execute(select(alembic_version.c.version_num)).scalar())

    def _put_aside(self, revision: str) -> str:
        from lintra_service import migrations

        return migrations.put_aside(self.path, revision).name

    def sound(self) -> bool:
        """Return whether every page of the file can be read and fits the others; takes as long as reading it all."""
        try:
            with self.reading() as connection:
                return bool(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one() == "ok")
        except DatabaseError:
            return False

    def forget_log(self) -> None:
        """Move the write-ahead log into the database and empty it, so that no deleted byte stays in it."""
        with self._ending():
            self._files.empty_log()

    def _begin_looking(self) -> None:
        self._appender.close()
        self._files.begin()

    def _end_looking(self) -> None:
        self._appender.close()
        self._files.close()

    def _look_regularly(self) -> None:
        with self._ending():
            self._files.look_regularly(self.writing)
        self._compare()

    def _look(self) -> None:
        if self._files.may_differ():
            with self._ending():
                self._files.look_closely()

    def _configure(self, connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        record.info[_NEW] = True
        with self._ending():
            self._files.configure(connection)
