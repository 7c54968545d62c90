"""A stream at real servers: each window's noise is drawn once, ascending, beside the memory of what was released.

Whatever is killed, lost or restored, no window is given out twice, and no fresh noise enters two of them.
"""

import shutil
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from faults.test_restores import HONEST, copy_data, put_data, restored
from faults.test_server_crashes import WRITES, crash_at
from lintra_protocol import ideal
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.mechanisms.stream_noise import carried
from lintra_protocol.messages.documents import AggregateRequest
from lintra_server.storage.batch_states import BatchStates
from lintra_server.storage.stream_memory import StreamMemory
from support.server_world import World, a_world
from support.streamed_world import Draws, RecordedSource, collected, noise_in, opened_share, released, streamed
from support.windowed_world import freeze, frozen, opened, reports_of

SEAMS = [*WRITES.values(), (BatchStates, "reopen"), (BatchStates, "mark_destroyed"), (StreamMemory, "write")]


def a_stream(folder: Path, kind: str = "sum") -> AbstractAsyncContextManager[World]:
    return a_world(folder, kind, num_servers=2, change=streamed)


def forget(world: World, server: int) -> None:
    """Let a server lose what it remembers."""
    shutil.rmtree(world.settings[server].key_dir / "streams")


def require_fresh_once(world: World, draws: Draws, left: dict[int, IntArray]) -> None:
    """Check that what left of each window is one draw, and that later ones took back what belongs to what left."""
    stream = world.task.stream
    assert stream is not None
    fresh = []
    for row, noise in sorted(left.items()):
        draw = draws.of(row, noise)
        for earlier, memory in draw.memories.items():
            assert_array_equal(memory, draws.of(earlier, left[earlier]).memory)
        fresh.append(noise + carried(stream, row, draw.memories, noise.size))
    for row, own in enumerate(fresh):
        assert not any(np.array_equal(own, other) for other in fresh[:row])


@pytest.mark.parametrize("kind", ["sum", pytest.param("second_moment", marks=pytest.mark.slow)])
async def test_released_words_are_those_of_the_ideal_stream_bit_for_bit(tmp_path: Path, kind: str) -> None:
    async with a_stream(tmp_path, kind) as world:
        sources = [RecordedSource(app.node.gate._streams._random_bytes) for app in world.apps]
        for app, source in zip(world.apps, sources, strict=True):
            app.node.gate._streams._random_bytes = source
        memories: list[dict[int, IntArray]] = [{}, {}]
        for window in (0, 1, 3):  # nobody answers window 2
            await collected(world, window)
            if window == 3:
                forget(world, 1)
                memories[1].clear()
            begun = [len(source.given) for source in sources]
            _, request = await frozen(world, window)
            answers = [
                (await world.ask(server, "PUT", f"/batches/{window}/aggregate", request.canonical(),
                                 "aggregate-request")).content
                for server in range(2)
            ]  # fmt: skip
            nonces = [parse_base64url(signed.message.nonce) for signed in request.cohorts]
            again = [source.again(start) for source, start in zip(sources, begun, strict=True)]
            known = [tuple(memory) for memory in memories]
            expected = ideal.release(
                world.task, reports_of(world, window), nonces, again, batch=window, memories=memories
            )
            assert_array_equal(opened(world, window, answers), expected.sketch)
            assert [opened_share(world, window, server, body)[0].remembered for server, body in enumerate(answers)] == [
                known[0], known[1]
            ]  # fmt: skip


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", ["memory", *(write for write in WRITES if write != "uploads stopped")])
@pytest.mark.grid(6)
async def test_a_crash_while_a_window_is_released_lets_one_draw_out_and_its_memory_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str, after: bool
) -> None:
    async with a_stream(tmp_path) as world:
        draws = Draws()
        draws.watch(monkeypatch)
        await collected(world, 0, 1, 2)
        left: dict[int, IntArray] = {0: noise_in(world, 0, HONEST, (await released(world, 0))[HONEST])}
        _, request = await frozen(world, 1)
        with monkeypatch.context() as patched:
            crash_at(patched, SEAMS, WRITES.get(write, (StreamMemory, "write")), after)
            answer = await _aggregate(world, 1, request)
            world.kill(HONEST)
        given = [answer] if answer else []
        for _ in range(2):
            world.start(HONEST)
            given.append(await _aggregate(world, 1, request))
            world.kill(HONEST)
        world.start(HONEST)
        assert len(set(given)) == 1
        left[1] = noise_in(world, 1, HONEST, given[0])
        await world.ask(1, "PUT", "/batches/1/aggregate", request.canonical(), "aggregate-request")
        body = (await released(world, 2))[HONEST]
        left[2] = noise_in(world, 2, HONEST, body)
        # Nothing is lost by the crash: both earlier windows are remembered.
        assert opened_share(world, 2, HONEST, body)[0].remembered == (0, 1)
        require_fresh_once(world, draws, left)


async def _aggregate(world: World, window: int, request: AggregateRequest) -> bytes:
    path = f"/batches/{window}/aggregate"
    answer = await world.ask(HONEST, "PUT", path, request.canonical(), "aggregate-request")
    return answer.content if answer.status_code == 200 else b""


async def test_a_memory_of_other_bytes_than_the_released_ones_is_not_used(tmp_path: Path) -> None:
    async with a_stream(tmp_path) as world:
        await collected(world, 0, 1)
        await released(world, 0)
        memory = world.apps[HONEST].node.store.stream_memory
        (window,) = (
            each.batch for each in world.apps[HONEST].node.store.history.batches.values() if each.batch.number == 0
        )
        memory.write(window, b"bytes that never left", np.zeros(3, np.int64))
        answers = await released(world, 1)
        assert [opened_share(world, 1, server, body)[0].remembered for server, body in enumerate(answers)] == [(), (0,)]


async def test_after_a_restore_released_windows_stay_and_later_ones_go_on_with_what_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_stream(tmp_path) as world:
        draws = Draws()
        draws.watch(monkeypatch)
        await collected(world, 0, 1)
        copy = copy_data(world, tmp_path / "copy")
        left = {0: noise_in(world, 0, HONEST, (first := await released(world, 0))[HONEST])}
        world.kill(HONEST)
        put_data(world, copy)
        assert restored(world, never_copied=True).released == 1
        world.start(HONEST)
        again = await world.ask(HONEST, "GET", "/batches/0/aggregate")
        assert again.content == first[HONEST]
        left[1] = noise_in(world, 1, HONEST, (await released(world, 1))[HONEST])
        require_fresh_once(world, draws, left)


@pytest.mark.slow
async def test_what_no_later_window_needs_is_forgotten(tmp_path: Path) -> None:
    async with a_stream(tmp_path) as world:
        folder = world.settings[HONEST].key_dir / "streams"
        await collected(world, *range(6))
        for window in range(6):
            assert (await freeze(world, window, HONEST)).status_code == 200
            await released(world, window)
            assert len(list(folder.iterdir())) == (window + 1 if window < 5 else 0)
