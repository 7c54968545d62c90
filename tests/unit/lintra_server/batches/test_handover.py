"""Uploads go from the loop to the writer and back together, and each hears of itself."""

import asyncio
from concurrent.futures import Future
from pathlib import Path

import pytest

from lintra_protocol.blocks import decode_upload
from lintra_protocol.errors import OverloadedError, UnavailableError
from lintra_server.batches.handover import Handover
from lintra_server.batches.intake import SMALL
from lintra_server.storage.store import Outcome, Upload
from support.server_world import a_world

MOST = 5


class Slow:
    """Takes a few uploads, and answers when it is told to."""

    def __init__(self) -> None:
        self.failed = False
        self.taken: list[tuple[Upload, Future[list[Outcome]]]] = []

    def submit(self, upload: Upload) -> Future[list[Outcome]]:
        if len(self.taken) == MOST:
            raise OverloadedError("too much waits")
        self.taken.append((upload, Future()))
        return self.taken[-1][1]


def an_upload(number: int) -> Upload:
    return Upload(1, [bytes([number]) * 32], [b"payload"])


async def test_all_uploads_of_one_turn_are_handed_over_together_and_told_in_one_call() -> None:
    writer, loop = Slow(), asyncio.get_running_loop()
    handover, calls = Handover(writer), list[object]()
    waiting = [handover.submit(an_upload(number)) for number in range(MOST + 1)]
    assert not writer.taken
    await asyncio.sleep(0)
    assert [upload.report_ids[0][0] for upload, _ in writer.taken] == list(range(MOST))
    plain = loop.call_soon_threadsafe
    loop.call_soon_threadsafe = lambda *args, **options: calls.append(plain(*args, **options))  # type: ignore[assignment, method-assign, return-value]
    waiting[3].cancel()  # whoever asked is gone; the others are told all the same

    def store() -> None:
        for number, (_, future) in enumerate(writer.taken):
            if number == 4:
                future.set_exception(UnavailableError("the commit failed"))
            else:
                future.set_result([number % 2 == 0])

    store()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert found[:3] == [[True], [False], [True]]
    kinds = [type(each) for each in found[3:]]
    assert kinds == [asyncio.CancelledError, UnavailableError, OverloadedError]
    assert len(calls) == 1


async def test_what_another_thread_stores_while_the_loop_is_busy_is_told() -> None:
    writer = Slow()
    handover = Handover(writer)
    for number in range(MOST):
        waiting = handover.submit(an_upload(number))
        await asyncio.sleep(0)
        await asyncio.to_thread(writer.taken[-1][1].set_result, [True])
        assert await asyncio.wait_for(waiting, 10) == [True]


def test_a_loop_that_ended_in_the_middle_does_not_stop_the_next_one() -> None:
    writer = Slow()
    handover = Handover(writer)

    async def asked() -> asyncio.Future[list[Outcome]]:
        return handover.submit(an_upload(0))

    async def answered() -> list[Outcome]:
        waiting = handover.submit(an_upload(1))
        await asyncio.sleep(0)
        writer.taken[-1][1].set_result([True])
        return await asyncio.wait_for(waiting, 10)

    for _ in range(2):
        asyncio.run(asked())
        for _, future in writer.taken:
            if not future.done():
                future.set_result([True])
        assert asyncio.run(answered()) == [True]


async def test_only_small_uploads_of_new_reports_are_opened_in_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path) as world:
        await world.register(0)
        node, reports = world.apps[0].node, world.reports(200)
        opened_in_threads: list[int] = []
        plain = node.intake._open_new
        monkeypatch.setattr(
            node.intake, "_open_new", lambda *args: opened_in_threads.append(len(args[2])) or plain(*args)
        )
        await world.upload(0, reports[:1])  # nothing is in memory yet
        assert opened_in_threads == [1]
        await world.upload(0, reports[1:3])
        assert opened_in_threads == [1]
        await world.upload(0, reports[2:4])  # one is stored already
        assert opened_in_threads == [1, 2]
        body = await world.body(0, reports[4:])
        task = node.registry.find(world.task.task_id).task
        assert sum(len(block.sealed) for block in decode_upload(body, task, 0)) > SMALL
        await world.post(0, body)
        assert opened_in_threads == [1, 2, 196]
        assert node.store.num_durable(1) == 200
