"""Real processes on loopback: three servers and an analyzer, one server killed in the middle of the uploads."""

import asyncio
import io
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from services import Service, analyst_token, local_services, running

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_client import Client, Retries, SendSummary
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.crypto.ring import FloatArray, IntArray, from_ring, to_ring
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.ideal import client_report
from lintra_protocol.task import Task
from support.measured import measurement_of

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NUM_ROWS = 1000
SKETCH_ROWS = 7
COLUMNS = ["age", "bmi", "pressure", "glucose"]
ROWS = np.random.default_rng(7).normal(0, 3, (NUM_ROWS, len(COLUMNS)))


def seeded(index: int) -> RandomBytes:
    return expand(index.to_bytes(32, "big"), "end to end client")


def specification(kind: str) -> dict[str, object]:
    mechanism: dict[str, object] = {"kind": kind} | ({"rows": SKETCH_ROWS} if kind == "osnap" else {})
    return {
        "purpose": f"End-to-end test of {kind}",
        "columns": [{"name": name, "lower": -9, "upper": 9, "center": 0.5, "scale": 2} for name in COLUMNS],
        "mechanism": mechanism,
        "row_bound": 3,
        "epsilon": 1,
        "delta": 1e-6,
        "min_clients": NUM_ROWS,
        "verification": "none",
        "share_form": "seeded" if kind == "osnap" else "uniform",
    }


async def send_while_a_server_is_killed(task_id: str, urls: list[str], victim: Service) -> tuple[SendSummary, int]:
    """Send all rows; after the first acknowledged block, kill a server, and start it again a second later.

    Returns what was sent, and how many rows were acknowledged when the server died.
    """
    first_block = asyncio.Event()
    acknowledged = 0
    retries = Retries(attempts=60, first_wait=0.1, longest_wait=0.5)

    async def kill_and_restart() -> int:
        await first_block.wait()
        victim.kill()
        at_kill = acknowledged
        await asyncio.sleep(1.0)
        victim.start()
        return at_kill

    def note(done: int) -> None:
        nonlocal acknowledged
        acknowledged = done
        first_block.set()

    async with Client(task_id, urls, ledger=None, retries=retries) as client:
        killer = asyncio.create_task(kill_and_restart())
        sent = await client.send_many(ROWS, random_bytes_for=seeded, progress=note)
        return sent, await killer


def expected_integers(task: Task, report_ids: list[bytes], seed: bytes) -> tuple[set[bytes], IntArray]:
    """Return the identifiers that the seeded clients' reports have, and matrix times noised rows, mod 2^64."""
    times = (task.not_before, task.not_before + 1)
    noised = {}
    for index, row in enumerate(ROWS):
        integers = task.encode(task.schema_arrays.row(row)[np.newaxis], seeded(index))[0]
        for time in times:  # the test may run over a full hour
            noised[client_report(task, row, time, seeded(index)).report_id] = integers
    matrix = task.mechanism.public_matrix(len(report_ids), seed)
    rows, signs = matrix.entries(np.arange(len(report_ids)))
    total = np.zeros((matrix.rows, task.num_words), np.uint64)
    for report_id, row, sign in zip(report_ids, rows[:, 0], signs[:, 0], strict=True):
        total[row] += to_ring(noised[report_id]) * np.uint64(int(sign) % 2**64)
    return set(noised), from_ring(total)


def released_after_a_kill(folder: Path, asked: dict[str, object]) -> tuple[Task, FloatArray, IntArray]:
    """Release a task of real services of which one server was killed during the uploads.

    Returns the task, what was released, and what the public matrix and the clients' reports say it is, in ring units.
    """
    servers, analyzer_service = local_services(folder, 3)
    token = analyst_token(folder)
    with running([*servers, analyzer_service]), AnalyzerClient(analyzer_service.url, token) as analyzer:
        view = analyzer.create_task(asked)
        task = Task.from_value(view["definition"])
        urls = [server.url for server in servers]
        sent, at_kill = asyncio.run(send_while_a_server_is_killed(task.task_id, urls, servers[1]))
        assert 0 < at_kill < NUM_ROWS
        assert (sent.sent, sent.failed) == (NUM_ROWS, ())
        servers[1].wait_until_ready()

        release_id = analyzer.release(task.task_id)
        record = analyzer.record(release_id).verified(analyzer.keys()["identity_key"])
        report_ids = [parse_base64url(each) for each in analyzer.cohort(release_id)["report_ids"]]
        released: FloatArray = np.load(io.BytesIO(analyzer.sketch(release_id)), allow_pickle=False)["values"]

    known, integers = expected_integers(task, report_ids, parse_base64url(record.seed))
    assert len(set(report_ids)) == NUM_ROWS
    assert set(report_ids) <= known
    assert record.task_id == base64url(task.id_bytes)
    return task, released, integers


@pytest.mark.parametrize("kind", ["osnap", "second_moment"])
def test_no_acknowledged_report_is_lost_and_the_release_is_matrix_times_noised_rows(tmp_path: Path, kind: str) -> None:
    task, released, integers = released_after_a_kill(tmp_path, specification(kind))
    assert_array_equal(released, measurement_of(task, task.num_columns).decode(integers))


def test_where_servers_add_the_noise_the_release_is_matrix_times_bare_rows_and_the_noise_of_three(
    tmp_path: Path,
) -> None:
    asked = specification("osnap") | {"mechanism": {"kind": "osnap", "rows": 200}, "noise": "servers"}
    task, released, integers = released_after_a_kill(tmp_path, asked)
    noise = released - measurement_of(task, task.num_columns).decode(integers)
    standard = noise / (task.mechanism.sigma * 2.0**-task.mechanism.fraction_bits)
    # 800 words: the mean square of three servers' noise is 3, and leaves 2.5 to 3.5 with a chance of 1 in 1,000. That
    # of two would be in between with a chance of 3 in ten million, that of four with 6 in 1,000.
    assert standard.size == 800
    assert 2.5 < float(np.square(standard).mean()) < 3.5
