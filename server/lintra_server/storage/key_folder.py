"""`key_dir`: two long-lived keys, keys of batches, sealing keys, journal, notes, step files, clock, scratch copies.

It is never copied, backed up or restored, but for the two long-lived keys. One process at a time owns it.
"""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from lintra_protocol.encoding.canonical import canonical_json, parse_canonical_json
from lintra_protocol.errors import InvalidMessageError
from lintra_server.clock import LastSeen
from lintra_server.durability.encryption_at_rest import KEY_BYTES, Vault
from lintra_server.durability.journal import Journal
from lintra_server.durability.key_files import KeyFiles
from lintra_server.durability.notes import DamagedNotesError, Notes
from lintra_server.durability.private_files import FILE_MODE, make_folder, replace, require_private, write_new
from lintra_server.storage.stream_memory import StreamMemory
from lintra_server.storage.transition_log import StepFiles
from lintra_service.settings import InvalidSettingsError

JOURNAL_FILE = "journal"
JOURNAL_KEY_FILE = "journal.key"
NOTES_FILE = "notes"
SEEN_FILE = "seen"
FOUNDING_FILE = "founding"
ACCEPT_FILE = "clock-accepted"
SCRATCH_FOLDER = "scratch"
_LOCK_FILE = "lock"
_LABEL = "journal key"


class BusyError(InvalidSettingsError):
    """Another process owns the folder."""


class KeyFolder:
    """The folder, locked for this process until it is closed."""

    def __init__(self, path: Path, random_bytes: Callable[[int], bytes]) -> None:
        """Lock the folder, which is made if need be.

        Raises:
            BusyError: another process owns it.
        """
        make_folder(path)
        require_private(path)
        self.path = path
        self._lock = os.open(path / _LOCK_FILE, os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise BusyError(f"another process owns {path}; there is one server to a key folder") from None
        self.files = StepFiles(path / "steps")

    @property
    def founding(self) -> bool:
        """Return whether a server was begun to be made here, and never finished: it never took a task."""
        return (self.path / FOUNDING_FILE).exists()

    @property
    def has_journal(self) -> bool:
        """Return whether there is a journal with its key."""
        return (self.path / JOURNAL_FILE).exists() and (self.path / JOURNAL_KEY_FILE).exists()

    @property
    def has_notes(self) -> bool:
        """Return whether there are notes of where batches end."""
        return (self.path / NOTES_FILE).exists()

    def batch_keys(self, vault: Vault) -> KeyFiles:
        """Return the files that hold the keys of batches."""
        return batch_key_files(self.path, vault)

    def sealing_keys(self, vault: Vault) -> KeyFiles:
        """Return the files that hold the sealing keys."""
        return sealing_key_files(self.path, vault)

    def stream_memory(self, vault: Vault) -> StreamMemory:
        """Return what is remembered of the noise in windows of streams."""
        return stream_memory(self.path, vault)

    def open_notes(self) -> Notes:
        """Read the notes of where batches end; they are begun if there are none (see `Notes` for errors)."""
        return Notes(self.path / NOTES_FILE)

    def new_notes(self) -> Notes:
        """Begin notes in the place of others."""
        (self.path / NOTES_FILE).unlink(missing_ok=True)
        return self.open_notes()

    def put_damaged_notes_aside(self) -> None:
        """Rename notes that are not what this server wrote; the next who opens them begins new ones."""
        try:
            self.open_notes().close()
        except DamagedNotesError:
            (self.path / NOTES_FILE).rename(self._unused(NOTES_FILE))

    def open_journal(self, vault: Vault) -> Journal:
        """Read and verify the journal."""
        return Journal(self.path / JOURNAL_FILE, journal_key(self.path, vault))

    def new_journal(self, vault: Vault, random_bytes: Callable[[int], bytes]) -> Journal:
        """Begin a journal under a new key; one that was there is kept beside it under another name."""
        for name in (JOURNAL_FILE, JOURNAL_KEY_FILE):
            if (self.path / name).exists():
                (self.path / name).rename(self._unused(name))
        write_new(self.path / JOURNAL_KEY_FILE, vault.wrap(random_bytes(KEY_BYTES), _LABEL))
        return self.open_journal(vault)

    def renew_journal_key(self, vault: Vault) -> None:
        """Wrap the journal's key under the first root key, if it is under a later one."""
        path = self.path / JOURNAL_KEY_FILE
        if (renewed := vault.renewed(path.read_bytes(), _LABEL)) is not None:
            replace(path, renewed)

    def note_clock(self, seen: LastSeen) -> None:
        """Remember durably what the clock said."""
        value = {"clock": int(seen.clock), "allowance": int(seen.allowance)}
        replace(self.path / SEEN_FILE, canonical_json(value) + b"\n")

    def last_seen(self) -> LastSeen | None:
        """Return what the clock said last; None if that was never noted, or if it cannot be read."""
        return last_seen(self.path)

    def close(self) -> None:
        """Let the next process have the folder."""
        os.close(self._lock)

    def _unused(self, name: str) -> Path:
        number = 1
        while (path := self.path / f"{name}.lost-{number}").exists():
            number += 1
        return path


def batch_key_files(folder: Path, vault: Vault) -> KeyFiles:
    """Return the files of a key folder that hold the keys of batches."""
    return KeyFiles(folder / "batches", vault, "batch keys")


def stream_memory(folder: Path, vault: Vault) -> StreamMemory:
    """Return what the files of a key folder remember of the noise in windows of streams."""
    return StreamMemory(KeyFiles(folder / "streams", vault, "stream memory"))


def sealing_key_files(folder: Path, vault: Vault) -> KeyFiles:
    """Return the files of a key folder that hold the sealing keys."""
    return KeyFiles(folder / "sealing", vault, "sealing key")


def journal_key(folder: Path, vault: Vault) -> bytes:
    """Return the key of a folder's journal; raise InvalidSettingsError if it is of another root key."""
    path = folder / JOURNAL_KEY_FILE
    try:
        return vault.unwrap(path.read_bytes(), _LABEL)
    except InvalidSettingsError as error:
        raise InvalidSettingsError(
            f"{path} does not open: {error}, or the file was changed. Bring back storage-root.key from its backup; if "
            "it is the right one, run `lintra server restore --journal-lost`"
        ) from None


def last_seen(folder: Path) -> LastSeen | None:
    """Return what a server's clock said last; None if that was never noted, or if it cannot be read."""
    try:
        match parse_canonical_json((folder / SEEN_FILE).read_bytes().rstrip(b"\n")):
            case {"clock": int(clock), "allowance": int(allowance)}:
                return LastSeen(clock, allowance)
    except (OSError, InvalidMessageError):
        pass
    return None
