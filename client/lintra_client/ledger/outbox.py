"""The outbox: sealed messages that have not reached all servers yet. They are sent again, never made again.

It holds sealed messages only: the shares together are the row. A server's message goes when its receipt is here, and
all of a task when its window is over. A message sealed to a key that a server no longer holds cannot be sealed anew
after a restart, since nobody has the shares; it is given up.
"""

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lintra_client.ledger.file import UNUSABLE, Format, create_database, open_database, require_tables
from lintra_client.ledger.pseudonyms import Pseudonyms
from lintra_protocol.errors import LedgerRefusedError

_SCHEMA = (
    """CREATE TABLE parcels (
    task_id TEXT NOT NULL,
    batch INTEGER NOT NULL,
    source TEXT NOT NULL,
    report_id BLOB NOT NULL,
    expires INTEGER NOT NULL,
    PRIMARY KEY (task_id, batch, source)
) WITHOUT ROWID""",
    """CREATE TABLE messages (
    report_id BLOB NOT NULL,
    server INTEGER NOT NULL,
    sealed BLOB,
    receipt BLOB,
    PRIMARY KEY (report_id, server)
) WITHOUT ROWID""",
)
# A source is a pseudonym; in the first version it was a name in clear.
OUTBOX = Format(application_id=0x4C4E4F42, version=1, schema=_SCHEMA)


@dataclass(frozen=True)
class OutboxEntry:
    """One source's report of a task, as far as it is still here; `repr` does not show messages."""

    report_id: bytes  #: 32 bytes
    sealed: dict[int, bytes] = field(repr=False)  #: by server, the upload that it has not acknowledged
    receipts: dict[int, bytes] = field(repr=False)  #: by server, its signed word, encoded


class Outbox:
    """One outbox file; threads and processes may share it, since every use is one transaction."""

    def __init__(self, path: Path, names: Pseudonyms) -> None:
        """Open the file at a path on a local disk, or begin one there that only its owner can read.

        `names` are what stands there in place of the sources' names: the ledger's pseudonyms. Raises LedgerRefusedError
        if it cannot be used.
        """
        self.path = path.absolute()
        self._names = names
        try:
            if not self.path.exists():
                create_database(self.path, OUTBOX)
            self.turn = threading.Lock()
            self._db = open_database(self.path)
            try:
                require_tables(self._db, OUTBOX)
            except BaseException:
                self._db.close()
                raise
        except UNUSABLE as error:
            raise LedgerRefusedError(f"the outbox {self.path} cannot be used: {error}") from error

    def __repr__(self) -> str:
        return f"Outbox({str(self.path)!r})"

    def close(self) -> None:
        """Close the file, after the transaction that a thread may still be in: SQLite does not survive less."""
        with self.turn:
            self._db.close()

    def find(self, task_id: str, batch: int, source: str) -> OutboxEntry | None:
        """Return what is kept of a source's report in a task, or None."""
        with _Transaction(self) as db:
            found = db.execute(
                "SELECT report_id FROM parcels WHERE task_id = ? AND batch = ? AND source = ?",
                (task_id, batch, self._names.of(source)),
            ).fetchone()
            return None if found is None else _kept(db, _blob(found[0]))

    def keep(
        self, task_id: str, batch: int, source: str, report_id: bytes, sealed: Mapping[int, bytes], expires: int
    ) -> bool:
        """Keep a report before it is charged; it is on disk when this returns.

        `task_id` is in base64url; `report_id` is 32 bytes. `sealed` is by server, what will be uploaded. `expires` is
        the time, in seconds since the epoch, when no server takes it any more.

        Returns:
            False, and nothing was kept, if the source has a report here already.
        """
        with _Transaction(self) as db:
            values = (task_id, batch, self._names.of(source), report_id, expires)
            if not db.execute("INSERT OR IGNORE INTO parcels VALUES (?, ?, ?, ?, ?)", values).rowcount:
                return False
            rows = [(report_id, server, body) for server, body in sealed.items()]
            db.executemany("INSERT INTO messages (report_id, server, sealed) VALUES (?, ?, ?)", rows)
        return True

    def find_many(self, task_id: str, batch: int, sources: Sequence[str]) -> dict[str, OutboxEntry]:
        """Return what is kept of some sources' reports in a task, by source."""
        found: dict[str, OutboxEntry] = {}
        with _Transaction(self) as db:
            for source in sources:
                query = "SELECT report_id FROM parcels WHERE task_id = ? AND batch = ? AND source = ?"
                row = db.execute(query, (task_id, batch, self._names.of(source))).fetchone()
                if row is not None:
                    found[source] = _kept(db, _blob(row[0]))
        return found

    def keep_many(
        self,
        task_id: str,
        batch: int,
        sources: Mapping[bytes, str],
        sealed: Mapping[bytes, Mapping[int, bytes]],
        expires: int,
    ) -> list[bytes]:
        """Keep reports before they are charged, all in one transaction; see `keep`.

        `task_id` is in base64url; `sources` are by report, whose facts it states. `sealed` is by report and server,
        what will be uploaded. `expires` is the time, in seconds since the epoch, when no server takes them any more.

        Returns:
            The reports that are kept: the others' sources have a report here already.
        """
        taken = []
        with _Transaction(self) as db:
            for report_id, source in sources.items():
                values = (task_id, batch, self._names.of(source), report_id, expires)
                if db.execute("INSERT OR IGNORE INTO parcels VALUES (?, ?, ?, ?, ?)", values).rowcount:
                    taken.append(report_id)
            rows = [(known, server, body) for known in taken for server, body in sealed[known].items()]
            db.executemany("INSERT INTO messages (report_id, server, sealed) VALUES (?, ?, ?)", rows)
        return taken

    def acknowledge(self, report_ids: Sequence[bytes], server: int, receipt: bytes) -> None:
        """Keep a server's receipt in place of its messages."""
        with _Transaction(self) as db:
            change = "UPDATE messages SET sealed = NULL, receipt = ? WHERE report_id = ? AND server = ?"
            db.executemany(change, [(receipt, report_id, server) for report_id in report_ids])

    def acknowledge_all(self, report_id: bytes, receipts: Mapping[int, bytes]) -> None:
        """Keep some servers' receipts of one report, by server, in place of its messages."""
        with _Transaction(self) as db:
            change = "UPDATE messages SET sealed = NULL, receipt = ? WHERE report_id = ? AND server = ?"
            db.executemany(change, [(receipt, report_id, server) for server, receipt in receipts.items()])

    def replace(self, report_id: bytes, server: int, sealed: bytes | None) -> None:
        """Keep what was sealed anew in place of what was sealed before; nothing, if it is given up."""
        with _Transaction(self) as db:
            db.execute("UPDATE messages SET sealed = ? WHERE report_id = ? AND server = ?", (sealed, report_id, server))

    def forget(self, *report_ids: bytes) -> None:
        """Forget reports that were never charged, and so never sent."""
        if not report_ids:
            return
        with _Transaction(self) as db:
            gone = [(report_id,) for report_id in report_ids]
            db.executemany("DELETE FROM parcels WHERE report_id = ?", gone)
            db.executemany("DELETE FROM messages WHERE report_id = ?", gone)

    def expire(self, now: float) -> None:
        """Forget what no server takes any more."""
        with _Transaction(self) as db:
            over = "DELETE FROM messages WHERE report_id IN (SELECT report_id FROM parcels WHERE expires <= ?)"
            db.execute(over, (now,))
            db.execute("DELETE FROM parcels WHERE expires <= ?", (now,))


def _kept(db: sqlite3.Connection, report_id: bytes) -> OutboxEntry:
    """Return a report that is kept, within a transaction."""
    rows = db.execute("SELECT server, sealed, receipt FROM messages WHERE report_id = ?", (report_id,)).fetchall()
    sealed = {server: _blob(body) for server, body, _ in rows if body is not None}
    return OutboxEntry(report_id, sealed, {server: _blob(word) for server, _, word in rows if word is not None})


def _blob(value: object) -> bytes:
    """Return bytes that were stored; in a damaged file a number or a text may stand there."""
    if not isinstance(value, bytes):
        raise LedgerRefusedError("the outbox holds something else where a message was kept")
    return value


class _Transaction:
    """One transaction that is on disk at its end; trouble with the file refuses the report."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def __enter__(self) -> sqlite3.Connection:
        self._outbox.turn.acquire()
        try:
            self._outbox._db.execute("BEGIN IMMEDIATE")
        except UNUSABLE as error:
            self._outbox.turn.release()
            raise LedgerRefusedError(f"the outbox {self._outbox.path} cannot be used: {error}") from error
        return self._outbox._db

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        try:
            self._outbox._db.execute("ROLLBACK" if kind else "COMMIT")
        except UNUSABLE as failure:
            raise LedgerRefusedError(f"the outbox {self._outbox.path} cannot be used: {failure}") from failure
        finally:
            self._outbox.turn.release()
        if isinstance(error, UNUSABLE):
            raise LedgerRefusedError(f"the outbox {self._outbox.path} cannot be used: {error}") from error
