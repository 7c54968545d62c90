"""The design of `storage/steps.py`, `operating/starting.py` and `operating/restoring.py` as a machine, explored whole.

One server with its database, its key folder and a witness; uploads, closing and releases as the single writes that they
are made of; and, between any two of them, crashes, copies, restores of copies, losses and failovers. Secrets are left
out, since safety must not rest on them: a task's retention may keep them. So are the notes of what was stored, which
notice lost uploads and nothing else. `closed` stands for `closed` and `frozen`, which differ in what they store only.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Reports = frozenset[str]
Told = tuple[str, Reports, int]
"""What left the server of a task: which reports, and which draw of whatever is random in it."""


class Line(NamedTuple):
    """A journal line, with all that its step stores; two lines are equal only if their step files are."""

    state: str
    task: str
    reports: Reports
    draw: int


Head = tuple[Line, ...]
"""A chained digest tells as much as all lines before it."""


class Row(NamedTuple):
    """A task in the database."""

    state: Literal["open", "closing", "closed", "released", "abandoned"]
    reports: Reports = frozenset()
    listed: Reports = frozenset()
    draw: int = 0


class Data(NamedTuple):
    """The database; tasks that are not registered have no row."""

    rows: tuple[tuple[str, Row], ...]
    head: Head
    barred: bool

    def row(self, task: str) -> Row | None:
        return dict(self.rows).get(task)

    def put(self, task: str, row: Row, head: Head | None = None) -> "Data":
        rows = tuple(sorted((dict(self.rows) | {task: row}).items()))
        return Data(rows, self.head if head is None else head, self.barred)


class Keys(NamedTuple):
    """The key folder: journal and step files, each named by its line's number."""

    journal: Head
    files: frozenset[tuple[int, Line]]


class Flight(NamedTuple):
    """A step and which of its writes are done: 1 step file, 2 journal, 3 witness, 4 database, 5 answer."""

    line: Line
    before: str
    done: int = 0
    number: int = 0


class State(NamedTuple):
    """Everything; `process` is None while the server stands still."""

    data: Data | None
    keys: Keys | None
    witness: Head | None
    process: tuple[Flight, ...] | None
    data_copy: Data | None = None
    keys_copy: Keys | None = None
    told: frozenset[Told] = frozenset()
    acknowledged: frozenset[tuple[str, str]] = frozenset()
    draws: int = 0
    crashes: int = 0
    meddled: int = 0
    restores: int = 0
    keys_original: bool = True
    refused: bool = False


@dataclass(frozen=True)
class Rules:
    """Which rules hold; each off is a server that an attack, or a crash, breaks."""

    closing: bool = True
    step_files: bool = True
    condition: bool = True
    bar_old_tasks: bool = True
    one_step: bool = True
    witness: bool = True


@dataclass(frozen=True)
class Bounds:
    """How much happens in a run.

    Attributes:
        tasks: that may be registered.
        reports: that clients send, and that an attacker recorded.
        crashes: most crashes.
        meddling: most copies put back, losses and failovers.
        restores: most uses of the restore command.
        draws: most computations of a step.
        copy_keys: whether the key folder is copied, too, and lost.
        apart: whether the folders may be copied at two moments, or only as one snapshot.
    """

    tasks: tuple[str, ...] = ("t",)
    reports: tuple[str, ...] = ("a",)
    crashes: int = 1
    meddling: int = 1
    restores: int = 1
    draws: int = 3
    copy_keys: bool = False
    apart: bool = True


@dataclass
class Found:
    """The result of an exploration: how many states, and what is wrong, with the way there."""

    states: int
    wrong: str = ""
    trace: list[str] = field(default_factory=list)


def first(rules: Rules) -> State:
    """Return a new server that stands still."""
    head: Head = (Line("started", "", frozenset(), 0),)
    return State(Data((), head, barred=False), Keys(head, frozenset()), head if rules.witness else None, None)


def explore(rules: Rules, bounds: Bounds) -> Found:
    """Visit every state that can be reached; stop at the first wrong one."""
    begin = first(rules)
    came_from: dict[State, tuple[State, str] | None] = {begin: None}
    waiting = deque([begin])
    while waiting:
        state = waiting.popleft()
        if complaint := wrong(state):
            return Found(len(came_from), complaint, _trace(came_from, state))
        for name, following in moves(state, rules, bounds):
            if following not in came_from:
                came_from[following] = (state, name)
                waiting.append(following)
    return Found(len(came_from))


FINISH = "finish"
"""A name for all writes of the steps that are on their way."""


def follow(rules: Rules, bounds: Bounds, names: Sequence[str]) -> Found:
    """Take one way through the machine, named move by move.

    Raises:
        KeyError: with the rules as they are, there is no such move there.
    """
    state = first(rules)
    for name in names:
        if name != FINISH:
            state = dict(moves(state, rules, bounds))[name]
        while name == FINISH and (writes := [(n, s) for n, s in moves(state, rules, bounds) if ": " in n]):
            state = writes[0][1]
        if complaint := wrong(state):
            return Found(0, complaint, list(names))
    return Found(0)


def _trace(came_from: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    names = []
    while (step := came_from[state]) is not None:
        state, name = step
        names.append(name)
    return names[::-1]


def wrong(state: State) -> str:
    """Say what must never be, if it is."""
    if len(state.told) > 1 and any(a is not b and a[0] == b[0] and a[1] & b[1] for a in state.told for b in state.told):
        return "two releases share a report"
    if state.meddled == 0:
        if state.refused:
            return "a crash alone stops the server"
        for task, report in state.acknowledged:
            row = state.data.row(task) if state.data else None
            held = (
                frozenset[str]() if row is None else row.listed if row.state in ("closed", "released") else row.reports
            )
            if report not in held:
                return "an acknowledged report is lost without any restore"
    return ""


Moves = Iterator[tuple[str, State]]


def moves(state: State, rules: Rules, bounds: Bounds) -> Moves:
    """Yield every next state with the name of what leads to it."""
    if state.process is None:
        yield from _standing(state, rules, bounds)
    else:
        yield from _running(state, rules, bounds)
        if state.crashes < bounds.crashes:
            yield "crash", state._replace(process=None, crashes=state.crashes + 1)
    yield from _meddling(state, bounds)


def _meddling(state: State, bounds: Bounds) -> Moves:
    if bounds.copy_keys and not bounds.apart:
        if state.keys is not None and state.data is not None and state.data_copy is None:
            yield "snapshot", state._replace(data_copy=state.data, keys_copy=state.keys)
    elif bounds.meddling and state.data is not None and state.data_copy is None:
        yield "copy the database", state._replace(data_copy=state.data)
    if bounds.copy_keys and bounds.apart and state.keys is not None and state.keys_copy is None:
        yield "copy the key folder", state._replace(keys_copy=state.keys)
    if state.meddled >= bounds.meddling:
        return
    more = state._replace(meddled=state.meddled + 1)
    if state.data_copy is not None:
        name = "restore the database" if state.process is None else "fail over"
        yield name, more._replace(data=state.data_copy)
    if state.process is not None:
        return
    yield "lose the database", more._replace(data=None)
    if bounds.copy_keys:
        if state.keys_copy is not None and state.data_copy is not None:
            both = more._replace(data=state.data_copy, keys=state.keys_copy, keys_original=False)
            yield "set the whole machine back", both
        yield "lose the key folder", more._replace(keys=None, keys_original=False)
        if state.keys_copy is not None:
            yield "restore the key folder", more._replace(keys=state.keys_copy, keys_original=False)


# --- a server that stands still -----------------------------------------------------------------------------------


def _standing(state: State, rules: Rules, bounds: Bounds) -> Moves:
    started = _start(state, rules)
    if started is not None:
        yield "start", started
    elif not state.refused:
        yield "start refused", state._replace(refused=True)
    if state.restores < bounds.restores:
        yield from _restores(state._replace(restores=state.restores + 1), rules)


def _start(state: State, rules: Rules) -> State | None:
    """Compare the folders; return the running server, or None if it refuses."""
    data, keys = state.data, state.keys
    if data is None or keys is None:
        return None
    allowed: tuple[Head, ...] = (keys.journal,)
    ahead = len(keys.journal) - len(data.head)
    if keys.journal[: len(data.head)] != data.head or ahead > 1:
        return None
    if ahead == 1:
        allowed = (keys.journal, keys.journal[:-1])
        line = keys.journal[-1]
        if (len(keys.journal), line) not in keys.files:
            return None
        applied = _apply(data, line, keys.journal)
        if applied is None or (line.state == "closed" and data.put(line.task, Row("open")).row(line.task) is None):
            return None
        row = data.row(line.task)
        if line.state == "closed" and (row is None or row.reports != line.reports):
            return None
        data = applied
    if rules.witness and state.witness not in allowed:
        return None
    rows = tuple((task, row._replace(state="open") if row.state == "closing" else row) for task, row in data.rows)
    kept = frozenset((number, line) for number, line in keys.files if line.state == "released")
    started = Flight(Line("started", "", frozenset(), state.crashes + 10 * state.restores + 100 * state.meddled), "")
    return state._replace(
        data=data._replace(rows=rows), keys=keys._replace(files=kept),
        witness=keys.journal if rules.witness else None, process=(started,), refused=False,
    )  # fmt: skip


def _apply(data: Data, line: Line, head: Head) -> Data | None:
    """Apply a step to the database, on condition of the state that it leaves."""
    if not line.task:
        return data._replace(head=head)
    row = data.row(line.task)
    before = {"closed": ("closing", "open"), "released": ("closed",)}[line.state]
    if row is None or row.state not in before:
        return None
    changed = row._replace(
        state="closed" if line.state == "closed" else "released", listed=line.reports, draw=line.draw
    )
    return data.put(line.task, changed, head)


def _restores(state: State, rules: Rules) -> Moves:
    keys, data = state.keys, state.data or Data((), (), barred=False)
    if keys is not None and keys.journal[: len(data.head)] == data.head:
        witnessed = rules.witness and state.witness in (keys.journal, keys.journal[:-1])
        if witnessed or not rules.witness:
            yield "restore", _restored(state, data, keys, keys.journal, rules, trusted=witnessed)
            if state.keys_original and not rules.witness:
                yield "restore, never copied", _restored(state, data, keys, keys.journal, rules, trusted=True)
    known = keys or Keys((), frozenset())
    fresh = (Line("new", "", frozenset(), state.restores),)
    yield "restore, journal lost", _restored(state, data, known, fresh, rules, trusted=False)


def _restored(state: State, data: Data, keys: Keys, journal: Head, rules: Rules, *, trusted: bool) -> State:
    last = {line.task: _of(keys.journal, line.task)[0] for line in keys.journal if line.task}
    missing = {line.task for line in keys.journal[len(data.head) :]}
    rows = dict(data.rows)
    for task in last.keys() - rows.keys():
        rows[task] = Row("abandoned")
    given_up = []
    for task, row in rows.items():
        number, line = last.get(task, (0, None))
        if line is not None and line.state == "released" and (number, line) in keys.files and row.state != "released":
            rows[task] = row._replace(state="released", listed=line.reports, draw=line.draw)
        elif row.state in ("released", "abandoned"):
            continue
        elif not trusted or task in missing or (line is not None and line.state in ("released", "abandoned")):
            rows[task] = row._replace(state="abandoned")
            given_up.append(Line("abandoned", task, frozenset(), 0))
    head = (*journal, *given_up, Line("restored", "", frozenset(), state.restores))
    whole = Data(tuple(sorted(rows.items())), head, barred=rules.bar_old_tasks)
    # The command's own writes come in the order journal, witness, database; a crash between is an older database.
    return state._replace(
        data=whole, keys=Keys(head, keys.files), witness=head if rules.witness else None, refused=False
    )


def _of(journal: Head, task: str) -> tuple[tuple[int, Line | None], str | None]:
    """Return the line that says what became of a task, with its number and state: the first final one, or the last."""
    lines = [(number, line) for number, line in enumerate(journal, 1) if line.task == task]
    final = [found for found in lines if found[1].state in ("released", "abandoned")]
    found = (final or lines[-1:] or [None])[0]
    return ((0, None), None) if found is None else (found, found[1].state)


# --- a running server ---------------------------------------------------------------------------------------------


def _running(state: State, rules: Rules, bounds: Bounds) -> Moves:
    data, flights = state.data, state.process
    assert data is not None
    assert flights is not None
    for index, flight in enumerate(flights):
        yield from _write(state, flights, index, flight, rules)
    if any(flight.line.state == "started" for flight in flights):
        return
    busy = {flight.line.task for flight in flights}
    for task in bounds.tasks:
        row = data.row(task)
        if row is None:
            if not data.barred:
                yield f"register {task}", state._replace(data=data.put(task, Row("open")))
            continue
        if row.state == "open":
            for report in bounds.reports:
                if report not in row.reports:
                    stored = data.put(task, row._replace(reports=row.reports | {report}))
                    acknowledged = state.acknowledged | {(task, report)}
                    yield f"upload {report} to {task}", state._replace(data=stored, acknowledged=acknowledged)
            if rules.closing and row.reports:
                yield f"stop uploads to {task}", state._replace(data=data.put(task, row._replace(state="closing")))
        if row.state == "released":
            yield f"ask for {task}", state._replace(told=state.told | {(task, row.listed, row.draw)})
        if task in busy or state.draws >= bounds.draws or not row.reports:
            continue
        before = {"closing": "closed", "closed": "released"} | ({} if rules.closing else {"open": "closed"})
        if row.state in before:
            reports = row.listed if row.state == "closed" else row.reports
            flight = Flight(Line(before[row.state], task, reports, state.draws + 1), row.state)
            yield (
                f"compute {flight.line.state} {task}",
                state._replace(draws=state.draws + 1, process=(*flights, flight)),
            )


def _write(state: State, flights: tuple[Flight, ...], index: int, flight: Flight, rules: Rules) -> Moves:
    """Do the next write of a step, or end the process where it must not go on."""
    data, keys, line = state.data, state.keys, flight.line
    assert data is not None
    assert keys is not None

    def on(changed: Flight | None, **changes: object) -> State:
        others = flights[:index] + ((changed,) if changed else ()) + flights[index + 1 :]
        return state._replace(process=others, **changes)

    name = f"{line.state} {line.task}".strip()
    halted = state._replace(process=None)
    if flight.done == 0:
        if rules.one_step and any(0 < other.done < 4 for other in flights):
            return
        row = data.row(line.task)
        if line.task and (row is None or row.state != flight.before):
            yield f"{name}: too late", on(None)
        elif line.task and _of(keys.journal, line.task)[1] not in (None, flight.before):
            yield f"{name}: halted by the journal", halted
        elif rules.witness and rules.one_step and state.witness != keys.journal:
            yield f"{name}: halted by the witness", halted
        else:
            number = len(keys.journal) + 1
            file = {(number, line)} if rules.step_files else set()
            yield (
                f"{name}: step file",
                on(flight._replace(done=1, number=number), keys=keys._replace(files=keys.files | file)),
            )
    elif flight.done == 1:
        written = flight._replace(done=2, number=len(keys.journal) + 1)
        yield f"{name}: journal", on(written, keys=keys._replace(journal=(*keys.journal, line)))
    elif flight.done == 2:
        if rules.witness and rules.one_step and state.witness != keys.journal[:-1]:
            yield f"{name}: halted by the witness", halted
        else:
            yield f"{name}: witness", on(flight._replace(done=3), witness=keys.journal if rules.witness else None)
    elif flight.done == 3:
        after = keys.journal[: flight.number]
        applied = _apply(data, line, after)
        if applied is None or (rules.condition and data.head != after[:-1]):
            yield f"{name}: halted by the database", halted
        else:
            yield f"{name}: database", on(flight._replace(done=4), data=applied)
    elif flight.done == 4:
        told = state.told | ({(line.task, line.reports, line.draw)} if line.state == "released" else set())
        kept = keys.files if line.state == "released" else keys.files - {(flight.number, line)}
        yield f"{name}: answer, step file removed", on(None, told=told, keys=keys._replace(files=kept))
