"""What the adversary does to the database: any cell of any table becomes any value that was ever there."""

from collections.abc import Iterator
from itertools import chain, combinations

from support.store_model.state import BatchRow, Database, Model, Segment, State, TaskRow
from support.store_model.uploads import Moves, put_batch, put_segments

NEVER_CAME = "z"
"""A report that no client sent."""


def moves(model: Model, state: State) -> Moves:
    """Yield every database that one edit makes."""
    if state.edits >= model.bounds.edits or not state.came:
        return
    for name, database in edited(model, state):
        if database != state.database:
            yield f"EDIT {name}", state._replace(database=database, edits=state.edits + 1)


Edits = Iterator[tuple[str, Database]]


def edited(model: Model, state: State) -> Edits:
    """Yield every edit of every table."""
    database = state.database
    yield from _of_tasks(model, database)
    yield from _of_batches(model, database)
    for number, rows in enumerate(database.segments):
        for name, changed in _of_segments(model, state, rows):
            yield f"segments of {number}: {name}", put_segments(database, number, changed)
    if model.bounds.old_schema:
        yield "alembic_version set back", database._replace(is_old=True)
    if model.bounds.journal_lost:
        yield "barred_before", database._replace(is_barred=not database.is_barred)
    if model.bounds.looks:
        for old in (-1, 0):
            yield f"look := that of unit {old}", database._replace(look=old)


def _of_tasks(model: Model, database: Database) -> Edits:
    rows = database.tasks
    ids = sorted({*model.tasks, *model.bounds.refused})

    def put(key: int, row: TaskRow | None) -> Database:
        return database._replace(tasks=(*rows[:key], row, *rows[key + 1 :]))

    for key, row in enumerate(rows):
        if row is None:
            continue
        yield f"task {key} deleted", put(key, None)
        for task in ids:
            yield f"task {key}: task_id := {task}", put(key, row._replace(task_id=task))
            yield f"task {key}: definition := {task}", put(key, row._replace(definition=task))
            yield f"task {key}: both := {task}", put(key, TaskRow(task, task))
    for task in ids:
        if TaskRow(task, task) not in rows:
            yield f"task {task} inserted", database._replace(tasks=(*rows, TaskRow(task, task)))


def _of_batches(model: Model, database: Database) -> Edits:
    rows = database.batches
    numbers = sorted({number for _, number in model.names})
    for number, row in enumerate(rows):
        if row is None:
            continue
        for name, changed in _of_batch(model, database, row, numbers):
            yield f"batch {number}{name}", put_batch(database, number, changed)
        for other in range(number):
            swapped = rows[other]
            if swapped is not None:
                name = f"batches {other} and {number} swap their tasks and numbers"
                one = row._replace(task=swapped.task, number=swapped.number)
                two = swapped._replace(task=row.task, number=row.number)
                yield name, put_batch(put_batch(database, number, one), other, two)


def _of_batch(
    model: Model, database: Database, row: BatchRow, numbers: list[int]
) -> Iterator[tuple[str, BatchRow | None]]:
    yield " deleted", None
    for key in range(len(database.tasks)):
        yield f".task := {key}", row._replace(task=key)
    for other in numbers:
        yield f".number := {other}", row._replace(number=other)
    yield ".state := open", row._replace(state="open", inventory=None, cohort=None, rejected=None)
    if row.inventory is not None:
        yield ".state := closed", row._replace(state="closed", cohort=None, rejected=None)
    if row.cohort is not None:
        yield ".state := frozen", row._replace(state="frozen", rejected=None)
    reports = sorted(report for report, _ in model.bounds.sent)
    for ids in chain(combinations(reports, 1), combinations(reports, 2)):
        if row.inventory is not None:
            yield f".inventory := {''.join(ids)}", row._replace(inventory=ids)
        if row.cohort is not None:
            yield f".cohort := {''.join(ids)}", row._replace(cohort=ids)
        if row.rejected is not None:
            yield f".rejected := {''.join(ids)}", row._replace(rejected=ids)


def _of_segments(model: Model, state: State, rows: tuple[Segment, ...]) -> Iterator[tuple[str, tuple[Segment, ...]]]:
    reports = [report for report, _ in model.bounds.sent]
    seen = sorted(state.seen)
    for index, row in enumerate(rows):
        before, behind = rows[:index], rows[index + 1 :]
        yield f"row {row.last} deleted", (*before, *behind)
        for report in (*reports, NEVER_CAME):
            ids = (report,) * len(row.ids)
            yield f"row {row.last}: ids := {''.join(ids)}", (*before, row._replace(ids=ids), *behind)
        if len(row.ids) > 1:
            yield f"row {row.last}: ids in another order", (*before, row._replace(ids=row.ids[::-1]), *behind)
        for old in seen:
            text = f"{''.join(old.ids)} of {old.last}"
            yield f"row {row.last} := {text}", (*before, old._replace(last=row.last), *behind)
            if old.payloads != row.payloads:
                yield f"row {row.last}: payloads of {text}", (*before, row._replace(payloads=old.payloads), *behind)
            if old.mark != row.mark:
                yield f"row {row.last}: mark of {text}", (*before, row._replace(mark=old.mark), *behind)
    for old in seen:
        if all(row.last != old.last for row in rows):
            text = f"row {''.join(old.ids)} of {old.last} inserted"
            yield text, tuple(sorted((*rows, old), key=lambda row: row.last))
