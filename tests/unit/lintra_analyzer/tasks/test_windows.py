"""A task with windows from its specification to its releases and gaps, with an analyzer that stands meanwhile."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from lintra_analyzer.storage.rows import Job, JobState, ServerState
from lintra_analyzer.storage.store import Store
from lintra_analyzer.tasks.jobs import Jobs
from lintra_analyzer.tasks.schedule import Schedule, num_begun, num_due
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.windows import Windows
from lintra_protocol.task import Task
from support import analyzer_world, make_task
from support.analyzer_world import CLIENTS, NOW, Answer, Life, living
from support.many_tasks import stored

MINUTES = 60
ASKED = {"window_seconds": 5 * MINUTES, "grace_seconds": MINUTES, "max_windows": 8}


@pytest_asyncio.fixture
async def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Life]:
    monkeypatch.setattr(analyzer_world, "NOW", NOW)
    async with living(tmp_path) as life:
        yield life


def pass_minutes(monkeypatch: pytest.MonkeyPatch, minutes: int) -> None:
    """Set every clock to so many minutes after the task was made; the servers allow an hour at most."""
    monkeypatch.setattr(analyzer_world, "NOW", NOW + minutes * MINUTES)


async def create(life: Life, **changes: object) -> Task:
    asked = {"windows": ASKED, "reports_per_source": 3, "time_precision": MINUTES, **changes}
    return await life.create("sum", **asked)


async def answer_window(life: Life, task: Task, window: int, count: int = CLIENTS) -> None:
    await life.upload(task, count, label=f"window {window}", batch=window)


async def run_schedule(life: Life) -> None:
    """Let the schedule start what is due until nothing is, and wait for all jobs."""
    while started := life.service.schedule.look():
        for job in started:
            await life.service.jobs.finished(job.task_id, job.batch)


async def windows(life: Life, task: Task) -> list[dict[str, object]]:
    async with life.rest() as rest:
        answer = await rest.get(f"/v1/tasks/{task.task_id}/windows")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, object]] = answer.json()
    return found


async def test_windows_are_released_as_they_end_also_those_that_ended_while_the_analyzer_stood(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await create(life)
    await answer_window(life, task, 0)
    assert [window["state"] for window in await windows(life, task)] == ["open"]
    pass_minutes(monkeypatch, 5)
    assert life.service.schedule.look() == []  # its grace is not over
    await answer_window(life, task, 1, 3)  # too few
    pass_minutes(monkeypatch, 10)
    await answer_window(life, task, 2)
    # The analyzer stands for two windows and catches up on three.
    await life.service.jobs.stop()
    life.service.store.close()
    pass_minutes(monkeypatch, 21)
    life.restart()
    assert [window["state"] for window in await windows(life, task)] == ["due", "due", "due", "due", "open"]
    await run_schedule(life)
    found = await windows(life, task)
    assert [window["state"] for window in found] == ["released", "gap", "released", "gap", "open"]
    assert [window["num_clients"] for window in found] == [CLIENTS, None, CLIENTS, None, None]
    for window in (0, 2):
        record = life.service.record(str(found[window]["release_id"])).record
        assert (record.batch, record.task_id) == (window, task.task_id)
        assert record.window is not None
        assert (record.window.begins, record.window.ends) == (NOW + 300 * window, NOW + 300 * window + 300)
        assert record.window.together.epsilon > task.worst_privacy().epsilon >= record.privacy.epsilon
    assert life.service.schedule.look() == []  # a gap stays one
    await look_at_the_page_of_windows(life, task)


async def look_at_the_page_of_windows(life: Life, task: Task) -> None:
    """Check that the page says what became of each window, and draws a mean over those that were released."""
    path = f"/tasks/{task.task_id}/windows"
    asked = {"column": "a", "of": "cohort"}
    async with life.rest() as rest:
        text = (await rest.get(path)).text
        assert text.count("<td>released</td>") == text.count("<td>will never be released") == 2
        assert "no release of window 1" in (await rest.get(path, params=asked)).text
        for theme in ("light", "dark"):
            drawing = await rest.get(f"{path}/picture.svg", params={**asked, "theme": theme})
            assert drawing.headers["content-type"] == "image/svg+xml"
        table = await rest.get(f"{path}/table.csv", params=asked)
        address = f"/v1/tasks/{task.task_id}/trend"
        assert table.text == (await rest.post(address, json=asked, headers={"accept": "text/csv"})).text
        assert (await rest.get(path, params={"column": "z"})).status_code == 400


async def test_an_analyzer_that_ends_after_any_answer_goes_on_and_releases_a_window_once(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await create(life)
    await answer_window(life, task, 0)
    pass_minutes(monkeypatch, 6)
    for answers in (0, 2, 4, 1, 3):  # between the stages, and in the middle of each
        left = [answers]

        def gone(_server: int, _request: object, answer: Answer, left: list[int] = left) -> Answer:
            left[0] -= 1
            if left[0] < 0:
                raise httpx2.ConnectError("the analyzer is ending")
            return answer

        life.wires.fault = gone
        life.service.start_release(task.task_id, 0)
        await life.service.jobs.finished(task.task_id, 0)
        life.service.store.close()
        life.restart()
    life.wires.fault = None
    await run_schedule(life)
    await run_schedule(life)
    assert [record.record.batch for record in life.records()] == [0]
    assert (await windows(life, task))[0]["state"] == "released"


class Instant(Jobs):
    """Jobs that are done when they are started; every seventh window is a gap, every eleventh has to be tried twice."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.started: list[int] = []
        self._once = set[int]()
        self._running = {}

    def start(self, task_id: str, batch: int) -> Job:
        again = batch in self._once
        self._once.add(batch)
        self.started.append(batch)
        state: JobState = "waiting" if batch % 11 == 0 and not again else "failed" if batch % 7 == 0 else "released"
        job = Job(task_id, "inventory", state, batch=batch)
        self._store.set_job(job)
        return job


@pytest.mark.parametrize(("hours", "every"), [(200, 1), pytest.param(8760, 24, marks=pytest.mark.slow)])
def test_a_year_of_hours_is_released_once_each_by_a_schedule_that_begins_anew_now_and_then(
    tmp_path: Path, hours: int, every: int
) -> None:
    windows = Windows(window=60, grace=60, max_windows=hours, reports_per_source=1)
    times = {"not_before": 600, "not_after": 600 + windows.units}
    task = make_task(batches="windowed", windows=windows, **times)  # type: ignore[arg-type]
    store = Store(tmp_path / "analyzer.sqlite")
    store.add_task(stored(task), 1, None)
    store.set_registration(task.task_id, ServerState(0, "accepted"))
    jobs, clock = Instant(store), [0.0]
    schedule = Schedule(store, jobs, lambda: clock[0])
    for hour in range(hours + 3):
        clock[0] = (task.not_before + 60.0 * hour) * task.time_precision
        if hour % 100 == 50:  # the process ends, and another begins
            schedule = Schedule(store, jobs, lambda: clock[0])
        if hour % every == 0 and hour % 24 != 5:  # it stands for some time each day
            schedule.look()
    for _ in range(3):
        clock[0] += 100.0
        schedule.look()
    twice = [window for window in range(hours) if window % 11 == 0]
    assert sorted(jobs.started) == sorted([*range(hours), *twice])
    assert [job.batch for job in store.jobs(task.task_id) if job.state == "waiting"] == []
    store.close()


async def test_a_specification_says_both_epsilons_and_lengths_are_whole_units(life: Life) -> None:
    task = await create(life)
    async with life.rest() as rest:
        shown = (await rest.get(f"/v1/tasks/{task.task_id}")).json()
    together = f"{task.worst_together().epsilon:.4g}"
    assert any("is that of one window" in text and together in text for text in shown["warnings"])
    async with life.rest() as rest:
        wrong = analyzer_world.specification("sum", windows={**ASKED, "grace_seconds": 90}, time_precision=MINUTES)
        answer = await rest.post("/v1/tasks", json=wrong)
    assert (answer.status_code, answer.json()["detail"]) == (
        400, "windows.grace_seconds: a multiple of time_precision, 60 seconds",
    )  # fmt: skip
    assert InvalidTaskError.token in answer.json()["type"]


async def test_a_task_without_windows_has_no_list_of_them(life: Life) -> None:
    task = await life.create("sum")
    async with life.rest() as rest:
        answer = await rest.get(f"/v1/tasks/{task.task_id}/windows")
        assert (answer.status_code, answer.json()["detail"]) == (404, "the task has a single batch, and no windows")
        answer = await rest.get(f"/v1/tasks/{task.task_id}/batches/1/release")
        assert answer.status_code == 404


def test_the_year_of_hours_is_counted_right_at_its_edges() -> None:
    windows = Windows(window=60, grace=60, max_windows=8760, reports_per_source=100)
    times = {"not_before": 600, "not_after": 600 + windows.units}
    made = make_task(batches="windowed", windows=windows, check=False, **times)  # type: ignore[arg-type]
    assert made.num_batches == 8760
    hour, begins = 3600, made.not_before * made.time_precision
    for seconds, begun, due in (
        (-1, 0, 0), (0, 1, 0), (hour, 2, 0), (hour + 1800, 2, 0), (2 * hour - 1, 2, 0), (2 * hour, 3, 1),
        (8760 * hour, 8760, 8759), (8761 * hour, 8760, 8760), (10**9, 8760, 8760),
    ):  # fmt: skip
        assert (num_begun(made, begins + seconds), num_due(made, begins + seconds)) == (begun, due), seconds
