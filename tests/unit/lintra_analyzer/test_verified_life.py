"""A verified task from its specification to its certificate, with hostile clients, lying servers and restarts."""

import json
from pathlib import Path

import httpx2
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_analysis.certificate.certificate import SignedRecord
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.ideal import client_report, run
from lintra_protocol.messages.documents import Cohort, Signed, sign
from lintra_protocol.messages.verification import Verdict
from lintra_protocol.task import Task
from support.analyzer_world import Answer, Life, clients, living
from support.checked_world import hostile

HONEST, HOSTILE = 36, 2


async def collected(life: Life, kind: str = "sum", **changes: object) -> Task:
    """Return a verified task with the reports of honest and of hostile clients."""
    task = await life.create(kind, verification="norm", max_clients=100, **changes)
    honest = [client_report(task, row, task.not_before, rng) for row, rng in clients(HONEST)]
    await life.send(task, [*honest, *hostile(task, HOSTILE)])
    return task


def nonces(life: Life, task: Task, kind: str) -> list[bytes]:
    """Return the nonces in the servers' cohorts or verdicts."""
    message = Cohort if kind == "cohort" else Verdict
    bodies = [life.service.store.document(task.task_id, 0, kind, server) for server in range(3)]  # type: ignore[arg-type]
    return [parse_base64url(Signed[message].from_canonical(body or b"").message.nonce) for body in bodies]  # type: ignore[valid-type, attr-defined]


@pytest.mark.parametrize("kind", ["sum", pytest.param("osnap", marks=pytest.mark.slow)])
async def test_hostile_reports_are_left_out_and_the_certificate_says_so(tmp_path: Path, kind: str) -> None:
    async with living(tmp_path) as life:
        task = await collected(life, kind)
        life.service.start_release(task.task_id)
        await life.service.jobs.finished(task.task_id)
        signed = SignedRecord.from_canonical(
            life.service.store.release(life.service.job(task.task_id).release_id or "")
        )
        record = signed.record
        expected = run(task, clients(HONEST), nonces(life, task, "cohort"), matrix_nonces=nonces(life, task, "verdict"))
        assert_array_equal(life.service.archive.read(record)[0], expected.sketch)
        assert record.seed == base64url(expected.seed)
        stated = record.verification
        assert stated is not None
        assert (record.num_clients, stated.accepted, stated.rejected, stated.frozen) == (HONEST, HONEST, 2, HONEST + 2)
        assert [part.left_out for part in record.servers] == [0, 0, 0]
        assert int(stated.squared_bound) == task.verified.squared_bound
        step = float(record.noise.step)
        # In whole steps, rounded up.
        assert 0 <= float(stated.influence) - step * np.sqrt(task.verified.squared_bound) < step
        assert base64url(life.service.cohort_ids(signed).root) == record.cohort_root != stated.frozen_root
        assert not any("no range proof" in line for line in record.privacy.not_promised)
        assert any("norm is at most R" in line for line in record.privacy.not_promised)


@pytest.mark.slow
async def test_an_analyzer_that_is_restarted_before_every_stage_gets_the_same_release(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        task = await collected(life)
        stages = []
        for stage in ("inventory", "cohort", "checks", "verdict", "aggregate", "reconstruct"):
            release = life.service.jobs._make(task.task_id, 0)
            stages.append(await release.take(stage))  # type: ignore[arg-type]
            life.service.store.close()
            life.restart()
        assert stages == ["cohort", "checks", "verdict", "aggregate", "reconstruct", "released"]
        assert life.service.job(task.task_id).release_id is not None


async def test_a_changed_body_and_a_false_verdict_are_found_by_the_analyzer_itself(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        task = await collected(life)

        def changed(server: int, request: httpx2.Request, answer: Answer) -> Answer:
            status, headers, body = answer
            if server == 1 and request.url.path.endswith("/checks/body"):
                return status, headers, bytes([body[0] ^ 1]) + body[1:]
            return answer

        def false(server: int, request: httpx2.Request, answer: Answer) -> Answer:
            status, headers, body = answer
            if server == 1 and request.method == "PUT" and request.url.path.endswith("/verdict"):
                verdict = Signed[Verdict].from_canonical(body).message.model_copy(update={"rejected": 1})
                return status, headers, sign(life.servers[1].node.identity, verdict).canonical()
            return answer

        for fault in (changed, false):
            life.wires.fault = fault
            life.service.start_release(task.task_id)
            await life.service.jobs.finished(task.task_id)
            problem = life.service.job(task.task_id).problem
            assert problem is not None
            assert str(problem["type"]).endswith("checks_mismatch"), json.dumps(problem)
            assert "server 1" in str(problem["detail"])
        life.wires.fault = None
        assert await life.release(task)


@pytest.mark.slow
async def test_too_many_hostile_reports_end_the_batch_for_the_analyst_too(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        task = await collected(life)
        await life.send(task, hostile(task, 3, "more"))
        life.service.start_release(task.task_id)
        await life.service.jobs.finished(task.task_id)
        job = life.service.job(task.task_id)
        assert (job.state, str((job.problem or {})["type"])) == ("failed", "urn:lintra:problem:too_many_rejected")
        assert [app.node.store.batch(1).state for app in life.servers] == ["abandoned"] * 3
