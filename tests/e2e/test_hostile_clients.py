"""Real processes on loopback: one client in a hundred is hostile, and a server dies at every new state of a batch."""

import asyncio
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from services import Service, analyst_token, local_services, running

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_client import Client
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.ideal import client_report
from lintra_protocol.report import report
from lintra_protocol.task import Task
from lintra_protocol.verification.proof import ProvenRows
from support.checked_world import added_to_first_word, changed_proofs

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NUM_HONEST, NUM_HOSTILE = 396, 4  # one in a hundred, each with another lie
COLUMNS = ["age", "bmi"]
ROWS = np.random.default_rng(11).normal(0, 3, (NUM_HONEST + NUM_HOSTILE, len(COLUMNS)))
STATES = ("closed", "frozen", "checked", "judged")

SPECIFICATION = {
    "purpose": "End-to-end test of verified reports",
    "columns": [{"name": name, "lower": -9, "upper": 9} for name in COLUMNS],
    "mechanism": {"kind": "sum"},
    "row_bound": 3,
    "epsilon": 1,
    "delta": 1e-6,
    "min_clients": 360,
    "verification": "norm",
    "share_form": "seeded",
}


def seeded(index: int) -> RandomBytes:
    return expand(index.to_bytes(32, "big"), "hostile end to end client")


def one_step_beyond(proven: ProvenRows) -> ProvenRows:
    """Share the row with one added to its last word: the smallest lie there is."""
    words = proven.words.copy()
    words[:, len(COLUMNS) - 1] += 1
    return replace(proven, words=words)


def another_padding(proven: ProvenRows) -> ProvenRows:
    """Share the row with its longest square left out, beside the proof of the whole."""
    words = proven.words.copy()
    words[:, -7] = 0
    return replace(proven, words=words)


def another_proof(proven: ProvenRows) -> ProvenRows:
    """Share the row with a proof of which one coefficient is another element."""
    elements = proven.elements.copy()
    elements[2, :, -1] ^= np.uint64(1)
    return replace(proven, elements=elements)


LIES = (added_to_first_word(2**40), one_step_beyond, another_padding, another_proof)
"""One for each hostile client."""


async def send_all(task_id: str, urls: list[str]) -> None:
    """Send the rows of honest clients, and then those of hostile ones, each with a lie of its own."""
    async with Client(task_id, urls, ledger=None) as client:
        sent = await client.send_many(ROWS[:NUM_HONEST], random_bytes_for=seeded)
        assert (sent.sent, sent.failed) == (NUM_HONEST, ())
        for place, lie in enumerate(LIES, NUM_HONEST):
            with patch.object(report, "prove", changed_proofs(lie)):
                other = await client.send_many(
                    ROWS[place : place + 1], random_bytes_for=lambda _, place=place: seeded(place)
                )
            assert (other.sent, other.failed) == (1, ())


@contextmanager
def killed_at_every_state(victim: Service, journal: Path, killed: list[str]) -> Iterator[None]:
    """Kill a server as soon as its journal says that a batch changed its state, and start it again."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.005):
            for state in STATES:
                if state not in killed and f'"state":"{state}"' in journal.read_text():
                    killed.append(state)
                    victim.kill()
                    time.sleep(0.2)
                    victim.start()
                    victim.wait_until_ready()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


@pytest.mark.parametrize("kills", [False, True], ids=["undisturbed", "a server killed at every state"])
def test_exactly_the_hostile_reports_are_rejected_and_the_release_is_the_sum_of_the_others(
    tmp_path: Path, kills: bool
) -> None:
    servers, analyzer_service = local_services(tmp_path, 3)
    token, killed = analyst_token(tmp_path), [] if kills else list(STATES)
    journal = tmp_path / "server-1-keys" / "journal"
    with running([*servers, analyzer_service]), AnalyzerClient(analyzer_service.url, token) as analyzer:
        task = Task.from_value(analyzer.create_task(SPECIFICATION)["definition"])
        asyncio.run(send_all(task.task_id, [server.url for server in servers]))
        with killed_at_every_state(servers[1], journal, killed):
            release_id = analyzer.release(task.task_id)
        record = analyzer.record(release_id).verified(analyzer.keys()["identity_key"])
        accepted = {parse_base64url(each) for each in analyzer.cohort(release_id)["report_ids"]}
        released = np.load(io.BytesIO(analyzer.sketch(release_id)), allow_pickle=False)["sketch"]

    assert tuple(killed) == STATES
    stated = record.verification
    assert stated is not None
    assert (stated.frozen, stated.accepted, stated.rejected) == (NUM_HONEST + NUM_HOSTILE, NUM_HONEST, NUM_HOSTILE)
    times = (task.not_before, task.not_before + 1)  # the test may run over a full hour
    known = [{client_report(task, row, each, seeded(i)).report_id for each in times} for i, row in enumerate(ROWS)]
    assert [len(ids & accepted) for ids in known] == [1] * NUM_HONEST + [0] * NUM_HOSTILE
    checked = [task.schema_arrays.row(row)[np.newaxis] for row in ROWS[:NUM_HONEST]]
    assert_array_equal(released[0], np.sum([task.encode(row, seeded(i))[0] for i, row in enumerate(checked)], axis=0))
    lines = [json.loads(line.rpartition(" ")[0])["state"] for line in journal.read_text().splitlines()]
    assert [line for line in lines if line in (*STATES, "released")] == [*STATES, "released"]
