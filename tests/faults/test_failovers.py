"""A database set back beneath a running server is noticed before anything is said that the lost part would change."""

from pathlib import Path

import pytest
from sqlalchemy import update

from lintra_server.storage.database import batches, journal, segments
from lintra_server.storage.steps import ForkedError
from support.server_world import a_world, token

HONEST = 0


async def test_a_batch_is_not_closed_without_the_reports_that_a_failover_lost(tmp_path: Path) -> None:
    # No upload comes and no step was made since the older state, so neither the writer nor the journal's head tells.
    async with a_world(tmp_path, "sum") as world:
        await world.upload(HONEST, world.reports(14))
        with world.apps[HONEST].node.database.writing() as connection:
            connection.execute(update(segments).values(total=13))
        answer = await world.close_batch(HONEST)
        assert (answer.status_code, token(answer)) == (503, "unavailable")
        assert "it was set back" in world.halts[0]


async def test_a_task_that_a_failover_lost_ends_the_server_at_the_next_upload(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        body = await world.body(HONEST, world.reports(1))
        with world.apps[HONEST].node.database.writing() as connection:
            connection.execute(batches.delete())
        answer = await world.post(HONEST, body)
        assert (answer.status_code, token(answer)) == (503, "unavailable")
        assert "it was set back" in world.halts[0]


@pytest.mark.parametrize("resource", ["/batches", "/counters", "/batches/0/census"])
@pytest.mark.parametrize("lost", ["one report", "the task"])
@pytest.mark.grid(2)
async def test_a_look_at_a_batch_that_a_failover_lost_ends_the_server(tmp_path: Path, resource: str, lost: str) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await world.upload(HONEST, world.reports(2))
        change = update(segments).values(total=1) if lost == "one report" else batches.delete()
        with world.apps[HONEST].node.database.writing() as connection:
            connection.execute(change)
        answer = await world.ask(HONEST, "GET", resource)
        assert (answer.status_code, token(answer)) == (503, "unavailable")
        assert "it was set back" in world.halts[0]


async def test_the_hourly_upkeep_ends_a_server_whose_database_was_set_back(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        node = world.apps[HONEST].node
        with node.database.writing() as connection:
            connection.execute(update(batches).values(state="released"))  # its shares are to be destroyed
            connection.execute(update(journal).values(start=0))
        node.maintain()
        assert "it was set back" in world.halts[0]


async def test_a_closed_batch_that_a_failover_opened_again_takes_nothing_and_ends_the_server(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await world.upload_everywhere(world.reports(13))
        late = await world.body(HONEST, world.reports(14)[13:])
        assert (await world.close_batch(HONEST)).status_code == 200
        with world.apps[HONEST].node.database.writing() as connection:
            connection.execute(batches.update().values(state="open", inventory=None))
        answer = await world.post(HONEST, late)
        assert (answer.status_code, token(answer)) == (503, "unavailable")
        assert world.halts != []


async def test_a_window_of_a_task_that_a_failover_lost_is_not_opened(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        with pytest.raises(ForkedError):
            world.apps[HONEST].node.store.open_batch(99, 1, ends=2**40, capacity=100)
