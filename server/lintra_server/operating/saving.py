"""Backups: of the database while the server runs, and of the two long-lived keys. Never of journal or secrets."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import select

from lintra_protocol.canonical import base64url
from lintra_protocol.randomness import system_randomness
from lintra_server.disk.folders import make_folder, require_private, write_new
from lintra_server.settings import Settings
from lintra_server.storage.database import Database, batches, journal
from lintra_server.storage.parts import NotStartedError, database_path


def back_up(settings: Settings, folder: Path) -> Iterator[str]:
    """Copy the database to a new folder and yield, in lines, what the copy contains and what it is good for.

    Raises:
        NotStartedError: there is no database, or the folder holds something.
    """
    if settings.database_url is not None:
        raise NotStartedError("the database is PostgreSQL's: back it up with pg_dump or pg_basebackup")
    source = database_path(settings)
    if not source.exists():
        raise NotStartedError(f"{source} is missing")
    target = _new_folder(folder) / source.name
    database = Database(source)
    try:
        database.copy_to(target)
    finally:
        database.close()
    yield f"{target}: {target.stat().st_size / 2**20:.1f} MiB"
    copy = Database(target)
    try:
        with copy.reading() as connection:
            counts = Counter(connection.execute(select(batches.c.state)).scalars())
            standing = connection.execute(select(journal.c.length, journal.c.start)).one_or_none()
    finally:
        copy.close()
        for suffix in ("-wal", "-shm"):
            target.with_name(target.name + suffix).unlink(missing_ok=True)
    listed = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"
    yield f"batches: {listed}"
    if standing is not None:
        yield f"journal line {standing.length}, start number {standing.start}"
    yield "It opens only with the key folder, which must not be copied; what is released meanwhile stays released."


def back_up_keys(settings: Settings, folder: Path) -> None:
    """Copy the identity key and the storage root keys to a new folder.

    Raises:
        NotStartedError: the folder holds something, or a key is missing.
    """
    if not settings.has_identity_key() or not settings.has_storage_root_key():
        raise NotStartedError("a key is missing")
    target = _new_folder(folder)
    identity = settings.identity_secret(system_randomness)
    roots = ",".join(base64url(key) for key in settings.storage_root_keys(system_randomness))
    write_new(target / "identity.key", f"{base64url(identity)}\n".encode())
    write_new(target / "storage-root.key", f"{roots}\n".encode())


def _new_folder(folder: Path) -> Path:
    make_folder(folder)
    if any(folder.iterdir()):
        raise NotStartedError(f"{folder} holds something already; name a new folder for every backup")
    require_private(folder)
    return folder
