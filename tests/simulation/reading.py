"""Plain reading of a server's files: what its journal says, and what its database holds of that.

Where a batch lies in the database says the journal; nothing here asks the code under test.
"""

import json
import sqlite3
from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from simulation.books import batch_key
from vectors import plain

FINAL = ("released", "abandoned")
STATES = ("closed", "frozen", "checked", "judged", *FINAL)
"""Lines that change the state of a batch."""

UNKEPT = ("registered", "opened", "lost", "cut", "migrated")
"""Lines that a database may lack without lacking a step."""


class Line(NamedTuple):
    """One line of a journal.

    Attributes:
        batches: those that it is about; of windows that were merged the last is released.
        task: its identifier, as it is sent; empty if none is meant.
    """

    batches: tuple[str, ...]
    state: str
    task: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Held:
    """What the journal says of one batch, and the database holds of it.

    Attributes:
        state: of its last line.
        report_ids: that the database has.
        counted: how many they are, by their last row.
        key_name: of the file that holds its key.
        parts: what was merged into it.
    """

    state: str
    report_ids: frozenset[bytes]
    counted: int
    key_name: str
    parts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Snapshot:
    """What a database holds, as a journal explains it.

    Attributes:
        rows: identifiers of the reports at each place, and how many they are.
        lines: how many lines of the journal it knows.
        entered: identifiers of tasks that have a row.
        tasks: its batches, by what they are called.
    """

    rows: Mapping[int, tuple[frozenset[bytes], int]]
    lines: int
    entered: frozenset[str]
    tasks: dict[str, Held]

    def by(self, lines: Sequence[Line]) -> "Snapshot":
        """Return the same as a later state of the journal explains it."""
        return replace(self, tasks=_explained(self.rows, lines))


def read_database(path: Path, journal: Path) -> Snapshot:
    """Read a database file with nothing but SQLite."""
    connection = sqlite3.connect(path)
    try:
        return read_tables(lambda query: connection.execute(query).fetchall(), read_journal(journal))
    finally:
        connection.close()


def read_tables(rows_of: Callable[[str], Sequence[tuple]], lines: Sequence[Line]) -> Snapshot:
    """Read what a database holds; `rows_of` answers a query, all of them from one state."""
    ids: dict[int, set[bytes]] = {}
    counts = dict(rows_of("SELECT batch, num_reports FROM batches"))
    for key, total, joined in rows_of("SELECT key, total, ids FROM segments ORDER BY key"):
        ids.setdefault(key >> 32, set()).update(report_ids_of(joined) if isinstance(joined, bytes) else ())
        counts[key >> 32] = total
    known = [length for (length,) in rows_of("SELECT length FROM journal")]
    entered = {plain.b64(each) for (each,) in rows_of("SELECT task_id FROM tasks") if isinstance(each, bytes)}
    rows = {place: (frozenset(ids.get(place, ())), counts.get(place, 0)) for place in {*ids, *counts}}
    length = known[0] if known and isinstance(known[0], int) else 0
    return Snapshot(rows, length, frozenset(entered), _explained(rows, lines))


def _explained(rows: Mapping[int, tuple[frozenset[bytes], int]], lines: Sequence[Line]) -> dict[str, Held]:
    tasks: dict[str, Held] = {}
    for line in lines:
        if line.state == "opened":
            (key,) = line.batches
            tasks[key] = Held("open", *rows.get(line.facts["place"], (frozenset(), 0)), _key_name(line.task, key))
        for key in line.batches if line.state in STATES else ():
            held = tasks[key]
            if held.state not in FINAL:
                own = key == line.batches[-1]
                state = line.state if own or line.state == "abandoned" else "merged"
                parts = frozenset(line.batches[:-1]) if own else held.parts
                tasks[key] = replace(held, state=state, parts=parts)
    return tasks


def read_journal(path: Path) -> list[Line]:
    """Return every whole line of a journal; none if there is no journal."""
    whole = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [_line(line) for line in whole]


@lru_cache(10_000)
def _line(data: bytes) -> Line:
    line = json.loads(data.rpartition(b" ")[0])
    last = line.get("batch", 0)
    batches = tuple(batch_key(line["task"], number) for number in range(line.get("first", last), last + 1))
    return Line(batches, line["state"], line["task"], line.get("facts", {}))


def key_file(folder: Path, held: Held) -> Path:
    """Return where a batch's key lies in a key folder, or lay."""
    return folder / "batches" / f"{held.key_name}.key"


def after_restore(
    found: Snapshot, lines: Sequence[Line], *, trusted: bool, keyless: Collection[str] = ()
) -> dict[str, str]:
    """Return the state that docs/how-to/operations.md promises a batch after a restore: kept, released, given up.

    Args:
        found: the database that was put in place, by this journal.
        lines: the journal, of which the database knows `found.lines`.
        trusted: whether somebody vouches that the journal is whole.
        keyless: batches whose key is gone from the key folder.
    """
    missing = {key for line in lines[found.lines :] if line.state not in UNKEPT for key in line.batches}
    result: dict[str, str] = {}
    for key, held in found.tasks.items():
        if held.state == "merged":
            continue
        kept = trusted and key not in missing and not {key, *held.parts} & set(keyless)
        result[key] = held.state if held.state in FINAL else "kept" if kept else "abandoned"
        # What was merged stays so, or is given up with the window that it is in.
        if held.state != "abandoned":
            result.update(dict.fromkeys(held.parts, "abandoned" if result[key] == "abandoned" else "kept"))
    return result


def report_ids_of(data: bytes) -> list[bytes]:
    """Split a list of identifiers as it is sent."""
    return [data[start : start + 32] for start in range(0, len(data), 32)]


def _key_name(task: str, key: str) -> str:
    number = int(key.rpartition("/")[2]) if "/" in key else 0
    return plain.H("batch keys", urlsafe_b64decode(task + "="), number.to_bytes(8, "big")).hex()
