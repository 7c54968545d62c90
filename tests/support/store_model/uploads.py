"""What a running server does with reports: tasks are registered, batches opened, uploads committed, segments joined."""

from collections.abc import Iterator
from itertools import pairwise

from support.store_model.reading import (
    Address,
    Places,
    addresses,
    after,
    data_key,
    held,
    here,
    identity,
    marked,
    opened,
    read,
    same_end,
    sealed,
    standing,
    with_held,
)
from support.store_model.state import (
    CUT,
    EMPTY,
    BatchRow,
    Database,
    End,
    Ids,
    Model,
    Name,
    Pass,
    Record,
    Segment,
    State,
    TaskRow,
    text_of,
)

Moves = Iterator[tuple[str, State]]


def moves(model: Model, state: State, places: Places) -> Moves:
    """Yield what may happen to reports next."""
    for task in model.tasks:
        yield from _register(model, state, task)
    for name, found in places.items():
        for following in _opened(model, state, name) if not found else ():
            yield f"open {text_of(name)}", following
    for report, name in model.bounds.sent:
        for at in places[name]:
            yield from _upload(model, state, report, at)
    if model.bounds.joins:
        for found in places.values():
            for at in found:
                yield from _join(model, state, at)


def put_batch(database: Database, number: int, row: BatchRow | None) -> Database:
    """Return the database with another row of `batches`."""
    rows = database.batches
    return database._replace(batches=(*rows[:number], row, *rows[number + 1 :]))


def put_segments(database: Database, number: int, rows: tuple[Segment, ...]) -> Database:
    """Return the database with other segments of a batch."""
    every = database.segments
    return database._replace(segments=(*every[:number], rows, *every[number + 1 :]))


def put_record(state: State, place: int, record: Record) -> tuple[Record, ...]:
    """Return the journal and the notes with another record of a batch."""
    return (*state.records[:place], record, *state.records[place + 1 :])


def noted(model: Model, record: Record, end: End, *, is_synced: bool = False) -> Record:
    """Return the record of a batch that ends elsewhere; what was noted before is what a power cut may leave."""
    if not model.bounds.power_cuts:
        return record._replace(note=end)
    return record._replace(note=end, earlier=end if is_synced else record.note)


def _register(model: Model, state: State, task: str) -> Moves:
    """Register a task that policy takes, also again if its row is missing, and open its batches."""
    rows = state.database.tasks
    if any(row and row.task_id == task for row in rows) or task in model.bounds.refused or _is_barred(model, state):
        return
    earlier = model.tasks[: model.tasks.index(task)]
    if task not in state.registered and not state.registered | model.bounds.refused >= set(earlier):
        return  # tasks differ in nothing but their letter: the first one comes first
    state = state._replace(
        database=state.database._replace(tasks=(*rows, TaskRow(task, task))), registered=state.registered | {task}
    )
    if not model.bounds.late_windows:
        for name in model.names:
            state = next(iter(_opened(model, state, name)), state) if name[0] == task else state
    yield f"register {task}", state


def _is_barred(model: Model, state: State) -> bool:
    """Return whether all tasks and windows of the model began too early, before a restore without the journal."""
    return state.is_barred if model.rules.barred_line else state.database.is_barred


def _opened(model: Model, state: State, name: Name) -> Iterator[State]:
    """Open a batch that has no row: its key file is synced, then its line, then the row is entered."""
    rules, place, database = model.rules, model.places[name], state.database
    record = state.records[place]
    if any(True for _ in addresses(model, state, name)) or record.state != "open" or _is_barred(model, state):
        return
    if rules.registered_line and name[0] not in state.registered:
        return
    if record.keys and rules.opened_once and record.note != EMPTY:
        return  # its row was deleted: that is a loss, which a start finds and names
    for key, task in enumerate(database.tasks):
        if task is None or task.task_id != name[0] or (rules.definition_hash and task.definition != name[0]):
            continue
        at = Address(name, place, len(database.batches), task.definition)
        again = bool(record.keys) and rules.opened_once
        keys = record.keys if again else record.keys + 1
        files = dict(state.files)
        if not again or not rules.associated_data:
            files[identity(model, at)] = model.symbols.make(("key", name, keys))
        yield state._replace(
            database=database._replace(
                batches=(*database.batches, BatchRow(key, name[1])), segments=(*database.segments, ())
            ),
            records=put_record(state, place, record._replace(keys=keys, note=EMPTY)),
            files=tuple(sorted(files.items(), key=str)),
            memory=with_held(model, state, at, EMPTY),
        )


def _upload(model: Model, state: State, report: str, at: Address) -> Moves:
    """Commit a report, or answer that it is here; each answer is a receipt."""
    end, key = held(model, state, at), data_key(model, state, at)
    if end == CUT or not key or standing(model, state, at).state != "open":
        return
    ids = here(model, state, at, end)
    if ids is None:
        return
    if report in ids:
        if report not in state.acknowledged:
            yield f"repeat {report}", _acknowledged(state, report)
        return
    if not model.alike_before[report] <= state.came:
        return
    tokens = model.bounds.same_token
    if report in tokens and tokens & set(ids):
        return
    if any(row.last == end.last + 1 for row in state.database.segments[at.store_number]):
        return  # the adversary put a row there: the commit fails
    row = _sealed(model, at, key, end, Segment(end.last + 1, (report,), 0, 0, 0), (report,))
    tried = state._replace(came=state.came | {report}, seen=state.seen | {row})
    if state.failures < model.bounds.failures:
        yield f"upload {report}: the commit fails after its row was seen", tried._replace(failures=state.failures + 1)
    rows = (*state.database.segments[at.store_number], row)
    stored = tried._replace(database=put_segments(state.database, at.store_number, rows))
    if state.deaths < model.bounds.deaths:
        dead = stored._replace(memory=None, begun=None, deaths=state.deaths + 1)
        yield f"upload {report}: the process dies before the note", dead
    now = after(model, end, row)
    records = put_record(state, at.place, noted(model, state.records[at.place], now))
    kept = stored._replace(records=records, memory=with_held(model, state, at, now, [row]))
    yield f"upload {report}", _acknowledged(kept, report)


def _acknowledged(state: State, report: str) -> State:
    return state._replace(acknowledged=state.acknowledged | {report}, ever=state.ever | {report})


def _sealed(model: Model, at: Address, key: int, before: End, row: Segment, reports: Ids) -> Segment:
    """Mark a row and encrypt its payloads."""
    mark = model.symbols.make(marked(model, at, key, before, row)) if model.rules.marks else 0
    row = row._replace(mark=mark)
    return row._replace(payloads=sealed(model, at, key, row, reports))


def _join(model: Model, state: State, at: Address) -> Moves:
    """Join two segments that follow each other."""
    key, rows = data_key(model, state, at), state.database.segments[at.store_number]
    end = held(model, state, at)
    if not key or standing(model, state, at).state != "open" or end == CUT:
        return
    found = read(model, state, at)
    if model.rules.joined_marks and not (found.is_whole and same_end(model, end, found.end)):
        return
    record = state.records[at.place]
    synced = put_record(state, at.place, noted(model, record, record.note, is_synced=True))
    before = EMPTY
    for index, (one, two) in enumerate(pairwise(rows)):
        shares = (opened(model, at, key, one, one.mark), opened(model, at, key, two, two.mark))
        end = after(model, after(model, before, one), two)
        if shares[0] is not None and shares[1] is not None:
            joined = Segment(two.last, one.ids + two.ids, 0, end.value, 0)
            joined = _sealed(model, at, key, before, joined, shares[0] + shares[1])
            database = put_segments(state.database, at.store_number, (*rows[:index], joined, *rows[index + 2 :]))
            name = f"join segments of {text_of(at.name)} up to {two.last}"
            tried = state._replace(seen=state.seen | {joined})
            yield name, tried._replace(database=database, records=synced)
            if state.failures < model.bounds.failures:
                yield f"{name}: the commit fails", tried._replace(failures=state.failures + 1)
        before = after(model, before, one)


def migrated(model: Model, state: State, at: Address) -> tuple[State, Pass]:
    """Give marks to whatever rows a batch has, as a migration from a schema without marks does."""
    key = data_key(model, state, at)
    before, rows = EMPTY, []
    for row in state.database.segments[at.store_number]:
        plain = row._replace(end=0)
        rows.append(_sealed(model, at, key, before, plain, plain.ids))
        before = after(model, before, rows[-1])
    state = state._replace(database=put_segments(state.database, at.store_number, tuple(rows)))
    return state, read(model, state, at)
