"""An opener and its gate: what is handed over is stored as if one process had done it, and the gate decides."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from lintra_protocol.errors import InvalidMessageError, UnavailableError
from lintra_protocol.fields.windows import Windows
from lintra_protocol.http.requests import media_type
from lintra_protocol.messages.documents import UploadAnswer, receipt_hash
from lintra_protocol.task import Task
from lintra_server.storage.store import Outcome
from lintra_server.web import workers
from lintra_server.web.ipc import IpcChannel, IpcFrame, Words
from lintra_server.web.request_proxy import RequestProxy, answer_forwarded
from lintra_server.web.upload_route import Front
from lintra_server.web.upload_worker import GateProxy, UploadWorker
from lintra_server.web.workers import Answers, Worker, _hello, _without_secrets
from support.server_world import PRECISION, START, World, a_world, text, token
from support.stores import opened


@dataclass
class Split:
    """A server of a world, seen through an opener in this process; the line between them is a real one."""

    opener: UploadWorker
    gate: GateProxy
    http: httpx2.AsyncClient


@asynccontextmanager
async def an_opener(world: World, server: int = 0) -> AsyncIterator[Split]:
    near, far = socket.socketpair()
    channel, far_channel = socket.socketpair()
    gate_line, line = IpcChannel(near, "gate"), IpcChannel(far, "opener")
    node = world.apps[server].node
    gate_line.send(_hello(node.settings, 2, node.identity.private_bytes))
    answering = threading.Thread(target=Answers(node, gate_line).run)
    answering.start()
    said = line.receive()
    assert said is not None
    gate = GateProxy(line, gone=lambda: None)
    opener = UploadWorker(gate, said)
    loop, requests = asyncio.get_running_loop(), list[asyncio.Task[None]]()

    def take() -> None:
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        for descriptor in descriptors:
            end = socket.socket(fileno=descriptor)
            requests.append(loop.create_task(answer_forwarded(end, world.apps[server].inner, node)))

    loop.add_reader(channel, take)
    transport = httpx2.ASGITransport(Front(opener, RequestProxy(far_channel)))
    try:
        async with httpx2.AsyncClient(transport=transport, base_url=world.settings[server].public_url) as http:
            yield Split(opener, gate, http)
    finally:
        loop.remove_reader(channel)
        opener.intake.close()
        await asyncio.to_thread(line.close)
        await asyncio.to_thread(answering.join)
        await asyncio.to_thread(gate_line.close)
        channel.close()
        far_channel.close()


async def uploaded(world: World, split: Split, body: bytes) -> httpx2.Response:
    path = f"/v1/tasks/{world.task.task_id}/reports"
    return await split.http.post(path, content=body, headers={"content-type": media_type("reports")})


@pytest.mark.parametrize("tokens", [False, True])
async def test_what_an_opener_hands_over_is_stored_and_acknowledged_as_if_one_process_had(
    tmp_path: Path, tokens: bool
) -> None:
    async with a_world(tmp_path, tokens=tokens) as world, an_opener(world) as split:
        reports = world.reports(5)
        late = world.reports(1, "late", time=world.task.not_after)
        body = await world.body(0, [*reports[:3], *late, *reports[3:]])
        for _ in range(2):
            answer = UploadAnswer.from_canonical((await uploaded(world, split, body)).content)
            receipt = answer.receipt.verified(world.task.servers[0].identity_key)
            assert receipt.reports == receipt_hash([report.report_id for report in reports])
            assert [each.type for each in answer.failures] == ["report_too_late"]
        split.opener.tell()
        await asyncio.sleep(0.05)
        assert world.apps[0].node.store.report_ids(1) == sorted(report.report_id for report in reports)
        payloads = opened(world.apps[0].node.store)
        assert payloads == b"".join(r.shares[0][33:] for r in sorted(reports, key=lambda report: report.report_id))
        counters = (await world.ask(0, "GET", "/counters")).json()
        assert counters == {"received": 12, "accepted": 5, "repeated": 5, "refused": {"report_too_late": 2}}


async def test_a_question_to_an_opener_is_answered_by_the_gate_and_signatures_hold(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world, an_opener(world) as split:
        await world.upload_everywhere(world.reports(12))
        direct, world.http[0] = world.http[0], split.http
        closed = await world.close_batch(0)
        assert closed.status_code == 200
        assert (await world.ask(0, "POST", "/batches/0/inventory", key=None)).status_code == 401
        ids = await world.ids(0)
        request = await world.cohort_request(0)
        frozen = await world.freeze(0, request)
        assert frozen.status_code == 200
        assert token(await world.ask(0, "GET", "/batches/1/cohort")) == "batch_unknown"
        assert (await split.http.get("/nowhere")).status_code == 404
        world.http[0] = direct
        assert (await world.close_batch(0)).content == closed.content
        assert (await world.freeze(0, request)).content == frozen.content
        assert ids == world.apps[0].node.store.report_ids(1)


async def test_the_gate_decides_by_its_own_clock_and_state_whatever_an_opener_remembers(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world, an_opener(world) as split:
        reports = world.reports(14)
        first = UploadAnswer.from_canonical((await uploaded(world, split, await world.body(0, reports[:12]))).content)
        assert first.failures == ()
        world.clock.seconds = (world.task.not_after + 1) * world.task.time_precision
        answer = (await uploaded(world, split, await world.body(0, reports[:13]))).content
        assert [(each.report_id, each.type) for each in UploadAnswer.from_canonical(answer).failures] == [
            (text(reports[12]), "task_ended")
        ]
        await world.close_batch(0)
        answer = (await uploaded(world, split, await world.body(0, reports[:14]))).content
        assert {each.type for each in UploadAnswer.from_canonical(answer).failures} == {"task_ended"}
        assert world.apps[0].node.store.num_reports(1) == 12


async def test_an_opener_asks_what_is_stored_only_of_what_does_not_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path) as world, an_opener(world) as split:
        asked: list[object] = []
        ask = split.gate.ask

        def noted(words: Words, data: bytes = b"") -> Future[IpcFrame]:
            asked.append(words["ask"])
            return ask(words, data)

        monkeypatch.setattr(split.gate, "ask", noted)
        reports = world.reports(3)
        known, new = await world.body(0, reports[:2]), await world.body(0, reports[2:])
        for body, questions in [(known, 1), (new, 0), (known, 0), (known[:-1] + bytes([known[-1] ^ 1]), 1)]:
            asked.clear()
            answer = UploadAnswer.from_canonical((await uploaded(world, split, body)).content)
            assert (answer.failures, asked.count("stored")) == ((), questions)
        damaged = await world.body(0, world.reports(1, "never stored"))
        answer = UploadAnswer.from_canonical((await uploaded(world, split, damaged[:-1] + b"?")).content)
        assert len(answer.failures) == 1
        assert world.apps[0].node.store.num_reports(1) == 3


async def test_an_upload_that_the_gate_cannot_store_is_refused_whole_and_may_come_again(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world, an_opener(world) as split:
        body = await world.body(0, world.reports(2))
        node = world.apps[0].node
        commit, node.writer._commit = node.writer._commit, _failing
        answer = await uploaded(world, split, body)
        assert (answer.status_code, token(answer)) == (503, "unavailable")
        node.writer._commit = commit
        assert UploadAnswer.from_canonical((await uploaded(world, split, body)).content).failures == ()


def _failing(*_: object) -> list[list[Outcome]]:
    raise RuntimeError("no disk")


async def test_the_gate_takes_no_batch_that_it_did_not_tell_and_no_bytes_of_another_length(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world, an_opener(world) as split:
        for words, data in (
            ({"ask": "store", "key": 1, "batch": 0, "count": 1}, bytes(32 + 24)),
            ({"ask": "stored", "key": 1, "batch": 0}, bytes(32)),
        ):
            with pytest.raises(InvalidMessageError, match="not told"):
                split.gate.ask(words, data).result(5)
        split.opener.registry.find(world.task.task_id)
        for count, size in ((1, 55), (2, 56), (1, 57)):
            with pytest.raises(InvalidMessageError, match="another length"):
                split.gate.ask({"ask": "store", "key": 1, "batch": 0, "count": count}, bytes(size)).result(5)
        assert world.apps[0].node.store.num_reports(1) == 0


async def test_an_opener_that_cannot_be_started_is_tried_again_and_leaves_no_socket_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Semaphore(0)

    def none_left(*_: object, **__: object) -> None:
        tried.release()
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(workers, "RESTART_SECONDS", 0.01)
    monkeypatch.setattr(workers.subprocess, "Popen", none_left)
    async with a_world(tmp_path) as world:
        worker = Worker(world.apps[0].node, world.apps[0].inner, socket.socket(), 2)
        assert all([await asyncio.to_thread(tried.acquire, timeout=5) for _ in range(3)])
        assert worker.is_well
        assert not worker.serves
        worker.stop()
        assert not worker._thread.is_alive()


def test_an_opener_gets_no_environment_with_settings_of_the_service() -> None:
    given = {"PATH": "/bin", "LINTRA_SERVER_STORAGE_ROOT_KEY": "secret", "lintra_server_identity_key": "secret"}
    assert _without_secrets(given) == {"PATH": "/bin"}


async def test_an_opener_is_told_neither_root_key_nor_folders(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        said = _hello(world.settings[0], 2, bytes(32))
        assert set(said.words) == {
            "host", "max_connections", "trusted_proxies", "max_pending_bytes", "max_wait_seconds", "log_level",
            "log_format", "page_origins",
        }  # fmt: skip
        assert b"secret" not in repr(IpcFrame(0, {}, b"secret")).encode()


async def test_reports_of_two_windows_go_through_an_opener_each_to_its_own_batch(tmp_path: Path) -> None:
    first, cut = START // PRECISION, Windows(window=2, grace=1, max_windows=6, reports_per_source=3)

    def windowed(task: Task) -> Task:
        times = {"not_before": first, "not_after": first + cut.units}
        return task.model_copy(update={"batches": "windowed", "windows": cut, **times})

    async with a_world(tmp_path, change=windowed) as world, an_opener(world) as split:
        world.clock.seconds = (first + 2) * PRECISION
        own, next_one, later = (world.reports(3, str(hour), first + hour) for hour in (1, 2, 6))
        together = [own[0], next_one[0], later[0], own[1], next_one[1]]
        for _ in range(2):
            answer = (await uploaded(world, split, await world.body(0, together))).content
            said = UploadAnswer.from_canonical(answer)
            assert [(each.report_id, each.type) for each in said.failures] == [(text(later[0]), "report_too_early")]
        node = world.apps[0].node
        for window, reports in ((0, own[:2]), (1, next_one[:2])):
            held = node.registry.batch_of(node.registry.find(world.task.task_id), window)
            assert held is not None
            assert node.store.report_ids(held.number) == sorted(report.report_id for report in reports)
        # A lie about the batch ends the line, and not the gate.
        with pytest.raises(TimeoutError):
            split.gate.ask({"ask": "store", "key": 1, "batch": 6, "count": 0}).result(0.5)
        assert node.registry.batch_of(node.registry.find(world.task.task_id), 5) is None


async def test_what_fails_at_the_gate_is_answered_and_the_line_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path) as world, an_opener(world) as split:
        split.opener.registry.find(world.task.task_id)
        asked: dict[str, object] = {"ask": "stored", "key": 1, "batch": 0}
        with monkeypatch.context() as patch:
            patch.setattr(world.apps[0].node.store, "stored", _failing)
            with pytest.raises(UnavailableError, match="RuntimeError"):
                await asyncio.to_thread(lambda: split.gate.ask(asked, bytes(32)).result(5))
        assert split.gate.ask(asked, bytes(32)).result(5).data == b"\0"
