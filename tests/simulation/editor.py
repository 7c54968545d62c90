"""Somebody who writes what he likes to the databases of servers, and remembers all that they ever held.

He does not have the key folders. What he does to a batch is in `edits`.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import psycopg

from lintra_protocol.task import Task
from simulation.world import World

Row = dict[str, Any]
Rows = dict[object, Row]
"""Of one table, by key."""

KEYS = {
    "segments": "key", "batches": "batch", "tasks": "task", "looks": "batch", "journal": "one",
    "alembic_version": "version_num",
}  # fmt: skip
"""The tables, and the key of each."""

OF_BATCHES = ("segments", "batches", "looks")
"""Tables whose rows belong to a batch."""

EARLIER = "0000"
"""A version of the tables from before the first one."""

STANDING = ("journal", "alembic_version")
"""Tables that say something of the whole server."""

MOST_REMEMBERED, MOST_PHOTOGRAPHS = 400, 16
SPAN = 1 << 32
MOST_PLACES = 1 << 31


class Change(NamedTuple):
    """A row that was changed; None where there is none."""

    server: int
    table: str
    key: object
    before: Row | None
    after: Row | None


@dataclass
class Editor:
    """What he remembers.

    Attributes:
        rows: of every table, of all servers, each once.
        versions: what stood in a row once, by server, table and key.
        photographs: every table of a server, as it was once.
        changes: what he changed and did not put back.
        spared: of all batches those whose place, by this divisor, leaves this rest are never edited.
        stranger: a task that its author never registered.
        edits: how many there were.
        last: of which kind the last one was.
    """

    world: World
    rows: dict[str, list[Row]] = field(default_factory=lambda: {table: [] for table in KEYS}, repr=False)
    versions: dict[tuple[int, str, object], list[Row]] = field(default_factory=dict, repr=False)
    photographs: list[tuple[int, dict[str, Rows]]] = field(default_factory=list, repr=False)
    changes: list[Change] = field(default_factory=list, repr=False)
    spared: tuple[int, int] = (5, 0)
    stranger: Task | None = None
    edits: int = 0
    last: str = ""

    def again(self, world: World) -> "Editor":
        """Return an editor who remembers the same, of another history."""
        rows = {table: list(known) for table, known in self.rows.items()}
        versions = {key: list(known) for key, known in self.versions.items()}
        spared = (5, world.chance.randrange(5))
        return replace(
            self, world=world, rows=rows, versions=versions, photographs=list(self.photographs), changes=[],
            spared=spared, edits=0,
        )  # fmt: skip

    # --- reading and writing past the server ---------------------------------------------------------------------

    def read(self, server: int, table: str, place: int | None = None) -> Rows:
        """Return the rows of a table, all or those of one batch."""
        query, values = f"SELECT * FROM {table}", ()
        if place is not None and table == "segments":
            if not 0 <= place < MOST_PLACES:  # what he once wrote as the number of a batch: no key is that large
                return {}
            query, values = f"{query} WHERE key >= ? AND key < ?", (place * SPAN, (place + 1) * SPAN)
        elif place is not None:
            query, values = f"{query} WHERE {KEYS[table]} = ?", (place,)
        return {row[KEYS[table]]: row for row in self.world.servers[server].past(query, values)}

    def put(self, server: int, table: str, key: object, row: Row | None) -> None:
        """Write a row in the place of the one with a key, or delete that; note what was there before."""
        one, column = self.world.servers[server], KEYS[table]
        before = self.at(server, table, key)
        if row == before or (row is not None and (row[column] is None or not self.may(table, row[column]))):
            return  # a row without a key is one for which the database would choose it
        new = None if row is None or row[column] == key else row[column]
        there = None if new is None else self.at(server, table, new)
        with suppress(sqlite3.Error, psycopg.Error, OverflowError):  # a value that this column does not take
            one.past_at_once(_statements(table, key, row))
        self._note(server, table, key, before)
        if new is not None:
            self._note(server, table, new, there)

    def at(self, server: int, table: str, key: object) -> Row | None:
        """Return a row, or None if there is none."""
        try:
            found = self.world.servers[server].past(f"SELECT * FROM {table} WHERE {KEYS[table]} = ?", (key,))
        except (sqlite3.Error, psycopg.Error, OverflowError):
            return None
        return found[0] if found else None

    def _note(self, server: int, table: str, key: object, before: Row | None) -> None:
        after = self.at(server, table, key)
        if after != before:
            self.changes.append(Change(server, table, key, before, after))
            self.world.touched.setdefault(server, set()).add((table, key))

    def may(self, table: str, key: object) -> bool:
        """Return whether he may edit a row; some batches he spares, so that nothing excuses what stops them."""
        if table in STANDING or not isinstance(key, int):
            return True
        divisor, rest = self.spared
        return (key // SPAN if table == "segments" else key) % divisor != rest

    # --- remembering ---------------------------------------------------------------------------------------------

    def remember(self, servers: Iterable[int] | None = None) -> None:
        """Look at all that databases hold now, and at what failed commits sent to them."""
        for server in range(len(self.world.servers)) if servers is None else servers:
            tables = {table: self.read(server, table) for table in KEYS}
            for table, rows in tables.items():
                for key, row in rows.items():
                    self._learn(server, table, key, row)
            self.photographs.append((server, tables))
        if len(self.photographs) > MOST_PHOTOGRAPHS:
            self.photographs.pop(self.world.chance.randrange(len(self.photographs)))
        for row in self.world.trouble.refused:
            self._learn(-1, "segments", row["key"], row)
        self.world.trouble.refused.clear()

    def _learn(self, server: int, table: str, key: object, row: Row) -> None:
        versions = self.versions.setdefault((server, table, key), [])
        if row not in versions:
            versions.append(row)
            known = self.rows[table]
            known.append(row)
            if len(known) > MOST_REMEMBERED:
                known.pop(self.world.chance.randrange(len(known)))

    def known(self, server: int, table: str, key: object) -> list[Row]:
        """Return what stood in a row once, or was sent to it."""
        return [*self.versions.get((server, table, key), ()), *self.versions.get((-1, table, key), ())]

    # --- putting back --------------------------------------------------------------------------------------------

    def put_back(self, server: int) -> None:
        """Undo what he changed of a server, but for what the server itself wrote since."""
        mine = [change for change in self.changes if change.server == server]
        self.changes = [change for change in self.changes if change.server != server]
        left = list(self.changes)
        for change in reversed(mine):
            now = self.at(server, change.table, change.key)
            row: Row | None
            if now == change.after:
                row = change.before
            elif now is not None and change.after is not None and change.before is not None:
                old, new = change.before, change.after
                row = {name: old[name] if value == new[name] else value for name, value in now.items()}
            else:
                continue  # the server has a row of its own there
            if row != now:
                with suppress(sqlite3.Error, psycopg.Error, OverflowError):
                    self.world.servers[server].past_at_once(_statements(change.table, change.key, row))
        self.changes = left

    # --- edits ---------------------------------------------------------------------------------------------------

    def edit_standing(self, server: int) -> None:
        """Edit what the database says of the whole server."""
        table = self.world.chance.choice(STANDING)
        self.count(f"a cell of {table}")
        rows = self.read(server, table)
        if rows and self.world.maybe(0.8):
            key, row = self.world.chance.choice(list(rows.items()))
            older = table == "alembic_version" and self.world.maybe(0.5)
            self.put(server, table, key, {"version_num": EARLIER} if older else self.changed(table, row, server))
        elif rows:
            self.put(server, table, self.world.chance.choice(list(rows)), None)

    def count(self, kind: str) -> None:
        """Count one edit."""
        self.edits += 1
        self.last = kind
        self.world.did(f"edit: {kind}")

    def changed(self, table: str, row: Row, server: int) -> Row:
        """Return a row with another value in one column."""
        chance, name = self.world.chance, self.world.chance.choice(list(row))
        value, known = row[name], self.rows[table] or [row]
        older = [each for each in self.known(server, table, row[KEYS[table]]) if each[name] != value]
        match chance.randrange(8):
            case 0 | 1 | 2 if older:  # that stood in this very cell
                return row | {name: chance.choice(older)[name]}
            case 0 | 1 | 2 | 3:  # that ever stood in this column
                return row | {name: chance.choice(known)[name]}
            case 4 | 5 if isinstance(value, bytes) and value:
                data = bytearray(value)
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                return row | {name: bytes(data)}
            case 4 | 5 if isinstance(value, int):
                return row | {name: value + chance.choice([-1, 1, 1 << 32, -value])}
            case 6 if isinstance(value, bytes):
                return row | {name: chance.choice([b"", value[:-1], value + value, chance.randbytes(len(value))])}
            case _:  # of another column, also of another kind
                return row | {name: chance.choice([None, "open", *chance.choice(known).values()])}

    def of_batch(self, server: int, place: int, tables: Sequence[str] = ("segments", "segments", "batches")) -> str:
        """Return a table that has rows of a batch."""
        there = [table for table in tables if self.read(server, table, place)]
        return self.world.chance.choice(there or ["batches"])

    def task_of(self, server: int, place: int) -> tuple[object, Row] | None:
        """Return the row of a batch's task, as the database has it."""
        batch = self.read(server, "batches", place).get(place)
        rows = self.read(server, "tasks")
        key = batch["task"] if batch is not None and batch["task"] in rows else None
        return (key, rows[key]) if key is not None else None


def _statements(table: str, key: object, row: Row | None) -> list[tuple[str, tuple[object, ...]]]:
    made: list[tuple[str, tuple[object, ...]]] = [(f"DELETE FROM {table} WHERE {KEYS[table]} = ?", (key,))]
    if row is not None:
        if row[KEYS[table]] != key:
            made.append((made[0][0], (row[KEYS[table]],)))
        names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
        made.append((f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values())))
    return made
