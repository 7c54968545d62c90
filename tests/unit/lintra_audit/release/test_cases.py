"""The neighbours that an audit takes are the farthest there are."""

from functools import partial

import numpy as np
import pytest

from lintra_audit.kinds import directions
from lintra_audit.kinds import range_finder as wide
from lintra_audit.release.cases import cases_of_task
from lintra_audit.release.run import audit_case, far_rows
from lintra_audit.task.cli import audit_task
from lintra_audit.trials.audit_case import Case, make_case_task
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.mechanisms import RangeFinder, SecondMoment
from lintra_protocol.mechanisms.directions import encode_basis
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task
from support import SEED, make_task
from support.audit_cases import reached
from support.measured import (
    calibrated_for,
    document_of,
    measurement_of,
    noise_sigmas,
    reports_without_noise,
    row_distance,
    setting_of,
    words_of_steps,
)


def task_with(intercept: str, trace: bool = False, columns: int = 2, min_clients: int = 10) -> Task:
    claim = Claim(epsilon="4", delta="0.00001", min_clients=min_clients, max_corrupt_clients=1, threat="adaptive")
    plain = SecondMoment(row_bound="1", fraction_bits=0, sigma=4, intercept=intercept, trace=trace)
    return make_task(calibrated_for(plain, columns, claim, 1000), columns=columns, claim=claim)


@pytest.mark.parametrize("intercept", ["0", "0.3", "0.7", "1.5"])
@pytest.mark.parametrize("trace", [False, True])
def test_the_two_rows_of_a_victim_are_as_far_apart_as_the_promise_allows(intercept: str, trace: bool) -> None:
    task = task_with(intercept, trace)
    mechanism = task.mechanism
    worlds = [
        document_of(mechanism).clip(rows[:1], setting_of(mechanism))
        for rows in far_rows(Case("task", "", lambda: task, 10), 0)
    ]
    encoded = np.array([words_of_steps(mechanism, row)[0] for row in worlds]) / noise_sigmas(mechanism, 2)
    distance = np.square(encoded[0] - encoded[1]).sum() * mechanism.sigma**2
    assert float(measurement_of(mechanism, 2, task.claim).squared_distance) * 0.999 < distance


@pytest.mark.parametrize("intercept", ["0", "1"])
def test_in_one_dimension_the_two_rows_differ(intercept: str) -> None:
    first, second = far_rows(Case("task", "", partial(task_with, intercept, columns=1), 10), 0)
    assert first[0, 0] != second[0, 0]


@pytest.mark.parametrize("min_clients", [10, 400])
@pytest.mark.slow
def test_a_task_with_a_trace_and_an_intercept_passes_its_audit(min_clients: int) -> None:
    (case, *_), _ = cases_of_task(task_with("0.5", trace=True, min_clients=min_clients))
    assert audit_case(case, 2000, SEED).passed


def climbed(mechanism: RangeFinder, rng: np.random.Generator) -> float:
    """Return the largest squared distance of two rows that a random ascent finds, in multiples of the promise's."""

    def distances(rows: FloatArray) -> FloatArray:
        reports = reports_without_noise(mechanism, rows).astype(np.float64)
        squares: FloatArray = np.square(reports[::2] - reports[1::2]).sum(axis=1)
        return squares

    rows = rng.normal(size=(20, mechanism.signs(6).shape[0]))
    best, step = distances(rows), 1.0
    for _ in range(150):
        tried = rows + step * rng.normal(size=rows.shape)
        found = distances(tried)
        rows = np.where(np.repeat(found > best, 2)[:, np.newaxis], tried, rows)
        best, step = np.maximum(best, found), step * 0.97
    return float(best.max()) / float(row_distance(mechanism, "replace-one"))


@pytest.mark.parametrize(("projected", "intercept"), [("0.1", "0"), ("0.6", "0"), ("0.3", "0.3"), ("0.2", "0.9")])
def test_no_search_finds_rows_of_a_range_finder_farther_apart_than_those_of_the_audit(
    projected: str, intercept: str
) -> None:
    given = {"row_bound": "1", "fraction_bits": 0, "sigma": 4, "rank": 2, "omega_seed": base64url(bytes(32))}
    plain = RangeFinder.model_validate(given | {"projected_bound": projected, "intercept": intercept})
    task = make_case_task(plain, num_columns=6, min_clients=10)
    far = reached(Case("task", "", lambda: task, 10))
    assert isinstance(task.mechanism, RangeFinder)
    assert 0.8 * far < climbed(task.mechanism, np.random.default_rng(7)) < far * (1 + 1e-3)
    if intercept == "0":
        # 1 - (C / (k B))^2, k^2 r being the square of Omega's largest singular value; rounding takes some of 1,000.
        longest = float(np.linalg.norm(task.mechanism.signs(6), 2))
        assert far == pytest.approx(1 - float(projected) ** 2 * 2 / longest**2, rel=2e-3)


def second_round(longer: float, targets: tuple[int, ...]) -> Task:
    rng = np.random.default_rng(8)
    basis = np.linalg.qr(rng.normal(size=(30, 8)))[0] * longer
    basis[list(targets)] = 0
    steps = np.trunc(basis * 2**14).astype(np.int64)
    plain = SecondMoment(row_bound="1", fraction_bits=0, sigma=4, intercept="0.5", basis=encode_basis(steps))
    given = plain.model_copy(update={"after": "A" * 43, "targets": targets})
    return make_case_task(given, num_columns=30, min_clients=50, max_corrupt_clients=2)


@pytest.mark.parametrize(("longer", "targets"), [(1.0, ()), (1.4, (3, 7))])
def test_a_second_round_has_a_twin_with_its_mu_whose_rows_are_as_far_apart_as_promised(
    longer: float, targets: tuple[int, ...]
) -> None:
    task = second_round(longer, targets)
    (case, *_), said = cases_of_task(task)
    assert "a twin" in said
    assert case.task.privacy(case.num_clients).mu == pytest.approx(task.privacy(50).mu, rel=1e-6)
    assert 0.998 < reached(case) <= 1
    assert len(directions.hostile(case.task.mechanism, case.task.num_columns)) > 20


def test_a_second_round_is_audited_exactly_like_any_task() -> None:
    assert audit_task(second_round(1.0, (3,)), 60, SEED).passed


def test_the_rows_of_a_range_finder_are_those_of_its_targets_and_inside_the_bound() -> None:
    [fields] = [case for case in wide.cases() if case.name == "range-finder-fields"]
    first, second = wide.farthest(fields.task)
    assert np.linalg.norm(first) == pytest.approx(1)
    assert np.linalg.norm(second) == pytest.approx(1)
    assert first[1] == pytest.approx(0.1, rel=1e-5)
    assert second[1] == pytest.approx(0.1, rel=1e-5)
