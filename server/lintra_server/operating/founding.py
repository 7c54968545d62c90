"""Makes a new server: keys, journal, database. A crash in between is made good by the next start.

While the marker `founding` lies in the key folder no task was ever taken, so whatever is there may be made anew.
"""

from collections.abc import Callable

from sqlalchemy import select, update

from lintra_protocol.randomness import RandomBytes
from lintra_server.clock import Clock
from lintra_server.disk.folders import sync_folder, write_new
from lintra_server.disk.journal import EMPTY, Line
from lintra_server.settings import Settings
from lintra_server.storage.database import batches, sealing_keys
from lintra_server.storage.key_folder import FOUNDING_FILE, KeyFolder, Noted
from lintra_server.storage.parts import NotStartedError, Parts, has_database, open_vault, parts_with
from lintra_server.storage.states import Standing


def found(
    settings: Settings, random_bytes: RandomBytes, folder: KeyFolder, clock: Clock, *, adopt: bool = False
) -> None:
    """Make a new server in empty folders.

    With an identity key that was there before, it may be the successor of a lost server under the same name, so tasks
    that take reports before now are not registered: they may have been released by the lost one.

    Args:
        settings: where the folders are; missing keys are made only if `create_keys` says so.
        random_bytes: a cryptographic source.
        folder: the key folder, locked.
        clock: says what "before now" is.
        adopt: take over a database that never had a journal, because the operator vouches that it is no old copy.

    Raises:
        NotStartedError: there is a server here already, or a database that is not to be adopted.
        InvalidSettingsError: a key is missing.
        UnavailableError: the clock is not to be believed.
    """
    now = clock.now()
    if folder.has_journal and not folder.founding:
        raise NotStartedError(f"{folder.path} has a journal: there is a server here already")
    known = settings.has_identity_key() and not folder.founding
    if not folder.founding:
        # The marker says whether the identity key is older than this server.
        write_new(folder.path / FOUNDING_FILE, b"known\n" if known else b"new\n")
    known = (folder.path / FOUNDING_FILE).read_bytes() == b"known\n"
    # Before anything is made: an adopted database has its tasks already.
    vault = open_vault(settings, random_bytes)
    parts = parts_with(settings, random_bytes, folder, vault, folder.new_journal(vault, random_bytes))
    try:
        _establish(parts, int(now) + 1 if known and not adopt else 0, adopt)
        folder.note(Noted(clock.seen(), parts.store.commits()))
    finally:
        parts.journal.close()
        parts.database.close()
    (folder.path / FOUNDING_FILE).unlink()
    sync_folder(folder.path)


def _establish(parts: Parts, barred_before: int, adopt: bool) -> None:
    rows = parts.states.rows()
    if rows and not adopt:
        raise NotStartedError(
            "the database holds tasks, but there is no journal. If it is the database that ran last, never a copy, "
            "run `lintra server init --adopt`; else `lintra server restore --journal-lost`"
        )
    if parts.witness is not None and parts.witness.read() != EMPTY:
        raise NotStartedError("the witness remembers another server; name an empty folder")
    if adopt:
        _adopt(parts)
    parts.journal.append(Line(1, 1, "restored" if barred_before else "started"))
    if parts.witness is not None:
        parts.witness.reset(parts.journal.head)
    parts.states.establish(Standing(parts.journal.head, 1, barred_before))


def _adopt(parts: Parts) -> None:
    """Wrap what only the root key protected under secrets of its own, too."""
    with parts.database.writing() as connection:
        for row in connection.execute(select(batches).where(batches.c.secret.is_(None))).all():
            if row.wrapped_key is None:
                continue
            number = row.batch.to_bytes(8, "big")
            name, rewrap = _rewrapping(parts)
            values = {"secret": name, "wrapped_key": rewrap(row.wrapped_key, "batch key", number)}
            if row.wrapped_nonce is not None:
                values["wrapped_nonce"] = rewrap(row.wrapped_nonce, "nonce", number)
            connection.execute(update(batches).where(batches.c.batch == row.batch).values(**values))
        for row in connection.execute(select(sealing_keys).where(sealing_keys.c.secret.is_(None))).all():
            name, rewrap = _rewrapping(parts)
            wrapped = rewrap(row.wrapped, "sealing key", row.suite.encode(), row.key_id)
            change = update(sealing_keys).where(sealing_keys.c.key_id == row.key_id)
            connection.execute(change.values(secret=name, wrapped=wrapped))


def _rewrapping(parts: Parts) -> tuple[bytes, Callable[..., bytes]]:
    name, secret = parts.folder.secrets.new()
    under = parts.vault.under(secret)

    def rewrap(wrapped: bytes, label: str, *bound: bytes) -> bytes:
        return under.wrap(parts.vault.unwrap(wrapped, label, *bound), label, *bound)

    return name, rewrap


def may_found(settings: Settings, folder: KeyFolder) -> bool:
    """Return whether a start may make a new server by itself: everything is empty, or making one was interrupted."""
    if folder.founding:
        return True
    nothing = not settings.has_identity_key() and not folder.has_journal and not has_database(settings)
    return settings.create_keys and nothing
