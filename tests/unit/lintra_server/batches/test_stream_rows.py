"""The order of a stream's windows at a server: a window that a later one overtook is given up."""

from pathlib import Path

import pytest

from support.server_world import a_world, token
from support.streamed_world import Draws, collected, released, streamed
from support.windowed_world import close, frozen

HONEST = 0


async def test_a_window_that_a_later_one_overtook_is_given_up_and_never_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path, "sum", num_servers=2, change=streamed) as world:
        draws = Draws()
        draws.watch(monkeypatch)
        await collected(world, 0, 1, 2)
        _, overtaken = await frozen(world, 1)
        await released(world, 2)
        for _ in range(2):
            path = "/batches/1/aggregate"
            refused = await world.ask(HONEST, "PUT", path, overtaken.canonical(), "aggregate-request")
            assert token(refused) == "abandoned"
            assert token(await close(world, HONEST, 0)) == "abandoned"
            world.reopen(HONEST)
        assert {draw.row for draw in draws.made} == {2}
        rows = {row.number: row for row in world.apps[HONEST].node.states.rows()}
        assert (rows[0].state, rows[1].state) == ("abandoned", "abandoned")
