"""The analyzer's database: made, or brought up to date, when it is opened."""

from pathlib import Path

from sqlalchemy import Engine, create_engine, delete, event, func, insert, inspect, select
from sqlalchemy.exc import SQLAlchemyError

from lintra_analyzer.storage import tables
from lintra_service.settings import InvalidSettingsError
from lintra_service.sqlite import forget_read_only

REVISION = "0001"
"""The newest of `migrations/versions`; its tables are those of `tables`."""

_MIGRATIONS = Path(__file__).with_name("migrations")


DOCTOR = "`lintra analyzer doctor` says what to do"


def open_database(path: Path, *, is_known: bool = False) -> Engine:
    """Open or create the database; one of an earlier version is copied aside and then brought up to date.

    `is_known` says whether there was one before, so that a missing or empty file is no new beginning. Raises
    InvalidSettingsError if it is damaged or gone, or belongs to another version of this program that is not an earlier
    one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_known and not (path.exists() and path.stat().st_size):
        raise InvalidSettingsError(f"{path} is missing or empty, and it was there before; {DOCTOR}")
    engine = create_engine(f"sqlite:///{path}")
    event.listen(engine, "connect", tables.make_durable)
    forget_read_only(engine)
    try:
        _begin(engine)
        _migrate(engine, path)
    except SQLAlchemyError as error:
        engine.dispose()
        raise damaged(path, error) from None
    except InvalidSettingsError:
        engine.dispose()
        raise
    return engine


def damaged(path: Path, error: SQLAlchemyError) -> InvalidSettingsError:
    """Return what is said of a database that SQLite cannot read, or whose tables are not those of an analyzer."""
    reason = getattr(error, "orig", None) or type(error).__name__
    return InvalidSettingsError(f"{path} is damaged, in use, or not an analyzer's database ({reason}); {DOCTOR}")


def require_intact(engine: Engine, path: Path) -> None:
    """Look at every page of the database; raise InvalidSettingsError if one is damaged."""
    try:
        with engine.connect() as connection:
            complaint = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
    except SQLAlchemyError as error:
        raise damaged(path, error) from None
    if complaint != "ok":
        complaint = " ".join(complaint.split())
        raise InvalidSettingsError(f"{path} is damaged ({complaint}); {DOCTOR}")


def _begin(engine: Engine) -> None:
    with engine.connect() as connection:
        # The driver begins no transaction of its own before tables are made or changed.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        if not inspect(connection).get_table_names():
            tables.metadata.create_all(connection, checkfirst=False)
            connection.execute(insert(tables.alembic_version).values(version_num=REVISION))
        connection.commit()


class TrustedCounter:
    """The largest counter of the trusted file, as the database notes it; see `trusted_file`."""

    def __init__(self, engine: Engine) -> None:
        """Note it in a database that has its tables."""
        self._engine = engine

    def highest(self) -> int:
        """Return the largest counter that was noted; 0 if none was."""
        with self._engine.connect() as connection:
            return int(connection.scalar(select(func.max(tables.trusted.c.counter))) or 0)

    def raise_to(self, counter: int) -> None:
        """Note a counter, unless a larger one is noted."""
        if counter > self.highest():
            with self._engine.begin() as connection:
                connection.execute(delete(tables.trusted).where(tables.trusted.c.counter < counter))
                connection.execute(insert(tables.trusted).values(counter=counter))


def _migrate(engine: Engine, path: Path) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        revision = str(connection.scalar(select(tables.alembic_version.c.version_num)))
        if revision != REVISION:
            # Alembic takes a while to import, and is needed once in a version's life.
            from lintra_service import migrations

            migrations.require_known(_MIGRATIONS, revision, REVISION)
            migrations.put_aside(path, revision)
            migrations.migrate(connection, _MIGRATIONS, revision, REVISION)
        connection.commit()
