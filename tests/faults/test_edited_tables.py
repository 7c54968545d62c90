"""Tables that somebody edits: a server says so in words, and goes on with what he did not touch."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from sqlalchemy import delete, insert, update

from lintra_server.storage.database import Database, journal, tasks
from lintra_server.storage.server_resources import NotStartedError
from support.server_world import POLICY, World, a_world, token

HONEST = 0


async def test_another_row_of_the_journals_table_is_not_looked_at(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        await world.upload_everywhere(world.reports(13))
        for one in (0, 2):
            with world.apps[HONEST].node.database.writing() as connection:
                connection.execute(insert(journal), {"one": one, "length": 9**9, "digest": b"", "start": 2**60})
        assert (await world.close_batch(HONEST)).status_code == 200
        world.reopen(HONEST)
        assert (await world.release(HONEST)).status_code == 200
        assert not world.halts


async def test_a_start_number_that_somebody_wrote_is_not_counted_on(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        world.kill(HONEST)
        put(world, start=2**62)
        world.start(HONEST)
        assert world.apps[HONEST].node.stepper.start < 9


@pytest.mark.parametrize("values", [{"length": "text"}, {"length": 1.5}, {"start": "text"}], ids=str)
async def test_a_head_that_is_none_is_named(tmp_path: Path, values: Mapping[str, object]) -> None:
    async with a_world(tmp_path, "sum", num_servers=2) as world:
        before = world.apps[HONEST].node.database.path  # type: ignore[attr-defined]
        world.kill(HONEST)
        whole = before.read_bytes()
        put(world, **values)
        with pytest.raises(NotStartedError, match="belongs to no journal"):
            world.start(HONEST)
        before.with_name(before.name + "-wal").unlink(missing_ok=True)
        before.write_bytes(whole)
        world.start(HONEST)


async def test_the_author_registers_a_task_again_whose_row_is_gone_though_no_new_one_would_be_allowed(
    tmp_path: Path,
) -> None:
    policy = POLICY.model_copy(update={"max_tasks": 1})
    async with a_world(tmp_path, "sum", num_servers=2, policy=policy) as world:
        await world.upload_everywhere(world.reports(13))
        world.clock.seconds += 3600 * 30
        with world.apps[HONEST].node.database.writing() as connection:
            connection.execute(delete(tasks))
        world.reopen(HONEST)
        assert (await world.close_batch(HONEST)).status_code == 503
        assert (await world.register(HONEST)).status_code == 201
        another = world.task.model_copy(update={"purpose": "another task"})
        assert token(await world.register(HONEST, another)) == "policy_refused"
        assert (await world.close_batch(HONEST)).status_code == 200


def put(world: World, **values: object) -> None:
    """Write to the journal's row while the server stands still."""
    database = Database(world.settings[HONEST].data_dir / "lintra.sqlite")
    with database.writing() as connection:
        connection.execute(update(journal).values(**values))
    database.close()
