"""Somebody who writes what he likes to a server's database, at any moment, and remembers all that it ever held.

He changes cells, swaps rows, cuts chains, brings back what was there before or what a failed commit sent, also from
another server's database, and plants triggers. He does not have the key folder.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg

from lintra_protocol.errors import LintraError
from lintra_service.settings import InvalidSettingsError
from simulation.books import law
from simulation.requesting import ask, repeat_question
from simulation.world import World, mark_edited

Row = dict[str, Any]

KEYS = {
    "segments": "key", "batches": "batch", "tasks": "task", "looks": "batch", "journal": "one",
    "alembic_version": "version_num",
}  # fmt: skip
"""The tables, and the key of each."""

OF_BATCHES = ("segments", "segments", "segments", "batches", "batches", "looks", "tasks")
"""Tables whose rows belong to one task or batch; how often each is edited."""

MOST_REMEMBERED = 600


@dataclass
class Editor:
    """What he remembers.

    Attributes:
        rows: of every table, of all servers.
        undo: what he changed, as it was before: server, table, key, and the row if there was one.
        batch: the part of a segment's key that says its number.
    """

    rows: dict[str, list[Row]] = field(default_factory=dict)
    undo: list[tuple[int, str, object, Row | None]] = field(default_factory=list, repr=False)


EDITORS: dict[int, Editor] = {}


def editor_of(world: World) -> Editor:
    """Return the editor of a world."""
    return EDITORS.setdefault(id(world), Editor())


# --- reading and writing past the server -----------------------------------------------------------------------


def rows_of(world: World, server: int, table: str) -> list[Row]:
    """Return every row of a table."""
    return world.servers[server].past(f"SELECT * FROM {table}")


def put(world: World, server: int, table: str, row: Row) -> None:
    """Write a row, in the place of one with its key."""
    names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
    drop(world, server, table, row[KEYS[table]])
    with suppress(sqlite3.Error, psycopg.Error, OverflowError):  # a value that this column does not take
        world.servers[server].past(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))


def drop(world: World, server: int, table: str, key: object) -> None:
    """Delete a row, if there is one."""
    with suppress(sqlite3.Error, psycopg.Error, OverflowError):
        world.servers[server].past(f"DELETE FROM {table} WHERE {KEYS[table]} = ?", (key,))


# --- one edit -----------------------------------------------------------------------------------------------------


def remember(world: World, server: int) -> None:
    """Look at all that a database holds now, and at what a failed commit sent to it."""
    editor = editor_of(world)
    for table in KEYS:
        known = editor.rows.setdefault(table, [])
        known += rows_of(world, server, table)
        if table == "segments":
            known += world.trouble.refused
        if len(known) > MOST_REMEMBERED:
            editor.rows[table] = world.chance.sample(known, MOST_REMEMBERED)
    world.trouble.refused.clear()


def changed(world: World, table: str, row: Row) -> Row:
    """Return a row with another value in one column."""
    chance, name = world.chance, world.chance.choice(list(row))
    value, known = row[name], [each for each in editor_of(world).rows[table] if name in each]
    match chance.randrange(6):
        case 0 | 1 | 2:  # a value that ever stood in this column
            return row | {name: chance.choice(known)[name]}
        case 3 if isinstance(value, bytes) and value:
            data = bytearray(value)
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            return row | {name: bytes(data)}
        case 3 | 4 if isinstance(value, int):
            return row | {name: value + chance.choice([-1, 1, 1 << 32, -value])}
        case 4 if isinstance(value, bytes):
            return row | {name: chance.choice([b"", value[:-1], value + value, chance.randbytes(len(value))])}
        case _:  # of another column, also of another kind
            return row | {name: chance.choice([None, "open", *chance.choice(known).values()])}


def is_victim(table: str, key: object) -> bool:
    """Return whether rows of a key are edited: those of every third batch are not, so that some are released."""
    return not isinstance(key, int) or (key >> 32 if table == "segments" else key) % 3 != 0 or table == "journal"


def edit_rows(world: World, server: int, tables: Sequence[str] = OF_BATCHES) -> set[tuple[str, object]]:
    """Edit some rows; return tables and keys of all that were touched."""
    chance, editor = world.chance, editor_of(world)
    remember(world, server)
    table = chance.choice(tables)
    key = KEYS[table]
    own = [row for row in rows_of(world, server, table) if is_victim(table, row[key])]
    before = {row[key]: row for row in own}
    new: list[Row] = []
    gone: set[object] = set()
    dice = chance.randrange(8)
    if dice <= 2 and own:
        row = chance.choice(own)
        new, gone = [changed(world, table, row)], {row[key]}
    elif dice == 3 and len(own) > 1:
        first, second = chance.sample(own, 2)
        names = [name for name in first if name != key]
        names = names if chance.random() < 0.5 else [chance.choice(names)]
        new = [first | {name: second[name] for name in names}, second | {name: first[name] for name in names}]
    elif dice == 4 and own:
        row = chance.choice(own)
        alike = [each[key] for each in own if table == "segments" and each[key] >> 32 == row[key] >> 32]
        # One row, the first of a batch, its last ones, or all.
        cuts = [[row[key]], alike[:1], alike[-1:], alike[chance.randrange(len(alike) or 1) :], alike]
        gone = set(chance.choice(cuts))
    elif dice == 5 and (undone := [each for each in editor.undo if each[:2] == (server, table)]):
        _, _, old, row_before = chance.choice(undone)
        new, gone = [row_before] if row_before else [], {old}
    elif editor.rows[table]:
        row = chance.choice(editor.rows[table])
        if table == "segments" and own and chance.random() < 0.3:  # of another batch
            row = row | {"key": chance.choice(own)["key"] >> 32 << 32 | row["key"] & 0xFFFFFFFF}
        new = [row]
    # Of a key that is nothing the database would choose one by itself.
    new = [row for row in new if row[key] is not None and is_victim(table, row[key])]
    touched = {(table, each) for each in (*gone, *(row[KEYS[table]] for row in new))}
    for _, each in touched:
        editor.undo.append((server, table, each, before.get(each)))
    for each in gone:
        drop(world, server, table, each)
    for row in new:
        put(world, server, table, row)
    del editor.undo[:-200]
    return touched


def mark(world: World, server: int, touched: Iterable[tuple[str, object]]) -> None:
    """Note what an edit touched."""
    world.touched.setdefault(server, set()).update(touched)
    mark_edited(world, server)


# --- what happens in a simulation ---------------------------------------------------------------------------------


async def edit(world: World, server: int) -> None:
    """Edit rows of tasks and batches while the server runs. (law) Nothing else stops."""
    for _ in range(world.chance.randint(1, 8)):
        world.did("edit")
        mark(world, server, edit_rows(world, server))
    if world.maybe(0.5):
        await repeat_question(world, server)


async def edit_stopped(world: World, server: int) -> None:
    """Edit rows while the server is stopped. (law) It starts all the same."""
    world.servers[server].kill()
    for _ in range(world.chance.randint(1, 8)):
        world.did("edit while stopped")
        mark(world, server, edit_rows(world, server))
    begin(world, server)


async def edit_while_closing(world: World, server: int) -> None:
    """Edit rows in the middle of a closing, when its list was read."""
    courses = [course for course in world.active() if not course.num_waiting and course.hostile is None]
    open_ones = [course for course in courses if (server, "inventory") not in course.documents and not course.parts]
    if not open_ones:
        await edit(world, server)
        return

    async def meanwhile() -> None:
        world.did("edit while closing")
        mark(world, server, edit_rows(world, server))

    world.servers[server].meanwhile = meanwhile
    await ask(world, world.chance.choice(open_ones), server, "inventory")
    world.servers[server].meanwhile = None


async def edit_standing(world: World, server: int) -> None:
    """Edit what the database says of the whole server. (law) It serves, or ends itself, or does not start."""
    one = world.servers[server]
    world.did("edit of journal or version")
    rows = {table: rows_of(world, server, table) for table in ("journal", "alembic_version")}
    one.set_back = True
    edit_rows(world, server, ["journal", "alembic_version"])
    for _ in range(world.chance.randint(0, 2)):
        if not one.halts:
            await repeat_question(world, server)
    one.kill()
    one.set_back = False
    if world.maybe(0.3):
        version = world.chance.choice(["0000", "", "0001 "])
        put(world, server, "alembic_version", {"version_num": version})
    begin(world, server, rows)


async def trigger(world: World, server: int) -> None:
    """Plant a trigger for a while. (law) What acts within the server's own transactions ends it, and is named."""
    one = world.servers[server]
    places = {row["batch"]: row for row in rows_of(world, server, "batches")}
    if not places:
        return
    world.did("trigger")
    place = world.chance.choice(list(places))
    mark(world, server, [("batches", place)])
    name = world.chance.choice(list(one.triggers(place)))
    for statement in one.triggers(place)[name]:
        one.past(statement)
    one.set_back = True
    for _ in range(3):
        if not one.halts:
            await one_of_many(world, server)
    one.past(one.untrigger)
    if one.halts:
        from simulation.faults import hear_losses  # it knows this module

        law("planted" in one.halts[0], "a server ended itself and did not name the trigger", one.halts)
        one.kill()
        one.start()
        await hear_losses(world, server)
    one.set_back = False


async def one_of_many(world: World, server: int) -> None:
    from simulation.faults import something  # it knows this module

    await something(world, server)


async def refused_commit(world: World, server: int) -> None:
    """Let commits fail when their rows have been seen."""
    world.did("commit fails, its rows were seen")
    world.trouble.arm("refused", world.chance.randrange(3))
    await one_of_many(world, server)
    world.trouble.disarm()
    mark(world, server, edit_rows(world, server, ["segments"]))


def begin(world: World, server: int, rows: Mapping[str, Sequence[Row]] | None = None) -> None:
    """Start a server whose database was edited. (law) Only what it says of the whole server stops it."""
    one = world.servers[server]
    try:
        one.start()
    except (InvalidSettingsError, LintraError) as error:
        law(rows is not None, "an edited row of a batch stops the start", error)
        for table, old in (rows or {}).items():
            for row in rows_of(world, server, table):
                drop(world, server, table, row[KEYS[table]])
            for row in old:
                put(world, server, table, row)
        one.start()
