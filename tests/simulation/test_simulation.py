"""Random operations with faults, from one seed: whatever happens to servers, the laws of `books` hold.

The note of a failure holds the command that does the same again:

    .venv/bin/python -m pytest -n 0 tests/simulation/test_simulation.py --seed 1234 --operations 3000
"""

from collections.abc import Callable, Sequence

import pytest

from simulation import books
from simulation.mutants import MUTANTS, Planted
from simulation.running import FAULT_SHARE, ViolationError, simulate

Record = Callable[[str, object], None]
QUICK_SEED, QUICK_OPERATIONS, QUICK_FAULTS = 1, 500, 0.15  # the first seed with a release among so many operations
OTHERS, OPERATIONS = range(1, 7), 3000
LONG, LONG_OPERATIONS = range(100, 150), 20_000
MUTANT_SEEDS, MUTANT_OPERATIONS, MUTANT_FAULTS = 20, 1500, 0.3


async def one(seed: int, operations: int, record: Record, faults: float = FAULT_SHARE) -> None:
    world = await simulate(seed, operations, faults)
    assert world.operations >= operations
    assert world.outcomes["released"] >= max(1, operations // 3000)
    assert len(world.courses) > 1
    for kind, count in world.counts.items():
        record(kind, count)


async def test_random_operations_and_faults_break_no_law(record_property: Record, pytestconfig: pytest.Config) -> None:
    chosen = pytestconfig.getoption("--seed", default=None)
    if chosen is None:
        await one(QUICK_SEED, QUICK_OPERATIONS, record_property, QUICK_FAULTS)
    else:
        await one(chosen, pytestconfig.getoption("--operations"), record_property)


@pytest.mark.slow
@pytest.mark.parametrize("seed", OTHERS)
async def test_more_random_operations_and_faults_break_no_law(seed: int, record_property: Record) -> None:
    await one(seed, OPERATIONS, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG)
async def test_a_million_random_operations_and_faults_break_no_law(seed: int, record_property: Record) -> None:
    await one(seed, LONG_OPERATIONS, record_property)


async def found(planted: Planted, patch: pytest.MonkeyPatch, seeds: Sequence[int] = range(MUTANT_SEEDS)) -> str:
    """Return the law that finds a planted fault; only those meant for it are heard."""
    planted.plant(patch)
    patch.setattr(books, "HEARD", planted.found_by)
    for seed in seeds:
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
    planted = MUTANTS["a repeated report is stored again"]
    assert (await found(planted, monkeypatch, [5])).startswith("a report counts more")  # of the first, the quickest


async def test_a_seed_does_the_same_again() -> None:
    first, second = [await simulate(7, 60) for _ in range(2)]
    assert first.counts == second.counts
    assert first.outcomes == second.outcomes
    assert [sorted(seat.must.items()) for seat in first.seats] == [sorted(seat.must.items()) for seat in second.seats]
