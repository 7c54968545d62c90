"""Windows at a server: reports, nonces, cohorts and releases of one never count in another, whoever asks, and when."""

from pathlib import Path

import httpx2
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol import ideal
from lintra_protocol.blocks import TIME_BYTES
from lintra_protocol.canonical import parse_base64url
from lintra_protocol.messages import (
    AggregateRequest,
    Cohort,
    CohortRequest,
    Difference,
    Inventory,
    Signed,
    SketchShareRecord,
    UploadAnswer,
)
from lintra_protocol.report import Report
from lintra_protocol.report_ids import ReportIds
from lintra_protocol.ring import IntArray, from_ring, ring_from_bytes
from lintra_protocol.rules import aggregate_context
from lintra_protocol.sharing import combine
from lintra_protocol.task import Task
from lintra_protocol.windows import Windows
from lintra_protocol.wire import decode_sealed_document
from lintra_server.batches.registry import HeldBatch
from support.server_world import START, World, a_world, text, token

HOUR = 3600
WINDOWS = Windows(window=2, grace=1, max_windows=6, reports_per_source=3)


def windowed(task: Task) -> Task:
    """Six windows of two hours from the hour of the clock on, each with an hour of grace."""
    first = START // HOUR
    times = {"not_before": first, "not_after": first + WINDOWS.units}
    return task.model_copy(update={"batches": "windowed", "windows": WINDOWS, **times})


def at(world: World, hours: float) -> None:
    """Set the clock to so many hours after the task began."""
    world.clock.seconds = world.task.not_before * HOUR + hours * HOUR


def reports_of(world: World, window: int, count: int = 14) -> list[Report]:
    return world.reports(count, f"window {window}", world.task.span(window)[0])


async def ask(world: World, server: int, method: str, batch: int, what: str, body: bytes = b"") -> httpx2.Response:
    name = {"cohort": "cohort-request", "aggregate": "aggregate-request"}.get(what) if body else None
    return await world.ask(server, method, f"/batches/{batch}/{what}", body, name)  # type: ignore[arg-type]


async def inventories(world: World, batch: int) -> tuple[Signed[Inventory], ...]:
    answers = [await ask(world, server, "POST", batch, "inventory") for server in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200], [answer.text for answer in answers]
    return tuple(Signed[Inventory].from_canonical(answer.content) for answer in answers)


async def request_of(world: World, batch: int, server: int) -> CohortRequest:
    lists = [ReportIds.parse((await ask(world, s, "GET", batch, "inventory/ids")).content, 99) for s in range(2)]
    other = Difference.between(1 - server, lists[server], lists[1 - server])
    return CohortRequest(inventories=await inventories(world, batch), differences=(other,))


async def cohorts(world: World, batch: int) -> AggregateRequest:
    await inventories(world, batch)
    frozen = []
    for server in range(2):
        body = (await request_of(world, batch, server)).canonical()
        answer = await ask(world, server, "PUT", batch, "cohort", body)
        assert answer.status_code == 200, answer.text
        frozen.append(Signed[Cohort].from_canonical(answer.content))
    return AggregateRequest(cohorts=tuple(frozen))


async def released(world: World, batch: int) -> tuple[IntArray, list[bytes]]:
    """Release a window; return its sum, lifted, and the servers' nonces."""
    request = await cohorts(world, batch)
    shares = []
    for server in range(2):
        answer = await ask(world, server, "PUT", batch, "aggregate", request.canonical())
        assert answer.status_code == 200, answer.text
        document, sealed = decode_sealed_document(answer.content)
        record = Signed[SketchShareRecord].from_canonical(document).message
        assert record.batch == batch
        root, seed = parse_base64url(record.cohort_root), parse_base64url(record.seed)
        words = world.sealing_key.open(sealed, aggregate_context(world.task, batch, server, root, seed))
        shares.append(ring_from_bytes(words).reshape(record.rows, record.words))
    nonces = [parse_base64url(signed.message.nonce) for signed in request.cohorts]
    return from_ring(combine(np.stack(shares))), nonces


def world_of(folder: Path, kind: str = "osnap"):  # type: ignore[no-untyped-def]
    return a_world(folder, kind, num_servers=2, change=windowed)


async def test_every_window_is_released_from_its_own_reports_under_its_own_seed(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        sums = {}
        for window in (0, 1):
            at(world, 2 * window + 0.5)
            await world.upload_everywhere(reports_of(world, window))
        for window in (0, 1):
            at(world, 2 * window + 3)
            sums[window] = await released(world, window)
        for window, (sketch, nonces) in sums.items():
            wanted = ideal.release(world.task, reports_of(world, window), nonces, batch=window)
            assert_array_equal(sketch, wanted.sketch)
        assert not set(sums[0][1]) & set(sums[1][1])


async def test_a_window_is_not_closed_before_its_grace_is_over(tmp_path: Path) -> None:
    async with world_of(tmp_path, "sum") as world:
        await world.upload_everywhere(reports_of(world, 0))
        for hours, left in ((0, 10_800), (2.5, 1800), (2.9999, 1)):
            at(world, hours)
            answer = await ask(world, 0, "POST", 0, "inventory")
            assert (answer.status_code, token(answer), answer.headers["retry-after"]) == (409, "batch_open", str(left))
        at(world, 3)
        assert (await ask(world, 0, "POST", 0, "inventory")).status_code == 200


async def test_without_that_rule_the_analyzer_chooses_who_is_in_a_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HeldBatch, "require_over", lambda self, now: None)
    async with world_of(tmp_path, "sum") as world:
        await world.upload_everywhere(reports_of(world, 0))
        assert (await ask(world, 0, "POST", 0, "inventory")).status_code == 200
        late = await world.upload(0, world.reports(1, "a victim"))
        assert [failure.type.rpartition(":")[2] for failure in late.failures] == ["batch_closed"]


@pytest.mark.parametrize(
    ("hours", "window", "refusal"),
    [(0.99, 1, "report_too_early"), (1, 1, None), (4.99, 1, None), (5, 1, "batch_closed"), (11, 3, "batch_closed")],
)
async def test_reports_come_from_one_unit_before_their_window_until_its_grace_is_over(
    tmp_path: Path, hours: float, window: int, refusal: str | None
) -> None:
    async with world_of(tmp_path, "sum") as world:
        at(world, hours)
        answer = await world.upload(0, reports_of(world, window, 3))
        assert [failure.type.rpartition(":")[2] for failure in answer.failures] == [refusal] * 3 * bool(refusal)
        if refusal:  # nothing is even opened for them
            assert [row.number for row in world.apps[0].node.states.rows()] == [0]


async def test_one_upload_may_hold_reports_of_two_windows_and_each_is_judged_by_its_own(tmp_path: Path) -> None:
    async with world_of(tmp_path, "sum") as world:
        at(world, 3)
        late, good = reports_of(world, 0, 2), reports_of(world, 1, 2)
        answer = UploadAnswer.from_canonical((await world.post(0, await world.body(0, [*late, *good]))).content)
        assert [failure.report_id for failure in answer.failures] == [text(report) for report in late]
        node = world.apps[0].node
        assert set(node.store.report_ids(node.registry.find_batch(world.task.task_id, 1).number)) == {
            report.report_id for report in good
        }


async def test_a_report_cannot_be_moved_to_another_window(tmp_path: Path) -> None:
    async with world_of(tmp_path, "sum") as world:
        await world.upload_everywhere(reports_of(world, 0, 1))
        body = bytearray(await world.body(0, reports_of(world, 0, 1)))
        first, second = (world.task.span(window)[0].to_bytes(TIME_BYTES, "big") for window in (0, 1))
        assert body.count(first) == 1
        body[body.index(first) : body.index(first) + TIME_BYTES] = second
        at(world, 2)
        answer = UploadAnswer.from_canonical((await world.post(0, bytes(body))).content)
        assert [failure.type.rpartition(":")[2] for failure in answer.failures] == ["decrypt_failed"]


async def test_documents_of_one_window_are_refused_in_another(tmp_path: Path) -> None:
    async with world_of(tmp_path, "sum") as world:
        for window in (0, 1):
            at(world, 2 * window + 0.5)
            await world.upload_everywhere(reports_of(world, window))
        at(world, 6)
        first, _ = await cohorts(world, 0), await cohorts(world, 1)
        moved = (await request_of(world, 0, 0)).canonical()
        answer = await ask(world, 0, "PUT", 1, "cohort", moved)
        assert (answer.status_code, token(answer)) == (409, "inventory_mismatch")
        answer = await ask(world, 0, "PUT", 1, "aggregate", first.canonical())
        assert (answer.status_code, token(answer)) == (409, "cohort_conflict")
        node = world.apps[0].node
        assert node.gate.batch(node.registry.find_batch(world.task.task_id, 1)).aggregate is None


async def test_a_window_that_few_answered_stays_closed_and_the_next_is_not_touched_by_it(tmp_path: Path) -> None:
    async with world_of(tmp_path, "sum") as world:
        await world.upload_everywhere(reports_of(world, 0, 3))
        at(world, 2.5)
        await world.upload_everywhere(reports_of(world, 1))
        at(world, 5)
        answer = await ask(world, 0, "POST", 0, "inventory")
        assert (answer.status_code, token(answer)) == (409, "cohort_too_small")
        assert (await released(world, 1))[0].any()


async def test_a_window_nobody_answered_and_one_that_does_not_exist_are_told_apart(tmp_path: Path) -> None:
    async with world_of(tmp_path, "sum") as world:
        assert token(await ask(world, 0, "POST", 1, "inventory")) == "batch_open"
        assert token(await ask(world, 0, "POST", 6, "inventory")) == "batch_unknown"
        at(world, 5)
        assert token(await ask(world, 0, "POST", 1, "inventory")) == "cohort_too_small"


@pytest.mark.parametrize("chosen", [(0,), pytest.param((0, 2), marks=pytest.mark.slow)])
async def test_servers_killed_between_all_steps_lose_no_report_and_release_no_window_twice(
    tmp_path: Path, chosen: tuple[int, ...]
) -> None:
    async with world_of(tmp_path, "sum") as world:
        stored: dict[int, list[bytes]] = {}
        for window in range(chosen[-1] + 2):
            at(world, 2 * window + 0.5)
            await world.upload_everywhere(reports_of(world, window))
            for server in range(2):
                world.kill(server)
                world.start(server)
        at(world, 7)
        for window in chosen:
            request = await cohorts(world, window)
            for again in range(2):
                for server in range(2):
                    world.kill(server)
                    world.start(server)
                    answer = await ask(world, server, "PUT", window, "aggregate", request.canonical())
                    assert answer.status_code == 200, (again, answer.text)
                    stored.setdefault(10 * window + server, []).append(answer.content)
        assert all(first == second for first, second in stored.values())
        assert len({first for first, _ in stored.values()}) == 2 * len(chosen)
        node = world.apps[0].node
        lines = [(line.state, line.batch) for line in node._parts.journal.lines if line.task_id]
        assert lines == [(state, window) for window in chosen for state in ("closed", "frozen", "released")]
        open_one = node.registry.find_batch(world.task.task_id, 1)
        assert node.store.batch(open_one.number).num_reports == 14


async def test_after_a_restore_windows_that_had_begun_and_are_unknown_here_are_never_opened(tmp_path: Path) -> None:
    async with world_of(tmp_path, "sum") as world:
        node = world.apps[0].node
        node.registry._barred_before = int(world.clock()) + 1
        at(world, 1)
        answer = await world.upload(0, reports_of(world, 1, 2))
        assert {failure.type.rpartition(":")[2] for failure in answer.failures} == set()
        node.registry._barred_before = (world.task.span(2)[0] - 1) * HOUR + 1
        at(world, 4)
        answer = await world.upload(0, reports_of(world, 2, 2))
        assert {failure.type.rpartition(":")[2] for failure in answer.failures} == {"batch_closed"}
