"""The file behind the ledger: SQLite with a write-ahead log, synced before a transaction counts as done.

Every doubt about the file refuses the report: it is better not to answer than to forget what was answered.
"""

import os
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lintra_client.ledger.pseudonyms import Pseudonyms, key_path, load_pseudonyms, make_key, sync_folder
from lintra_protocol.errors import LedgerRefusedError

APPLICATION_ID = 0x4C4E5452
UNUSABLE = (sqlite3.Error, OSError, UnicodeDecodeError)
"""What reading a damaged database raises; the last where its own words of complaint quote what is no text."""
CACHE_KIBIBYTES = 64 << 10
"""Pages of the file that are kept at hand: an organisation charges a million persons at once, all over the indexes."""
BUSY_SECONDS = 30.0
"""How long a transaction waits for those of other processes."""

# The order of charges is that of their numbers. No time is stored, so no clock can change a decision.
_PRICES = """CREATE TABLE prices (
    price INTEGER PRIMARY KEY,
    mu_squared TEXT NOT NULL,
    slack TEXT NOT NULL,
    delta_coalition TEXT NOT NULL,
    delta_shares TEXT NOT NULL,
    mu_squared_alone TEXT NOT NULL,
    unbounded TEXT NOT NULL,
    UNIQUE (mu_squared, slack, delta_coalition, delta_shares, mu_squared_alone, unbounded)
)"""
# A source is a pseudonym.
_CHARGES = """CREATE TABLE charges (
    charge INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL,
    batch INTEGER NOT NULL,
    source TEXT NOT NULL,
    call TEXT NOT NULL,
    price INTEGER NOT NULL REFERENCES prices (price),
    UNIQUE (task_id, batch, source)
)"""
_REPORTS = (
    "CREATE INDEX charges_by_source ON charges (source, price)",
    """CREATE TABLE reports (
    report_id BLOB PRIMARY KEY,
    charge INTEGER NOT NULL REFERENCES charges (charge)
) WITHOUT ROWID""",
    "CREATE INDEX reports_by_charge ON reports (charge)",
)
_STUDIES = (
    # What a pilot's charge holds for the main task of its study, and the charges of main tasks that it covers.
    """CREATE TABLE set_aside (
    charge INTEGER PRIMARY KEY REFERENCES charges (charge),
    price INTEGER NOT NULL REFERENCES prices (price)
)""",
    """CREATE TABLE covered (
    charge INTEGER PRIMARY KEY REFERENCES charges (charge),
    pilot INTEGER NOT NULL REFERENCES set_aside (charge)
)""",
    "CREATE INDEX covered_by_pilot ON covered (pilot)",
)
_KEY_CHECK = "CREATE TABLE key_check (mac TEXT NOT NULL)"
_NOTE_CHECK = "INSERT INTO key_check VALUES (?)"


@dataclass(frozen=True)
class Format:
    """A kind of database file."""

    application_id: int  #: stands in the file
    version: int  #: of the file, today's
    schema: Sequence[str]  #: the statements that make it, today's


SCHEMA = (_PRICES, _CHARGES, *_REPORTS, *_STUDIES, _KEY_CHECK)


LEDGER = Format(application_id=APPLICATION_ID, version=2, schema=SCHEMA)


class LedgerFile:
    """One open ledger file; threads take turns, and so do processes."""

    def __init__(self, path: Path) -> None:
        """Open the file, after creating it if there is none, and check all of it."""
        self.path = path.absolute()
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._process = 0
        self._file = (0, 0)
        self._inherited: list[sqlite3.Connection] = []
        self._names: Pseudonyms | None = None
        with self._refusing(), self._lock:
            if not self.path.exists():
                make_key(self.key_path)
                # The key is on disk first: a ledger whose key is gone is refused.
                known = load_pseudonyms(self.key_path).check
                create_database(self.path, LEDGER, (_NOTE_CHECK, (known,)))
            self._connection()

    @property
    def key_path(self) -> Path:
        """Return where the key of the pseudonyms lies."""
        return key_path(self.path)

    @property
    def names(self) -> Pseudonyms:
        """Return the pseudonyms of the file."""
        with self._refusing(), self._lock:
            if self._names is None:
                self._connection()
        assert self._names is not None
        return self._names

    def close(self) -> None:
        """Close the file; the next transaction opens it again."""
        with self._lock:
            self._drop()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give the only writer at this moment a connection; what it wrote is on disk when the block is left.

        An exception from the block, or a crash at any point before its end, leaves the file as it was.
        """
        with self._refusing(), self._lock:
            try:
                db = self._connection()
                db.execute("BEGIN IMMEDIATE")
                yield db
                self._commit(db)
            except UNUSABLE:
                self._drop()
                raise
            except BaseException:
                self._rollback()
                raise

    def _commit(self, db: sqlite3.Connection) -> None:
        db.execute("COMMIT")

    def _rollback(self) -> None:
        try:
            if self._db is not None and self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error:
            self._drop()

    def _connection(self) -> sqlite3.Connection:
        """Return the connection of this process to the file that stands at the path now."""
        if self._db is not None and self._process != os.getpid():
            # A connection must not be used, nor closed, on the other side of a fork.
            self._inherited.append(self._db)
            self._db = None
        known = self.path.stat()
        if self._db is not None:
            if (known.st_dev, known.st_ino) != self._file:
                raise OSError("another file has taken its place")
            return self._db
        if not stat.S_ISREG(known.st_mode):
            raise OSError("it is not a regular file")
        if known.st_mode & 0o077:
            self.path.chmod(0o600)
        db = open_database(self.path)
        try:
            require_tables(db, LEDGER)
            self._names = self._own_names(db)
        except BaseException:
            db.close()
            raise
        self._db, self._process, self._file = db, os.getpid(), (known.st_dev, known.st_ino)
        return db

    def _own_names(self, db: sqlite3.Connection) -> Pseudonyms:
        """Return the pseudonyms under the very key that this file was made with."""
        names = load_pseudonyms(self.key_path)
        if db.execute("SELECT mac FROM key_check").fetchall() != [(names.check,)]:
            raise OSError(f"its key {self.key_path} is another than it was made with; put that one back")
        return names

    def _drop(self) -> None:
        db, self._db = self._db, None
        if db is not None and self._process == os.getpid():
            # Closing rolls back; the next use opens the file anew, with all checks.
            with suppress(sqlite3.Error):
                db.close()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except UNUSABLE as error:
            raise LedgerRefusedError(f"the ledger {self.path} cannot be used: {error}") from error


def create_database(path: Path, form: Format, *rows: tuple[str, tuple[str, ...]]) -> None:
    """Create a file with its tables and some first rows, all of it at once: whoever finds the file finds it whole.

    A link, unlike a rename, never takes the place of a ledger that another process created meanwhile. Since no empty
    file ever stands at the path, one that is found there was a ledger once, and is refused.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")  # with mode 0600
    os.close(handle)
    try:
        with closing(open_database(Path(name))) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("BEGIN IMMEDIATE")
            for statement in form.schema:
                db.execute(statement)
            for statement, values in rows:
                db.execute(statement, values)
            db.execute(f"PRAGMA application_id = {form.application_id}")
            db.execute(f"PRAGMA user_version = {form.version}")
            db.execute("COMMIT")
        with suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()
    sync_folder(path.parent)


def open_database(path: Path) -> sqlite3.Connection:
    """Open a file that exists; `transaction` takes care that one thread at a time uses the connection."""
    db = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    safe = ("synchronous = FULL", "fullfsync = ON", "foreign_keys = ON", "trusted_schema = OFF")
    for setting in (*safe, f"cache_size = -{CACHE_KIBIBYTES}"):
        db.execute(f"PRAGMA {setting}")
    return db


def require_tables(db: sqlite3.Connection, form: Format) -> None:
    """Check that this is a file of this kind and version, undamaged, and that a commit will be durable.

    Raises:
        sqlite3.Error: it is not, or cannot be read.
    """
    expected = {
        "application_id": form.application_id,
        "user_version": form.version,
        "journal_mode": "wal",
        "synchronous": 2,
        "integrity_check(1)": "ok",
    }
    for name, value in expected.items():
        (found,) = db.execute(f"PRAGMA {name}").fetchone()
        if found != value:
            raise sqlite3.DatabaseError(f"{name} is {found!r} where a ledger of this version has {value!r}")
    if db.execute("PRAGMA foreign_key_check").fetchone():
        raise sqlite3.DatabaseError("a charge has no price, or a report no charge")
    statements = [str(text) for (text,) in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
    if sorted(text for text in statements if "sqlite_sequence" not in text) != sorted(form.schema):
        raise sqlite3.DatabaseError("its tables are not those of a ledger of this version")
