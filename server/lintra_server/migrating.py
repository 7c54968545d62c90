"""Brings a database of an earlier version up to date: a copy is put aside, then one transaction changes everything."""

from pathlib import Path

import structlog
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError

from lintra_server.database import Database

_FOLDER = Path(__file__).with_name("migrations")

log = structlog.get_logger()


def copy_of(path: Path, revision: str) -> Path:
    """Return where the copy of a database is put that had this revision before it was migrated."""
    return path.with_name(f"{path.name}.before-{revision}")


def migrate(database: Database, revision: str, target: str) -> None:
    """Run every migration from a revision to a later one, in one transaction, after a copy was put aside.

    Raises:
        ValueError: this software does not know the revision, so it is not an earlier one.
    """
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    try:
        ScriptDirectory.from_config(config).get_revision(revision)
    except CommandError:
        raise ValueError(f"the database has schema version {revision}, this software needs {target}") from None
    copy = copy_of(database.path, revision)
    if not copy.exists():
        database.copy_to(copy)
    with database.writing() as connection:
        config.attributes["connection"] = connection
        # Stamping an already stamped database with what it is stamped with changes nothing.
        command.stamp(config, revision)
        command.upgrade(config, target)
    log.warning("database migrated", before=revision, now=target, copy=copy.name)
