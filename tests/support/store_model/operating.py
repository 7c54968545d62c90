"""What happens around a process: it starts, its operator accepts a loss, a database is put back and restored."""

from support.store_model.reading import Address, addresses, cache_key, data_key, read, row_of, same_end, table_of
from support.store_model.state import CUT, EMPTY, BatchRow, Held, Model, Name, Pass, Record, State, text_of
from support.store_model.uploads import Moves, migrated, noted, put_batch, put_record, put_segments

NOTHING = Pass((), (), (), is_whole=True)


def moves(model: Model, state: State) -> Moves:
    """Yield what an operator does next."""
    if state.memory is None:
        yield from _start(model, state, "start")
    elif state.restarts < model.bounds.restarts and state.came:
        yield from _start(model, state._replace(restarts=state.restarts + 1), "restart")
    if state.memory is not None and state.losses < model.bounds.losses:
        for name in model.names:
            yield from _accept_loss(model, state, name)
    if state.backups < model.bounds.backups:
        yield from _backups(model, state)
    if state.memory is not None and state.power_cuts < model.bounds.power_cuts:
        lagging = tuple(record._replace(note=record.earlier) for record in state.records)
        cut = state._replace(records=lagging, memory=None, begun=None, power_cuts=state.power_cuts + 1)
        yield "the power is cut before the last note was synced", cut


# --- a start ------------------------------------------------------------------------------------------------------


def _start(model: Model, state: State, verb: str) -> Moves:
    """Compare every open batch with its note, and hold where it ends; one that is cut takes and gives nothing."""
    if state.database.is_old:
        if model.rules.migrated_line:
            return
        state = _migrate(model, state)
    memory: list[Held] = []
    for name, record in zip(model.names, state.records, strict=True):
        if not record.keys or record.state != "open":
            continue
        places = list(addresses(model, state, name))
        passes = [(at, read(model, state, at)) for at in places]
        at, found = next(((at, each) for at, each in passes if _follows(model, record, each)), (None, NOTHING))
        end = found.end if at else CUT
        if at is None and not places:
            if record.note == EMPTY:
                continue  # a crash between the line `opened` and the row
            memory.append(Held(name, CUT))
            continue
        memory.append(Held(cache_key(model, at or places[0]), end, table_of(model, found.rows)))
        if at is not None and (model.rules.noted_start or not model.rules.notes):
            kept = noted(model, record, end, is_synced=True)
            state = state._replace(records=put_record(state, model.places[name], kept))
    began = state._replace(memory=tuple(sorted(memory, key=str)), begun=None, looked=(-1, state.unit))
    yield verb, began


def _follows(model: Model, record: Record, found: Pass) -> bool:
    """Return whether a chain has the noted value at the noted total; what follows came between commit and note."""
    if not found.is_whole:
        return False
    if not model.rules.notes or record.note == EMPTY:
        return True
    if not model.rules.note_values:
        return found.end.total >= record.note.total
    return any(same_end(model, record.note, end) for end in found.ends)


def _migrate(model: Model, state: State) -> State:
    """Make marks for whatever the database holds, and believe it."""
    for name in model.names:
        for at in addresses(model, state, name):
            record = state.records[at.place]
            if data_key(model, state, at) and record.state == "open":
                state, found = migrated(model, state, at)
                state = state._replace(records=put_record(state, at.place, record._replace(note=found.end)))
    return state._replace(database=state.database._replace(is_old=False))


# --- accept-loss --------------------------------------------------------------------------------------------------


def _accept_loss(model: Model, state: State, name: Name) -> Moves:
    """Write the line `lost` of an open batch that is cut, set its note back, and go on behind what is there."""
    place = model.places[name]
    record = state.records[place]
    if record.state != "open" or not record.keys:
        return
    cut = {each.of for each in state.memory or () if each.end == CUT}
    places = list(addresses(model, state, name))
    if not places and name in cut:
        yield from _enter_again(model, state, name, record)
    for at in places:
        if cache_key(model, at) not in cut and name not in cut:
            continue
        found = read(model, state, at)
        if found.is_whole and _follows(model, record, found):
            continue  # it came back; the next start sees it
        database = put_segments(state.database, at.store_number, found.rows)
        yield _lost(model, state._replace(database=database), at, record, found)


def _enter_again(model: Model, state: State, name: Name, record: Record) -> Moves:
    """Enter the row of a batch that was deleted; without its task's row there is nothing to enter it for."""
    database = state.database
    for key, task in enumerate(database.tasks):
        if task is not None and task.task_id == name[0] and name[0] in state.registered:
            rows = (*database.batches, BatchRow(key, name[1]))
            entered = database._replace(batches=rows, segments=(*database.segments, ()))
            at = Address(name, model.places[name], len(database.batches), task.definition)
            yield _lost(model, state._replace(database=entered), at, record, NOTHING)


def _lost(model: Model, state: State, at: Address, record: Record, found: Pass) -> tuple[str, State]:
    count = _most_lost(model, record, found)
    gone = frozenset(each for each in state.acknowledged if model.batch_of[each] == at.name) - set(found.ids)
    kept = noted(model, record._replace(lost=record.lost + count), found.end, is_synced=True)
    others = [each for each in state.memory or () if each.of not in (at.name, cache_key(model, at))]
    memory = (*others, Held(cache_key(model, at), found.end, table_of(model, found.rows)))
    return f"accept the loss of {count} reports of {text_of(at.name)}", state._replace(
        records=put_record(state, at.place, kept),
        memory=tuple(sorted(memory, key=str)),
        acknowledged=state.acknowledged - gone,
        told=state.told | {("loss", at.name, gone, count)} if gone else state.told,
        losses=state.losses + 1,
    )


def _most_lost(model: Model, record: Record, found: Pass) -> int:
    """Return how many reports may be lost.

    The last row that is there may be that of a commit that failed. Every other row is followed by one that the server
    chained to it, and a joined row was made of rows that were in the chain.
    """
    if not model.rules.forked_loss:
        return max(0, record.note.total - found.end.total)
    certain = found.end
    if found.rows and not found.rows[-1].end:
        certain = found.ends[-2] if len(found.ends) > 1 else EMPTY
    return max(1, record.note.total - certain.total)


# --- backups ------------------------------------------------------------------------------------------------------


def _backups(model: Model, state: State) -> Moves:
    """Copy the database once; put it back, and let the restore command, or a start, look at it."""
    if state.backup is None:
        if state.memory is not None:
            yield "copy the database", state._replace(backup=state.database)
        return
    back = state._replace(database=state.backup, memory=None, begun=None, backups=state.backups + 1)
    yield "put the copy back", back
    yield "put the copy back and restore", _restored(model, back)
    if model.bounds.journal_lost:
        yield "lose the journal, put the copy back and restore", _without_journal(model, back)


def _restored(model: Model, state: State) -> State:
    """Abandon every batch that lacks a line, and store again the releases whose step files are left."""
    for name in model.names:
        for at in addresses(model, state, name):
            record, row = state.records[at.place], row_of(state, at)
            columns = (record.state, record.inventory, record.cohort, record.rejected)
            if record.state == "open" or (row.state, row.inventory, row.cohort, row.rejected) == columns:
                continue
            ended = "released" if record.state == "released" else "abandoned"
            record = record._replace(state=ended)
            again = row._replace(
                state=ended, inventory=record.inventory, cohort=record.cohort, rejected=record.rejected
            )
            state = state._replace(
                records=put_record(state, at.place, record), database=put_batch(state.database, at.store_number, again)
            )
    return state


def _without_journal(model: Model, state: State) -> State:
    """Abandon every batch that the database knows, forget the others, and bar the tasks of before."""
    registered = frozenset(row.task_id for row in state.database.tasks if row is not None)
    known = {at.place for name in model.names for at in addresses(model, state, name)}
    records = tuple(
        record._replace(state="abandoned") if place in known else Record() for place, record in enumerate(state.records)
    )
    return state._replace(
        records=records,
        registered=registered,
        files=(),
        is_barred=True,
        database=state.database._replace(is_barred=True),
        acknowledged=frozenset(),
    )
