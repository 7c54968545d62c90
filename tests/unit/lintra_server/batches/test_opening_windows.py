"""When a server opens a window of which it holds no report yet."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.errors import BatchClosedError, InvalidMessageError
from lintra_protocol.task import Task
from lintra_server.operations.restore import _barred
from lintra_server.storage.server_resources import ServerResources
from support.server_world import World, a_world
from support.windowed_world import HOUR, WINDOWS, at, windowed


def merging(task: Task) -> Task:
    """Six windows of two hours, each with an hour of grace, of which up to three in a row are released together."""
    return windowed(task, WINDOWS.model_copy(update={"max_merge": 3}))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path, "sum", num_servers=2, change=merging) as world:
        yield world


def opened(world: World) -> list[int]:
    return sorted(row.number for row in world.apps[0].node.states.rows())


async def test_a_window_that_nobody_answered_is_opened_for_merging_only_once_it_is_over(world: World) -> None:
    registry = world.apps[0].node.registry
    held = registry.find(world.task.task_id)
    # The group ends with window 2, which takes reports for an hour after its end. The first is open from the start.
    for hours in (0.5, 5.5, 6.0, 7 - 1 / HOUR):
        at(world, hours)
        registry.open_group(held, 2, 1)
        assert opened(world) == [0]
    at(world, 13)
    with pytest.raises(InvalidMessageError, match="at most 3 in a row"):
        registry.open_group(held, 5, 1)
    assert opened(world) == [0]
    at(world, 7)
    registry.open_group(held, 2, 1)
    assert opened(world) == [0, 1, 2]


async def test_a_restored_server_never_opens_a_window_that_began_before_the_restore_clock_skew_allowed_for(
    world: World,
) -> None:
    registry, history = world.apps[0].node.registry, world.apps[0].node.store.history
    held = registry.find(world.task.task_id)
    registry.opened(held, 1)
    for batch in (2, 3):
        # Reports of clients whose clocks run ahead come a time unit, an hour, before the window.
        begins = (world.task.span(batch)[0] - 1) * HOUR
        for barred in (begins + 1, begins + HOUR, begins + 9 * HOUR):
            history.barred_before = barred
            with pytest.raises(BatchClosedError, match=f"windows that began before then are over, as {batch} is"):
                registry.opened(held, batch)
            registry.opened(held, 1)  # it is known here, so nothing of it was lost
        history.barred_before = begins
        registry.opened(held, batch)
    assert opened(world) == [0, 1, 2, 3]


@given(st.floats(0, 2e9), st.integers(0, 2 * 10**9) | st.none(), st.integers(0, 2 * 10**9))
def test_what_began_before_a_restore_is_barred_whichever_clock_or_earlier_restore_was_ahead(
    now: float, seen: int | None, before: int
) -> None:
    last = None if seen is None else SimpleNamespace(clock=seen)
    parts = SimpleNamespace(
        folder=SimpleNamespace(last_seen=lambda: last), history=SimpleNamespace(barred_before=before)
    )  # fmt: skip
    barred = _barred(cast("ServerResources", parts), now)
    assert all(barred > each for each in (now, seen or 0, before))
    assert barred <= max(now, seen or 0, before) + 1
