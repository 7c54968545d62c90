"""Backups: of the database while the server runs, and of the two long-lived keys. Never of the rest of the key folder.

Beside the copy lies a manifest, which says what is in it (see `manifests`).
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import UnavailableError
from lintra_server.durability.journal import BatchId
from lintra_server.durability.private_files import make_folder, require_private, sync_file, write_new
from lintra_server.operations.inspection import KeySide, key_side, look_at_chain
from lintra_server.operations.manifests import MANIFEST_FILE, Manifest, sha256_of
from lintra_server.settings import Settings
from lintra_server.storage.batch_states import StoredBatchState, standing_in
from lintra_server.storage.history import History
from lintra_server.storage.read_only import ReadOnlyDatabase
from lintra_server.storage.server_resources import NotStartedError, database_path, has_database


def back_up(settings: Settings, folder: Path) -> Iterator[str]:
    """Copy the database to a new folder and yield, in lines, what the copy contains and what it is good for.

    Raises NotStartedError if there is no database, it belongs to no journal, or the folder holds something.
    """
    if settings.database_url is not None:
        raise NotStartedError("the database is PostgreSQL's: back it up with pg_dump or pg_basebackup")
    source = database_path(settings)
    if not has_database(settings):
        raise NotStartedError(f"{source} is missing, or empty")
    key_side(settings)  # before anything is written: without it nobody could say what is in the copy
    target = _new_folder(folder) / source.name
    copy_database(source, target)
    yield f"{target}: {target.stat().st_size / 2**20:.1f} MiB"
    keys = key_side(settings)
    copy = ReadOnlyDatabase(f"sqlite:///{target.absolute()}")
    try:
        with copy.reading() as connection:
            standing = standing_in(connection)
        if standing is None:
            raise NotStartedError(f"{source} belongs to no journal: lintra server doctor")
        history = keys.history(standing)
        ends, damaged = _ends(copy, keys, history)
    finally:
        copy.close()
    manifest = Manifest(sha256_of(target), standing.head, ends).sealed(keys.journal, settings.signing_key(_no_key))
    write_new(target.with_name(MANIFEST_FILE), manifest)
    yield from _said(history, standing, ends, damaged)


def copy_database(source: Path, target: Path) -> None:
    """Write a consistent copy of a SQLite file, also while a server runs on it, that only its owner can read."""
    write_new(target, b"")
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as original,
        closing(sqlite3.connect(target)) as copy,
    ):
        original.backup(copy)
        # One file that is whole by itself, without a log beside it.
        copy.execute("PRAGMA journal_mode=DELETE")
    sync_file(target)


def _ends(
    copy: ReadOnlyDatabase, keys: KeySide, history: History
) -> tuple[dict[BatchId, tuple[int, bytes]], list[BatchId]]:
    """Return where each batch ends in a copy, and those of which the copy does not hold what was stored."""
    ends, damaged = dict[BatchId, tuple[int, bytes]](), list[BatchId]()
    for batch in history.batches.values():
        if batch.is_destroyed:
            continue
        try:
            key = keys.key_of(batch)
        except UnavailableError:
            damaged.append(batch.batch)
            continue
        with copy.reading() as connection:
            look = look_at_chain(connection, batch, key)
        ends[batch.batch] = look.end.total, look.end.chain
        if look.is_broken:
            damaged.append(batch.batch)
    return ends, damaged


def _said(
    history: History, standing: StoredBatchState, ends: dict[BatchId, tuple[int, bytes]], damaged: list[BatchId]
) -> Iterator[str]:
    counts = Counter(batch.state for batch in history.batches.values())
    listed = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"
    yield f"batches: {listed}; {sum(total for total, _ in ends.values())} reports"
    yield f"journal line {standing.head.length}, start number {standing.start}"
    for batch in damaged:
        yield f"DAMAGED: {batch} is not what was stored; it is so in the server, too: lintra server doctor"
    yield "It opens only with the key folder, which must not be copied; what is released meanwhile stays released."


def back_up_keys(settings: Settings, folder: Path) -> None:
    """Copy the identity key and the storage root keys to a new folder.

    Raises NotStartedError if the folder holds something, or a key is missing.
    """
    if not settings.has_identity_key() or not settings.has_storage_root_key():
        raise NotStartedError("a key file is missing: `lintra server doctor` names it")
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


def _no_key(_: int) -> bytes:
    raise NotStartedError("a key file is missing: `lintra server doctor` names it")
