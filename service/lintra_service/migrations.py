"""Brings a service's database of an earlier version up to date, with Alembic, in one transaction of the caller's."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection

from lintra_service.settings import InvalidSettingsError


def require_known(folder: Path, revision: str, target: str) -> None:
    """Check that a database's revision is one that the migrations of a folder start from.

    Raises InvalidSettingsError if it is not: a later version of this software wrote it, or something else did.
    """
    try:
        ScriptDirectory.from_config(_config(folder)).get_revision(revision)
    except CommandError:
        raise InvalidSettingsError(
            f"the database has schema version {revision}, this software needs {target}: use the version that wrote it"
        ) from None


def migrate(connection: Connection, folder: Path, revision: str, target: str) -> None:
    """Run every migration of a folder from a revision to a later one, in the connection's transaction."""
    config = _config(folder)
    config.attributes["connection"] = connection
    # Stamping an already stamped database with what it is stamped with changes nothing.
    command.stamp(config, revision)
    command.upgrade(config, target)


def put_aside(path: Path, revision: str) -> Path:
    """Copy a SQLite file, with what is in its log, beside itself under a name that only its owner can read; durably.

    A copy that an interrupted migration left is kept: it is the same.
    """
    copy = path.with_name(f"{path.name}.before-{revision}")
    if copy.exists():
        return copy
    partial = copy.with_name(f"{copy.name}.partial")
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(partial)) as target:
        source.backup(target)
        # One file that is whole by itself, without a log beside it.
        target.execute("PRAGMA journal_mode=DELETE")
    descriptor = os.open(partial, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    partial.replace(copy)
    return copy


def _config(folder: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    return config
