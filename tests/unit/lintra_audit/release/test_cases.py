"""The neighbours that an audit takes are the farthest there are."""

from functools import partial

import numpy as np
import pytest

from lintra_audit.release.cases import case_of_task
from lintra_audit.release.run import audit_case, far_rows
from lintra_audit.trials.case import Case
from lintra_protocol.mechanisms import SecondMoment
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task
from support import SEED, make_task


def task_with(intercept: str, trace: bool = False, columns: int = 2, min_clients: int = 10) -> Task:
    claim = Claim(epsilon="4", delta="0.00001", min_clients=min_clients, max_corrupt_clients=1, threat="adaptive")
    plain = SecondMoment(row_bound="1", fraction_bits=0, sigma=4, intercept=intercept, trace=trace)
    return make_task(plain.calibrated(claim, columns, 1000), columns=columns, claim=claim)


@pytest.mark.parametrize("intercept", ["0", "0.3", "0.7", "1.5"])
@pytest.mark.parametrize("trace", [False, True])
def test_the_two_rows_of_a_victim_are_as_far_apart_as_the_promise_allows(intercept: str, trace: bool) -> None:
    task = task_with(intercept, trace)
    mechanism = task.mechanism
    worlds = [mechanism.round_rows(rows[:1]) for rows in far_rows(Case("task", "", lambda: task, 10), 0)]
    encoded = np.array([mechanism.encode_exactly(row)[0] for row in worlds]) / mechanism.sigmas(2)
    distance = np.square(encoded[0] - encoded[1]).sum() * mechanism.sigma**2
    assert float(mechanism.squared_distance(task.claim, 2)) * 0.999 < distance


@pytest.mark.parametrize("intercept", ["0", "1"])
def test_in_one_dimension_the_two_rows_differ(intercept: str) -> None:
    first, second = far_rows(Case("task", "", partial(task_with, intercept, columns=1), 10), 0)
    assert first[0, 0] != second[0, 0]


@pytest.mark.parametrize("min_clients", [10, 400])
@pytest.mark.slow
def test_a_task_with_a_trace_and_an_intercept_passes_its_audit(min_clients: int) -> None:
    case, _ = case_of_task(task_with("0.5", trace=True, min_clients=min_clients))
    assert audit_case(case, 2000, SEED).passed
