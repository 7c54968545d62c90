"""Windows at a server: reports, nonces, cohorts and releases of one never count in another, whoever asks, and when."""

from pathlib import Path

import httpx2
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol import ideal
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.messages.documents import UploadAnswer
from lintra_protocol.report.upload import TIME_BYTES
from lintra_server.batches.registry import RegisteredBatch
from support.server_world import World, a_world, text, token
from support.windowed_world import HOUR, at, frozen, opened, reports_of, request_of, shares_of, windowed


async def ask(world: World, server: int, method: str, batch: int, what: str, body: bytes = b"") -> httpx2.Response:
    name = {"cohort": "cohort-request", "aggregate": "aggregate-request"}.get(what) if body else None
    return await world.ask(server, method, f"/batches/{batch}/{what}", body, name)  # type: ignore[arg-type]


async def released(world: World, batch: int) -> tuple[IntArray, list[bytes]]:
    """Release a window; return its sum, lifted, and the servers' nonces."""
    _, request = await frozen(world, batch)
    nonces = [parse_base64url(signed.message.nonce) for signed in request.cohorts]
    return opened(world, batch, await shares_of(world, batch, request)), nonces


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
    monkeypatch.setattr(RegisteredBatch, "require_over", lambda self, now: None)
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


async def test_one_upload_of_two_windows_is_stored_and_counted_in_both(tmp_path: Path) -> None:
    async with world_of(tmp_path, "sum") as world:
        at(world, 1.5)
        body = await world.body(0, [*reports_of(world, 0, 2), *reports_of(world, 1, 3)])
        for _ in range(2):
            assert not UploadAnswer.from_canonical((await world.post(0, body)).content).failures
        node = world.apps[0].node
        for window, count in ((0, 2), (1, 3)):
            held = node.registry.find_batch(world.task.task_id, window)
            own = {report.report_id for report in reports_of(world, window, count)}
            assert set(node.store.report_ids(held.number)) == own
            assert node.intake.counters(held, count, None).repeated == count


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
        (_, first), _ = await frozen(world, 0), await frozen(world, 1)
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
            _, request = await frozen(world, window)
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
        lines = [(line.state, line.batch) for line in node._parts.journal.lines if line.step and line.task_id]
        assert lines == [(state, window) for window in chosen for state in ("closed", "frozen", "released")]
        open_one = node.registry.find_batch(world.task.task_id, 1)
        assert node.store.num_reports(open_one.number) == 14


async def test_after_a_restore_windows_that_had_begun_and_are_unknown_here_are_never_opened(tmp_path: Path) -> None:
    async with world_of(tmp_path, "sum") as world:
        node = world.apps[0].node
        node.store.history.barred_before = int(world.clock()) + 1
        at(world, 1)
        answer = await world.upload(0, reports_of(world, 1, 2))
        assert {failure.type.rpartition(":")[2] for failure in answer.failures} == set()
        node.store.history.barred_before = (world.task.span(2)[0] - 1) * HOUR + 1
        at(world, 4)
        answer = await world.upload(0, reports_of(world, 2, 2))
        assert {failure.type.rpartition(":")[2] for failure in answer.failures} == {"batch_closed"}
