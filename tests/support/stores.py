"""Stores of every kind, with one batch of small reports, for tests that each kind has to pass."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from sqlalchemy import event

from lintra_protocol.crypto.randomness import system_randomness
from lintra_server.durability.encryption_at_rest import Vault
from lintra_server.durability.journal import Journal
from lintra_server.durability.key_files import KeyFiles
from lintra_server.durability.notes import Notes
from lintra_server.storage.database import AnyDatabase, Database
from lintra_server.storage.history import History
from lintra_server.storage.postgres import PostgresDatabase
from lintra_server.storage.raw_statement import KeptConnection
from lintra_server.storage.store import Outcome, Store, StoredUpload
from lintra_server.storage.stream_memory import StreamMemory
from support import postgres

KINDS = ("sqlite", "postgres")
PAYLOAD = 16
CAPACITY = 999


@dataclass
class Stored:
    """One database, and the stores that were opened on it."""

    kind: str
    folder: Path
    opened: list[Store] = field(default_factory=list)

    def database(self) -> AnyDatabase:
        """Open the database once more."""
        if self.kind == "sqlite":
            return Database(self.folder / "a.sqlite")
        return PostgresDatabase(postgres.database("stores"))

    def open(self) -> Store:
        """Open a store that remembers nothing but what key folder and database say, with its first batch."""
        journal = Journal(self.folder / "journal", bytes(32))
        history = History(journal)
        history.learn(journal.lines)
        vault = Vault([bytes(32)], system_randomness)
        files = KeyFiles(self.folder / "batches", vault, "batch keys")
        notes = Notes(self.folder / "notes")
        memory = StreamMemory(KeyFiles(self.folder / "streams", vault, "stream memory"))
        store = Store(self.database(), vault, files, notes, history, system_randomness, memory)
        store.add_task(bytes(32), b"{}", ends=9, retention=0)
        self.opened.append(store)
        return store

    def close(self) -> None:
        """Close every store."""
        for store in self.opened:
            store.database.close()


@contextmanager
def empty(kind: str, folder: Path) -> Iterator[Stored]:
    """Give an empty database of a kind."""
    if kind == "postgres":
        postgres.emptied("stores")
    stored = Stored(kind, folder)
    try:
        yield stored
    finally:
        stored.close()


def allow_any_schema(database: AnyDatabase) -> None:
    """Let a test put into a database what it refuses otherwise, to see what an error of the driver becomes."""
    for checks in (database._quick, database._expected):
        checks.remove(database._require_schema)


def an_id(number: int) -> bytes:
    """Return the identifier of a report: in the order of the numbers, and otherwise as a hash function makes them."""
    first = number.to_bytes(8, "big")
    return first + hashlib.sha256(first).digest()[8:]


def payload(number: int) -> bytes:
    """Return what the report holds."""
    return number.to_bytes(PAYLOAD, "big")


def add(store: Store, *numbers: int, batch: int = 1) -> list[Outcome]:
    """Store reports in one upload."""
    ids = [an_id(number) for number in numbers]
    return store.add_reports([StoredUpload(batch, ids, [payload(number) for number in numbers], CAPACITY)])[0]


@contextmanager
def no_commits(store: Store) -> Iterator[None]:
    """Let every commit fail, before anything of it is written."""

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    engine = store.database._engine
    event.listen(engine, "commit", fail)
    try:
        with patch.object(KeptConnection, "_commit", fail):
            yield
    finally:
        event.remove(engine, "commit", fail)


def opened(store: Store, batch: int = 1) -> bytes:
    """Return the payloads of a batch, joined, in the order of storing."""
    return b"".join(part for _, part in store.segments(batch, store.held(batch)[1]).payloads())


def in_order(store: Store, batch: int = 1) -> list[tuple[int, int]]:
    """Return number and payload of every report in the order of storing."""
    ids, payloads = store.held(batch)[0], opened(store, batch)
    shares = [payloads[start : start + PAYLOAD] for start in range(0, len(payloads), PAYLOAD)]
    return [
        (int.from_bytes(bytes(one[:8]), "big"), int.from_bytes(share, "big"))
        for one, share in zip(ids, shares, strict=True)
    ]
