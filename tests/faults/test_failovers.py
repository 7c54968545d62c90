"""A database set back beneath a running server: nothing is said or taken that the lost part would change."""

from pathlib import Path

import pytest
from sqlalchemy import update

from lintra_server.storage.database import batches, journal, segments, tasks
from support.server_world import a_world, token

HONEST = 0


async def test_a_batch_is_not_closed_without_the_reports_that_a_failover_lost(tmp_path: Path) -> None:
    # No upload comes and no step was made since the older state, so neither the writer nor the journal's head tells.
    async with a_world(tmp_path, "sum") as world:
        await world.upload(HONEST, world.reports(14))
        with world.apps[HONEST].node.database.writing() as connection:
            connection.execute(segments.delete())
        for _ in range(2):
            answer = await world.close_batch(HONEST)
            assert (answer.status_code, token(answer)) == (503, "unavailable")
            assert "reports 1 to 14 of 14 are gone" in answer.json()["detail"]


async def test_a_row_that_a_failover_lost_is_entered_again(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        body = await world.body(HONEST, world.reports(1))
        with world.apps[HONEST].node.database.writing() as connection:
            connection.execute(batches.delete())
        assert (await world.post(HONEST, body)).status_code == 200


async def test_a_row_that_a_failover_lost_with_its_reports_takes_nothing(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await world.upload(HONEST, world.reports(2))
        body = await world.body(HONEST, world.reports(3)[2:])
        with world.apps[HONEST].node.database.writing() as connection:
            connection.execute(batches.delete())
            connection.execute(segments.delete())
        answer = await world.post(HONEST, body)
        assert (answer.status_code, answer.json()["failures"][0]["type"]) == (200, "unavailable")


@pytest.mark.parametrize("lost", [segments, batches, tasks], ids=["the reports", "the batch", "the task"])
async def test_a_census_of_a_batch_that_a_failover_lost_is_of_all_that_came_or_refused(tmp_path: Path, lost) -> None:  # type: ignore[no-untyped-def]
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await world.upload(HONEST, world.reports(2))
        with world.apps[HONEST].node.database.writing() as connection:
            connection.execute(lost.delete())
        answer = await world.ask(HONEST, "GET", "/batches/0/census")
        if lost is segments:
            assert (answer.status_code, token(answer)) == (503, "unavailable")
        else:
            assert answer.json()["message"]["count"] == 2


async def test_the_hourly_upkeep_ends_a_server_whose_database_was_set_back(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await world.upload_everywhere(world.reports(13))
        await world.release(HONEST)  # its shares are to be deleted
        node = world.apps[HONEST].node
        with node.database.writing() as connection:
            connection.execute(update(journal).values(start=0))
        node.maintain()
        assert "it was set back" in world.halts[0]


async def test_a_closed_batch_that_a_failover_opened_again_takes_and_gives_nothing(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum") as world:
        await world.upload_everywhere(world.reports(13))
        late = await world.body(HONEST, world.reports(14)[13:])
        assert (await world.close_batch(HONEST)).status_code == 200
        with world.apps[HONEST].node.database.writing() as connection:
            connection.execute(batches.update().values(state="open", inventory=None))
        answer = await world.post(HONEST, late)
        assert answer.json()["failures"][0]["type"] == "batch_closed"
        refused = await world.ask(HONEST, "GET", "/batches/0/inventory")
        assert (refused.status_code, token(refused)) == (503, "unavailable")
        assert "table batches, row 1, column inventory contradicts line" in refused.json()["detail"]
