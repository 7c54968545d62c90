"""The kinds of edits: of cells, rows, whole batches and tasks, by all that ever stood in a database or came to it."""

from collections.abc import Callable

from lintra_protocol.errors import LintraError
from lintra_protocol.task import Task
from simulation.editor import KEYS, OF_BATCHES, SPAN, Editor, Row
from simulation.world import mark_edited


def edit(editor: Editor, server: int, place: int) -> None:
    """Edit something of the batch at a place, or of its task, in one of many ways."""
    (kind,) = editor.world.chance.choices(list(_KINDS), list(_KINDS.values()))
    editor.count(kind.__name__.lstrip("_").replace("_", " "))
    kind(editor, server, place)
    mark_edited(editor.world, server)


def _cell(editor: Editor, server: int, place: int) -> None:
    table = editor.of_batch(server, place, ("segments", "segments", "batches", "batches", "looks"))
    rows = editor.read(server, table, place)
    if rows:
        key, row = editor.world.chance.choice(list(rows.items()))
        editor.put(server, table, key, editor.changed(table, row, server))


def _cell_of_its_task(editor: Editor, server: int, place: int) -> None:
    found = editor.task_of(server, place)
    if found is not None:
        editor.put(server, "tasks", found[0], editor.changed("tasks", found[1], server))


def _promise(editor: Editor, server: int, place: int) -> None:
    """Put a looser definition in the place of a task's, one that its author never signed."""
    found = editor.task_of(server, place)
    if found is not None:
        for loose in _looser(found[1]["definition"], editor.world.chance.randrange(3)):
            editor.put(server, "tasks", found[0], found[1] | {"definition": loose})


def _task_row(editor: Editor, server: int, place: int) -> None:
    """Delete a task, put another one in its place, or swap two."""
    chance, rows = editor.world.chance, editor.read(server, "tasks")
    found = editor.task_of(server, place)
    if found is None or len(rows) < 2:
        return
    key, row = found
    other, second = chance.choice(list(rows.items()))
    match chance.randrange(4):
        case 0:
            editor.put(server, "tasks", key, None)
        case 1:
            editor.put(server, "tasks", key, chance.choice(editor.rows["tasks"]) | {"task": key})
        case 2:
            editor.put(server, "tasks", key, second | {"task": key})
            editor.put(server, "tasks", other, row | {"task": other})
        case _:
            name = chance.choice(["definition", "wrapped_token_key"])
            editor.put(server, "tasks", key, row | {name: second[name]})


def _task_inserted(editor: Editor, server: int, place: int) -> None:
    """Insert a task that its author never registered, whatever the operator thinks of it."""
    rows = editor.read(server, "tasks")
    if rows and editor.stranger is not None:
        row = {
            "task": max(int(str(key)) for key in rows) + 1, "task_id": editor.stranger.id_bytes,
            "definition": editor.stranger.canonical(), "wrapped_token_key": None,
        }  # fmt: skip
        editor.put(server, "tasks", row["task"], row)


def _older_row(editor: Editor, server: int, place: int) -> None:
    """Bring back what stood in a row before, or what a failed commit sent there."""
    table = editor.of_batch(server, place, ("segments", "segments", "batches", "looks"))
    keys = {key for of, name, key in editor.versions if (of, name) in ((server, table), (-1, table))}
    mine = sorted(
        key for key in keys if isinstance(key, int) and (key // SPAN if table == "segments" else key) == place
    )
    if mine:
        key = editor.world.chance.choice(mine)
        now, known = editor.at(server, table, key), editor.known(server, table, key)
        others = [row for row in known if row != now]
        if others:
            editor.put(server, table, key, editor.world.chance.choice(others))


def _row_of_a_failed_commit(editor: Editor, server: int, place: int) -> None:
    """Put what a failed commit sent in the place of what was acknowledged afterwards."""
    failed = sorted(key for of, _, key in editor.versions if of == -1 and isinstance(key, int) and key // SPAN == place)
    if failed:
        key = editor.world.chance.choice(failed)
        editor.put(server, "segments", key, editor.world.chance.choice(editor.versions[-1, "segments", key]))


def _rows_swapped(editor: Editor, server: int, place: int) -> None:
    """Swap two rows of a batch, or of two batches: whole, or one column."""
    chance, table = editor.world.chance, editor.of_batch(server, place)
    mine = list(editor.read(server, table, place).items())
    others = mine if table == "segments" and chance.random() < 0.7 else list(editor.read(server, table).items())
    if len(others) > 1 and mine:
        (first, one), (second, two) = chance.choice(mine), chance.choice(others)
        names = [name for name in one if name != KEYS[table]]
        names = names if chance.random() < 0.5 else [chance.choice(names)]
        editor.put(server, table, first, one | {name: two[name] for name in names})
        editor.put(server, table, second, two | {name: one[name] for name in names})


def _payloads_moved(editor: Editor, server: int, place: int) -> None:
    """Put the payloads of one row in the place of another's, or those of a failed commit, of the same length."""
    chance, rows = editor.world.chance, list(editor.read(server, "segments", place).items())
    if rows:
        key, row = chance.choice(rows)
        known = [*(each for _, each in rows), *editor.known(server, "segments", key)]
        alike = [each["payloads"] for each in known if fits(row, each)]
        if alike:
            editor.put(server, "segments", key, row | {"payloads": chance.choice(alike)})


def fits(row: Row, other: Row) -> bool:
    """Return whether the payloads of one row could be those of another; he may have made a number of them."""
    mine, theirs = row["payloads"], other["payloads"]
    return isinstance(mine, bytes) and isinstance(theirs, bytes) and 0 < len(mine) == len(theirs) and mine != theirs


def _rows_cut(editor: Editor, server: int, place: int) -> None:
    """Delete one row, the first of a batch, its last ones, or all."""
    chance, table = editor.world.chance, editor.of_batch(server, place, ("segments", "segments", "batches", "looks"))
    keys = list(editor.read(server, table, place))
    if keys:
        at = chance.randrange(len(keys))
        for key in chance.choice([[keys[at]], keys[:1], keys[-1:], keys[at:], keys]):
            editor.put(server, table, key, None)


def _row_inserted(editor: Editor, server: int, place: int) -> None:
    """Insert a row that stood anywhere, also at another server, behind those of a batch or among them."""
    chance = editor.world.chance
    keys = list(editor.read(server, "segments", place))
    number = (max(keys) if keys else place * SPAN - 1) + 1
    key = chance.choice([number, *(key + chance.choice([0, 1]) for key in keys[-3:])])
    editor.put(server, "segments", key, chance.choice(editor.rows["segments"]) | {"key": key})


def _batch_set_back(editor: Editor, server: int, place: int) -> None:
    """Make everything of a batch what it was once, in one table or in all."""
    chance = editor.world.chance
    old = [tables for of, tables in editor.photographs if of == server]
    if old:
        tables = chance.choice(old)
        for table in OF_BATCHES if chance.random() < 0.6 else [chance.choice(OF_BATCHES)]:
            inside = [key for key in tables[table] if isinstance(key, int) and _place(table, key) == place]
            for key in {*editor.read(server, table, place), *inside}:
                editor.put(server, table, key, tables[table].get(key))


def _batches_swapped(editor: Editor, server: int, place: int) -> None:
    """Give one batch's rows to another: which task and number they are of, their segments, or all."""
    chance, rows = editor.world.chance, editor.read(server, "batches")
    others = [key for key in rows if key != place and isinstance(key, int)]
    if place not in rows or not others:
        return
    other = chance.choice(others)
    match chance.randrange(3):
        case 0:
            names = chance.choice([["task"], ["number"], ["task", "number"]])
            one, two = rows[place], rows[other]
            # No two rows may have one task and number, not even for a moment.
            editor.put(server, "batches", other, None)
            editor.put(server, "batches", place, one | {name: two[name] for name in names})
            editor.put(server, "batches", other, two | {name: one[name] for name in names})
        case 1:
            mine, theirs = editor.read(server, "segments", place), editor.read(server, "segments", other)
            for of, given in ((place, theirs), (other, mine)):
                for key in mine if of == place else theirs:
                    editor.put(server, "segments", key, None)
                for key, row in given.items():
                    moved = of * SPAN + int(str(key)) % SPAN
                    editor.put(server, "segments", moved, row | {"key": moved})
        case _:
            editor.put(
                server,
                "batches",
                place,
                rows[other] | {name: rows[place][name] for name in ("batch", "task", "number")},
            )


def _place(table: str, key: int) -> int:
    return key // SPAN if table == "segments" else key


def _looser(definition: object, which: int) -> list[bytes]:
    """Return a definition with a weaker promise than one has, if it is one, as long as that where this is possible."""
    try:
        task = Task.from_canonical(definition) if isinstance(definition, bytes) else None
    except LintraError:
        task = None
    if task is None:
        return []
    weaker = {"epsilon": "9"} | ({"epsilon_alone": "9"} if task.claim.epsilon_alone else {})
    claim = task.claim.model_copy(update=weaker if which == 0 else {"min_clients": 10})
    made = task.model_copy(update={"claim": claim} if which < 2 else {"max_missing": "0.95"})
    return [made.canonical()]


_KINDS: dict[Callable[[Editor, int, int], None], float] = {
    _cell: 24,
    _cell_of_its_task: 5,
    _promise: 3,
    _task_row: 5,
    _task_inserted: 2,
    _older_row: 8,
    _row_of_a_failed_commit: 10,
    _rows_swapped: 10,
    _payloads_moved: 5,
    _rows_cut: 14,
    _row_inserted: 8,
    _batch_set_back: 7,
    _batches_swapped: 6,
}
"""How often each happens, relative to the others."""
