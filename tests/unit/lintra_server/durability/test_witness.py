"""A witness that lacks a step, and lines that nobody waits for behind it: no copy, so a restore goes on."""

import shutil
from pathlib import Path
from unittest.mock import patch

import pytest

from faults.test_restores import HONEST, copy_data, put_data, restored
from lintra_server.durability.witness import FolderWitness, WitnessError
from lintra_server.storage.server_resources import NotStartedError
from support.server_world import World, a_world, token


def away(*_: object) -> None:
    raise WitnessError("the witness cannot be written")


async def closed_while_the_witness_is_away(world: World) -> None:
    """Let a step get its line and no witness, and a task its lines behind it; the server ends."""
    with patch.object(FolderWitness, "_add", away):
        assert (await world.close_batch(HONEST)).status_code == 503
        another = world.task.model_copy(update={"purpose": "another task"})
        assert (await world.register(HONEST, another)).status_code == 201
        world.kill(HONEST)


async def test_a_restore_goes_on_where_the_witness_lacks_a_step_and_lines_behind_it(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2, witness=tmp_path / "elsewhere") as world:
        await world.upload_everywhere(world.reports(13))
        copy = copy_data(world, tmp_path / "copy")
        await closed_while_the_witness_is_away(world)
        put_data(world, copy)
        found = restored(world)
        assert (found.abandoned, found.kept) == (1, 1)
        world.start(HONEST)


async def test_a_restore_that_did_not_reach_the_witness_is_done_again(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2, witness=tmp_path / "elsewhere") as world:
        await world.upload_everywhere(world.reports(13))
        copy = copy_data(world, tmp_path / "copy")
        assert (await world.close_batch(HONEST)).status_code == 200
        world.kill(HONEST)
        put_data(world, copy)
        for _ in range(2):
            with patch.object(FolderWitness, "_add", away), pytest.raises(WitnessError):
                restored(world)
        assert restored(world).kept == 0
        world.start(HONEST)
        assert token(await world.close_batch(HONEST)) == "abandoned"


async def test_a_witness_that_knows_more_than_the_journal_stops_a_restore(tmp_path: Path) -> None:
    async with a_world(tmp_path, "sum", num_servers=2, witness=tmp_path / "elsewhere") as world:
        await world.upload_everywhere(world.reports(13))
        copy = copy_data(world, tmp_path / "copy")
        keys = world.settings[HONEST].key_dir
        world.kill(HONEST)
        shutil.copytree(keys, tmp_path / "keys")
        world.start(HONEST)
        assert (await world.close_batch(HONEST)).status_code == 200
        world.kill(HONEST)
        put_data(world, copy)
        shutil.rmtree(keys)
        shutil.copytree(tmp_path / "keys", keys)
        with pytest.raises(NotStartedError, match="witness knows another journal"):
            restored(world)
        world.start(HONEST, witness_dir=None)
