"""From a task to its release, among real servers."""

import asyncio
import sqlite3
from pathlib import Path

import httpx2
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sqlalchemy.exc import OperationalError

from lintra_analysis.kinds.decode import read
from lintra_analyzer.storage.rows import Job
from lintra_analyzer.tasks import jobs
from lintra_protocol.task import Task
from support import analyzer_world
from support.analyzer_world import CLIENTS, NOW, Answer, Life, clients, living
from support.measured import measurement_of

KINDS = ("osnap", "sum", "second_moment")


async def stands(life: Life, task: Task) -> Job:
    """Run a job until it stands still."""
    life.service.start_release(task.task_id)
    await life.service.jobs.finished(task.task_id)
    return life.service.job(task.task_id)


def problem(job: Job) -> str:
    assert job.problem is not None, job
    return str(job.problem["type"]).removeprefix("urn:lintra:problem:")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.grid(2)
async def test_a_release_is_the_ideal_run_bit_for_bit(life: Life, kind: str) -> None:
    task = await life.create(kind)
    await life.upload(task)
    signed = life.service.record(await life.release(task))
    sketch, row_counts = life.service.archive.read(signed.record)
    ideal = life.ideal(task)
    assert_array_equal(measurement_of(task, task.num_columns).decode(sketch), ideal.values)
    released = read(task, sketch, row_counts)
    part = released.totals or released.need("moments")
    values = np.asarray(part.values)
    assert_array_equal(values, np.asarray(ideal.values).reshape(values.shape))
    assert signed.record.num_clients == CLIENTS == row_counts.sum()


@pytest.mark.parametrize("form", ["seeded", "uniform"])
@pytest.mark.grid(2)
async def test_reports_that_are_not_everywhere_are_left_out(life: Life, form: str) -> None:
    task = await life.create("osnap", share_form=form)
    await life.upload(task, 20)
    await life.upload(task, 22, servers=(0,))
    await life.upload(task, 21, servers=(2,))
    signed = life.service.record(await life.release(task))
    assert [part.reports for part in signed.record.servers] == [22, 20, 21]
    sketch, _ = life.service.archive.read(signed.record)
    assert_array_equal(measurement_of(task, task.num_columns).decode(sketch), life.ideal(task, 20).values)


async def test_a_certificate_says_how_many_reports_each_server_lost_and_nothing_of_those_that_lost_none(
    life: Life,
) -> None:
    task = await life.create("osnap")
    await life.upload(task, 20)
    (batch,) = life.servers[1].node.store.history.of_task(task.id_bytes)
    batch.lost = 3  # as a line of its journal would have it
    signed = life.service.record(await life.release(task))
    assert [part.lost for part in signed.record.servers] == [0, 3, 0]
    assert signed.record.canonical().count(b'"lost"') == 1
    assert type(signed).from_canonical(signed.canonical()) == signed


@pytest.mark.parametrize("last", ["batches", "inventory", "ids", "cohort", "aggregate"])
@pytest.mark.grid(6)
async def test_a_job_that_died_while_an_answer_was_on_its_way_goes_on_after_a_restart(
    tmp_path: Path, last: str
) -> None:
    async with living(tmp_path) as life:
        task = await life.create("osnap")
        await life.upload(task)
        for server in (1, 2):  # a list that is here already is not asked for again, so each has a report of its own
            await life.upload(task, servers=(server,), rows=clients(1, f"of server {server}"))

        def die(server: int, request: httpx2.Request, answer: Answer) -> Answer:
            if server == 1 and request.url.path.endswith(f"/{last}"):
                raise asyncio.CancelledError
            return answer

        life.wires.fault = die
        assert (await stands(life, task)).state == "running"
        life.service.store.close()
        life.wires.fault = None
        life.wires.log.clear()
        life.restart()
        life.service.jobs.resume()
        await life.service.jobs.finished(task.task_id)
        job = life.service.job(task.task_id)
        assert job.release_id is not None, job
        signed = life.service.record(job.release_id)
        sketch, _ = life.service.archive.read(signed.record)
        assert_array_equal(measurement_of(task, task.num_columns).decode(sketch), life.ideal(task).values)
        if last != "batches":
            # What had answered was kept: of lists, which are large and fetched one after the other, the first one.
            assert [server for server, _, what in life.wires.log if what == last] == [1, 2][: 1 + (last == "ids")]


async def test_a_job_that_died_before_the_record_was_stored_goes_on_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with living(tmp_path) as life:
        task = await life.create()
        await life.upload(task)

        def die(*_: object) -> None:
            raise asyncio.CancelledError

        with monkeypatch.context() as patch:
            patch.setattr(life.service.store, "add_release", die)
            assert (await stands(life, task)).stage == "reconstruct"
        life.service.store.close()
        life.wires.log.clear()
        life.restart()
        life.service.jobs.resume()
        await life.service.jobs.finished(task.task_id)
        assert life.service.job(task.task_id).state == "released"
        assert life.wires.log == []


async def test_a_release_happens_once(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        task = await life.create("sum")
        await life.upload(task)
        first = await life.release(task)
        life.wires.log.clear()
        assert await life.release(task) == first
        assert life.wires.log == []
        assert len(life.records()) == 1


async def test_no_batch_is_closed_before_every_server_holds_enough(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await life.create(time_precision=60)
    await life.upload(task, 20, servers=(0, 1))
    await life.upload(task, 5, servers=(2,))
    job = await stands(life, task)
    assert (job.state, job.stage, problem(job)) == ("waiting", "inventory", "cohort_too_small")
    assert "server 2" in str(job.problem and job.problem["detail"])
    assert "inventory" not in {what for _, _, what in life.wires.log}
    await life.upload(task, 20, servers=(2,))
    # Servers count once per time unit, so that nobody sees when the last report came that was needed.
    job = await stands(life, task)
    assert (job.state, problem(job)) == ("waiting", "cohort_too_small")
    assert "when they were counted, which is once in 60 s" in str(job.problem and job.problem["detail"])
    monkeypatch.setattr(analyzer_world, "NOW", NOW + 60)
    assert (await stands(life, task)).state == "released"


async def test_a_closed_batch_that_is_too_small_is_given_up(life: Life) -> None:
    task = await life.create(max_missing=0.5)
    # Every server holds enough to close its batch, but only ten reports are everywhere.
    await life.upload(task, 10)
    for server in range(3):
        await life.upload(task, 13, servers=(server,), label=f"orphan of {server}")
    job = await stands(life, task)
    assert (job.state, job.stage, problem(job)) == ("failed", "cohort", "abandoned")
    assert "10 of at least 12" in str(job.problem and job.problem["detail"])
    assert "cohort" not in {what for _, _, what in life.wires.log}


async def test_a_server_that_does_not_answer_is_asked_again_and_the_job_waits(life: Life) -> None:
    task = await life.create()
    await life.upload(task)

    def unplugged(server: int, _request: httpx2.Request, answer: Answer) -> Answer:
        if server == 1:
            raise httpx2.ConnectError("unplugged")
        return answer

    life.wires.fault = unplugged
    job = await stands(life, task)
    assert (job.state, problem(job)) == ("waiting", "unavailable")
    assert len([1 for server, _, _ in life.wires.log if server == 1]) >= life.settings.server_attempts
    life.wires.fault = None
    assert (await stands(life, task)).state == "released"


async def test_a_lost_answer_is_made_good_within_one_attempt(life: Life) -> None:
    task = await life.create()
    await life.upload(task)
    seen: set[tuple[int, str]] = set()

    def lossy(server: int, request: httpx2.Request, answer: Answer) -> Answer:
        if (server, request.url.path) not in seen:
            seen.add((server, request.url.path))
            raise httpx2.ReadTimeout("lost")
        return answer

    life.wires.fault = lossy
    assert (await stands(life, task)).state == "released"


async def test_a_defect_is_named_and_does_not_end_the_process(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await life.create()
    await life.upload(task)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(life.service.archive, "write", broken)
        job = await stands(life, task)
    assert (job.state, job.stage, problem(job)) == ("waiting", "reconstruct", "internal")
    assert (await stands(life, task)).state == "released"


async def test_a_full_disk_leaves_a_job_waiting_and_it_goes_on_when_there_is_room(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await life.create("sum")
    await life.upload(task)
    store, left = life.service.store, [5]
    put, write_down = store.put_document, store.set_job

    def require_room() -> None:
        if left[0]:
            left[0] -= 1
            raise OperationalError("INSERT", {}, sqlite3.OperationalError("database or disk is full"))

    def full_put(*arguments: object, **options: object) -> None:
        require_room()
        put(*arguments, **options)  # type: ignore[arg-type]

    def full_write_down(job: Job) -> None:
        if job.state != "running":
            require_room()
        write_down(job)

    monkeypatch.setattr(jobs, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(store, "put_document", full_put)
    monkeypatch.setattr(store, "set_job", full_write_down)
    job = await stands(life, task)
    assert (job.state, problem(job), left) == ("waiting", "unavailable", [0])
    assert await life.release(task)
