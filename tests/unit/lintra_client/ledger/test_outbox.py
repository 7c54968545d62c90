"""Ledgers and outboxes in which the disk, or somebody, put other values than were written: refused in words."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lintra_client import Ledger
from lintra_client.ledger.outbox import Outbox
from lintra_client.ledger.pseudonyms import Pseudonyms
from lintra_protocol.errors import LedgerRefusedError

TASK = "A" * 43


def spoil(path: Path, change: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute(change)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE messages SET sealed = 'a text'",
        "UPDATE messages SET sealed = 5000000000",
        "UPDATE messages SET sealed = NULL, receipt = 1.5",
        "UPDATE parcels SET report_id = 7",
    ],
)
def test_a_kept_message_that_is_no_bytes_is_refused(tmp_path: Path, change: str) -> None:
    outbox = Outbox(tmp_path / "outbox", Pseudonyms(bytes(32)))
    assert outbox.keep(TASK, 0, "ann", bytes(32), {0: b"sealed"}, 10)
    spoil(tmp_path / "outbox", change)
    with pytest.raises(LedgerRefusedError, match="something else where a message was kept"):
        outbox.find(TASK, 0, "ann")
    with pytest.raises(LedgerRefusedError, match="something else"):
        outbox.find_many(TASK, 0, ["ann"])
    outbox.close()


@pytest.mark.parametrize("begin", [Ledger, lambda path: Outbox(path, Pseudonyms(bytes(32)))], ids=["Ledger", "Outbox"])
@pytest.mark.parametrize("change", ["sql = CAST(sql AS BLOB)", "sql = CAST(x'c3a9c6' AS TEXT)", "name = x'ff'"])
def test_tables_whose_words_are_no_text_are_refused(
    tmp_path: Path, begin: Callable[[Path], Ledger | Outbox], change: str
) -> None:
    begin(tmp_path / "file").close()
    spoil(tmp_path / "file", f"UPDATE sqlite_master SET {change} WHERE name IN ('prices', 'messages')")
    with pytest.raises(LedgerRefusedError, match="cannot be used"):
        begin(tmp_path / "file")
