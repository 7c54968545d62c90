"""Node programs against three real servers and an analyzer: a release equal to the bit, and proofs for every sender."""

import json
import sys
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from services import analyst_token, local_services, running

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_protocol.crypto.randomness import keystream
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.task import Task

sys.path.append(str(Path(__file__).resolve().parent))
from test_client import node

CLIENTS = 12
SPECIFICATION: dict[str, Any] = {
    "purpose": "waiting times", "row_bound": 1, "epsilon": 2, "delta": 1e-6, "min_clients": 10,
    "max_corrupt_clients": 0, "neighbours": "replace-one", "client_auth": "none", "max_missing": 0.25,
    "columns": [
        {"name": "minutes", "lower": 0, "upper": 240, "center": 120, "scale": 200},
        {"name": "kind", "kind": "category", "levels": ["a", "b", "(other)"],
         "code_book": {"levels": [{"level": "a", "label": "Aller"}]}},
        {"name": "again", "kind": "boolean"},
    ],
    "mechanism": {"kind": "second_moment", "intercept": 0.5},
}  # fmt: skip


def rows() -> list[dict[str, object]]:
    return [
        {"minutes": 20 * number, "kind": ["ALLER", "b", None][number % 3], "again": number % 2 == 0}
        if number
        else {"minutes": None, "kind": "b", "again": None}
        for number in range(CLIENTS)
    ]


def seed(number: int) -> bytes:
    return sha256(f"a client in TypeScript {number}".encode()).digest()


def words(task: Task) -> IntArray:
    """Return the sum of all reports' words as this package makes them from the same bytes."""
    made = [task.encode(task.schema_arrays.row(row)[np.newaxis], keystream(seed(n)))[0] for n, row in enumerate(rows())]
    total: IntArray = np.sum(made, axis=0)
    return total


def deviations(task: Task) -> IntArray:
    """Return the deviation of what one server adds to each word; nothing where it adds none."""
    layout = task.measurement.layout
    return layout.floor.of(np.array(layout.sigmas))


# The default has noise of clients and servers, row weights and dithering; of clients' noise alone sums are exact.
WEIGHTED: dict[str, Any] = SPECIFICATION | {
    "mechanism": {
        "kind": "second_moment",
        "intercept": 0.5,
        "row_weights": "features",
        "target": "minutes",
        "target_bound": 0.6,
    }
}


@pytest.mark.e2e
@pytest.mark.slow
def test_reports_from_node_make_the_release_that_their_seeds_say(built: Path, tmp_path: Path) -> None:
    servers, analyzer = local_services(tmp_path, 3)
    token = analyst_token(tmp_path)
    with running([*servers, analyzer]), AnalyzerClient(analyzer.url, token) as desk:
        for specification in (WEIGHTED, SPECIFICATION | {"noise": "clients"}):
            task = Task.from_value(desk.task(desk.create_task(specification)["task_id"])["definition"])
            assert task.verified is not None
            assert task.noise == specification.get("noise", "both")
            arguments = ["build/test/sender.js", task.task_id, str(tmp_path / "ledger")]
            arguments.append("trust-enrolment" if task.noise == "clients" else "trust-nobody")
            released = sent_and_released(built, [*arguments, *(each.url for each in servers)], desk, task)
            added, floor = released - words(task), deviations(task)
            # Of 20 words none is beyond 7 deviations of three floors, but once in 10^10 runs.
            assert (np.abs(added) <= 7 * np.sqrt(3) * floor).all()
            assert np.any(added) == np.any(floor) == (task.noise == "both")


def sent_and_released(built: Path, arguments: list[str], desk: AnalyzerClient, task: Task) -> IntArray:
    """Send all rows from Node, release them, ask for proofs, and return the released words."""
    lines = [{"row": row, "seed": seed(n).hex(), "source": f"person {n}"} for n, row in enumerate(rows())]
    given = "".join(json.dumps(line) + "\n" for line in [*lines, lines[0]])
    sent = [json.loads(line) for line in node(built, *arguments, given=given).splitlines()]
    assert [each["repeated"] for each in sent] == [False] * CLIENTS + [True]
    assert [each.get("incomplete") for each in sent[:2]] == [True, False]
    assert sent[0]["reportId"] == sent[-1]["reportId"]
    release_id = desk.release(task.task_id)
    record = desk.record(release_id)
    assert record.record.num_clients == CLIENTS
    assert record.record.model_dump()["verification"]["rejected"] == 0
    certificate = record.canonical().decode()
    asked = [{"counted": each["reportId"], "certificate": certificate} for each in sent[:2]]
    asked.append({"counted": sent[0]["reportId"][:-2] + "AA"})
    given = "".join(json.dumps(line) + "\n" for line in asked)
    shown = [json.loads(line) for line in node(built, *arguments, given=given).splitlines()]
    assert [(each["included"], each["certified"], each["numClients"]) for each in shown] == [
        (True, True, CLIENTS), (True, True, CLIENTS), (False, False, CLIENTS),
    ]  # fmt: skip
    with np.load(BytesIO(desk.sketch(release_id))) as released:
        found: IntArray = released["sketch"].ravel()
        return found
