"""Somebody edits the databases of servers at any moment: what is promised holds, and only what he touched stops.

.venv/bin/python -m pytest -n 0 tests/simulation/test_editor.py --seed 1234 --operations 1500
"""

import time
from collections.abc import Callable

import pytest

from simulation import books
from simulation.books import ViolationError
from simulation.edited_mutants import EDITED
from simulation.editing import EDITING, FOUND_BY_EDITS
from simulation.inside import InsideServer
from simulation.on_postgres import InsidePostgres
from simulation.running import simulate

Record = Callable[[str, object], None]
OPERATIONS, POSTGRES_OPERATIONS, LONG_OPERATIONS = 1500, 500, 10_000
EDIT_SHARE = 0.25
LONG_SEEDS = range(200, 280)
MUTANT_SEEDS = 40
ON_POSTGRES = 20
"""One of so many long simulations is on PostgreSQL."""


async def edited(seed: int, operations: int, kind: type[InsideServer], record: Record) -> int:
    """Run a simulation with an editor; return how often he edited something."""
    world = await simulate(seed, operations, EDIT_SHARE, EDITING, kind)
    edits = sum(world.counts[name] for name in FOUND_BY_EDITS)
    for kind_of, count in world.counts.items():
        record(kind_of, count)
    return edits


async def test_edits_change_nothing_that_was_promised(record_property: Record, pytestconfig: pytest.Config) -> None:
    chosen = pytestconfig.getoption("--seed", default=None)
    if chosen is not None:
        await edited(chosen, pytestconfig.getoption("--operations"), InsideServer, record_property)
        return
    assert sum([await edited(seed, OPERATIONS, InsideServer, record_property) for seed in range(1, 4)]) > 200


async def test_edits_of_postgresql_change_nothing_that_was_promised(record_property: Record) -> None:
    assert await edited(1, POSTGRES_OPERATIONS, InsidePostgres, record_property) > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG_SEEDS)
async def test_a_hundred_thousand_edits_change_nothing_that_was_promised(seed: int, record_property: Record) -> None:
    kind = InsidePostgres if seed % ON_POSTGRES == 0 else InsideServer
    began, edits, part = time.monotonic(), 0, 0
    while edits < 100_000 // len(LONG_SEEDS) + 1:
        edits += await edited(seed * 1000 + part, LONG_OPERATIONS, kind, record_property)
        part += 1
    record_property("seconds", round(time.monotonic() - began))


@pytest.mark.slow
@pytest.mark.parametrize("name", EDITED)
async def test_an_editor_is_found_where_a_rule_is_missing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = EDITED[name]
    planted.plant(monkeypatch)
    monkeypatch.setattr(books, "HEARD", planted.found_by)
    for seed in range(MUTANT_SEEDS):
        try:
            await simulate(seed, OPERATIONS, EDIT_SHARE, EDITING)
        except ViolationError:
            return  # only the laws that are meant for it are heard
        except Exception:  # a broken server whose breach no law was allowed to name: the next seed
            continue
    pytest.fail("no law")
