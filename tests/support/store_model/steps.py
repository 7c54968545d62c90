"""The steps of a batch on a running server: closed, frozen, checked, judged, released; and the looks before."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from support.store_model.reading import (
    Address,
    Places,
    addresses,
    data_key,
    fits,
    held,
    opened,
    read,
    row_of,
    same_end,
    standing,
    with_held,
)
from support.store_model.state import CUT, Begun, Ids, Model, Name, Record, Segment, State, text_of
from support.store_model.uploads import Moves, put_batch, put_record


def moves(model: Model, state: State, places: Places) -> Moves:
    """Yield the steps that the hostile analyzer may ask for."""
    for name, found in places.items():
        for at in found:
            yield from _close(model, state, [at])
            if model.bounds.merged and name[1] == 1:
                for other in places[name[0], 0]:
                    yield from _close(model, state, [other, at])
            yield from _freeze(model, state, at)
            yield from _check(model, state, at)
            yield from _judge(model, state, at)
            yield from _release(model, state, at)
            if model.bounds.looks:
                yield from _look(model, state, at)
    if model.bounds.looks and state.unit == 0:
        yield "the next time unit begins", state._replace(unit=1)


def _step(model: Model, state: State, at: Address, record: Record) -> State:
    """Write the line of a step, then its columns."""
    row = row_of(state, at)._replace(
        state=record.state, inventory=record.inventory, cohort=record.cohort, rejected=record.rejected
    )
    kept = state.records[at.place]._replace(
        state=record.state,
        first=record.first,
        inventory=record.inventory,
        cohort=record.cohort,
        rejected=record.rejected,
    )
    return state._replace(
        database=put_batch(state.database, at.store_number, row), records=put_record(state, at.place, kept)
    )


def _close(model: Model, state: State, members: Sequence[Address]) -> Moves:
    """Sign the inventory of a batch, or of two windows together: each chain ends where memory says."""
    ids: Ids = ()
    for at in members:
        end = held(model, state, at)
        if end == CUT or not data_key(model, state, at) or standing(model, state, at).state != "open":
            return
        found = read(model, state, at)
        if not found.is_whole or not same_end(model, end, found.end):
            return
        ids += found.ids
    if not ids:
        return
    last, ids = members[-1], tuple(sorted(ids))
    following = state
    for at in members[:-1]:
        merged = following.records[at.place]._replace(state="merged" if model.rules.merged_state else "open")
        following = following._replace(
            records=put_record(following, at.place, merged), memory=with_held(model, following, at, CUT)
        )
        row = row_of(following, at)._replace(state="merged")
        following = following._replace(database=put_batch(following.database, at.store_number, row))
    record = standing(model, following, last)
    record = record._replace(state="closed", first=members[0].name[1], inventory=ids, cohort=None, rejected=None)
    of = tuple(at.name for at in members)
    yield (
        f"close {text_of(last.name)} with {_reports(ids)}" + (", merged" if len(members) > 1 else ""),
        _step(model, following, last, record)._replace(told=state.told | {("inventory", of, ids)}),
    )


def _freeze(model: Model, state: State, at: Address) -> Moves:
    """Freeze a cohort: other servers' lists are the adversary's, so any part of the own one that is large enough."""
    record = standing(model, state, at)
    if record.state != "closed" or not fits(model, state, at, "inventory"):
        return
    own = record.inventory or ()
    for size in range(1, len(own) + 1):
        if not _enough(model, state, at, size):
            continue
        for cohort in combinations(own, size):
            yield (
                f"freeze {text_of(at.name)} with {_reports(cohort)}",
                _step(model, state, at, record._replace(state="frozen", cohort=cohort)),
            )


def _enough(model: Model, state: State, at: Address, size: int) -> bool:
    """Return whether few enough of this server's own reports are missing (R9)."""
    lost = sum(state.records[each.place].lost for each in _members(model, state, at))
    own = len(standing(model, state, at).inventory or ()) + (lost if model.rules.lost_counted else 0)
    return own - size <= model.bounds.max_missing


def _check(model: Model, state: State, at: Address) -> Moves:
    """Give out the check share: a function of the stored shares, at a seed that follows from the cohort."""
    record = standing(model, state, at)
    if at.name[0] not in model.bounds.verified or record.state != "frozen" or not fits(model, state, at, "cohort"):
        return
    for members in _ways(model, state, at):
        passes = [read(model, state, each) for each in members]
        shares = _shares(model, state, members, record.cohort or (), [each.rows for each in passes])
        if shares is not None and all(each.is_whole for each in passes):
            told = ("check", at.name, record.cohort, shares)
            following = _step(model, state, at, record._replace(state="checked"))
            yield f"check {text_of(at.name)}", following._replace(told=state.told | {told})


def _judge(model: Model, state: State, at: Address) -> Moves:
    """Come to a verdict: hostile servers fail whom they like."""
    record = standing(model, state, at)
    if record.state != "checked" or not fits(model, state, at, "cohort"):
        return
    cohort = record.cohort or ()
    for rejected in ((), *((each,) for each in cohort if len(cohort) > 1)):
        yield (
            f"judge {text_of(at.name)}, {_reports(rejected)} rejected",
            _step(model, state, at, record._replace(state="judged", rejected=rejected)),
        )


def _release(model: Model, state: State, at: Address) -> Moves:
    """Release the accepted reports: the gate checks all marks, and workers then read the payloads."""
    record, is_verified = standing(model, state, at), at.name[0] in model.bounds.verified
    columns = ("cohort", "rejected") if is_verified else ("cohort",)
    if record.state != ("judged" if is_verified else "frozen") or not fits(model, state, at, *columns):
        return
    accepted = tuple(each for each in record.cohort or () if each not in (record.rejected or ()))
    if state.begun is not None and state.begun.name != at.name:
        return
    for members in _ways(model, state, at):
        if state.begun is not None:
            checked = state.begun.rows
        else:
            passes = [read(model, state, each) for each in members]
            if not all(each.is_whole for each in passes):
                continue
            checked = tuple(each.rows for each in passes)
            if model.bounds.pauses:
                yield f"begin to release {text_of(at.name)}", state._replace(begun=Begun(at.name, checked))
                continue
        shares = _shares(model, state, members, accepted, checked)
        if shares is not None:
            earlier = sum(each[:2] == ("release", at.name) for each in state.told)
            told = ("release", at.name, at.promise, accepted, shares, earlier)
            following = _step(model, state, at, record._replace(state="released"))
            yield (
                f"release {text_of(at.name)}: {_reports(shares)}",
                following._replace(told=state.told | {told}, begun=None),
            )


def _shares(
    model: Model, state: State, members: Sequence[Address], wanted: Ids, checked: Sequence[Sequence[Segment]]
) -> Ids | None:
    """Return whose shares stand where the checked rows show the reports of a cohort; None if something does not fit."""
    places: Ids = ()
    shares: Ids = ()
    for at, rows in zip(members, checked, strict=True):
        key, stored = data_key(model, state, at), state.database.segments[at.store_number]
        if len(stored) != len(rows):
            return None
        for row, now in zip(rows, stored, strict=True):
            reports = opened(model, at, key, now, row.mark if model.rules.marks_kept else now.mark)
            if reports is None or len(reports) != len(row.ids):
                return None
            chosen = [place for place, each in enumerate(row.ids) if each in wanted]
            places += tuple(row.ids[place] for place in chosen)
            shares += tuple(reports[place] for place in chosen)
    return tuple(sorted(shares)) if sorted(places) == sorted(wanted) else None


def _look(model: Model, state: State, at: Address) -> Moves:
    """Tell how many reports there are, once a time unit, as memory and the row of `looks` know."""
    database, (told_at, began_in) = state.database, state.looked
    if state.unit <= max(database.look, told_at) or (model.rules.look_after_start and state.unit <= began_in):
        return
    look = ("look", state.unit, state.restarts)
    yield (
        f"look in unit {state.unit}",
        state._replace(
            database=database._replace(look=state.unit), looked=(state.unit, began_in), told=state.told | {look}
        ),
    )


def _members(model: Model, state: State, at: Address) -> list[Address]:
    """Return the batches that were closed together, the last one last; only names and places are needed."""
    first = state.records[at.place].first
    names: list[Name] = [(at.name[0], number) for number in range(first, at.name[1])] if first < at.name[1] else []
    return [Address(name, model.places[name], -1, "") for name in names if name in model.places] + [at]


def _ways(model: Model, state: State, at: Address) -> Iterator[tuple[Address, ...]]:
    """Yield where the database may say that the batches are that were closed together."""
    others = [addresses(model, state, member.name) for member in _members(model, state, at)[:-1]]
    for chosen in product(*others):
        yield (*chosen, at)


def _reports(ids: Ids) -> str:
    return "".join(ids) or "none"
