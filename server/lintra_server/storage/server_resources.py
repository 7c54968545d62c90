"""A server's two folders, opened and locked for this process, before anything is compared."""

from dataclasses import dataclass
from pathlib import Path

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.signing import SigningKey
from lintra_server.durability.disk_reserve import Reserve
from lintra_server.durability.encryption_at_rest import Vault
from lintra_server.durability.journal import Journal
from lintra_server.durability.key_files import KeyFiles
from lintra_server.durability.notes import Notes
from lintra_server.durability.private_files import make_folder, require_private
from lintra_server.durability.witness import FolderWitness
from lintra_server.settings import Settings
from lintra_server.storage.batch_states import BatchStates
from lintra_server.storage.database import AnyDatabase, Database
from lintra_server.storage.history import History
from lintra_server.storage.key_folder import KeyFolder, journal_key
from lintra_server.storage.read_only import ReadOnlyDatabase
from lintra_server.storage.store import Store
from lintra_service.settings import InvalidSettingsError

DATABASE_FILE = "lintra.sqlite"


class NotStartedError(InvalidSettingsError):
    """The folders do not fit together, or a part is missing; the message says which command comes next."""


@dataclass(frozen=True)
class ServerResources:
    """An opened server, before it begins."""

    folder: KeyFolder
    identity: SigningKey
    vault: Vault
    database: AnyDatabase
    journal: Journal
    history: History
    notes: Notes
    batch_keys: KeyFiles
    sealing_keys: KeyFiles
    witness: FolderWitness | None
    states: BatchStates
    store: Store
    reserve: Reserve

    def close(self) -> None:
        """Let go of both folders."""
        try:
            self.close_but_folder()
        finally:
            self.folder.close()

    def close_but_folder(self) -> None:
        """Let go of everything but the lock of the key folder."""
        self.journal.close()
        self.database.close()
        self.notes.close()


def database_path(settings: Settings) -> Path:
    """Return where a server's database lies, if it is a file."""
    return settings.data_dir / DATABASE_FILE


def has_database(settings: Settings) -> bool:
    """Return whether a server has a database."""
    if settings.database_url is None:
        path = database_path(settings)
        return path.exists() and path.stat().st_size > 0
    from lintra_server.storage.postgres import holds_tables

    return holds_tables(settings.database_url.get_secret_value())


def open_database(settings: Settings, revision: str) -> AnyDatabase:
    """Open a server's database, or make it.

    `settings` says where it is. `revision` is that of its tables, up to which the journal says that this server was
    brought; empty if it does not say.
    """
    if settings.database_url is None:
        return Database(database_path(settings), revision)
    # Who stays with SQLite need not have the driver.
    from lintra_server.storage.postgres import PostgresDatabase

    return PostgresDatabase(settings.database_url.get_secret_value(), revision)


def reading_only(settings: Settings) -> ReadOnlyDatabase:
    """Open a server's database to look at it, also while the server runs; it must be there."""
    if settings.database_url is None:
        return ReadOnlyDatabase(f"sqlite:///{database_path(settings).absolute()}")
    from lintra_server.storage.postgres import reading_url

    return ReadOnlyDatabase(reading_url(settings.database_url.get_secret_value()))


def lock_folders(settings: Settings, random_bytes: RandomBytes) -> KeyFolder:
    """Make the folders if need be, refuse those that others can get at, and lock the key folder."""
    make_folder(settings.data_dir)
    require_private(settings.data_dir)
    return KeyFolder(settings.key_dir, random_bytes)


def open_vault(settings: Settings, random_bytes: RandomBytes) -> Vault:
    """Return the vault of the storage root keys (see `Settings.storage_root_keys` for errors)."""
    return Vault(settings.storage_root_keys(random_bytes), random_bytes)


def open_witness(settings: Settings, folder: Path, vault: Vault, random_bytes: RandomBytes) -> FolderWitness | None:
    """Return the witness, if the settings name one."""
    if settings.witness_dir is None:
        return None
    return FolderWitness(settings.witness_dir, journal_key(folder, vault), random_bytes)


def open_parts(settings: Settings, random_bytes: RandomBytes, folder: KeyFolder) -> ServerResources:
    """Open everything that a server was founded with.

    Raises NotStartedError if a part is missing; nothing was made in its place.
    """
    missing = [name for name, there in _presence(settings, folder) if not there]
    if missing:
        raise NotStartedError(
            f"missing: {', '.join(missing)}; nothing was made in its place. `lintra server doctor` names the command "
            "that brings it back, and what that costs; for a new server run `lintra server init`"
        )
    vault = open_vault(settings, random_bytes)
    identity = settings.signing_key(random_bytes)
    journal = folder.open_journal(vault)
    witness = open_witness(settings, folder.path, vault, random_bytes)
    return _opened(settings, random_bytes, folder, identity, vault, journal, witness)


def _opened(
    settings: Settings,
    random_bytes: RandomBytes,
    folder: KeyFolder,
    identity: SigningKey,
    vault: Vault,
    journal: Journal,
    witness: FolderWitness | None,
) -> ServerResources:
    history = History(journal)
    for line in journal.lines:
        if line.state == "migrated":
            history.learn([line])
    notes = folder.open_notes()
    try:
        database = open_database(settings, history.revision)
    except BaseException:
        notes.close()
        raise
    batch_keys = folder.batch_keys(vault)
    store = Store(database, vault, batch_keys, notes, history, random_bytes, folder.stream_memory(vault))
    reserve = Reserve([folder.path, settings.data_dir], settings.reserve_bytes)
    states = BatchStates(database, history, notes, journal)
    return ServerResources(
        folder, identity, vault, database, journal, history, notes, batch_keys, folder.sealing_keys(vault), witness,
        states, store, reserve,
    )  # fmt: skip


def parts_with(
    settings: Settings, random_bytes: RandomBytes, folder: KeyFolder, vault: Vault, journal: Journal
) -> ServerResources:
    """Open a server whose journal was just begun; its database is made if there is none."""
    identity = settings.signing_key(random_bytes)
    witness = open_witness(settings, folder.path, vault, random_bytes)
    return _opened(settings, random_bytes, folder, identity, vault, journal, witness)


def _presence(settings: Settings, folder: KeyFolder) -> list[tuple[str, bool]]:
    return [
        ("the identity key", settings.has_identity_key()),
        ("the storage root key", settings.has_storage_root_key()),
        (f"the journal in {settings.key_dir}", folder.has_journal),
        (f"the notes in {settings.key_dir}", folder.has_notes),
        ("the database", has_database(settings)),
    ]
