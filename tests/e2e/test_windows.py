"""Real processes on loopback: a task with windows, one server killed between them, and only the schedule releases.

Clients and servers add noise, as they do by default.
"""

import asyncio
import io
import math
import time
from pathlib import Path

import numpy as np
import pytest
from services import analyst_token, local_services, running

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_client import Client, Retries, SendSummary
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.crypto.ring import FloatArray, from_ring, to_ring
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.ideal import client_report
from lintra_protocol.task import Task
from support.measured import measurement_of

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NUM_ROWS = 60
NUM_WINDOWS = 2
COLUMNS = ["sleep", "mood", "steps"]
ROWS = np.random.default_rng(11).normal(0, 3, (NUM_WINDOWS, NUM_ROWS, len(COLUMNS)))
PATIENCE = 120.0
"""Seconds in which both windows are released: the schedule looks every 10 when they are due, and tries after 60."""

WINDOW_SECONDS = 8
"""On a quiet machine; it is longer where four services take longer to start, since one of them starts in a window."""

SPECIFICATION = {
    "purpose": "End-to-end test of windows",
    "columns": [{"name": name, "lower": -9, "upper": 9, "center": 0.5, "scale": 2} for name in COLUMNS],
    "mechanism": {"kind": "sum"},
    "row_bound": 3,
    "epsilon": 1,
    "delta": 1e-6,
    "min_clients": NUM_ROWS,
    "verification": "none",
    "time_precision": 1,
    "reports_per_source": NUM_WINDOWS,
}


def seeded(window: int, index: int) -> RandomBytes:
    return expand(index.to_bytes(32, "big"), f"end to end, window {window}")


def send_window(task: Task, urls: list[str], window: int) -> SendSummary:
    """Send the rows of a window by the real clock, once it has begun."""
    begins, ends = (unit * task.time_precision for unit in task.span(window))
    time.sleep(max(begins - time.time(), 0))

    async def send() -> SendSummary:
        retries = Retries(attempts=60, first_wait=0.1, longest_wait=0.5)
        async with Client(task.task_id, urls, ledger=None, retries=retries) as client:
            return await client.send_many(ROWS[window], random_bytes_for=lambda index: seeded(window, index))

    sent = asyncio.run(send())
    assert time.time() < ends, "this machine is too slow to fill a window"
    return sent


def identifiers(task: Task, window: int) -> set[bytes]:
    """Return the identifiers that the window's reports have, whenever in the window they were made."""
    times = range(*task.span(window))
    made = ((row, time, seeded(window, index)) for index, row in enumerate(ROWS[window]) for time in times)
    return {client_report(task, *each).report_id for each in made}


def sum_of_noised_rows(task: Task, window: int) -> FloatArray:
    """Return all noised rows of a window's clients, added mod 2^64, without what servers add."""
    total = np.zeros((1, task.num_words), np.uint64)
    for index, row in enumerate(ROWS[window]):
        total += to_ring(task.encode(task.schema_arrays.row(row)[np.newaxis], seeded(window, index)))
    decoded: FloatArray = measurement_of(task, task.num_columns).decode(from_ring(total))
    return decoded


def releases_by_window(analyzer: AnalyzerClient, task: Task) -> list[str | None]:
    """Return the release of every window, in order; None for one that has none."""
    found = {view["window"]: view["release_id"] for view in analyzer.windows(task.task_id)}
    return [found.get(window) for window in range(NUM_WINDOWS)]


def require_floors(task: Task, found: FloatArray) -> None:
    """Check what servers added to each window, shape `(windows, 1, w)`: noise of their deviation, new in each window.

    Six numbers of N(0, 1) have squares of more than 46 together with a chance of 3e-8, and of less than 0.02 with one
    below 3e-7.
    """
    assert task.noise == "both"
    squares = np.square(found / task.measurement.layout.deviation("row", 0))
    assert squares.size == 6
    assert 0.02 < squares.sum() < 46
    assert not np.isclose(found[0], found[1]).any()


def test_the_schedule_releases_every_window_once_though_a_server_was_killed_between_them(tmp_path: Path) -> None:
    servers, analyzer_service = local_services(tmp_path, 3)
    token = analyst_token(tmp_path)
    begun = time.monotonic()
    with running([*servers, analyzer_service]), AnalyzerClient(analyzer_service.url, token) as analyzer:
        seconds = max(WINDOW_SECONDS, math.ceil(2 * (time.monotonic() - begun)))
        windows = {"windows": {"window_seconds": seconds, "grace_seconds": 4, "max_windows": NUM_WINDOWS}}
        task = Task.from_value(analyzer.create_task(SPECIFICATION | windows)["definition"])
        urls = [server.url for server in servers]
        sent = send_window(task, urls, 0)
        assert (sent.sent, sent.failed) == (NUM_ROWS, ())
        servers[1].kill()
        time.sleep(max(task.span(1)[0] * task.time_precision - time.time(), 0))
        servers[1].start()
        servers[1].wait_until_ready()
        sent = send_window(task, urls, 1)
        assert (sent.sent, sent.failed) == (NUM_ROWS, ())

        deadline = time.monotonic() + PATIENCE + seconds
        while None in (released := releases_by_window(analyzer, task)) and time.monotonic() < deadline:
            time.sleep(0.5)
        floors = []
        for window, release_id in enumerate(released):
            assert release_id is not None, analyzer.windows(task.task_id)
            record = analyzer.record(release_id).verified(analyzer.keys()["identity_key"])
            assert (record.task_id, record.batch, record.num_clients) == (task.task_id, window, NUM_ROWS)
            cohort = {parse_base64url(each) for each in analyzer.cohort(release_id)["report_ids"]}
            assert len(cohort) == NUM_ROWS
            assert cohort <= identifiers(task, window)
            values = np.load(io.BytesIO(analyzer.sketch(release_id)), allow_pickle=False)["values"]
            floors.append(values - sum_of_noised_rows(task, window))
        require_floors(task, np.array(floors))

        # A schedule that begins anew, after a power cut, and whoever asks again find the releases that there are.
        analyzer_service.kill()
        analyzer_service.start()
        analyzer_service.wait_until_ready()
        for window, release_id in enumerate(released):
            assert analyzer.start_release(task.task_id, window)["release_id"] == release_id
        time.sleep(11)  # the schedule looks every 10 seconds
        assert releases_by_window(analyzer, task) == released
        assert sorted(each["release_id"] for each in analyzer.releases()) == sorted(map(str, released))
