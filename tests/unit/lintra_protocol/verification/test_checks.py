"""Checks of servers: honest reports pass all of them."""

import numpy as np
import pytest

from lintra_protocol.report.report import checks_of, make_reports
from lintra_protocol.report.wire import BLIND_BYTES
from lintra_protocol.verification.checks import accepted
from lintra_protocol.verification.points import check_points
from support import make_task, source

POINTS = check_points(bytes(range(32)))
KINDS = ["sum", "osnap", "second_moment", "histogram"]


def random_rows(count: int, seed: int, bound: float = 3.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-bound, bound, (count, 3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_all_honest_noised_reports_are_accepted(kind: str, count: int) -> None:
    task = make_task(kind, columns=3, num_servers=2, verification="norm", max_rejected="0.1")
    assert task.verified is not None
    for start in range(0, count, 1000):
        noised = task.encode(random_rows(min(count, 1000), start), source(f"noise {start}"))
        reports = make_reports(task, noised, 1, source(f"shares {start}"))
        payloads = [b"".join(report.shares[server][BLIND_BYTES + 1 :] for report in reports) for server in range(2)]
        checks = [checks_of(task, server, payloads[server], POINTS) for server in range(2)]
        assert accepted(task.verified, checks, POINTS).all()
