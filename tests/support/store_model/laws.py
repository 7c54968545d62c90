"""What must never be, and the exploration of every state that can be reached."""

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from support.store_model import editing, operating, reading, steps, uploads
from support.store_model.state import BREACHES, Bounds, Breach, Ids, Model, Name, Rules, State


@dataclass
class Found:
    """The result of an exploration: how many states, what is wrong, and the shortest way there."""

    states: int
    breach: Breach | None = None
    way: list[str] = field(default_factory=list)


Way = tuple["Way", str] | None


def explore(rules: Rules, bounds: Bounds, heard: Collection[Breach] = BREACHES) -> Found:
    """Visit every state that can be reached; stop at the first breach.

    Args:
        rules: which hold.
        bounds: how much may happen.
        heard: the breaches that are looked for. All others may be, and what is behind them is visited.
    """
    model = Model(rules, bounds)
    begin = model.first()
    # A state is remembered by its hash of 64 bits: of a million states two have the same with probability 3e-8.
    seen = {hash(begin)}
    waiting: deque[tuple[State, Way]] = deque([(begin, None)])
    while waiting:
        state, way = waiting.popleft()
        for name, following in _moves(model, state):
            number = hash(following)
            if number in seen:
                continue
            seen.add(number)
            has_spoken = following.told != state.told or following.acknowledged != state.acknowledged
            found = [each for each in breaches(model, following) if each in heard] if has_spoken else []
            if found:
                return Found(len(seen), found[0], _names((way, name)))
            waiting.append((following, (way, name)))
    return Found(len(seen))


def _moves(model: Model, state: State) -> uploads.Moves:
    if state.memory is not None:
        places = reading.places(model, state)
        yield from uploads.moves(model, state, places)
        yield from steps.moves(model, state, places)
    yield from operating.moves(model, state)
    yield from editing.moves(model, state)


def _names(way: Way) -> list[str]:
    names: list[str] = []
    while way is not None:
        way, name = way
        names.append(name)
    return names[::-1]


def breaches(model: Model, state: State) -> Iterator[Breach]:
    """Yield what must never be, but is."""
    told: dict[str, list[Any]] = {}
    for kind, *rest in state.told:
        told.setdefault(str(kind), []).append(tuple(rest))
    releases = told.get("release", [])
    if any(set(one[3]) & set(other[3]) for one, other in combinations(releases, 2)):
        yield "second release"
    for name, promise, accepted, shares, _ in releases:
        yield from _of_release(model, state, name, promise, accepted, shares)
    for one, other in combinations(told.get("check", []), 2):
        if set(one[2]) & set(other[2]) and one[:2] != other[:2]:
            yield "second check"
    for names, ids in told.get("inventory", []):
        yield from _of_inventory(model, state, names, ids)
    if any(len(gone) > count for _, gone, count in told.get("loss", [])):
        yield "silent loss"
    if any(model.batch_of[report][0] in model.bounds.refused for report in state.acknowledged):
        yield "another promise"
    units = [unit for unit, _ in told.get("look", [])]
    if len(units) != len(set(units)):
        yield "second look"


def _of_release(model: Model, state: State, name: Name, promise: str, accepted: Ids, shares: Ids) -> Iterator[Breach]:
    if any(model.batch_of[report][0] != promise for report in shares):
        yield "another promise"
    record = state.records[model.places[name]]
    frozen = set(record.cohort or ()) - set(record.rejected or ())
    if shares != tuple(sorted(accepted)) or (record.cohort is not None and frozen != set(accepted)):
        yield "other cohort"
    of = {(name[0], number) for number in range(record.first, name[1] + 1)}
    own = {report for report in state.ever if model.batch_of[report] in of}
    if len(own) - len(record.cohort or accepted) > model.bounds.max_missing:
        yield "too many left out"


def _of_inventory(model: Model, state: State, names: tuple[Name, ...], ids: Ids) -> Iterator[Breach]:
    sent = {report for report, name in model.bounds.sent if name in names}
    if len(set(ids)) != len(ids) or not set(ids) <= sent & state.came:
        yield "false word"
    if not state.acknowledged & sent <= set(ids):
        yield "silent loss"
    if len(model.bounds.same_token & set(ids)) > 1:
        yield "token spent twice"
