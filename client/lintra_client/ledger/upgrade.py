"""Ledgers and outboxes of earlier versions, in which names stood in clear: brought up to date when they are opened.

Spellings that name one person now are one; their charges stay, each by itself, so that they add up. First all that is
in the file changes, in one transaction; then what it held before is wiped from its free pages.
"""

import sqlite3
from collections.abc import Sequence

from lintra_client.ledger.pseudonyms import Pseudonyms

UNWIPED = 100
"""Added to the number of a version while names in clear may still stand in free pages."""

_CHARGES = """INSERT INTO charges
SELECT charge, task_id, batch, name, call, price,
    row_number() OVER (PARTITION BY task_id, batch, name ORDER BY charge) - 1
FROM (SELECT *, CASE source WHEN '' THEN '' ELSE pseudonym(source) END AS name FROM earlier) ORDER BY charge"""


def upgrade_ledger(db: sqlite3.Connection, schema: Sequence[str], names: Pseudonyms) -> None:
    """Change a ledger of an earlier version within a transaction; `schema` is today's."""
    (prices,) = db.execute("SELECT count(*) FROM pragma_table_info('prices') WHERE name = 'delta_shares'").fetchone()
    if not prices:
        found = db.execute("SELECT price, mu_squared, slack, delta_coalition FROM prices").fetchall()
        db.execute("DROP TABLE prices")
    db.create_function("pseudonym", 1, names.of_earlier, deterministic=True)
    db.execute("CREATE TEMP TABLE earlier AS SELECT * FROM charges")
    db.execute("DROP TABLE main.charges")
    _make_missing(db, schema)
    if not prices:
        db.executemany("INSERT INTO prices VALUES (?, ?, ?, ?, '0')", found)
    db.execute(_CHARGES)
    db.execute("DROP TABLE temp.earlier")


def upgrade_outbox(db: sqlite3.Connection, names: Pseudonyms) -> None:
    """Change an outbox of an earlier version within a transaction.

    Of two reports that one person was found to have in a batch one stays, as a person has one; both stay charged.
    """
    db.create_function("pseudonym", 1, names.of_earlier, deterministic=True)
    db.execute("CREATE TEMP TABLE earlier AS SELECT * FROM parcels")
    db.execute("DELETE FROM parcels")
    db.execute(
        "INSERT OR IGNORE INTO parcels SELECT task_id, batch, pseudonym(source), report_id, expires FROM earlier"
    )
    db.execute("DELETE FROM messages WHERE report_id NOT IN (SELECT report_id FROM parcels)")
    db.execute("DROP TABLE temp.earlier")


def wipe(db: sqlite3.Connection, version: int) -> None:
    """Write the file anew without what was deleted in it, and end its upgrade."""
    db.execute("VACUUM")
    db.execute(f"PRAGMA user_version = {version}")
    # What the log held goes, too. While another process reads, it goes when that has ended.
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _make_missing(db: sqlite3.Connection, schema: Sequence[str]) -> None:
    known = {text for (text,) in db.execute("SELECT sql FROM main.sqlite_master")}
    for statement in schema:
        if statement not in known:
            db.execute(statement)
