"""Somebody edits the databases of servers at any moment: what is promised holds, and only what he touched stops.

.venv/bin/python -m pytest -n 0 tests/simulation/test_editor.py --seed 1234 --operations 1500
"""

from collections.abc import Callable

import pytest

from simulation import books
from simulation.books import ViolationError
from simulation.edited_histories import edited_histories
from simulation.edited_mutants import EDITED, Believing
from simulation.inside import InsideServer
from simulation.on_postgres import InsidePostgres
from simulation.stages import TASKS

Record = Callable[[str, object], None]
QUICK_EDITS, QUICK_TASKS = 60, 3
LONG_SEEDS, LONG_EDITS = range(200, 250), 2000
LONG_POSTGRES_SEEDS, LONG_POSTGRES_EDITS = range(300, 320), 500
MUTANT_SEEDS, MUTANT_EDITS = 12, 1500


async def edited(seed: int, edits: int, kind: type[InsideServer], record: Record, tasks: int = TASKS) -> None:
    """Run histories of edits, and record what happened."""
    result = await edited_histories(seed, edits, kind, tasks=tasks)
    assert result.edits >= edits
    for name, count in (result.counts + result.outcomes).items():
        record(name, count)


async def test_edits_change_nothing_that_was_promised(record_property: Record, pytestconfig: pytest.Config) -> None:
    chosen = pytestconfig.getoption("--seed", default=None)
    if chosen is None:
        await edited(1, QUICK_EDITS, InsideServer, record_property, QUICK_TASKS)
    else:
        await edited(chosen, pytestconfig.getoption("--operations"), InsideServer, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG_SEEDS)
async def test_a_hundred_thousand_edits_change_nothing_that_was_promised(seed: int, record_property: Record) -> None:
    await edited(seed, LONG_EDITS, InsideServer, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG_POSTGRES_SEEDS)
async def test_ten_thousand_edits_of_postgresql_change_nothing(seed: int, record_property: Record) -> None:
    await edited(seed, LONG_POSTGRES_EDITS, InsidePostgres, record_property)


async def found(believing: Believing, patch: pytest.MonkeyPatch) -> int:
    """Return after which seed the law was broken that is meant for a missing rule, -1 if it never was."""
    with patch.context() as planted:
        for plant in believing.plants:
            plant(planted)
        planted.setattr(books, "HEARD", believing.found_by)
        for seed in range(MUTANT_SEEDS):
            try:
                await edited_histories(seed, MUTANT_EDITS, begins=believing.begins)
            except ViolationError:
                return seed  # only the laws that are meant for it are heard
            except Exception:  # a broken server whose breach no law was allowed to name: the next seed
                continue
    return -1


@pytest.mark.slow
@pytest.mark.parametrize("name", EDITED)
async def test_an_editor_is_found_where_a_rule_is_missing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await found(EDITED[name], monkeypatch) >= 0
