"""Tokens that were used before serials lay beside their reports stay used."""

from pathlib import Path

from sqlalchemy import Connection

from lintra_server.storage.database import Database

BEFORE = """
DROP TABLE looks; DROP TABLE segments; DROP TABLE batches; ALTER TABLE tasks DROP COLUMN author;
CREATE TABLE batches (task INTEGER PRIMARY KEY REFERENCES tasks (task), state VARCHAR NOT NULL,
 num_reports INTEGER NOT NULL, capacity INTEGER NOT NULL, secret BLOB, wrapped_key BLOB, wrapped_nonce BLOB,
 closed_at INTEGER, inventory BLOB, inventories BLOB, cohort BLOB, excluded BLOB, request_hash BLOB, aggregate BLOB,
 released_at INTEGER, segments INTEGER NOT NULL);
CREATE TABLE reports (task INTEGER, report_id BLOB, segment INTEGER NOT NULL, position INTEGER NOT NULL,
 PRIMARY KEY (task, report_id)) WITHOUT ROWID;
CREATE TABLE segments (segment INTEGER PRIMARY KEY, task INTEGER NOT NULL, number INTEGER NOT NULL,
 payloads BLOB NOT NULL);
CREATE INDEX ix_segments_task ON segments (task);
CREATE TABLE censuses (task INTEGER PRIMARY KEY, document BLOB NOT NULL, segments INTEGER NOT NULL);
CREATE TABLE spent_tokens (task INTEGER, "window" INTEGER, serial BLOB, report_id BLOB,
 PRIMARY KEY (task, "window", serial)) WITHOUT ROWID;
INSERT INTO tasks VALUES (1, x'01', '{"author_key":"somebody"}', 0, 9, 0, NULL);
INSERT INTO batches (task, state, num_reports, capacity, segments) VALUES (1, 'open', 3, 9, 2);
INSERT INTO segments VALUES (1, 1, 0, x'aa'), (2, 1, 1, x'bb');
INSERT INTO reports VALUES (1, x'03', 0, 0), (1, x'01', 0, 1), (1, x'02', 1, 0);
INSERT INTO spent_tokens VALUES (1, 0, x'0c', x'03'), (1, 0, x'0a', x'01'), (1, 0, x'0b', x'02')
"""


def run(connection: Connection, script: str) -> None:
    for statement in script.split(";"):
        connection.exec_driver_sql(statement)


def test_serials_move_to_the_segments_of_their_reports_in_order(tmp_path: Path) -> None:
    database = Database(tmp_path / "lintra.sqlite")
    with database.writing() as connection:
        run(connection, f"{BEFORE}; UPDATE alembic_version SET version_num = '0003'")
    database.close()
    database = Database(tmp_path / "lintra.sqlite")
    with database.reading() as connection:
        found = connection.exec_driver_sql("SELECT key, serials, payloads FROM segments ORDER BY key").all()
        author = connection.exec_driver_sql("SELECT author FROM tasks").scalar_one()
    database.close()
    assert [tuple(row) for row in found] == [(1 << 32, b"\x0c\x0a", b"\xaa"), ((1 << 32) + 1, b"\x0b", b"\xbb")]
    assert author == "somebody"
