"""PostgreSQL: the same tables, for servers that outgrow one machine's disk.

Who writes is one at a time, as with SQLite: `writing` takes a lock of the whole database. Only adding reports does not;
it locks the rows of its batches. What PostgreSQL must not be told to forget is looked at in every new connection, and
so is which PostgreSQL answers, and how far its log has come. When another one does, after a failover or a restart, the
journal's place and the number of reports are compared before anything else is done: a replica that was behind is an old
copy like any other, and so is a base backup that was started in the place of what it is a copy of.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, select
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from lintra_protocol.errors import UnavailableError
from lintra_server.storage.database import AnyDatabase, alembic_version
from lintra_server.storage.identity import LogPosition, require_position
from lintra_server.storage.schema import SEARCH_PATH
from lintra_server.storage.transition_log import ForkedError
from lintra_service.settings import InvalidSettingsError
from lintra_service.supervisor import track_remote_work

log = structlog.get_logger()

_WRITERS_LOCK = int.from_bytes(b"lintra", "big")
_CONNECT_SECONDS = 10
_PLACE = "lintra_place"

# Each of them off: a commit that was acknowledged may be gone after a crash, or half a page of it.
NEVER_OFF = ("fsync", "full_page_writes", "synchronous_commit")
_STANDBY = "SELECT pg_is_in_recovery()"
_POSITION = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
_IDENTITY = (
    "SELECT system_identifier, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), "
    "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint, "
    "(pg_current_wal_insert_lsn() - '0/0')::bigint FROM pg_control_system()"
)


@dataclass(frozen=True)
class JournalPosition:
    """Which PostgreSQL answers.

    Attributes:
        cluster: its number, which copies of it have, too.
        timeline: its history, which a promoted replica begins anew.
        started: when, in microseconds since the epoch: in the place of one that was stopped a copy may be started.
    """

    cluster: int
    timeline: str
    started: int = 0


class PostgresDatabase(AnyDatabase):
    """A database of a PostgreSQL server that belongs to one Lintra server alone."""

    def __init__(self, url: str, brought_to: str = "") -> None:
        """Connect; make the tables if the database is empty, bring those of an earlier version up to date.

        `url` is `postgresql://user@host/name?...` with libpq's parameters; it may hold a password and is never shown.
        `brought_to` is the version of the tables up to which they were brought before, as the journal says.

        Raises:
            InvalidSettingsError: it cannot be reached, forgets commits, is a standby, or holds something else.
        """
        self._position = LogPosition()
        super().__init__(_engine(url))
        self._place: JournalPosition | None = None
        self._is_lost = False
        event.listen(self._engine, "connect", self._admit)
        try:
            self._found()
            self._bring_up_to_date(brought_to, lambda _: "none: a backup is PostgreSQL's own")
            self.check()
            self.expect(self._require_schema, quick=True)
        except DBAPIError as error:
            self.close()
            raise InvalidSettingsError(f"the database cannot be used: {_first_line(error)}") from None
        except UnavailableError as error:
            self.close()
            raise InvalidSettingsError(f"the database cannot be used: {error.detail}") from None
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a transaction that sees one state of the database."""
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with self._answering(), self._engine.connect() as connection:
            connection = connection.execution_options(**options)
            self._require_place(connection)  # before the transaction, which sees nothing that is committed meanwhile
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give the only transaction that may write now; it is durable when the block has ended without error."""
        with self._answering(), self._engine.connect() as connection:
            self._require_place(connection)
            with connection.begin():
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})")
                self._require_head(connection)
                yield connection
                position = connection.exec_driver_sql(_POSITION).scalar_one()
            self._position.note(position)

    @contextmanager
    def appending(self) -> Iterator[Connection]:
        """Give a transaction that locks the batches to which it adds reports, and durably as `writing` does.

        How far the log is afterwards is not asked: where the batches end tells as much.
        """
        with self._answering(), self._appender.begun() as connection:
            self._require_place(connection)
            yield connection

    def intact(self) -> list[str]:
        """Return nothing: PostgreSQL checks a page when it reads it, if the cluster has data checksums."""
        self.check()
        return []

    def sound(self) -> bool:
        """Return whether the database answers."""
        try:
            self.check()
        except (DBAPIError, UnavailableError):
            return False
        return True

    def forget_log(self) -> None:
        """Give the room of deleted rows to the next ones; the log is PostgreSQL's, and secrets are destroyed here."""
        with track_remote_work(), self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM segments")

    def _revision(self) -> str:
        with self.reading() as connection:
            if alembic_version.name not in inspect(connection).get_table_names():
                raise InvalidSettingsError("the database holds tables of something else; a server needs one of its own")
            return str(connection.execute(select(alembic_version.c.version_num)).scalar())

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Say that the database does not answer, as one does that was killed, begins anew, or has no way to here.

        Whatever was to be written may be durable or not; who asks again finds out.
        """
        try:
            yield
        except DBAPIError as error:
            if self._place is not None and _is_gone(error):
                self._appender.doubt()
                if not self._is_lost:
                    log.warning("the database does not answer", reason=_first_line(error))
                self._is_lost = True
                raise UnavailableError("the database does not answer") from None
            raise

    def _require_place(self, connection: Connection) -> None:
        """Compare what is stored with what is known if another machine answers than before."""
        place: JournalPosition = connection.info[_PLACE]
        if place == self._place:
            return
        if self._place is not None:
            with self._ending():
                self._require_same(place, connection)
            log.warning("another PostgreSQL answers; nothing is missing", before=self._place, now=place)
        self._place = place

    def _require_same(self, place: JournalPosition, connection: Connection) -> None:
        if self._place is not None and place.cluster != self._place.cluster:
            raise ForkedError("another database cluster answers than the one that this process began with")
        for check in self._expected:
            with connection.begin():  # each in its own: it compares with what was known before
                check(connection)

    def _begin_looking(self) -> None:
        """Note nothing: the first connection said which PostgreSQL this is."""

    def _end_looking(self) -> None:
        """Let go of nothing."""

    def _look_regularly(self) -> None:
        with track_remote_work():
            try:
                self._look()
            except UnavailableError:  # of a connection that broke: a new one may lead to another PostgreSQL
                self._look()
            self._compare()

    def _look(self) -> None:
        with self.reading() as connection:
            before = self._position.highest
            place, position = _place(connection.exec_driver_sql(_IDENTITY).one())
            with self._ending():
                if place != connection.info[_PLACE]:
                    raise ForkedError("a connection led to another PostgreSQL than it was opened to")
                require_position(position, before)

    def _admit(self, connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        """Look at which PostgreSQL this is, and that it keeps what it acknowledges and was not set back."""
        cursor = connection.cursor()
        for name in NEVER_OFF:
            cursor.execute(f"SHOW {name}")
            if _row(cursor.fetchone())[0] == "off":
                raise InvalidSettingsError(
                    f"PostgreSQL has {name} = off: an acknowledged report could be lost; set it on"
                )
        cursor.execute(_STANDBY)
        if _row(cursor.fetchone())[0]:
            raise InvalidSettingsError("this PostgreSQL is a standby; name the primary")
        before = self._position.highest
        cursor.execute(_IDENTITY)
        record.info[_PLACE], position = _place(_row(cursor.fetchone()))
        cursor.close()
        connection.rollback()
        self._is_lost = False
        with self._ending():
            require_position(position, before)


def holds_tables(url: str) -> bool:
    """Return whether there is anything in a database.

    Raises:
        InvalidSettingsError: it cannot be reached.
    """
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            return bool(inspect(connection).get_table_names())
    except DBAPIError as error:
        raise InvalidSettingsError(f"the database cannot be reached: {_first_line(error)}") from None
    finally:
        engine.dispose()


def reading_url(url: str) -> str:
    """Return the address as SQLAlchemy has it, with its password (see `_engine` for errors)."""
    engine = _engine(url)
    try:
        return engine.url.render_as_string(hide_password=False)
    finally:
        engine.dispose()


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.drivername not in ("postgresql", "postgres"):
            raise InvalidSettingsError("the address of the database begins with postgresql://")
        # An error's text goes to the log, so it must not hold what was being written.
        return create_engine(
            _with_search_path(parsed).set(drivername="postgresql+psycopg"),
            connect_args={"connect_timeout": _CONNECT_SECONDS},
            isolation_level="READ COMMITTED",  # whatever the cluster's default: who waited for a lock looks anew
            hide_parameters=True,
        )
    except ArgumentError:
        raise InvalidSettingsError("the address of the database is none: postgresql://user@host/name") from None
    except ModuleNotFoundError:
        raise InvalidSettingsError("PostgreSQL needs a package more: install lintra[postgres]") from None


def _with_search_path(url: URL) -> URL:
    own = url.query.get("options", ())
    options = [own] if isinstance(own, str) else list(own)
    return url.update_query_dict({"options": " ".join([*options, SEARCH_PATH])})


def _row(row: object) -> tuple[object, ...]:
    if not isinstance(row, tuple):
        raise TypeError("PostgreSQL answered with no row")
    return row


def _place(row: Sequence[object]) -> tuple[JournalPosition, int]:
    """Return which PostgreSQL answers, and how many bytes its log has had, of a row of `_IDENTITY`."""
    cluster, timeline, started, position = row
    return JournalPosition(int(str(cluster)), str(timeline), int(str(started))), int(str(position))


def _is_gone(error: DBAPIError) -> bool:
    """Return whether a connection broke, or there is none; PostgreSQL's own word for it would be of these classes."""
    state = getattr(error.orig, "sqlstate", None)
    alone = isinstance(error, OperationalError) and state is None
    return error.connection_invalidated or alone or str(state).startswith(("08", "57P"))


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).splitlines()[0] if str(error.orig) else type(error).__name__
