"""A batch whose closing was cut off by its database is open again as soon as that answers; nobody has to ask."""

from pathlib import Path

import psycopg
import pytest

from lintra_protocol.errors import UnavailableError
from lintra_server.storage.batch_states import BatchStates
from lintra_server.storage.store import Store
from lintra_server.storage.transition_log import Stepper
from support import postgres
from support.server_world import World, a_world
from unit.lintra_server.storage.test_postgres import a_server, start

STEPS = {
    "the commit that stops uploads": (BatchStates, "begin_closing"),
    "small segments": (Store, "merge_segments"),
    "the list": (Store, "report_ids"),
    "the step": (Stepper, "perform"),
}


def state_of(world: World) -> str:
    return world.apps[0].node.store.batch(1).state


@pytest.mark.parametrize("where", ["the commit that stops uploads", "the step"])  # the others where it is killed
async def test_a_database_that_was_gone_while_a_batch_was_closed_finds_it_open_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    owner, name = STEPS[where]
    real, reopen = getattr(owner, name), BatchStates.reopen
    gone = [True]

    def fails(self: object, *arguments: object) -> object:
        if name == "begin_closing":
            real(self, *arguments)  # it happened, but the answer is lost
        raise UnavailableError("the database does not answer")

    def fails_too(self: BatchStates, *numbers: int) -> None:
        if gone[0]:
            raise UnavailableError("the database does not answer")
        reopen(self, *numbers)

    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(13))
        with monkeypatch.context() as broken:
            broken.setattr(owner, name, fails)
            broken.setattr(BatchStates, "reopen", fails_too)
            assert (await world.close_batch(0)).status_code == 503
            assert state_of(world) == "closing"
            world.apps[0].node.readiness.probe()
            with pytest.raises(UnavailableError):
                world.apps[0].node.readiness.require()
            gone[0] = False
            world.apps[0].node.readiness.probe()
            world.apps[0].node.readiness.require()
        assert state_of(world) == "open"
        assert (await world.upload(0, world.reports(1, "late"))).failures == ()
        assert (await world.close_batch(0)).status_code == 200
        world.apps[0].node.readiness.probe()
        assert state_of(world) == "closed"


async def test_a_closing_that_has_its_journal_line_is_finished_when_the_database_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise UnavailableError("the database does not answer")

    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(13))
        with monkeypatch.context() as broken:
            broken.setattr(BatchStates, "commit_step", fails)
            assert (await world.close_batch(0)).status_code == 503
            assert state_of(world) == "closing"
        world.apps[0].node.readiness.probe()
        assert state_of(world) == "closed"


@pytest.mark.slow  # a cluster of its own that is killed
@pytest.mark.parametrize("restarted", [False, True], ids=["the server goes on", "the server is killed, too"])
@pytest.mark.parametrize("where", STEPS)
async def test_postgresql_killed_in_the_middle_of_closing_leaves_no_batch_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, restarted: bool
) -> None:
    owner, name = STEPS[where]
    real = getattr(owner, name)
    cluster = postgres.Cluster()
    try:
        with a_server(tmp_path / "servers", cluster.url) as world:
            assert (await world.register(0)).status_code == 201
            await world.upload(0, world.reports(13))
            world.apps[0].node.note()

            def killed(self: object, *arguments: object) -> object:
                if name == "begin_closing":
                    done = real(self, *arguments)
                    cluster.kill()
                    return done
                cluster.kill()
                return real(self, *arguments)

            with monkeypatch.context() as broken:
                broken.setattr(owner, name, killed)
                assert (await world.close_batch(0)).status_code == 503
            cluster.start()
            with psycopg.connect(cluster.url) as connection:
                assert connection.execute("SELECT state FROM batches").fetchall() == [("closing",)]
            if restarted:
                world.kill(0)
                start(world, cluster.url)
            for _ in range(2):  # the first look meets a dead connection
                world.apps[0].node.readiness.probe()
            world.apps[0].node.readiness.require()
            assert state_of(world) == "open"
            assert (await world.close_batch(0)).status_code == 200
            assert state_of(world) == "closed"
    finally:
        cluster.close()
