"""How the server finds a batch and reads its segments: the rules of reading."""

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, cast

from support.store_model.state import EMPTY, BatchRow, End, Held, Ids, Model, Name, Pass, Record, Segment, State


class Address(NamedTuple):
    """A batch that was asked for and where the database says that it is; `promise` is the definition that is used."""

    name: Name
    place: int
    store_number: int
    promise: str


Places = dict[Name, list[Address]]


def places(model: Model, state: State) -> Places:
    """Return where each batch may be found."""
    return {name: list(addresses(model, state, name)) for name in model.names}


def addresses(model: Model, state: State, name: Name) -> Iterator[Address]:
    """Yield where a batch may be found: if several rows fit, the adversary chooses which one the database returns."""
    rules, task_id = model.rules, name[0]
    if rules.registered_line and task_id not in state.registered:
        return
    rows = state.database.batches
    for key, task in enumerate(state.database.tasks):
        if task is None or task.task_id != task_id or (rules.definition_hash and task.definition != task_id):
            continue
        for number, row in enumerate(rows):
            if row is not None and row.task == key and row.number == name[1]:
                yield Address(name, model.places[name], number, task.definition)


def standing(model: Model, state: State, at: Address) -> Record:
    """Return state and columns of a batch as they are used: those of the journal, or of the row."""
    record = state.records[at.place]
    if model.rules.columns:
        return record
    row = row_of(state, at)
    return record._replace(state=row.state, inventory=row.inventory, cohort=row.cohort, rejected=row.rejected)


def fits(model: Model, state: State, at: Address, *columns: str) -> bool:
    """Return whether columns that are to be used are there, and are those of the journal lines that set them."""
    row, record = row_of(state, at), standing(model, state, at)
    return all(
        getattr(row, column) is not None and getattr(row, column) == getattr(record, column) for column in columns
    )


def row_of(state: State, at: Address) -> BatchRow:
    """Return the row of a batch that was found."""
    row = state.database.batches[at.store_number]
    assert row is not None
    return row


def identity(model: Model, at: Address) -> Name | int:
    """Return what key files and associated data name a batch by."""
    return at.name if model.rules.associated_data else at.store_number


def data_key(model: Model, state: State, at: Address) -> int:
    """Return the data key of a batch; 0 if there is none."""
    return dict(state.files).get(identity(model, at), 0)


def held(model: Model, state: State, at: Address) -> End:
    """Return where memory says that a batch ends."""
    assert state.memory is not None
    of = cache_key(model, at)
    for each in state.memory:
        if each.of == of:
            return each.end
    return state.records[at.place].note if model.rules.notes else EMPTY


def cache_key(model: Model, at: Address) -> Name | int:
    """Return what memory knows a batch by."""
    return at.name if model.rules.caches else at.store_number


def with_held(model: Model, state: State, at: Address, end: End, stored: Sequence[Segment] = ()) -> tuple[Held, ...]:
    """Return the memory with another end of a batch, and with rows that were stored entered in its table."""
    of = cache_key(model, at)
    others = tuple(each for each in state.memory or () if each.of != of)
    before = next((each.table for each in state.memory or () if each.of == of), ())
    return tuple(sorted((*others, Held(of, end, before + table_of(model, stored))), key=str))


def table_of(model: Model, rows: Sequence[Segment]) -> tuple[tuple[str, int], ...]:
    """Return the table of some rows; nothing if no lookup rests on it."""
    return () if model.rules.whole_lookups else tuple((report, row.last) for row in rows for report in row.ids)


def here(model: Model, state: State, at: Address, end: End) -> Ids | None:
    """Return the reports that a new one is compared with; None if the process stops."""
    found = read(model, state, at)
    if model.rules.whole_lookups:
        is_true = found.is_whole and (not model.rules.pass_ends or same_end(model, end, found.end))
        return found.ids if is_true else None
    rows = {row.last: row.ids for row in found.rows}
    table = next((each.table for each in state.memory or () if each.of == cache_key(model, at)), ())
    if any(last not in rows for _, last in table):
        return None
    return tuple(report for report, last in table if report in rows[last])


def read(model: Model, state: State, at: Address) -> Pass:
    """Read the segments of a batch in order, and check their marks."""
    key, stored = data_key(model, state, at), state.database.segments[at.store_number]
    # What a pass finds never changes: a tag that is made later has a new number.
    known = model.passes.get((stored, key, identity(model, at)))
    if known is None:
        known = model.passes[stored, key, identity(model, at)] = _read(model, at, key, stored)
    return known


def _read(model: Model, at: Address, key: int, stored: tuple[Segment, ...]) -> Pass:
    rows: list[Segment] = []
    ids: Ids = ()
    ends: list[End] = []
    before = EMPTY
    for row in stored:
        if model.rules.marks and (row.last <= before.last or tag(model, at, key, before, row) != row.mark):
            return Pass(tuple(rows), ids, tuple(ends), is_whole=False)
        rows.append(row)
        ids += row.ids
        before = after(model, before, row)
        ends.append(before)
    return Pass(tuple(rows), ids, tuple(ends), is_whole=True)


def after(model: Model, before: End, row: Segment) -> End:
    """Return where a batch ends behind a row; without marks there is no chain value."""
    value = (row.end or row.mark) if model.rules.marks else 0
    return End(before.total + len(row.ids), value, row.last)


def tag(model: Model, at: Address, key: int, before: End, row: Segment) -> int:
    """Return the tag that a row must have behind another; 0 if the server never made it."""
    return model.symbols.known(marked(model, at, key, before, row))


def marked(model: Model, at: Address, key: int, before: End, row: Segment) -> Hashable:
    """Return what a row's tag is made of."""
    chain = before.value if model.rules.chain else 0
    total = before.total + len(row.ids)
    return ("mark", key, identity(model, at), before.last + 1, row.last, before.total, total, chain, row.end, row.ids)


def same_end(model: Model, one: End, other: End) -> bool:
    """Return whether two ends are the same as far as the rules look."""
    return one.total == other.total and (not model.rules.note_values or one.value == other.value)


def sealed(model: Model, at: Address, key: int, row: Segment, reports: Ids) -> int:
    """Encrypt the payloads of a row's reports."""
    return model.symbols.make(("payloads", key, _associated(model, at, row.last, row.mark), reports))


def opened(model: Model, at: Address, key: int, row: Segment, mark: int) -> Ids | None:
    """Decrypt the payloads of a row under a mark, and say whose they are; None if they do not open."""
    kind, other, associated, reports = cast("tuple[str, int, Hashable, Ids]", model.symbols.content(row.payloads))
    if kind != "payloads" or other != key or associated != _associated(model, at, row.last, mark):
        return None
    return reports if len(reports) == len(row.ids) else None


def _associated(model: Model, at: Address, last: int, mark: int) -> Hashable:
    return mark if model.rules.marks else (identity(model, at), last)
