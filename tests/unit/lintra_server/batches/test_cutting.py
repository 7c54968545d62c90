"""What is kept of a task for ever: its identifier and how it ended; everything else goes in time."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lintra_protocol.encoding.canonical import base64url
from lintra_server.batches import registry
from lintra_server.clock import DAY, SETTLING_SECONDS
from lintra_server.storage.batch_states import BatchStates
from lintra_server.storage.server_resources import DATABASE_FILE
from lintra_server.storage.store import Store
from simulation.trouble import CrashError
from support.server_world import POLICY, World, a_world, text, token


def pass_days(world: World, days: int) -> None:
    """Let time pass with the server running, and what is due settle."""
    world.clock.seconds = world.task.not_after * world.task.time_precision + days * DAY
    for _ in range(2):
        world.apps[0].node.maintain()
        world.clock.seconds += SETTLING_SECONDS
    world.apps[0].node.maintain()


def set_back(world: World) -> None:
    """Set the clock to the beginning of the task, and let the operator confirm it."""
    world.clock.seconds = world.task.not_before * world.task.time_precision
    world.apps[0].node.clock.accept()
    world.apps[0].node.keys.maintain()


def counted(world: World, table: str) -> int:
    with world.apps[0].node.database.reading() as connection:
        return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())


@pytest.mark.slow
async def test_a_released_task_is_cut_to_its_end_a_year_later_and_never_taken_again(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(12)
        await world.upload_everywhere(reports)
        assert (await world.ask(0, "GET", "/counters")).status_code == 200
        assert (await world.release(0)).status_code == 200
        pass_days(world, 364)
        path = f"/v1/tasks/{world.task.task_id}"
        assert (await world.http[0].get(path)).status_code == 200
        assert (await world.http[0].get(f"{path}/batches/0/inclusion/{text(reports[0])}")).status_code == 200
        pass_days(world, 366)
        for _ in range(2):
            gone = await world.http[0].get(path)
            assert (gone.status_code, token(gone)) == (404, "unrecognized_task")
            assert "its batch is scrubbed" in gone.text
            assert [counted(world, name) for name in ("segments", "looks")] == [0, 0]
            assert world.apps[0].node.store.history.definition_bytes == 0
            # Nothing looks lost, now and at the next start.
            assert world.apps[0].node.store.check_ends() == []
            world.reopen(0)
        # Even with the clock set back its end stays: it is known, and takes nothing.
        set_back(world)
        assert (await world.register(0)).status_code == 201
        refused = (await world.upload(0, reports)).failures
        assert {failure.type for failure in refused} == {"batch_closed"}
        assert world.apps[0].node.store.history.definition_bytes == len(world.task.canonical())
        # What came back is cut once more.
        pass_days(world, 366)
        assert world.apps[0].node.store.history.definition_bytes == 0


QUESTIONS = [("POST", "inventory"), ("GET", "inventory"), ("GET", "inventory/ids"), ("GET", "cohort")]


@pytest.mark.parametrize("released", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_a_task_that_was_cut_and_is_registered_again_with_the_clock_set_back_gives_and_takes_nothing(
    tmp_path: Path, released: bool
) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(12 if released else 3)
        await (world.upload_everywhere(reports) if released else world.upload(0, reports))
        request = await world.aggregate_request() if released else None
        if request is not None:
            assert (await world.release(0, request)).status_code == 200
        pass_days(world, 100)
        pass_days(world, 366)
        assert world.apps[0].node.store.history.definition_bytes == 0
        set_back(world)
        assert (await world.register(0)).status_code == 201
        with capture_logs() as logs:
            for _ in range(3):
                # The same at each start, and nothing looks edited.
                assert {each.type for each in (await world.upload(0, reports)).failures} == {"batch_closed"}
                answers = [await world.ask(0, method, f"/batches/0/{name}") for method, name in QUESTIONS]
                answers += [await world.release(0, request)] if request is not None else []
                assert {answer.status_code for answer in answers} == {404 if released else 410}
                assert world.apps[0].node.store.check_ends() == []
                world.reopen(0)
        assert [entry["event"] for entry in logs if entry["log_level"] in ("error", "critical")] == []
        assert world.halts == []


async def test_a_task_that_was_given_up_is_cut_as_well(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await world.upload(0, world.reports(3))
        pass_days(world, 100)
        assert (await world.ask(0, "GET", "/batches/0/inventory")).status_code == 410
        pass_days(world, 366)
        gone = await world.http[0].get(f"/v1/tasks/{world.task.task_id}")
        assert "its batch is abandoned" in gone.text


async def test_all_definitions_together_have_a_quota_of_bytes(tmp_path: Path) -> None:
    size = 4000
    async with a_world(tmp_path, policy=POLICY.model_copy(update={"max_definitions_bytes": size})) as world:
        answers = []
        for number in range(8):
            task = world.task.model_copy(update={"salt": base64url(bytes([number]) * 32)})
            answers.append(await world.register(0, task))
        refused = [answer for answer in answers if answer.status_code == 403]
        assert refused
        assert f"more than {size} bytes" in refused[0].text
        assert world.apps[0].node.store.history.definition_bytes <= size


async def test_memory_holds_tasks_up_to_a_number_of_bytes(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    async with a_world(tmp_path) as world:
        held = world.apps[0].node.registry
        size = len(held.find(world.task.task_id).record)
        monkeypatch.setattr(registry, "MOST_HELD_BYTES", 3 * size)
        for number in range(6):
            task = world.task.model_copy(update={"salt": base64url(bytes([number]) * 32)})
            assert (await world.register(0, task)).status_code == 201
        assert 1 <= len(held._held) <= 3
        assert (await world.http[0].get(f"/v1/tasks/{world.task.task_id}")).status_code == 200


@pytest.mark.parametrize("edit", ["UPDATE tasks SET definition = x''", "DELETE FROM tasks"])
async def test_an_editor_cannot_make_a_task_look_cut(edit: str, tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(12))
        assert (await world.release(0)).status_code == 200
        world.apps[0].node.maintain()
        world.apps[0].node.close()
        with closing(sqlite3.connect(world.settings[0].data_dir / DATABASE_FILE, isolation_level=None)) as database:
            database.execute(edit)
            database.execute("UPDATE batches SET aggregate = NULL, inventory = NULL")
        world.start(0)
        answers = [await world.http[0].get(f"/v1/tasks/{world.task.task_id}")]
        answers.append(await world.ask(0, "GET", "/batches/0/aggregate"))
        assert [answer.status_code for answer in answers] == [503, 503]
        assert "table tasks, row 1" in answers[0].text


@pytest.mark.parametrize("crashes", ["before anything is deleted", "after the reports"])
async def test_a_cut_that_a_crash_interrupted_is_finished_at_the_start(
    crashes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path) as world:
        await world.upload(0, world.reports(3))
        pass_days(world, 100)
        target = (Store, "delete_ids") if crashes == "before anything is deleted" else (BatchStates, "empty")
        with monkeypatch.context() as patch:
            patch.setattr(*target, lambda *_: (_ for _ in ()).throw(CrashError))
            with pytest.raises(CrashError):
                pass_days(world, 366)
        world.reopen(0)
        assert counted(world, "segments") == 0
        assert world.apps[0].node.store.left_of_cut() == []
        gone = await world.http[0].get(f"/v1/tasks/{world.task.task_id}")
        assert "its batch is abandoned" in gone.text
        lines = [line.state for line in world.apps[0].node._parts.journal.lines]
        assert lines.count("cut") == 1
