"""Checks a server's folders and database without changing them, also while it runs, and names the repairs."""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from lintra_protocol.errors import LintraError
from lintra_server.clock import DAY, Clock
from lintra_server.durability.encryption_at_rest import Vault
from lintra_server.durability.journal import DamagedJournalError, Journal, UnknownLineError
from lintra_server.durability.notes import DamagedNotesError
from lintra_server.durability.private_files import require_private
from lintra_server.operations.inspection import KeySide, key_side, read_journal, read_notes
from lintra_server.operations.verification import Verifier
from lintra_server.settings import Settings
from lintra_server.storage.key_folder import JOURNAL_FILE, JOURNAL_KEY_FILE, NOTES_FILE, last_seen, sealing_key_files
from lintra_server.storage.keys import StoredKey
from lintra_server.storage.read_only import ReadOnlyDatabase
from lintra_server.storage.server_resources import database_path, has_database, open_witness, reading_only
from lintra_service.findings import HealthFinding
from lintra_service.settings import InvalidSettingsError

FREE_BYTES = 1 << 30
"""Less free space than this is worth a word."""

SETTLING_SECONDS = 1.0
"""A running server may just be between two writes: what is found is looked at again after so long."""

_UNRELEASED = "every batch that is not released is given up"
_SINCE = (
    "reports that were stored since the backup are lost; each batch says how many, and waits until that is accepted"
)


@dataclass(frozen=True)
class Doctor:
    """Looks at one server."""

    settings: Settings
    config: Path  #: its settings file, as commands name it
    now: Callable[[], float] = time.time  #: the machine's clock
    running: Callable[[], float] = time.monotonic  #: counts seconds, and nobody sets it
    wait: Callable[[float], None] = time.sleep  #: lets seconds pass

    def examine(self) -> Iterator[HealthFinding]:
        """Yield what is wrong, each needing only what came before; stop where nothing more can be said."""
        for folder in (self.settings.data_dir, self.settings.key_dir):
            yield from self._permissions(folder)
        yield from self._volumes()
        yield from self._space()
        yield from self.clock()
        if missing := list(self._missing()):
            yield from missing
            return
        unreadable = list(self._keys())
        yield from unreadable
        if unreadable:
            return
        yield from self._witness()
        yield from self._sealing_keys()
        yield from self._database()
        yield from self._old_copies()

    def command(self, words: str) -> str:
        """Return a command of this server as it is typed."""
        return f"lintra server {words} --config {self.config}"

    # --- folders ----------------------------------------------------------------------------------------------

    def _permissions(self, folder: Path) -> Iterator[HealthFinding]:
        try:
            require_private(folder)
        except FileNotFoundError:
            yield HealthFinding(
                "trouble", f"the folder {folder} is not there", f"mount its volume, or {self.command('init')}",
                "init makes a new server, which knows nothing of what an older one took",
            )  # fmt: skip
        except InvalidSettingsError as error:
            yield HealthFinding("trouble", str(error), f"chmod -R go= {folder}", "nothing")
        except OSError as error:
            yield HealthFinding(
                "trouble", f"{folder} cannot be read: {error}", f"look at the volume of {folder}", "nothing"
            )

    def _volumes(self) -> Iterator[HealthFinding]:
        data, keys = self.settings.data_dir, self.settings.key_dir
        if data.exists() and keys.exists() and data.stat().st_dev == keys.stat().st_dev:
            yield HealthFinding(
                "advice",
                "data_dir and key_dir are on one volume: a snapshot of it sets both back at once, which only a witness "
                "notices",
                f"stop the server, move {keys} to a volume of its own, and name it as key_dir in {self.config}",
                "a restart",
            )
        witness = self.settings.witness_dir
        beside = {folder.stat().st_dev for folder in (data, keys) if folder.exists()}
        if witness is not None and witness.exists() and witness.stat().st_dev in beside:
            yield HealthFinding(
                "advice",
                "witness_dir is on one volume with data_dir or key_dir: a snapshot of it sets the witness back, too, "
                "and certificates say `witnessed` all the same",
                f"name an empty folder on another machine as witness_dir in {self.config}, "
                f"then {self.command('witness')}",
                "a restart",
            )

    def _space(self) -> Iterator[HealthFinding]:
        for folder in (self.settings.data_dir, self.settings.key_dir):
            free = shutil.disk_usage(folder).free if folder.exists() else FREE_BYTES
            if free < FREE_BYTES:
                yield HealthFinding(
                    "trouble" if free < self.settings.min_free_bytes else "advice",
                    f"only {free / 2**30:.2f} GiB are free on the volume of {folder}",
                    f"make room on the volume of {folder}",
                    "nothing; the server takes no reports while there is less than min_free_bytes",
                )

    def clock(self) -> Iterator[HealthFinding]:
        """Yield what is wrong with the machine's clock."""
        seen, step = last_seen(self.settings.key_dir), self.settings.max_clock_step_days * DAY
        if complaint := Clock(self.now, self.running, seen, step).complaint:
            yield HealthFinding(
                "trouble", f"{complaint}, if the machine's clock is right", self.command("clock --accept"),
                "what is due by this clock is destroyed after the server has run for an hour",
            )  # fmt: skip

    def _missing(self) -> Iterator[HealthFinding]:
        settings = self.settings
        for there, name, path in (
            (settings.has_identity_key(), "identity key", "identity.key"),
            (settings.has_storage_root_key(), "storage root key", "storage-root.key"),
        ):
            if not there:
                yield HealthFinding(
                    "trouble", f"the {name} is missing from {settings.key_dir}",
                    f"bring {path} back from the folder that `lintra server keys --backup` wrote",
                    "nothing; without it no report can be opened, or no task knows this server",
                )  # fmt: skip
        if not all((settings.key_dir / name).exists() for name in (JOURNAL_FILE, JOURNAL_KEY_FILE)):
            yield HealthFinding(
                "trouble", f"the journal or its key is missing from {settings.key_dir}",
                self.command("restore --journal-lost"),
                f"{_UNRELEASED}; only tasks that begin later are taken",
            )  # fmt: skip
        if not (settings.key_dir / NOTES_FILE).exists():
            yield self._notes_lost(f"the notes of where batches end are missing from {settings.key_dir}")
        try:
            if not has_database(settings):
                yield self._database_lost("the database is missing, or empty")
        except (InvalidSettingsError, SQLAlchemyError, OSError) as error:
            yield self._database_lost(_words(error))

    def _notes_lost(self, what: str) -> HealthFinding:
        cost = f"{_UNRELEASED}, since nobody knows whether reports of it are gone"
        return HealthFinding("trouble", what, self.command("restore --key-folder-never-copied"), cost)

    def _database_lost(self, what: str) -> HealthFinding:
        if self.settings.database_url is not None:
            return HealthFinding(
                "trouble", what,
                "put PostgreSQL's backup in place with its own commands, then "
                + self.command("restore --key-folder-never-copied"),
                _SINCE,
            )  # fmt: skip
        path = database_path(self.settings)
        return HealthFinding(
            "trouble", what, self.command("restore --from BACKUP --key-folder-never-copied"),
            f"{_SINCE}. Without a backup move {path} away and leave out --from: then all stored reports are lost, and "
            "the batches go on. If the key folder was ever set back leave out --key-folder-never-copied, and "
            f"{_UNRELEASED}",
        )  # fmt: skip

    # --- the key folder ---------------------------------------------------------------------------------------

    def _keys(self) -> Iterator[HealthFinding]:
        try:
            vault = Vault(self.settings.storage_root_keys(bytes), bytes)
            self.settings.signing_key(bytes)
        except (InvalidSettingsError, ValueError, OSError) as error:
            yield HealthFinding(
                "trouble", _words(error), "bring it back from the folder that `lintra server keys --backup` wrote",
                "nothing",
            )  # fmt: skip
            return
        try:
            read_journal(self.settings, vault)
        except DamagedJournalError as error:
            yield HealthFinding(
                "trouble", _words(error), self.command("restore --journal-lost"),
                f"{_UNRELEASED}; only tasks that begin later are taken. Look first whether the disk can bring the file "
                "back: that costs nothing",
            )  # fmt: skip
        except UnknownLineError as error:
            yield HealthFinding("trouble", _words(error), "install that version of lintra, or a later one", "nothing")
        except (InvalidSettingsError, OSError) as error:
            yield HealthFinding(
                "trouble", _words(error), "bring storage-root.key back from its backup, and look again",
                "nothing",
            )  # fmt: skip
        try:
            read_notes(self.settings, self.wait)
        except (DamagedNotesError, OSError) as error:
            yield self._notes_lost(_words(error))

    def _witness(self) -> Iterator[HealthFinding]:
        vault = Vault(self.settings.storage_root_keys(bytes), bytes)
        witness = open_witness(self.settings, self.settings.key_dir, vault, os.urandom)
        if witness is None:
            yield HealthFinding(
                "advice",
                "there is no witness: a snapshot of the whole machine that is restored would not be noticed",
                f"name a folder on another machine as witness_dir in {self.config}, then {self.command('witness')}",
                "a restart",
            )
            return
        for tried in range(2):
            try:
                seen = witness.read()
            except OSError as error:
                yield HealthFinding("trouble", str(error), f"look at {self.settings.witness_dir}", "nothing")
                return
            journal = read_journal(self.settings, vault)
            if journal.lacks_little(seen, journal.head):
                return
            if not tried:
                self.wait(SETTLING_SECONDS)
        yield self._other_journal(journal)

    def _other_journal(self, journal: Journal) -> HealthFinding:
        return HealthFinding(
            "trouble",
            f"the witness {self.settings.witness_dir} knows another journal than this one of {journal.head.length} "
            "lines: another copy of this server runs, or both folders were set back",
            f"make sure that no other copy runs, then {self.command('restore --journal-lost')}",
            _UNRELEASED,
        )

    def _sealing_keys(self) -> Iterator[HealthFinding]:
        files = sealing_key_files(self.settings.key_dir, Vault(self.settings.storage_root_keys(bytes), bytes))
        for name in sorted(files.names()):
            try:
                data = files.read(name, name)
                if data is not None:
                    StoredKey.decode(data)
            except (InvalidSettingsError, LintraError):
                path = self.settings.key_dir / "sealing" / f"{name.hex()}.key"
                yield HealthFinding(
                    "trouble", f"{path} is not what this server wrote, so it does not start", f"rm {path}",
                    "clients that know this key fetch the list of keys once more",
                )  # fmt: skip

    # --- the database -----------------------------------------------------------------------------------------

    def _database(self) -> Iterator[HealthFinding]:
        database = reading_only(self.settings)
        try:
            first = list(self._verified(database))
            if first:
                self.wait(SETTLING_SECONDS)
                again = set(self._verified(database))
                yield from (finding for finding in first if finding in again)
        finally:
            database.close()

    def _verified(self, database: ReadOnlyDatabase) -> Iterable[HealthFinding]:
        found = list[HealthFinding]()
        try:
            keys: KeySide = key_side(self.settings)
            for finding in Verifier(self.settings, database, keys, self.command).findings():
                found.append(finding)
        except (InvalidSettingsError, SQLAlchemyError, OSError) as error:
            found.append(self._database_lost(f"the database cannot be read: {_words(error)}"))
        return found

    def _old_copies(self) -> Iterator[HealthFinding]:
        data = self.settings.data_dir
        old = sorted(path for pattern in ("*.before-*", "*.replaced-*") for path in data.glob(pattern))
        if old:
            yield HealthFinding(
                "advice", f"old copies lie beside the database: {', '.join(path.name for path in old)}",
                f"rm {' '.join(map(str, old))}", "nothing, once the server runs well",
            )  # fmt: skip


def _words(error: Exception) -> str:
    """Return the first line of what an error says, of a driver's own error without the statement."""
    return str(getattr(error, "orig", None) or error).partition("\n")[0] or type(error).__name__
