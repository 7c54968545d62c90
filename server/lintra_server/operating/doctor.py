"""Looks at a server's folders without changing them, also while it runs, and says what is wrong."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lintra_server.clock import DAY, Clock
from lintra_server.disk.folders import require_private
from lintra_server.disk.journal import BatchId, Head, Journal
from lintra_server.disk.notes import Notes
from lintra_server.disk.vault import Vault
from lintra_server.settings import Settings
from lintra_server.storage.database import AnyDatabase
from lintra_server.storage.history import History
from lintra_server.storage.key_folder import JOURNAL_FILE, NOTES_FILE, journal_key, last_seen
from lintra_server.storage.parts import has_database, open_database, open_witness
from lintra_server.storage.states import FINAL_STATES, BatchStates

FREE_BYTES = 1 << 30
"""Less free space than this is worth a word."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `wrong` says what is not as it should be, and is empty if it is."""

    what: str
    good: str
    wrong: str = ""


def examine(settings: Settings, now: Callable[[], float], running: Callable[[], float]) -> Iterator[Finding]:
    """Yield what was found, each needing only those before it; stop where nothing more can be said."""
    for folder in (settings.data_dir, settings.key_dir):
        yield _permissions(folder)
    yield _devices(settings)
    yield from _space(settings)
    missing = [
        name
        for name, there in (
            ("identity key", settings.has_identity_key()),
            ("storage root key", settings.has_storage_root_key()),
            ("journal", (settings.key_dir / JOURNAL_FILE).exists()),
            ("database", has_database(settings)),
        )
        if not there
    ]
    yield Finding("parts", "keys, journal and database are there", f"missing: {', '.join(missing)}" if missing else "")
    if missing:
        return
    yield _clock(settings, now, running)
    vault = Vault(settings.storage_root_keys(bytes), bytes)
    try:
        journal = Journal(settings.key_dir / JOURNAL_FILE, journal_key(settings.key_dir, vault), repair=False)
    except (OSError, ValueError) as error:
        yield Finding("journal", "", str(error))
        return
    yield Finding("journal", f"{journal.head.length} lines, start number {journal.last_start}")
    yield _witness(settings, vault, journal.head)
    database = open_database(settings, "")
    try:
        yield from _database(settings, database, journal)
    finally:
        database.close()


def _database(settings: Settings, database: AnyDatabase, journal: Journal) -> Iterator[Finding]:
    complaints = database.intact()
    sound = "every page of the database is sound"
    if settings.database_url is not None:
        sound = "PostgreSQL answers; it checks pages itself, if its cluster has data checksums"
    yield Finding("integrity", sound, "; ".join(complaints[:3]))
    history = History(journal)
    history.learn(journal.lines)
    notes = Notes(settings.key_dir / NOTES_FILE)
    states = BatchStates(database, history, notes, journal)
    standing = states.standing()
    if standing is None:
        yield Finding("database and journal", "", "the database belongs to no journal")
    elif standing.head == journal.head:
        yield Finding("database and journal", "they stand at the same line")
    elif journal.has(standing.head):
        behind = journal.head.length - standing.head.length
        # A running server may just be between the two.
        yield Finding(
            "database and journal", "", f"the database lacks {behind} lines; if that stays, it is an old copy"
        )
    else:
        yield Finding("database and journal", "", "the journal lacks lines that the database has")
    rows = states.rows()
    folder = settings.key_dir / "batches"
    gone = [
        row
        for row in rows
        if row.fate.state not in FINAL_STATES
        and not (folder / f"{BatchId(row.task_id, row.number).name.hex()}.key").exists()
    ]
    counted = ", ".join(f"{count} {state}" for state, count in sorted(Counter(row.state for row in rows).items()))
    yield Finding("batches", counted or "none yet", f"{len(gone)} unreleased ones lost their keys" if gone else "")
    old = sorted(path.name for path in settings.data_dir.glob("*.before-*")) + sorted(
        path.name for path in settings.data_dir.glob("*.replaced-*")
    )
    yield Finding(
        "old copies", "none beside the database", f"delete them when all is well: {', '.join(old)}" if old else ""
    )


def _permissions(folder: Path) -> Finding:
    what = f"permissions of {folder}"
    try:
        require_private(folder)
    except (OSError, ValueError) as error:
        return Finding(what, "", str(error))
    return Finding(what, "only the owner can get at it")


def _devices(settings: Settings) -> Finding:
    what = "volumes"
    if not settings.data_dir.exists() or not settings.key_dir.exists():
        return Finding(what, "", "one of the folders is not there")
    if settings.data_dir.stat().st_dev == settings.key_dir.stat().st_dev:
        same = "data_dir and key_dir are on one volume: a snapshot of it sets both back at once, which nobody can tell"
        return Finding(what, "", same)
    return Finding(what, "data_dir and key_dir are on two volumes")


def _space(settings: Settings) -> Iterator[Finding]:
    for folder in (settings.data_dir, settings.key_dir):
        if folder.exists():
            free = shutil.disk_usage(folder).free
            said = f"{free / 2**30:.1f} GiB free"
            yield Finding(f"space of {folder}", said, "" if free >= FREE_BYTES else f"only {said}")


def _clock(settings: Settings, now: Callable[[], float], running: Callable[[], float]) -> Finding:
    clock = Clock(now, running, last_seen(settings.key_dir), settings.max_clock_step_days * DAY)
    complaint = clock.complaint and f"{clock.complaint}; if it is right, run `lintra server clock --accept`"
    return Finding("clock", "it fits what was seen last", complaint)


def _witness(settings: Settings, vault: Vault, head: Head) -> Finding:
    witness = open_witness(settings, settings.key_dir, vault, os.urandom)
    if witness is None:
        none = "none: a snapshot of the whole machine that is restored would not be noticed (witness_dir)"
        return Finding("witness", none)
    try:
        seen = witness.read()
    except OSError as error:
        return Finding("witness", "", str(error))
    return Finding("witness", "it knows this journal", "" if seen == head else "it knows another journal")
