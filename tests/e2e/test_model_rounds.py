"""Real processes on loopback: one command runs three rounds of a logistic regression; the sums are the ideal's."""

import asyncio
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from services import analyst_token, local_services, running

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_client import Client, ClientPolicy
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.crypto.ring import FloatArray, from_ring, to_ring
from lintra_protocol.task import Task
from support.newton import logistic_rows

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NUM_ROWS, ROUNDS = 40, 3
ROWS = logistic_rows(NUM_ROWS, [1.0, -1.0], 0.5, seed=3)
PATIENCE = 240.0

SPECIFICATION = {
    "purpose": "End-to-end test of rounds",
    "columns": [
        *({"name": name, "lower": -1, "upper": 1} for name in ("dose", "age")),
        {"name": "ill", "kind": "boolean"},
    ],
    "mechanism": {"kind": "newton_step", "rounds": ROUNDS, "intercept": 1},
    "row_bound": 2,
    "epsilon": 1,
    "delta": 1e-6,
    "min_clients": NUM_ROWS,
    "max_corrupt_clients": 0,
    "noise": "clients",
    "verification": "none",
    "time_precision": 1,
    "duration_seconds": 3600,
}


def seeded(task: Task, index: int) -> RandomBytes:
    return expand(index.to_bytes(32, "big"), f"end to end, {task.task_id}")


def send(task: Task, urls: list[str]) -> None:
    async def sending() -> None:
        # Rounds have noise of clients alone, which bounds little if all others are invented.
        policy = ClientPolicy(trust_enrolment=True)
        async with Client(task.task_id, urls, policy=policy, ledger=None) as client:
            sent = await client.send_many(ROWS, random_bytes_for=lambda index: seeded(task, index))
            assert (sent.sent, sent.failed) == (NUM_ROWS, ())

    asyncio.run(sending())


def ideal(task: Task) -> FloatArray:
    """Return what a release has to be, bit for bit: all clients' noised rows, added mod 2^64."""
    total = np.zeros((1, task.num_words), np.uint64)
    for index, row in enumerate(ROWS):
        total += to_ring(task.encode(task.schema_arrays.row(row)[np.newaxis], seeded(task, index)))
    parameter = [float(number) for number in task.mechanism.parameter]  # type: ignore[attr-defined]
    return np.vstack([np.array(parameter), task.measurement.decode(from_ring(total))])


def test_one_command_runs_three_rounds_whose_sums_are_those_of_one_function(tmp_path: Path) -> None:
    servers, service = local_services(tmp_path, 3)
    file = tmp_path / "model.json"
    file.write_text(json.dumps(SPECIFICATION))
    token = analyst_token(tmp_path)
    with running([*servers, service]), AnalyzerClient(service.url, token) as analyzer:
        words = [
            "analyzer",
            "model",
            "run",
            str(file),
            "--reports",
            str(NUM_ROWS),
            "--poll",
            "0.5",
            "--url",
            service.url,
        ]
        command = subprocess.Popen(
            [Path(sys.executable).with_name("lintra"), *words],
            env=os.environ | {"LINTRA_ANALYZER_TOKEN": token},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        tasks: list[Task] = []
        deadline = time.monotonic() + PATIENCE
        while len(tasks) < ROUNDS and time.monotonic() < deadline and command.poll() is None:
            models = analyzer.models.all()
            rounds = analyzer.models.show(models[0]["task_id"])["rounds"] if models else []
            if len(rounds) > len(tasks) and rounds[-1]["state"] == "collecting":
                tasks.append(Task.from_value(analyzer.task(rounds[-1]["task_id"])["definition"]))
                send(tasks[-1], [server.url for server in servers])
            time.sleep(0.5)
        try:
            printed, progress = command.communicate(timeout=PATIENCE)
        finally:
            command.kill()
        assert command.returncode == 0, progress
        found = analyzer.models.show(tasks[0].task_id)
        assert [one["task_id"] for one in found["rounds"]] == [task.task_id for task in tasks]
        assert found["ended"] == "the last of 3 rounds is released"
        for task, one in zip(tasks, found["rounds"], strict=True):
            numbers = np.load(io.BytesIO(analyzer.sketch(one["release_id"])), allow_pickle=False)
            assert_array_equal(numbers["values"], ideal(task)[1:])
    assert "Logistic regression of ill in at most 3 rounds" in printed
    assert "needs another round" in printed or "cannot be told" in printed  # forty rows tell nothing at epsilon 1
