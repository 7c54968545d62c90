"""The analyzer's database: made, or brought up to date, when it is opened."""

from pathlib import Path

from sqlalchemy import Engine, create_engine, event, insert, inspect, select

from lintra_analyzer.storage import tables
from lintra_service.settings import InvalidSettingsError

REVISION = "0006"
"""The newest of `migrations/versions`; its tables are those of `tables`."""

_MIGRATIONS = Path(__file__).with_name("migrations")


def open_database(path: Path) -> Engine:
    """Open or create the database; one of an earlier version is copied aside and then brought up to date.

    Raises:
        InvalidSettingsError: it belongs to another version of this program that is not an earlier one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(f"sqlite:///{path}")
    event.listen(engine, "connect", tables.make_durable)
    with engine.connect() as connection:
        # The driver begins no transaction of its own before tables are made or changed.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        if not inspect(connection).get_table_names():
            tables.metadata.create_all(connection, checkfirst=False)
            connection.execute(insert(tables.alembic_version).values(version_num=REVISION))
        connection.commit()
    try:
        _migrate(engine, path)
    except InvalidSettingsError:
        engine.dispose()
        raise
    return engine


def _migrate(engine: Engine, path: Path) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        if tables.alembic_version.name in inspect(connection).get_table_names():
            revision = str(connection.scalar(select(tables.alembic_version.c.version_num)))
        else:  # before there were migrations the version stood in a table of its own
            version = connection.exec_driver_sql("SELECT version FROM meta").scalar_one()
            revision = f"{version:04d}"
        if revision != REVISION:
            # Alembic takes a while to import, and is needed once in a version's life.
            from lintra_service import migrations

            migrations.require_known(_MIGRATIONS, revision, REVISION)
            migrations.put_aside(path, revision)
            migrations.migrate(connection, _MIGRATIONS, revision, REVISION)
        connection.commit()
