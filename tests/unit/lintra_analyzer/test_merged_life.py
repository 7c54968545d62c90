"""Small windows from their specification to the release that they are part of: decided once, by what servers hold."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.task import Task
from lintra_server.batches import gate
from support import analyzer_world
from support.analyzer_world import CLIENTS, NOW, Answer, Life, living
from unit.lintra_analyzer.tasks.test_windows import ASKED, MINUTES, pass_minutes, run_schedule, windows

FEW = 8
"""Below the minimum of 12, and above half of it."""


@pytest_asyncio.fixture
async def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Life]:
    monkeypatch.setattr(analyzer_world, "NOW", NOW)
    async with living(tmp_path) as life:
        yield life


async def create(life: Life, most: int = 3, **changes: object) -> Task:
    asked = {
        "windows": {**ASKED, "max_merge": most}, "reports_per_source": 3, "time_precision": MINUTES,
        "max_corrupt_clients": 1, "epsilon": 1,
    }  # fmt: skip
    return await life.create("sum", **(asked | changes))


async def collected(life: Life, task: Task, monkeypatch: pytest.MonkeyPatch, *sizes: int) -> None:
    """Send so many reports of each window, and let all of them end."""
    for window, size in enumerate(sizes):
        pass_minutes(monkeypatch, 5 * window)
        if size:
            await life.upload(task, size, label=f"window {window}", batch=window)
    pass_minutes(monkeypatch, 5 * len(sizes) + 1)


def states_of(found: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(window["state"], window["num_clients"]) for window in found]


async def test_a_small_window_is_released_with_the_next_and_a_release_says_so(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await create(life)
    await collected(life, task, monkeypatch, FEW, FEW, CLIENTS, 0, FEW, CLIENTS)
    await run_schedule(life)
    found = await windows(life, task)
    assert states_of(found) == [
        ("merged", None), ("released", 2 * FEW), ("released", CLIENTS), ("merged", None), ("merged", None),
        ("released", CLIENTS + FEW), ("open", None),
    ]  # fmt: skip
    problem = found[0]["problem"]
    assert isinstance(problem, dict)
    assert problem["detail"] == "window 0 is released together with window 1"
    record = life.service.record(str(found[5]["release_id"])).record
    assert record.window is not None
    assert (record.batch, record.window.first) == (5, 3)
    assert (record.window.begins, record.window.ends) == (NOW + 900, NOW + 1800)
    assert record.window.of_one_source is not None
    # Three reports of a source move one sum by three, up to what integers cost.
    assert record.window.of_one_source.mu == pytest.approx(3 * record.privacy.mu)
    assert record.window.together.mu == pytest.approx(3 * task.worst_privacy().mu)
    alone = life.service.record(str(found[2]["release_id"])).record
    assert alone.window is not None
    assert (alone.window.first, alone.window.of_one_source) == (None, None)
    assert life.service.schedule.look() == []


@pytest.mark.slow
async def test_what_stays_too_small_with_all_it_may_join_is_a_gap_and_so_is_the_end(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await create(life, 2, windows={**ASKED, "max_merge": 2, "max_windows": 5})
    await collected(life, task, monkeypatch, 3, 3, FEW, FEW, 3)
    await run_schedule(life)
    assert states_of(await windows(life, task)) == [
        ("gap", None), ("gap", None), ("merged", None), ("released", 2 * FEW), ("gap", None),
    ]  # fmt: skip


@pytest.mark.slow
async def test_an_analyzer_that_ends_after_any_answer_merges_the_same_windows(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await create(life)
    await collected(life, task, monkeypatch, FEW, FEW)
    for answers in (0, 3, 6, 8, 9, 11, 13, 2):  # within the counts, between them, and between the stages
        left = [answers]

        def gone(_server: int, _request: object, answer: Answer, left: list[int] = left) -> Answer:
            left[0] -= 1
            if left[0] < 0:
                raise httpx2.ConnectError("the analyzer is ending")
            return answer

        life.wires.fault = gone
        for window in (0, 1):
            life.service.start_release(task.task_id, window)
            await life.service.jobs.finished(task.task_id, window)
        life.service.store.close()
        life.restart()
    life.wires.fault = None
    await run_schedule(life)
    pass_minutes(monkeypatch, 13)  # what was refused for now is tried again
    await run_schedule(life)
    assert states_of(await windows(life, task))[:2] == [("merged", None), ("released", 2 * FEW)]
    assert [record.record.batch for record in life.records()] == [1]


@pytest.mark.slow
async def test_a_window_that_one_server_closed_already_is_never_merged(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await create(life)
    await collected(life, task, monkeypatch, FEW, CLIENTS)
    life.service.start_release(task.task_id, 0)
    await life.service.jobs.finished(task.task_id, 0)
    node = life.servers[0].node
    with monkeypatch.context() as loose:  # as if the analyzer had asked when another server held enough, too
        loose.setattr(gate, "fewest_reports", lambda _: FEW)
        node.gate.close(node.registry.find_batch(task.task_id, 0))
    await run_schedule(life)
    assert states_of(await windows(life, task))[:2] == [("gap", None), ("released", CLIENTS)]


async def test_a_claim_counts_the_reports_of_corrupt_clients_and_what_a_source_may_send(life: Life) -> None:
    task = await create(life)
    assert task.claim.max_corrupt_clients == 3
    assert task.worst_privacy().honest_clients == task.claim.min_clients - 3
    assert task.worst_together().mu == pytest.approx(3 * task.worst_privacy().mu)
    async with life.rest() as rest:
        shown = (await rest.get(f"/v1/tasks/{task.task_id}")).json()
    assert any("3 corrupt reports, 3 of each corrupt client" in text for text in shown["warnings"])
    with pytest.raises(InvalidTaskError, match="1 counts reports: with max_merge 3 it must be a multiple of 3"):
        task.model_copy(update={"claim": task.claim.model_copy(update={"max_corrupt_clients": 1})}).check()
