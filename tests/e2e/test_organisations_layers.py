"""Organisations of whom most may be invented: both layers of noise, by real processes and the ledgers of persons."""

import io
import math
from pathlib import Path

import numpy as np
import pytest
from services import analyst_token, local_services, running

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_client import BlockingClient, Ledger
from lintra_client.ledger.prices import price_of
from lintra_protocol.task import Task

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ORGANISATIONS, PERSONS = 12, 20
COLUMNS = ["sleep", "mood", "steps"]
ROWS = np.random.default_rng(12).uniform(-1, 1, (ORGANISATIONS, PERSONS, len(COLUMNS)))

SPECIFICATION = {
    "purpose": "End-to-end test of organisations and two layers",
    "columns": [{"name": name, "lower": -1, "upper": 1} for name in COLUMNS],
    "mechanism": {"kind": "sum"},
    "row_bound": 2,
    "epsilon": 4,
    "epsilon_alone": 8,
    "delta": 1e-6,
    "min_clients": ORGANISATIONS,
    "max_clients": ORGANISATIONS,
    "max_corrupt_clients": 1,
    "client_auth": "token",
    "contributors": {"rows_per_person": 1, "max_rows": PERSONS, "count": "exact"},
}


def test_persons_of_organisations_are_hidden_by_both_layers_through_real_processes(tmp_path: Path) -> None:
    servers, analyzer_service = local_services(tmp_path, 3)
    token = analyst_token(tmp_path)
    with running([*servers, analyzer_service]), AnalyzerClient(analyzer_service.url, token) as analyzer:
        task = Task.from_value(analyzer.create_task(SPECIFICATION)["definition"])
        assert task.noise == "both"
        assert task.mechanism.floor > 0
        urls = [server.url for server in servers]
        for number, place in enumerate(analyzer.tokens(task.task_id, ORGANISATIONS)):
            names = [f"person {number}-{person}" for person in range(PERSONS)]
            rows = dict(zip(COLUMNS, ROWS[number].T, strict=True)) | {"person": names}
            with Ledger(tmp_path / f"ledger-{number}", max_epsilon=4) as ledger:
                with BlockingClient(task.task_id, urls, ledger=ledger, token=place) as client:
                    client.contribute(rows, person="person")
                spent = ledger.spent(names[7])
            assert spent.spent == price_of(task)
            assert spent.unbounded == 0
            assert 4 < spent.epsilon_alone <= 8
        release_id = analyzer.release(task.task_id)
        record = analyzer.record(release_id).verified(analyzer.keys()["identity_key"])
        assert record.num_clients == ORGANISATIONS
        assert 7.9 < record.privacy.epsilon_alone <= 8
        values = np.load(io.BytesIO(analyzer.sketch(release_id)), allow_pickle=False)["values"].ravel()
    # Noise of twelve organisations and of three servers hides three sums, each by less than six deviations.
    deviation = task.measurement.layout.deviation("row", ORGANISATIONS)
    exact = ROWS.reshape(-1, len(COLUMNS)).sum(axis=0)
    found = np.abs(values[: len(COLUMNS)] - exact) / deviation
    assert found.max() < 6
    assert math.sqrt(np.square(found).sum()) > 0.01
