"""A task with tokens from its specification to its release, and the census that comes before it."""

from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from lintra_client import Client
from lintra_client.ledger.ledger import DISTINCT_SOURCES
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.errors import TokenInvalidError
from lintra_protocol.messages.documents import census_of, sign
from lintra_protocol.rules.release import fewest_reports
from lintra_protocol.task import Task
from support import analyzer_world
from support.analyzer_world import CLIENTS, NOW, Life, living, server_url, specification
from support.tasks import TRUSTING

URLS = [server_url(server) for server in range(3)]


def client(life: Life, task: Task, **options: object) -> Client:
    return Client(task.task_id, URLS, now=lambda: NOW, transport=life.wires, policy=TRUSTING, ledger=None, **options)  # type: ignore[arg-type]


async def tokens_of(life: Life, task: Task, count: int) -> list[str]:
    async with life.rest() as rest:
        answer = await rest.post(f"/v1/tasks/{task.task_id}/tokens", json={"count": count})
    assert answer.status_code == 201, answer.text
    return list(answer.json()["tokens"])


async def test_a_task_with_tokens_is_released_from_those_who_had_one(tmp_path: Path) -> None:
    async with living(tmp_path, {"open": False}) as life:
        task = await life.create("sum", client_auth="token")
        assert task.max_missing == "0.25"
        tokens = await tokens_of(life, task, 14)
        assert len(set(tokens)) == 14
        rows = np.random.default_rng(3).uniform(-0.5, 0.5, (14, 3))
        async with client(life, task) as one:
            with pytest.raises(TokenInvalidError):
                await one.send(rows[0])
            sent = await one.send_many(rows[:13], token_for=lambda index: tokens[index], source_for=DISTINCT_SOURCES)
            assert (sent.sent, sent.failed) == (13, ())
            again = await one.send_many(rows[:2], token_for=lambda index: tokens[index], source_for=DISTINCT_SOURCES)
            assert [failed.error.token for failed in again.failed] == ["token_spent"] * 2
        async with client(life, task, token=tokens[13]) as last:
            await last.send(rows[13])
        record = life.service.record(await life.release(task)).record
        assert record.num_clients == 14
        assert [part.left_out for part in record.servers] == [0, 0, 0]


async def test_an_open_task_has_no_tokens_and_needs_the_operator(tmp_path: Path) -> None:
    async with living(tmp_path) as life, life.rest() as rest:
        task = await life.create("sum")
        answer = await rest.post(f"/v1/tasks/{task.task_id}/tokens", json={"count": 1})
        assert (answer.status_code, answer.json()["type"]) == (400, "urn:lintra:problem:invalid_task")
    async with living(tmp_path / "closed", {"open": False}) as life, life.rest() as rest:
        refused = await rest.post("/v1/tasks", json=specification("sum"))
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:lintra:problem:policy_refused")


async def test_a_census_says_who_lacks_how_many_reports_and_changes_nothing(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with life.rest() as rest:
        task = await life.create("sum", time_precision=60)
        await life.upload(task, servers=(0, 1))
        answer = await rest.get(f"/v1/tasks/{task.task_id}/census")
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert (found["common"], found["anywhere"], found["min_clients"]) == (0, CLIENTS, 12)
        assert found["needed"] == fewest_reports(life.service.task(task.task_id))
        assert (
            found["gate"] == f"The gate is shut: 0 reports are at all servers, and {found['needed']} more are needed."
        )
        assert [(each["reports"], each["missing"]) for each in found["servers"]] == [
            (CLIENTS, 0), (CLIENTS, 0), (0, CLIENTS),
        ]  # fmt: skip
        # An outbox completes what one server lacks, and the release holds everything.
        await life.upload(task, servers=(2,))
        monkeypatch.setattr(analyzer_world, "NOW", NOW + 60)  # when servers count again
        record = life.service.record(await life.release(task)).record
        assert record.num_clients == CLIENTS


def one_more(life: Life, task: Task) -> ReportIds:
    """Return what the analyzer keeps of the census of server 1, with one report more."""
    kept = life.service.store.lists.get(task.task_id, 0, "census_ids", 1)
    assert kept is not None
    return life.service.store.lists.files.write(ReportIds.of([*kept, bytes(32)]))


async def test_an_inventory_without_a_report_of_the_servers_census_stops_the_exchange(life: Life) -> None:
    async with life.rest() as rest:
        task = await life.create("sum")
        await life.upload(task)
        assert (await rest.get(f"/v1/tasks/{task.task_id}/census")).status_code == 200
        # What the analyzer kept of server 1 now names one report more, which that server signed for.
        start = life.servers[1].node.stepper.start
        counted = one_more(life, task)
        census = sign(life.servers[1].node.identity, census_of(task, 0, 1, counted, 0, start)).canonical()
        life.service.store.replace_census(task.task_id, 0, 1, census, counted)
        async with life.rest() as analyst:
            await analyst.put(f"/v1/tasks/{task.task_id}/batches/0/release")
            await life.service.jobs.finished(task.task_id)
            job = (await analyst.get(f"/v1/tasks/{task.task_id}/batches/0/release")).json()
        assert job["state"] == "failed"
        assert job["problem"]["type"] == "urn:lintra:problem:inventory_mismatch"
        assert "signed for 1 reports in its census" in job["problem"]["detail"]


async def test_a_server_that_began_again_is_not_called_a_liar_and_the_analyst_hears_of_what_is_gone(life: Life) -> None:
    async with life.rest() as rest:
        task = await life.create("sum")
        await life.upload(task)
        assert (await rest.get(f"/v1/tasks/{task.task_id}/census")).status_code == 200
        counted = one_more(life, task)
        earlier = life.servers[1].node.stepper.start - 1
        census = sign(life.servers[1].node.identity, census_of(task, 0, 1, counted, 0, earlier)).canonical()
        life.service.store.replace_census(task.task_id, 0, 1, census, counted)
        with capture_logs() as logs:
            record = life.service.record(await life.release(task)).record
        assert record.num_clients == CLIENTS
        said = next(entry for entry in logs if "lacks reports that it had counted" in entry["event"])
        assert (said["server"], said["lacks"]) == (1, 1)


async def test_a_start_number_that_falls_is_said_and_refuses_nothing(life: Life) -> None:
    async with life.rest() as rest:
        # Another task of the same server was answered under a later number: it was set back since.
        first = await life.create("sum")
        start = life.servers[1].node.stepper.start
        assert life.service.store.servers.highest_start(first.servers[1].identity_key, start + 4) == start + 4
        await life.upload(first)
        with capture_logs() as logs:
            found = (await rest.get(f"/v1/tasks/{first.task_id}/census")).json()["servers"]
            assert life.service.record(await life.release(first)).record.num_clients == CLIENTS
        assert [(each["start"], each["highest_start"]) for each in found] == [
            (start, start), (start, start + 4), (start, start),
        ]  # fmt: skip
        # In the census, the inventory and the cohort.
        fell = [entry for entry in logs if "start number fell" in entry["event"]]
        assert [(entry["server"], entry["highest"]) for entry in fell] == [
            (1, start + 4)
        ] * 3  # census, inventory, cohort
