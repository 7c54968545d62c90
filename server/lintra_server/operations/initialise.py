"""Makes a new server: keys, journal, database. After a crash in between the next start completes it.

While the marker `founding` lies in the key folder no task was ever taken, so whatever is there may be made anew.
"""

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_server.clock import Clock
from lintra_server.durability.journal import EMPTY, JournalEntry, JournalState
from lintra_server.durability.private_files import sync_folder, write_new
from lintra_server.settings import Settings
from lintra_server.storage.batch_states import StoredBatchState
from lintra_server.storage.database import REVISION
from lintra_server.storage.key_folder import FOUNDING_FILE, KeyFolder
from lintra_server.storage.server_resources import (
    NotStartedError,
    ServerResources,
    has_database,
    open_vault,
    parts_with,
)


def initialise(settings: Settings, random_bytes: RandomBytes, folder: KeyFolder, clock: Clock) -> None:
    """Make a new server in empty folders.

    With an identity key that was there before, it may be the successor of a lost server under the same name, so tasks
    that take reports before now are not registered: they may have been released by the lost one. `settings` says where
    the folders are; missing keys are made only if `create_keys` says so. `clock` says what "before now" is.

    Raises:
        NotStartedError: there is a server here already, or a database that belongs to a server.
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
    vault = open_vault(settings, random_bytes)
    folder.new_notes().close()
    parts = parts_with(settings, random_bytes, folder, vault, folder.new_journal(vault, random_bytes))
    try:
        _establish(parts, int(now) + 1 if known else 0)
        folder.note_clock(clock.seen())
    finally:
        parts.close_but_folder()
    (folder.path / FOUNDING_FILE).unlink()
    sync_folder(folder.path)


def _establish(parts: ServerResources, barred_before: int) -> None:
    if parts.database.holds_tasks():
        raise NotStartedError(
            "the database holds tasks, but there is no journal that vouches for them: bring back the key folder, or "
            "run `lintra server restore --journal-lost`, which begins anew"
        )
    if parts.witness is not None and parts.witness.read() != EMPTY:
        raise NotStartedError("the witness remembers another server; name an empty folder")
    began: JournalState = "restored" if barred_before else "started"
    facts = {"barred_before": barred_before} if barred_before else {}
    # Without this line the tables could be called those of an earlier version, and brought up to date once more.
    migrated = JournalEntry(2, 1, "migrated", facts={"revision": REVISION})
    parts.journal.append(JournalEntry(1, 1, began, facts=facts), migrated)
    if parts.witness is not None:
        parts.witness.reset(parts.journal.head)
    parts.states.establish(StoredBatchState(parts.journal.head, 1))


def may_initialise(settings: Settings, folder: KeyFolder) -> bool:
    """Return whether a start may make a new server by itself: everything is empty, or making one was interrupted."""
    if folder.founding:
        return True
    nothing = not settings.has_identity_key() and not folder.has_journal and not has_database(settings)
    return settings.create_keys and nothing
