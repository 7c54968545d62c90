"""Real processes with data, keys and log on one small disk that fills: what was acknowledged is kept, and all serve.

.venv/bin/python -m pytest -n 0 tests/simulation/test_small_disks.py --seed 1234 --operations 500
"""

from collections.abc import Callable, Sequence

import pytest

from simulation import books, small_disks
from simulation.books import ViolationError
from simulation.faults import Fault
from simulation.mutants import OF_PROCESSES
from simulation.requesting import burst
from simulation.small_disks import FULL_DISKS, full_disk, simulate_small_disks
from support.small_disk import NotMountedError

Record = Callable[[str, object], None]
QUICK_OPERATIONS, OPERATIONS = 60, 400


async def one(seed: int, operations: int, record: Record, faults: Sequence[Fault] = ()) -> None:
    try:
        world = await simulate_small_disks(seed, operations, faults=faults)
    except NotMountedError as error:
        pytest.skip(str(error))
    assert world.operations >= operations
    assert world.counts["small disk full"] == (len(faults) or FULL_DISKS)
    for kind, count in world.counts.items():
        record(kind, count)


async def test_a_small_disk_with_data_keys_and_log_fills_and_no_server_is_left_hanging(
    record_property: Record, pytestconfig: pytest.Config
) -> None:
    chosen = pytestconfig.getoption("--seed", default=None)
    if chosen is None:
        await one(1, QUICK_OPERATIONS, record_property, [full_disk])
    else:
        await one(chosen, OPERATIONS, record_property)


@pytest.mark.slow
async def test_a_log_that_raises_leaves_a_server_hanging_if_nobody_watches_its_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (name,) = OF_PROCESSES
    monkeypatch.setattr(books, "HEARD", OF_PROCESSES[name].found_by)
    monkeypatch.setattr(small_disks, "WELL_SECONDS", 10.0)
    # A commit and its line in the log must fail together: many disks are full to the last byte while uploads come.
    monkeypatch.setattr(small_disks, "LEFT", (0,))
    monkeypatch.setattr(small_disks, "FULL_DISKS", 3 * FULL_DISKS)
    monkeypatch.setattr(small_disks, "something", burst)

    async def some_seeds() -> None:
        for seed in range(20):  # every other one finds it
            try:
                await small_disks.simulate_small_disks(seed, OPERATIONS, name)
            except NotMountedError as error:
                pytest.skip(str(error))

    with pytest.raises(ViolationError, match="a server hangs"):
        await some_seeds()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 102))
async def test_many_small_disks_fill(seed: int, record_property: Record) -> None:
    await one(seed, OPERATIONS, record_property)
