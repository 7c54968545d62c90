"""Random operations with faults, from one seed: whatever happens to servers, the laws of `books` hold.

The note of a failure holds the command that does the same again:

    .venv/bin/python -m pytest -n 0 tests/simulation/test_simulation.py --seed 1234 --operations 3000
"""

from collections.abc import Callable

import pytest

from simulation import books
from simulation.mutants import MUTANTS, Planted
from simulation.running import QUICK_OPERATIONS, ViolationError, simulate

Record = Callable[[str, object], None]
QUICK = [1, 2, 3, 4, 5, 6]
LONG = range(100, 150)
LONG_OPERATIONS = 20_000
MUTANT_SEEDS, MUTANT_OPERATIONS, MUTANT_FAULTS = 20, 1500, 0.3


async def one(seed: int, operations: int, record: Record) -> None:
    world = await simulate(seed, operations)
    assert world.operations >= operations
    assert world.outcomes["released"] >= operations // 3000
    assert len(world.courses) > 1
    for kind, count in world.counts.items():
        record(kind, count)


@pytest.mark.parametrize("seed", QUICK)
async def test_random_operations_and_faults_break_no_law(
    seed: int, record_property: Record, pytestconfig: pytest.Config
) -> None:
    chosen = pytestconfig.getoption("--seed", default=None)
    if chosen is None:
        await one(seed, QUICK_OPERATIONS, record_property)
    elif seed == QUICK[0]:
        await one(chosen, pytestconfig.getoption("--operations"), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG)
async def test_a_million_random_operations_and_faults_break_no_law(seed: int, record_property: Record) -> None:
    await one(seed, LONG_OPERATIONS, record_property)


async def found(planted: Planted, patch: pytest.MonkeyPatch) -> str:
    """Return the law that finds a planted fault; only those meant for it are heard."""
    planted.plant(patch)
    patch.setattr(books, "HEARD", planted.found_by)
    for seed in range(MUTANT_SEEDS):
        try:
            if planted.faults:
                await simulate(seed, MUTANT_OPERATIONS, MUTANT_FAULTS, dict.fromkeys(planted.faults, 1.0))
            else:
                await simulate(seed, MUTANT_OPERATIONS)
        except ViolationError as error:
            return str(error)
        except Exception:  # a broken server whose breach no law was allowed to name: the next seed
            continue
    return "no law"


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
async def test_each_law_finds_the_server_without_its_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await found(MUTANTS[name], monkeypatch)).startswith(MUTANTS[name].found_by)


async def test_the_simulation_finds_reports_that_count_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await found(MUTANTS["a repeated report is stored again"], monkeypatch)).startswith("a report counts more")


async def test_a_seed_does_the_same_again() -> None:
    first, second = [await simulate(7, 150) for _ in range(2)]
    assert first.counts == second.counts
    assert first.outcomes == second.outcomes
    assert [sorted(seat.must.items()) for seat in first.seats] == [sorted(seat.must.items()) for seat in second.seats]
