"""Uploads go from the loop to the writer and back together, and each hears of itself."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from lintra_protocol.crypto.sealing import SealingKey
from lintra_protocol.errors import OverloadedError, UnavailableError
from lintra_protocol.report.upload import decode_upload
from lintra_server.batches import intake, report_decryption
from lintra_server.batches.registry import RegisteredTask
from lintra_server.batches.write_queue import Lookups, WriteQueue
from lintra_server.storage.store import Outcome, StoredUpload
from lintra_server.storage.writer import Tell
from support.server_world import a_world

MOST = 5


class Slow:
    """Takes a few uploads, and answers when it is told to."""

    def __init__(self) -> None:
        self.failed = False
        self.taken: list[tuple[StoredUpload, Tell]] = []

    def submit(self, upload: StoredUpload, tell: Tell) -> None:
        if len(self.taken) == MOST:
            raise OverloadedError("too much waits")
        self.taken.append((upload, tell))


def an_upload(number: int) -> StoredUpload:
    return StoredUpload(1, [bytes([number]) * 32], [b"payload"], 99)


async def test_all_uploads_of_one_turn_are_handed_over_together_and_told_in_one_call() -> None:
    writer, loop = Slow(), asyncio.get_running_loop()
    handover, calls = WriteQueue(writer), list[object]()
    waiting = [handover.submit(an_upload(number)) for number in range(MOST + 1)]
    assert not writer.taken
    await asyncio.sleep(0)
    assert [upload.report_ids[0][0] for upload, _ in writer.taken] == list(range(MOST))
    plain = loop.call_soon_threadsafe
    loop.call_soon_threadsafe = lambda *args, **options: calls.append(plain(*args, **options))  # type: ignore[assignment, method-assign, return-value]
    waiting[3].cancel()  # whoever asked is gone; the others are told all the same

    def store() -> None:
        for number, (_, tell) in enumerate(writer.taken):
            tell(UnavailableError("the commit failed") if number == 4 else [number % 2 == 0])

    store()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert found[:3] == [[True], [False], [True]]
    kinds = [type(each) for each in found[3:]]
    assert kinds == [asyncio.CancelledError, UnavailableError, OverloadedError]
    assert len(calls) == 1


async def test_nobody_waits_for_ever_if_the_writer_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Slow()
    monkeypatch.setattr(writer, "taken", None)
    with pytest.raises(TypeError):
        await asyncio.wait_for(WriteQueue(writer).submit(an_upload(0)), 10)


async def test_what_another_thread_stores_while_the_loop_is_busy_is_told() -> None:
    writer = Slow()
    handover = WriteQueue(writer)
    for number in range(MOST):
        waiting = handover.submit(an_upload(number))
        await asyncio.sleep(0)
        await asyncio.to_thread(writer.taken[-1][1], [True])
        assert await asyncio.wait_for(waiting, 10) == [True]


def test_a_loop_that_ended_in_the_middle_does_not_stop_the_next_one() -> None:
    writer = Slow()
    handover = WriteQueue(writer)

    async def asked() -> asyncio.Future[list[Outcome]]:
        return handover.submit(an_upload(0))

    async def answered() -> list[Outcome]:
        waiting = handover.submit(an_upload(1))
        await asyncio.sleep(0)
        writer.taken[-1][1]([True])
        return await asyncio.wait_for(waiting, 10)

    for _ in range(2):
        asyncio.run(asked())
        writer.taken.pop()[1]([True])
        assert asyncio.run(answered()) == [True]


async def test_only_what_takes_long_or_may_wait_goes_to_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path) as world:
        await world.register(0)
        node, reports, more = world.apps[0].node, world.reports(200), world.reports(197, "another")
        task, threads = node.registry.find(world.task.task_id).task, list[str]()
        plain = node.intake._openers.submit

        def submit(function: Callable[..., object], *arguments: object) -> Future[object]:
            threads.append(function.__name__)
            return plain(function, *arguments)

        monkeypatch.setattr(node.intake._openers, "submit", submit)
        await world.upload(0, reports[:1])  # nothing of the batch is in memory yet
        assert threads == ["_stored_among"]
        await world.upload(0, reports[1:3])
        assert threads == ["_stored_among"]
        body = await world.body(0, reports[3:])
        sealed = sum(len(block.sealed) for block in decode_upload(body, task, 0))
        monkeypatch.setattr(intake, "SMALL", sealed - 1)
        await world.post(0, body)
        assert threads == ["_stored_among", "_open_new"]
        assert node.store.num_reports(1) == 200
        monkeypatch.setattr(intake, "SMALL", sealed)
        await world.post(0, await world.body(0, more))
        assert threads == ["_stored_among", "_open_new"]
        threads.clear()
        monkeypatch.setattr(report_decryption, "open_block", lambda *_: pytest.fail("a stored report was opened"))
        answers = await asyncio.gather(*(world.upload(0, [report]) for report in reports[:5]))
        assert [answer.receipt.message.count for answer in answers] == [1] * 5
        assert threads == ["_stored_among"]  # all of one turn are looked up together


async def test_an_upload_whose_key_is_not_in_memory_is_opened_in_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path) as world:
        await world.register(0)
        node, reports = world.apps[0].node, world.reports(2)
        await world.upload(0, reports[:1])
        monkeypatch.setattr(node.intake, "_has_keys", lambda _: False)
        found: list[str] = []
        plain = node.intake._find_key

        def find(key_id: bytes) -> SealingKey:
            found.append(threading.current_thread().name)
            return plain(key_id)

        monkeypatch.setattr(node.intake, "_find_key", find)
        await world.upload(0, reports[1:])
        assert [name.startswith("lintra-opener") for name in found] == [True]


async def test_one_who_goes_away_does_not_stop_the_look_up_of_the_others() -> None:
    asked: list[list[bytes]] = []

    def find(_held: RegisteredTask, _batch: int, report_ids: Sequence[bytes]) -> set[bytes]:
        asked.append(list(report_ids))
        if b"bad" in report_ids:
            raise UnavailableError("the database cannot be read")
        return set(report_ids[1:])

    held = cast("RegisteredTask", SimpleNamespace(key=7))
    with ThreadPoolExecutor(1) as executor:
        lookups = Lookups(lambda: executor, find)
        tasks = [asyncio.create_task(lookups.find(held, 0, [name])) for name in (b"a", b"b", b"c")]
        other = asyncio.create_task(lookups.find(held, 1, [b"bad"]))
        await asyncio.sleep(0)
        tasks[1].cancel()
        found = await asyncio.gather(*tasks, other, return_exceptions=True)
    assert sorted(asked) == [[b"a", b"b", b"c"], [b"bad"]]
    assert found[0] == found[2] == {b"b", b"c"}
    assert [type(found[1]), type(found[3])] == [asyncio.CancelledError, UnavailableError]
