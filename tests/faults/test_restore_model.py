"""The design of restores is explored whole: whatever happens between any two writes, no report is released twice.

And it rests on each of its rules: with one of them off, the same exploration finds what goes wrong.
"""

import pytest

from support.restore_model import FINISH, Bounds, Rules, explore, follow

CRASHES = Bounds(reports=("a", "b"), crashes=2, meddling=0, restores=0)
TWO_TASKS = Bounds(tasks=("t", "u"), crashes=1, meddling=0, restores=0, draws=2)
COPIES = Bounds()
SNAPSHOTS = Bounds(copy_keys=True, apart=False)

TWICE = "two releases share a report"
LOST = "an acknowledged report is lost without any restore"
STOPPED = "a crash alone stops the server"

CLOSE = ("register t", "upload a to t", "stop uploads to t", "compute closed t", FINISH)
RELEASE = ("compute released t", FINISH)
START = ("start", FINISH)
SET_BACK = ("crash", "set the whole machine back")
ATTACKS = {
    # A snapshot of the machine from before the release, put back after it.
    "witness": (*START, *CLOSE, "snapshot", *RELEASE, *SET_BACK, *START, *RELEASE),
    # A snapshot from before the task was registered; afterwards it is registered again, and recorded uploads are sent.
    "bar_old_tasks": (
        *START, "snapshot", *CLOSE, *RELEASE, *SET_BACK, "restore, journal lost", *START, *CLOSE, *RELEASE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("bounds", [CRASHES, TWO_TASKS], ids=["two reports", "two tasks"])
@pytest.mark.parametrize("witness", [True, False], ids=["witness", "no witness"])
def test_crashes_alone_stop_no_server_and_lose_no_report(bounds: Bounds, witness: bool) -> None:
    found = explore(Rules(witness=witness), bounds)
    assert found.wrong == "", found.trace
    assert found.states > 500


@pytest.mark.parametrize("witness", [True, False], ids=["witness", "no witness"])
def test_copies_losses_restores_and_failovers_of_the_database_release_nothing_twice(witness: bool) -> None:
    found = explore(Rules(witness=witness), COPIES)
    assert found.wrong == "", found.trace
    assert found.states > 10_000


@pytest.mark.slow
def test_with_a_witness_neither_do_snapshots_and_losses_of_the_key_folder() -> None:
    found = explore(Rules(), SNAPSHOTS)
    assert found.wrong == "", found.trace
    assert found.states > 10_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "bounds"),
    [
        (Rules(witness=False), Bounds(crashes=2)),
        (Rules(), Bounds(crashes=2)),
        (Rules(), Bounds(copy_keys=True, draws=4)),
        (Rules(), Bounds(copy_keys=True, apart=False, draws=4, crashes=2)),
    ],
    ids=["no witness, two crashes", "two crashes", "folders copied apart", "snapshots, two crashes"],
)
def test_larger_bounds_find_nothing_either(rules: Rules, bounds: Bounds) -> None:
    found = explore(rules, bounds)
    assert found.wrong == "", found.trace


@pytest.mark.parametrize(
    ("rules", "bounds", "wrong"),
    [
        (Rules(closing=False), CRASHES, LOST),
        (Rules(step_files=False), CRASHES, STOPPED),
        (Rules(one_step=False), TWO_TASKS, STOPPED),
        (Rules(condition=False, witness=False), COPIES, TWICE),
    ],
    ids=["closing", "step files", "one step at a time", "conditional commit"],
)
@pytest.mark.slow
def test_without_a_rule_the_exploration_fails(rules: Rules, bounds: Bounds, wrong: str) -> None:
    assert explore(rules, bounds).wrong == wrong


@pytest.mark.parametrize("rule", ATTACKS)
def test_without_a_rule_an_attack_works_and_with_it_there_is_no_such_way(rule: str) -> None:
    bounds = Bounds(copy_keys=True, apart=False, draws=4)
    off = Rules(witness=False) if rule == "witness" else Rules(bar_old_tasks=False)
    assert follow(off, bounds, ATTACKS[rule]).wrong == TWICE
    with pytest.raises(KeyError):
        follow(Rules(), bounds, ATTACKS[rule])


@pytest.mark.slow
@pytest.mark.parametrize("rules", [Rules(witness=False), Rules(bar_old_tasks=False)], ids=["witness", "old tasks"])
def test_without_these_rules_the_exploration_fails_too(rules: Rules) -> None:
    assert explore(rules, Bounds(copy_keys=True, apart=False, draws=4)).wrong == TWICE
