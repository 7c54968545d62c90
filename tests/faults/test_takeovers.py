"""A gate that was paused wakes after another one took over: it says nothing, and writes nothing where that one writes.

The key folder's lock, which the kernel gives back when a process ends and not when it is paused, keeps this from
happening; here somebody has removed the lock's file, or the folder lies on a file system without locks.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.errors import UnavailableError
from lintra_server.batches.gate import Gate
from lintra_server.storage.batch_states import BatchStates
from lintra_server.storage.key_folder import JOURNAL_FILE, BusyError
from lintra_server.storage.transition_log import StepFiles
from lintra_server.web.app import create_app
from support.server_world import World, a_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path, "sum", num_servers=2) as made:
        await made.upload_everywhere(made.reports(14))
        yield made


def written(world: World) -> dict[str, bytes]:
    """Return what a gate writes when it does a step."""
    folder = world.settings[0].key_dir
    return {path.name: path.read_bytes() for path in [folder / JOURNAL_FILE, *(folder / "steps").iterdir()]}


def states_of(world: World) -> list[str]:
    lines = (world.settings[0].key_dir / JOURNAL_FILE).read_bytes().splitlines()
    return [json.loads(line.rpartition(b" ")[0])["state"] for line in lines]


def take_over(world: World) -> None:
    """Start another process's parts on the same folders, though the first one goes on."""
    with pytest.raises(BusyError):
        world.start(0)
    (world.settings[0].key_dir / "lock").unlink()
    halts = world.halts
    world.apps[0] = create_app(
        world.settings[0], now=world.clock, random_bytes=system_randomness, running=world.clock, halt=halts.append
    )


@pytest.mark.parametrize(
    ("paused_in", "moment"),
    [(Gate, "_sealed"), (BatchStates, "may"), (StepFiles, "write")],
    ids=["adding shares up", "about to look at the batch", "about to write its step down"],
)
@pytest.mark.grid(3)
async def test_a_paused_gate_that_wakes_after_a_takeover_says_and_writes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, paused_in: type, moment: str
) -> None:
    request = await world.aggregate_request()
    first = world.apps[0].node
    held = first.registry.find_batch(world.task.task_id)
    real, there, wake = getattr(paused_in, moment), threading.Event(), threading.Event()
    paused = list[bool]()

    def pausing(*arguments: object) -> object:
        if not paused:
            paused.append(True)
            there.set()
            wake.wait(60)
        return real(*arguments)

    monkeypatch.setattr(paused_in, moment, pausing)
    releasing = asyncio.create_task(asyncio.to_thread(first.gate.release, held, request))
    await asyncio.to_thread(there.wait, 60)
    take_over(world)
    second = world.apps[0].node
    released = second.gate.release(second.registry.find_batch(world.task.task_id), request)
    before = written(world)
    wake.set()
    with pytest.raises(UnavailableError):
        await releasing
    assert world.halts  # its process ends
    assert before.items() <= written(world).items()  # a step file that no line names may be left
    assert states_of(world).count("released") == 1
    first._stopping.set()
    first._notes.join()
    # The one that took over goes on, and starts again.
    world.reopen(0)
    assert world.apps[0].node.gate.release(held, request) == released
