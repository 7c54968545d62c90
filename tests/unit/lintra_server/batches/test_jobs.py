"""A step that takes longer than a request is a job: it can be joined, is told once, and never becomes a second step."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from lintra_protocol.errors import CohortTooSmallError, OverloadedError, UnavailableError
from lintra_protocol.http.requests import media_type
from lintra_protocol.messages.documents import Progress
from lintra_server.batches import jobs
from lintra_server.batches.gate import Gate
from lintra_server.batches.jobs import ReleaseStep, ReleaseSteps
from lintra_server.storage.store import Store
from lintra_server.web.description import STEPS
from support.server_world import World, a_world

SHORT = 0.02


@pytest.fixture(autouse=True)
def short_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "ANSWER_SECONDS", SHORT)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path, num_servers=2) as made:
        yield made


@contextmanager
def held_up(patch: pytest.MonkeyPatch, cls: type, name: str) -> Iterator[tuple[threading.Event, list[str]]]:
    """Let a method begin and not end until the event is set; every call is listed."""
    real, free, calls = getattr(cls, name), threading.Event(), list[str]()

    def held(*arguments: object, **options: object) -> object:
        calls.append(name)
        free.wait(30)
        return real(*arguments, **options)

    with patch.context() as patched:
        patched.setattr(cls, name, held)
        try:
            yield free, calls
        finally:
            free.set()


async def until(found: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not found():
            await asyncio.sleep(0.005)


async def finished(world: World, resource: str) -> httpx2.Response:
    """Ask for a document until it is there, or refused."""
    async with asyncio.timeout(30):
        while (answer := await world.ask(0, "GET", f"/batches/0/{resource}")).status_code == 202:
            await asyncio.sleep(0.005)
    return answer


async def whole(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill both servers; what is asked for meanwhile is answered when it is done."""
    await world.upload_everywhere(world.reports(20))
    monkeypatch.setattr(jobs, "ANSWER_SECONDS", 60.0)


async def test_a_long_step_says_how_far_it_is_and_whoever_asks_again_joins_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await whole(world, monkeypatch)
    request = await world.aggregate_request()
    monkeypatch.setattr(jobs, "ANSWER_SECONDS", SHORT)
    with held_up(monkeypatch, Store, "held") as (free, calls):
        begun = await world.release(0, request)
        again = await world.release(0, request)
        looked = await world.ask(0, "GET", "/batches/0/aggregate")
        other = await world.close_batch(0)  # another step of the same batch waits for its turn
        late = await world.post(0, await world.body(0, world.reports(1, "late")))
        assert [each.status_code for each in (begun, again, looked, other)] == [202, 202, 202, 503]
        assert "aggregate" in other.json()["detail"]
        assert late.status_code == 200  # uploads are answered as ever
        assert calls == ["held"]
        free.set()
        released = await finished(world, "aggregate")
    path = f"/v1/tasks/{world.task.task_id}/batches/0/aggregate"
    for answer in (begun, again, looked):
        assert (answer.headers["location"], answer.headers["retry-after"]) == (path, "1")
        assert answer.headers["content-type"] == media_type("progress")
        assert Progress.from_canonical(answer.content).step == "aggregate"
    assert released.status_code == 200
    monkeypatch.setattr(jobs, "ANSWER_SECONDS", 60.0)
    assert (await world.release(0, request)).content == released.content
    described = world.apps[0].inner.openapi()["paths"]  # type: ignore[attr-defined]
    for step in STEPS:
        for operation in described[step].values():
            assert media_type("progress") in operation["responses"]["202"]["content"]


async def test_who_waits_for_a_step_signs_every_request_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.upload_everywhere(world.reports(20))
    with held_up(monkeypatch, Store, "merge_segments") as (free, _):
        assert (await world.close_batch(0)).status_code == 202
        assert (await world.ask(0, "GET", "/batches/0/inventory", key=None)).status_code == 401
        world.nonces = lambda count: bytes(count)
        assert (await world.ask(0, "GET", "/batches/0/inventory")).status_code == 202
        assert (await world.ask(0, "GET", "/batches/0/inventory")).status_code == 401  # the same nonce
        free.set()


async def test_the_refusal_of_a_long_step_is_told_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = world.reports(24)
    await world.upload(0, reports[:14])
    await world.upload(1, reports[10:])
    monkeypatch.setattr(jobs, "ANSWER_SECONDS", 60.0)
    request = await world.cohort_request(0)
    monkeypatch.setattr(jobs, "ANSWER_SECONDS", SHORT)
    with held_up(monkeypatch, Gate, "inventory_ids") as (free, calls):
        assert (await world.freeze(0, request)).status_code == 202
        free.set()
        refused = await finished(world, "cohort")
    assert refused.json()["type"].endswith(CohortTooSmallError.token)
    assert (await world.ask(0, "GET", "/batches/0/cohort")).json()["type"].endswith("not_found")
    assert calls


async def test_a_step_that_outlives_its_server_writes_nothing_and_is_done_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await whole(world, monkeypatch)
    request = await world.aggregate_request()
    monkeypatch.setattr(jobs, "ANSWER_SECONDS", SHORT)
    monkeypatch.setattr(jobs, "STOP_SECONDS", SHORT)
    node = world.apps[0].node
    with held_up(monkeypatch, Gate, "_sealed") as (free, _):
        assert (await world.release(0, request)).status_code == 202
        left = [job.outcome for job in node.jobs._jobs.values()]
        await asyncio.to_thread(node.close)
        files = {path: path.read_bytes() for path in world.settings[0].key_dir.rglob("*") if path.is_file()}
        free.set()  # the thread wakes when the folder may be another process's
        await until(lambda: left[0].done())
        with pytest.raises(UnavailableError, match="ending"):
            left[0].result()
        assert files == {path: path.read_bytes() for path in world.settings[0].key_dir.rglob("*") if path.is_file()}
    world.start(0)
    monkeypatch.setattr(jobs, "ANSWER_SECONDS", 60.0)
    released = await world.release(0, request)
    assert released.status_code == 200
    assert (await world.release(0, request)).content == released.content
    journal = (world.settings[0].key_dir / "journal").read_bytes()
    states = [json.loads(line.rpartition(b" ")[0])["state"] for line in journal.splitlines()]
    assert states.count("released") == 1


# --- without a server ---------------------------------------------------------------------------------------------


async def told(waiting: ReleaseSteps, batch: int, said: bytes | ReleaseStep | None) -> bytes:
    """Join a step until it is done."""
    async with asyncio.timeout(30):
        while isinstance(said, ReleaseStep):
            said = await waiting.join(batch, said.step)
    assert isinstance(said, bytes)
    return said


async def test_only_so_many_steps_run_at_once_and_only_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "ANSWER_SECONDS", 0.001)
    free, begun, waiting = threading.Event(), list[int](), ReleaseSteps()

    def work(batch: int) -> Callable[[object], bytes]:
        def do(_: object) -> bytes:
            begun.append(batch)
            free.wait(30)
            return b"%d" % batch

        return do

    said = [await waiting.run(batch, "inventory", b"", work(batch)) for batch in range(jobs.MOST)]
    await until(lambda: len(begun) == jobs.AT_ONCE)
    with pytest.raises(OverloadedError):
        await waiting.run(jobs.MOST, "inventory", b"", work(jobs.MOST))
    assert len(begun) == jobs.AT_ONCE
    free.set()
    assert [await told(waiting, batch, each) for batch, each in enumerate(said)] == [
        b"%d" % n for n in range(jobs.MOST)
    ]
    assert await waiting.join(0, "inventory") is None


async def test_a_job_says_how_much_of_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "ANSWER_SECONDS", 0.001)
    clock, free, half, waiting = [100.0], threading.Event(), threading.Event(), ReleaseSteps(lambda: clock[0])

    def work(tell: Callable[[float], None]) -> bytes:
        tell(0.5)
        half.set()
        free.wait(30)
        return b"done"

    said = await waiting.run(1, "aggregate", b"", work)
    await until(half.is_set)
    assert isinstance(said, ReleaseStep)
    clock[0] += 7.9
    assert said.progress(waiting.running()) == Progress(step="aggregate", seconds=7, thousandths=500)
    free.set()
    assert await told(waiting, 1, said) == b"done"
