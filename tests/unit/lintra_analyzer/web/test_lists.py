"""Lists in pages, and rows that nobody can read any more."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio

from lintra_analyzer.cli import release_line, task_line
from lintra_analyzer.storage.store import DATABASE
from support.analyzer_world import Life, living

DAMAGE = {
    "broken": b"{",
    "empty": b"",
    "binary": b"\xff\x00",
    "another version": b'{"message":{"definition":{"version":9},"kind":"task"},"signature":"AA"}',
    "unknown kind": b'{"message":{"kind":"something new"},"signature":"AA"}',
}


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[Life]:
    async with living(tmp_path) as life:
        yield life


def edit(life: Life, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(life.settings.data_dir / DATABASE)) as connection:
        connection.execute(statement, values)
        connection.commit()


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.grid(2)
async def test_a_row_that_cannot_be_read_is_shown_as_such_and_breaks_no_list(world: Life, damage: str) -> None:
    good, bad = await world.create(), await world.create(purpose="another")
    for task in (good, bad):
        await world.upload(task)
    kept, lost = await world.release(good), await world.release(bad)
    edit(world, "UPDATE tasks SET record = ? WHERE task_id = ?", DAMAGE[damage], bad.task_id)
    edit(world, "UPDATE releases SET record = ? WHERE release_id = ?", DAMAGE[damage], lost)
    world.restart()
    world.service.schedule.look()
    async with world.rest() as rest:
        tasks, releases = (await rest.get("/v1/tasks")).json(), (await rest.get("/v1/releases")).json()
        assert [task["task_id"] for task in tasks] == [bad.task_id, good.task_id]
        assert [release["release_id"] for release in releases] == [lost, kept]
        for entry in (tasks[0], releases[0]):
            assert "lintra analyzer doctor" in entry["unreadable"]
        assert "unreadable" in " ".join(task_line(tasks[0]))
        assert "unreadable" in " ".join(release_line(releases[0]))
        assert "unreadable" not in " ".join(task_line(tasks[1]) + release_line(releases[1]))
        for path in ("/", "/releases", "/privacy", f"/releases/{kept}"):
            answer = await rest.get(path)
            assert answer.status_code == 200, path
            assert "lintra analyzer doctor" in answer.text or path == f"/releases/{kept}"
        for path in (f"/v1/tasks/{bad.task_id}", f"/tasks/{bad.task_id}", f"/v1/releases/{lost}", f"/releases/{lost}"):
            answer = await rest.get(path)
            assert answer.status_code in (500, 502), path
            assert "cannot be read" in answer.text, path


async def test_a_task_that_was_replaced_by_another_is_not_shown_under_its_name(world: Life) -> None:
    one, other = await world.create(), await world.create(purpose="another")
    edit(world, "UPDATE tasks SET record = (SELECT record FROM tasks WHERE task_id = ?)", other.task_id)
    async with world.rest() as rest:
        shown = {task["task_id"]: task for task in (await rest.get("/v1/tasks")).json()}
        assert "holds another task" in shown[one.task_id]["unreadable"]
        assert shown[other.task_id]["purpose"] == "another"
        assert (await rest.get(f"/v1/tasks/{one.task_id}")).status_code == 500


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE jobs SET problem = '{'",
        "UPDATE jobs SET problem = '[1]'",
        "UPDATE jobs SET stage = 'of another version'",
        "UPDATE jobs SET state = 'of another version'",
        "UPDATE registrations SET problem = 'x', state = 'refused'",
        "UPDATE registrations SET state = 'of another version'",
    ],
)
@pytest.mark.grid(2)
async def test_a_job_or_a_registration_that_cannot_be_read_breaks_no_page(world: Life, statement: str) -> None:
    task = await world.create()
    world.service.start_release(task.task_id)
    await world.service.jobs.finished(task.task_id)
    edit(world, statement)
    world.restart()
    world.service.jobs.resume()
    async with world.rest() as rest:
        for path in ("/", f"/tasks/{task.task_id}", "/v1/tasks", f"/v1/tasks/{task.task_id}"):
            assert (await rest.get(path)).status_code == 200, path
        job = await rest.get(f"/v1/tasks/{task.task_id}/batches/0/release")
        assert job.status_code == 200
        if "jobs" in statement:
            assert "cannot be read" in job.json()["problem"]["detail"]
