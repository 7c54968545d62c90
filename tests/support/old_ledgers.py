"""Ledger files as earlier versions wrote them, to the letter."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from lintra_client.ledger.file import APPLICATION_ID
from lintra_client.ledger.outbox import OUTBOX

OLD_TASKS = [letter * 43 for letter in "ABCD"]

VERSION_1 = (
    """CREATE TABLE prices (
    price INTEGER PRIMARY KEY,
    mu_squared TEXT NOT NULL,
    slack TEXT NOT NULL,
    delta_coalition TEXT NOT NULL,
    UNIQUE (mu_squared, slack, delta_coalition)
)""",
    """CREATE TABLE charges (
    charge INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL,
    batch INTEGER NOT NULL,
    source TEXT NOT NULL,
    call TEXT NOT NULL,
    price INTEGER NOT NULL REFERENCES prices (price),
    UNIQUE (task_id, batch, source)
)""",
    "CREATE INDEX charges_by_source ON charges (source, price)",
    """CREATE TABLE reports (
    report_id BLOB PRIMARY KEY,
    charge INTEGER NOT NULL REFERENCES charges (charge)
) WITHOUT ROWID""",
    "CREATE INDEX reports_by_charge ON reports (charge)",
)
ADDED_BY_2 = (
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
ROWS = (
    "INSERT INTO prices VALUES (1, '0.04', '0.000000000001', '0.0000001'), (2, '0.01', '0', '0')",
    f"INSERT INTO charges VALUES (1, '{OLD_TASKS[0]}', 0, 'ann', '', 1), (2, '{OLD_TASKS[1]}', 0, '', 'a call', 2)",
    f"INSERT INTO charges VALUES (5, '{OLD_TASKS[2]}', 0, 'bob', '', 2)",
    f"INSERT INTO reports VALUES (x'{'01' * 32}', 1), (x'{'02' * 32}', 2), (x'{'03' * 32}', 2), (x'{'05' * 32}', 5)",
)
ROWS_OF_STUDIES = (
    "INSERT INTO set_aside VALUES (1, 2)",
    f"INSERT INTO charges VALUES (6, '{OLD_TASKS[3]}', 0, 'ann', '', 2)",
    "INSERT INTO covered VALUES (6, 1)",
)


PRICES_OF_3 = """CREATE TABLE prices (
    price INTEGER PRIMARY KEY,
    mu_squared TEXT NOT NULL,
    slack TEXT NOT NULL,
    delta_coalition TEXT NOT NULL,
    delta_shares TEXT NOT NULL,
    UNIQUE (mu_squared, slack, delta_coalition, delta_shares)
)"""


def old_ledger(path: Path, version: int, *, rows: bool = True) -> Path:
    """Create a ledger of version 1, 2 or 3, with a few charges or empty, and return its path."""
    schema = VERSION_1 + ADDED_BY_2 * (version > 1)
    if version > 2:
        schema = (PRICES_OF_3, *schema[1:])
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        for statement in (*schema, *(ROWS + ROWS_OF_STUDIES * (version > 1) if rows else ())):
            db.execute(statement.replace("')", "', '0')") if version > 2 and "INTO prices" in statement else statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {version}")
    return path


def old_outbox(path: Path, kept: Mapping[str, bytes]) -> Path:
    """Create an outbox of version 1 that keeps a report of each of some sources in task A, and return its path."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        for statement in OUTBOX.schema:
            db.execute(statement)
        for source, report_id in kept.items():
            db.execute("INSERT INTO parcels VALUES (?, 0, ?, ?, 99)", (OLD_TASKS[0], source, report_id))
            db.execute("INSERT INTO messages (report_id, server, sealed) VALUES (?, 0, x'aa')", (report_id,))
        db.execute(f"PRAGMA application_id = {OUTBOX.application_id}")
        db.execute("PRAGMA user_version = 1")
    return path
