"""What an edited database gains, explored whole: `support.store_model` says what the machine and its adversary do.

With all rules on nothing is found. Each rule that is off is found to be needed, so the exploration does look there.
"""

import dataclasses
from functools import cache

import pytest

from support.store_model import BREACHES, Bounds, Breach, Found, Rules, explore

ALONE = (("a", ("A", 0)),)
TWO = (("a", ("A", 0)), ("b", ("A", 0)))
THREE = (*TWO, ("c", ("A", 0)))
TWO_TASKS = (("a", ("A", 0)), ("c", ("B", 0)))
WINDOWS = (("a", ("A", 0)), ("b", ("A", 1)))
REFUSED = (("a", ("A", 0)), ("f", ("F", 0)))
VERIFIED = frozenset({"A"})
ONE_TOKEN = frozenset({"b", "c"})

WORLDS = {
    "two tasks": Bounds(sent=(*TWO, ("c", ("B", 0)))),
    "a task that policy refuses": Bounds(sent=(*TWO_TASKS, ("f", ("F", 0)))),
    "failed commits and deaths": Bounds(sent=TWO, failures=1, deaths=1, restarts=2),
    "losses": Bounds(sent=TWO, failures=1, losses=2, restarts=2, max_missing=0),
    "losses of three": Bounds(sent=THREE, failures=1, losses=1),
    "losses in two tasks": Bounds(sent=TWO_TASKS, losses=1),
    "joined rows": Bounds(sent=THREE, joins=True, losses=1),
    "merged windows": Bounds(sent=WINDOWS, merged=True, restarts=2, losses=1),
    "checks": Bounds(sent=TWO, verified=VERIFIED),
    "edits within a release": Bounds(sent=TWO, verified=VERIFIED, pauses=True, joins=True, restarts=0),
    "migration": Bounds(sent=TWO, old_schema=True, failures=1, restarts=2),
    "tokens": Bounds(sent=THREE, same_token=ONE_TOKEN, failures=1, losses=1),
    "backups": Bounds(sent=TWO, backups=1, losses=1),
    "a lost journal": Bounds(sent=ALONE, backups=1, journal_lost=True, late_windows=True),
    "looks": Bounds(sent=ALONE, looks=True, restarts=2),
}
"""What may happen beside the edits. Each world has what belongs together: all at once would be too many states."""

LARGE_WORLDS = {
    "joined rows after failed commits": Bounds(sent=THREE, failures=1, joins=True, edits=2),
    "nearly all at once": Bounds(sent=THREE, failures=1, deaths=1, joins=True, losses=1, old_schema=True, pauses=True),
}

NEEDED: tuple[tuple[str, Breach, Bounds], ...] = (
    ("definition_hash", "another promise", Bounds(sent=TWO_TASKS, restarts=0)),
    ("registered_line", "another promise", Bounds(sent=REFUSED, restarts=0)),
    ("associated_data", "false word", Bounds(sent=TWO_TASKS)),
    ("associated_data", "another promise", Bounds(sent=TWO_TASKS)),
    ("caches", "silent loss", Bounds(sent=(*TWO, ("c", ("B", 0))), restarts=0)),
    ("columns", "second release", Bounds(sent=TWO, restarts=0)),
    ("columns", "second check", Bounds(sent=TWO, restarts=0, verified=VERIFIED)),
    ("columns", "other cohort", Bounds(sent=TWO, restarts=0)),
    ("opened_once", "silent loss", Bounds(sent=TWO, restarts=0)),
    ("merged_state", "second release", Bounds(sent=WINDOWS, merged=True, edits=0)),
    ("marks", "false word", Bounds(sent=ALONE, restarts=0)),
    ("marks", "silent loss", Bounds(sent=TWO, restarts=0)),
    ("marks", "other cohort", Bounds(sent=TWO, restarts=0, edits=2)),
    ("chain", "silent loss", Bounds(sent=TWO, failures=1)),
    ("marks_kept", "other cohort", Bounds(sent=TWO, restarts=0, pauses=True)),
    ("joined_marks", "false word", Bounds(sent=TWO, restarts=0, joins=True)),
    ("joined_marks", "silent loss", Bounds(sent=TWO, restarts=0, joins=True)),
    ("pass_ends", "silent loss", Bounds(sent=TWO, restarts=0, failures=1, edits=2)),
    ("pass_ends", "token spent twice", Bounds(sent=THREE, restarts=0, same_token=ONE_TOKEN, edits=2)),
    ("whole_lookups", "false word", Bounds(sent=TWO, restarts=0, failures=1, edits=2)),
    ("notes", "silent loss", Bounds(sent=TWO)),
    ("note_values", "silent loss", Bounds(sent=TWO, failures=1)),
    ("noted_start", "silent loss", Bounds(sent=TWO, deaths=1)),
    ("migrated_line", "false word", Bounds(sent=ALONE, old_schema=True, edits=2)),
    ("migrated_line", "silent loss", Bounds(sent=TWO, old_schema=True, edits=2)),
    ("lost_counted", "too many left out", Bounds(sent=TWO, losses=1, max_missing=0)),
    ("forked_loss", "silent loss", Bounds(sent=TWO, losses=1, failures=1)),
    ("forked_loss", "too many left out", Bounds(sent=THREE, losses=1, failures=1)),
    ("barred_line", "second release", Bounds(sent=ALONE, restarts=0, backups=1, journal_lost=True, late_windows=True)),
    ("look_after_start", "second look", Bounds(sent=ALONE, looks=True)),
)
"""Each rule, what happens without it, and where."""

POWER_CUTS = Bounds(sent=TWO, power_cuts=1, failures=1, joins=True)
HIDDEN: frozenset[Breach] = frozenset({"silent loss", "too many left out"})


@cache
def with_all_rules(bounds: Bounds) -> Found:
    """Explore a world, or remember what was found there."""
    return explore(Rules(), bounds)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.grid(3)
def test_one_edit_of_the_database_gains_nothing(world: str) -> None:
    found = with_all_rules(WORLDS[world])
    assert found.breach is None, found.way
    assert found.states > 500


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [*WORLDS.values(), *LARGE_WORLDS.values()], ids=[*WORLDS, *LARGE_WORLDS])
def test_two_edits_gain_nothing_either(bounds: Bounds) -> None:
    found = explore(Rules(), bounds if bounds in LARGE_WORLDS.values() else dataclasses.replace(bounds, edits=2))
    assert found.breach is None, found.way
    assert found.states > 10_000


@pytest.mark.parametrize(("rule", "breach", "bounds"), NEEDED, ids=[f"{rule}: {breach}" for rule, breach, _ in NEEDED])
@pytest.mark.grid(2)
def test_without_a_rule_its_attack_is_found_and_with_it_none(rule: str, breach: Breach, bounds: Bounds) -> None:
    found = explore(dataclasses.replace(Rules(), **{rule: False}), bounds, {breach})
    assert found.breach == breach
    assert with_all_rules(bounds).breach is None


def test_every_rule_is_needed() -> None:
    assert {rule for rule, _, _ in NEEDED} == {each.name for each in dataclasses.fields(Rules)}


def test_after_a_power_cut_an_editor_hides_the_last_commit_and_gains_nothing_else() -> None:
    assert explore(Rules(), POWER_CUTS).breach == "silent loss"
    found = explore(Rules(), POWER_CUTS, BREACHES - HIDDEN)
    assert found.breach is None, found.way
