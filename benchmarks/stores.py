"""A server's store alone, in a folder, with one open batch, for benchmarks of what it does."""

from pathlib import Path

from lintra_protocol.crypto.randomness import system_randomness
from lintra_server.durability.encryption_at_rest import Vault
from lintra_server.durability.journal import Journal
from lintra_server.durability.key_files import KeyFiles
from lintra_server.durability.notes import Notes
from lintra_server.storage.database import Database
from lintra_server.storage.history import History
from lintra_server.storage.postgres import PostgresDatabase
from lintra_server.storage.store import Store
from lintra_server.storage.stream_memory import StreamMemory

CAPACITY = 10**9


def new_store(folder: Path, url: str = "") -> Store:
    """Return a store with one open batch, the first; in PostgreSQL if there is an address."""
    vault = Vault([bytes(32)], system_randomness)
    store = Store(
        PostgresDatabase(url) if url else Database(folder / "lintra.sqlite"),
        vault,
        KeyFiles(folder / "batches", vault, "batch keys"),
        Notes(folder / "notes"),
        History(Journal(folder / "journal", bytes(32))),
        system_randomness,
        StreamMemory(KeyFiles(folder / "streams", vault, "stream memory")),
    )
    store.add_task(bytes(32), b"{}", ends=2**32, retention=0)
    return store
