"""Reads a server's two folders without changing them, also while the server runs: for backups and for the doctor."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from lintra_protocol.errors import UnavailableError
from lintra_server.durability.encryption_at_rest import BatchKey, Vault
from lintra_server.durability.journal import Journal, JournalEntry
from lintra_server.durability.key_files import KeyFiles
from lintra_server.durability.notes import ChainNote, DamagedNotesError, Notes
from lintra_server.operations.start import BY_A_START, learn_destroyed
from lintra_server.settings import Settings
from lintra_server.storage.batch_states import StoredBatchState
from lintra_server.storage.chains import raw_rows
from lintra_server.storage.history import BatchHistory, History
from lintra_server.storage.key_folder import JOURNAL_FILE, NOTES_FILE, batch_key_files, journal_key
from lintra_server.storage.marks import BEGIN, NO_CHAIN, End, Marks, Row
from lintra_service.settings import InvalidSettingsError

_TRIES, _PAUSE_SECONDS = 3, 0.1


@dataclass(frozen=True)
class KeySide:
    """What the key folder says at one moment.

    `notes` says where batches end, by the name of the batch; `keys` hold the keys of batches.
    """

    vault: Vault
    journal: Journal
    notes: Mapping[bytes, ChainNote]
    keys: KeyFiles

    def history(self, standing: StoredBatchState | None) -> History:
        """Return what the journal says, but for a step that a database which stands there does not have yet."""
        known = History(self.journal)
        known.learn(self.lines(standing))
        learn_destroyed(known, self.keys, set(self.notes))
        return known

    def lines(self, standing: StoredBatchState | None) -> Iterable[JournalEntry]:
        """Return the journal's lines but a step that a database which stands there does not have yet."""
        applied = 0 if standing is None else standing.head.length
        return (line for line in self.journal.lines if line.number <= applied or line.state in BY_A_START)

    def key_of(self, batch: BatchHistory) -> BatchKey:
        """Return the keys of a batch; raise UnavailableError if they are gone, or their file was changed."""
        try:
            secret = self.keys.read(batch.batch.name, *batch.batch.bound)
        except InvalidSettingsError:
            secret = None
        if secret is None:
            raise UnavailableError(f"the file of its keys, {batch.batch.name.hex()}.key, is gone or was changed")
        return BatchKey(secret, _no_randomness)


def key_side(settings: Settings) -> KeySide:
    """Read the key folder."""
    vault = Vault(settings.storage_root_keys(_no_randomness), _no_randomness)
    # Before the database: what the notes say is in it, whatever it gets meanwhile.
    return KeySide(vault, read_journal(settings, vault), read_notes(settings), batch_key_files(settings.key_dir, vault))


def read_journal(settings: Settings, vault: Vault) -> Journal:
    """Read the journal as it is now (see `KeyFolder.open_journal` for errors).

    Raises InvalidSettingsError if there is none.
    """
    if not (settings.key_dir / JOURNAL_FILE).exists():
        raise InvalidSettingsError(f"the journal is missing from {settings.key_dir}: lintra server doctor")
    return Journal(settings.key_dir / JOURNAL_FILE, journal_key(settings.key_dir, vault), repair=False)


def read_notes(settings: Settings, wait: Callable[[float], None] = time.sleep) -> Mapping[bytes, ChainNote]:
    """Return all notes as they are now."""
    for tried in range(1, _TRIES + 1):
        try:
            notes = Notes(settings.key_dir / NOTES_FILE, read_only=True)
        except DamagedNotesError:  # or the server wrote to them at this very moment
            if tried == _TRIES:
                raise
            wait(_PAUSE_SECONDS)
            continue
        try:
            return {name: note for name in notes.names() if (note := notes.get(name)) is not None}
        finally:
            notes.close()
    raise AssertionError("the last try returns or raises")


@dataclass(frozen=True)
class ChainLook:
    """What the database shows of a batch's rows."""

    rows: list[Row]  #: those that are what was stored, from the first one on, without their identifiers and serials
    end: End  #: where these end
    ends: set[tuple[int, bytes]]  #: every (total, chain value) on the way
    is_broken: bool  #: whether others follow


def look_at_chain(connection: Connection, batch: BatchHistory, key: BatchKey) -> ChainLook:
    """Check the marks of a batch's rows."""
    marks, at, kept = Marks(batch.batch, key), BEGIN, list[Row]()
    ends = {(0, NO_CHAIN)}
    for row in raw_rows(connection, batch.place):
        if not marks.follows(at, row):
            return ChainLook(kept, at, ends, True)
        at = End(row.number, row.total, row.mark)
        ends.add((at.total, at.chain))
        kept.append(row._replace(ids=b"", serials=b""))
    return ChainLook(kept, at, ends, False)


def _no_randomness(_: int) -> bytes:
    raise InvalidSettingsError("who only looks makes no keys")
