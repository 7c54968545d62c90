"""The analyzer's patience is with silence: a server may take as long for a step as it says that it is at it."""

import json
import time

import httpx2
import pytest

from lintra_analyzer.exchange import servers
from lintra_protocol.errors import BatchOpenError
from lintra_protocol.http.problems import MEDIA_TYPE, to_problem
from lintra_server.batches import jobs
from lintra_server.batches.gate import Gate
from support.analyzer_world import Answer, Life

TIMEOUT, SLOW = 0.4, 0.9
"""Seconds of silence that the analyzer bears, and how long a slow step takes."""


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every freeze and release take longer than the analyzer waits for an answer."""
    for name in ("freeze", "release"):
        real = getattr(Gate, name)

        def late(self: Gate, *arguments: object, real=real) -> bytes:  # type: ignore[no-untyped-def]
            time.sleep(SLOW)
            return real(self, *arguments)

        monkeypatch.setattr(Gate, name, late)
    monkeypatch.setattr(servers, "LONGEST_WAIT", 0.05)


async def filled(life: Life) -> str:
    task = await life.create()
    await life.upload(task)
    return task.task_id


@pytest.mark.usefixtures("slow")
async def test_a_cohort_that_takes_longer_than_the_timeout_freezes_and_is_released(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = await filled(life)
    life.wires.timeout = TIMEOUT
    try:
        # A server that is silent until it is done is given up.
        monkeypatch.setattr(jobs, "ANSWER_SECONDS", 60.0)
        life.service.start_release(task_id)
        await life.service.jobs.finished(task_id)
        assert life.service.job(task_id).release_id is None
        monkeypatch.setattr(jobs, "ANSWER_SECONDS", 0.05)
        life.service.start_release(task_id)
        await life.service.jobs.finished(task_id)
        assert life.service.job(task_id).release_id is not None, life.service.job(task_id)
    finally:
        life.wires.timeout = None


@pytest.mark.usefixtures("slow")
@pytest.mark.slow
async def test_a_server_that_forgot_a_step_is_asked_for_it_again(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "ANSWER_SECONDS", 0.05)
    task_id = await filled(life)
    forgot = list[int]()

    def began_anew(server: int, request: httpx2.Request, answer: Answer) -> Answer:
        if server == 1 and request.method == "GET" and request.url.path.endswith("/cohort") and not forgot:
            forgot.append(server)
            problem = to_problem(BatchOpenError("its cohort does not exist yet"), instance="urn:lintra:request:0")
            return 409, {"content-type": MEDIA_TYPE}, json.dumps(problem).encode()
        return answer

    life.wires.fault = began_anew
    life.service.start_release(task_id)
    await life.service.jobs.finished(task_id)
    assert life.service.job(task_id).release_id is not None, life.service.job(task_id)
    asked = [method for server, method, resource in life.wires.log if (server, resource) == (1, "cohort")]
    assert asked[:3] == ["PUT", "GET", "PUT"]
