"""Reports that had rows of their own are in segments afterwards: the same ones, in the same order, none twice."""

from pathlib import Path

import pytest
from sqlalchemy import Connection

from lintra_server.storage.database import Database

BEFORE = """
DROP TABLE segments;
DROP TABLE looks; DROP TABLE batches;
CREATE TABLE batches (task INTEGER PRIMARY KEY REFERENCES tasks (task), state VARCHAR NOT NULL,
 num_reports INTEGER NOT NULL, capacity INTEGER NOT NULL, secret BLOB, wrapped_key BLOB, wrapped_nonce BLOB,
 closed_at INTEGER, inventory BLOB, inventories BLOB, cohort BLOB, excluded BLOB, request_hash BLOB, aggregate BLOB,
 released_at INTEGER, segments INTEGER NOT NULL);
CREATE TABLE looks (task INTEGER PRIMARY KEY, told_at INTEGER NOT NULL, counters BLOB NOT NULL, counted_at INTEGER,
 reports INTEGER NOT NULL, segments INTEGER NOT NULL, census BLOB);
CREATE TABLE reports (task INTEGER, report_id BLOB, segment INTEGER NOT NULL, position INTEGER NOT NULL,
 PRIMARY KEY (task, report_id)) WITHOUT ROWID;
CREATE TABLE segments (segment INTEGER PRIMARY KEY, task INTEGER NOT NULL, number INTEGER NOT NULL,
 serials BLOB, payloads BLOB NOT NULL);
CREATE INDEX ix_segments_task ON segments (task);
INSERT INTO tasks VALUES (1, x'01', x'', '', 0, 9, 0, NULL), (2, x'02', x'', '', 0, 9, 0, NULL),
 (3, x'03', x'', '', 0, 9, 0, NULL), (4, x'04', x'', '', 0, 9, 0, NULL);
INSERT INTO batches (task, state, num_reports, capacity, segments) VALUES
 (1, 'open', 3, 9, 2), (2, 'scrubbed', 2, 9, 1), (3, 'abandoned', 7, 9, 3), (4, 'open', 0, 9, 0);
INSERT INTO segments VALUES (1, 1, 0, x'aabb', x'0102'), (9, 1, 1, NULL, x'03');
INSERT INTO reports VALUES (1, x'0c', 0, 0), (1, x'0a', 0, 1), (1, x'0b', 1, 0), (2, x'ff', 0, 0), (2, x'0d', 0, 1);
UPDATE alembic_version SET version_num = '0004'
"""


def a_database(folder: Path, script: str = BEFORE) -> Path:
    path = folder / "lintra.sqlite"
    database = Database(path)
    with database.writing() as connection:
        for statement in script.split(";"):
            connection.exec_driver_sql(statement)
    database.close()
    return path


def rows(connection: Connection, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in connection.exec_driver_sql(query)]


def test_reports_and_counts_are_what_they_were_also_where_shares_are_gone(tmp_path: Path) -> None:
    database = Database(a_database(tmp_path))
    with database.reading() as connection:
        found = rows(connection, "SELECT key, total, ids, serials, payloads FROM segments ORDER BY key")
        tables = {row[0] for row in rows(connection, "SELECT name FROM sqlite_master WHERE name = 'reports'")}
    counts = database.num_reports()
    database.close()
    assert found == [
        (1 << 32, 2, b"\x0c\x0a", b"\xaa\xbb", b"\x01\x02"),
        ((1 << 32) + 1, 3, b"\x0b", None, b"\x03"),
        (2 << 32, 2, b"\xff\x0d", None, None),
    ]
    assert counts == {1: 3, 2: 2, 3: 7, 4: 0}  # the third was cut before
    assert not tables


def test_every_batch_keeps_its_number_and_is_the_first_of_its_task(tmp_path: Path) -> None:
    path = a_database(tmp_path, f"{BEFORE}; INSERT INTO looks VALUES (1, 5, x'aa', 4, 2, 1, x'bb')")
    database = Database(path)
    with database.reading() as connection:
        numbered = rows(connection, "SELECT batch, task, number, ends, state FROM batches ORDER BY batch")
        looked = rows(connection, "SELECT * FROM looks")
        broken = rows(connection, "PRAGMA foreign_key_check")
    database.close()
    assert numbered == [(1, 1, 0, 9, "open"), (2, 2, 0, 9, "scrubbed"), (3, 3, 0, 9, "abandoned"), (4, 4, 0, 9, "open")]
    assert (looked, broken) == ([(1, 5, b"\xaa", 4, 2, b"\xbb")], [])


def test_a_database_that_lacks_reports_is_not_brought_up_to_date(tmp_path: Path) -> None:
    path = a_database(tmp_path, f"{BEFORE}; DELETE FROM reports WHERE report_id = x'0b'")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="batch 1 says 3 reports and holds 2"):
        Database(path)
    assert path.read_bytes() == before
