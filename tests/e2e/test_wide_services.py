"""Real processes on loopback: a range finder of many features, from single clients and from organisations."""

from pathlib import Path

import numpy as np
import pytest
from demo_wide import WideFlights, specification, through_clients, through_organisations, without_privacy
from services import analyst_token, local_services, running

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_protocol.errors import LintraError

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def table() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return 6,000 rows in the place of flights, whose last column follows the fourth, as delays do."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(6000, 7)) * [3.5, 9, 470, 40, 95, 730, 1] + [6.5, 16, 1350, 12, 150, 1050, 0]
    rows[:, -1] = 7 + 1.1 * (rows[:, 3] - 12) + rng.normal(size=6000) * 10
    return rows


def test_what_clients_and_organisations_learn_predicts_better_than_the_mean(tmp_path: Path) -> None:
    flights = WideFlights.of(table(), 30)
    servers, analyzer = local_services(tmp_path, 3)
    token = analyst_token(tmp_path)
    with running([*servers, analyzer]), AnalyzerClient(analyzer.url, token) as desk:
        alone = through_clients(desk, flights, 3000, 10, 10.0)
        together = through_organisations(desk, flights, np.arange(6000) % 3, ["a", "b", "c"], 10, 8.0)
        asked = specification(flights, 10, 1.0, 3, max_clients=3, neighbours="add-remove")
        asked["mechanism"]["trace"] = True
        asked["contributors"] = {"rows_per_person": 1, "max_rows": 3000}
        with pytest.raises(LintraError, match="or where rows are added, it would cost noise"):
            desk.create_task(asked)
    assert (alone["reports"], alone["rows"]) == (3000, 3000)
    assert (together["reports"], together["rows"]) == (3, 6000)
    best = without_privacy(flights)
    assert best > 0.8
    # Signs and noise are new in every run: .26 and .71 were seen for clients, and .46 for organisations.
    assert 0 < alone["r2"] < best
    assert 0 < together["r2"] < best
