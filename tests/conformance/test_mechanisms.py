"""What every mechanism owes: exact sums, clipped rows, the stated noise, an honest promise, vectors and a page."""

import json
import math
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from lintra_protocol.documents import real
from lintra_protocol.errors import FalseClaimError, InvalidRowError, InvalidTaskError, RowUnderfilledError
from lintra_protocol.ideal import client_report, run
from lintra_protocol.mechanisms import AnyMechanism
from lintra_protocol.mechanisms.base import MIN_SIGMA, Mechanism
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.ring import IntArray, RingArray, from_ring, to_ring
from support import make_task, nonce, source, uncalibrated

ROOT = Path(__file__).resolve().parents[2]
KINDS = sorted(member.model_fields["kind"].default for member in get_args(get_args(AnyMechanism)[0]))
COLUMNS = 3

every_mechanism = pytest.mark.parametrize("kind", KINDS)


def claim(**changes: object) -> Claim:
    values = {"epsilon": "1", "delta": "0.000001", "min_clients": 40}
    return Claim.model_validate(values | changes)


def calibrated(kind: str, given: Claim) -> Mechanism:
    mechanism: Mechanism = uncalibrated(kind).calibrated(given, COLUMNS, 1000)
    return mechanism


def words(array: IntArray | RingArray) -> list[list[int]]:
    return [[int(word) for word in row] for row in array]


@every_mechanism
def test_the_servers_result_is_exactly_the_matrix_times_the_noised_rows(kind: str) -> None:
    task = make_task(kind, columns=COLUMNS, num_servers=3, min_clients=8)
    rows = [[0.01 * index, -0.3, 0.2] for index in range(11)]
    nonces = [nonce(server) for server in range(3)]
    release = run(task, [(row, source(f"client {index}")) for index, row in enumerate(rows)], nonces)

    # The same clients once more, outside the protocol: what they noised, in the order of their identifiers.
    found = []
    for index, row in enumerate(rows):
        values = task.schema_arrays.row(row)[np.newaxis]
        report = client_report(task, row, task.not_before, source(f"client {index}"))
        found.append((report.report_id, task.encode(values, source(f"client {index}"))[0]))
    noised = [row for _, row in sorted(found, key=lambda pair: pair[0])]
    matrix = task.mechanism.public_matrix(len(rows), release.seed)
    row_numbers, signs = matrix.entries(np.arange(len(rows)))
    expected = [[0] * task.num_words for _ in range(matrix.rows)]
    for row_number, sign, row in zip(row_numbers[:, 0], signs[:, 0], noised, strict=True):
        for place, word in enumerate(row):
            expected[row_number][place] = (expected[row_number][place] + int(sign) * int(word)) % 2**64

    sketch = from_ring(np.array(expected, dtype=object).astype(np.uint64))
    np.testing.assert_array_equal(release.values, task.mechanism.decode(sketch, COLUMNS))


@every_mechanism
def test_the_servers_matrix_is_applied_modulo_the_ring(kind: str) -> None:
    mechanism = calibrated(kind, claim())
    matrix = mechanism.public_matrix(9, bytes(32))
    shares = np.frombuffer(source(kind)(8 * 9 * 4), np.uint64).reshape(9, 4)
    sketch = np.zeros((matrix.rows, 4), np.uint64)
    matrix.add_reports(sketch, np.arange(9), shares)
    row_numbers, signs = matrix.entries(np.arange(9))
    expected = [[0] * 4 for _ in range(matrix.rows)]
    for row_number, sign, share in zip(row_numbers[:, 0], signs[:, 0], shares, strict=True):
        expected[row_number] = [
            (a + int(sign) * int(b)) % 2**64 for a, b in zip(expected[row_number], share, strict=True)
        ]
    assert words(sketch) == expected


@every_mechanism
@pytest.mark.parametrize("row", [[1e17, 0, 0], [1e17, -1e17, 1e17], [3.0, 4.0, 0.0], [-1e-300, 1e17, 0.5]])
def test_a_hostile_row_is_clipped_into_the_ball(kind: str, row: list[float]) -> None:
    mechanism = calibrated(kind, claim())
    exact = mechanism.encode(np.array([row]), source("noise")) - mechanism.noise(1, COLUMNS, source("noise"))
    assert sum(int(word) ** 2 for word in exact[0]) <= mechanism.largest_word() ** 2 + 2 * mechanism.largest_word() + 1
    assert int(np.abs(exact).max()) <= mechanism.largest_word()


@every_mechanism
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_is_refused(kind: str, value: float) -> None:
    task = make_task(kind, columns=COLUMNS)
    with pytest.raises(InvalidRowError, match="'b': not a finite number"):
        client_report(task, [0.1, value, 0.1], task.not_before, source("client"))


@every_mechanism
def test_measured_noise_is_the_stated_noise_and_this_test_would_notice_if_not(kind: str) -> None:
    mechanism = calibrated(kind, claim())
    sample = mechanism.encode(np.zeros((20_000, COLUMNS)), source("sigma"))
    stated = mechanism.sigmas(COLUMNS).astype(float)
    # The chi-square of 20 000 squares has deviation 0.01 around 1; six of them leave a false alarm below 1e-8.
    ratios = np.square(sample / stated).mean(axis=0)
    assert np.all(np.abs(ratios - 1) < 0.06)
    assert np.all(np.abs(ratios / 1.05**2 - 1) > 0.06)
    assert np.all(np.abs((sample / stated).mean(axis=0)) < 6 / 20_000**0.5)


@every_mechanism
def test_no_word_has_less_noise_than_sigma(kind: str) -> None:
    mechanism = calibrated(kind, claim())
    assert mechanism.sigmas(COLUMNS).shape == (mechanism.num_words(COLUMNS),)
    assert mechanism.sigmas(COLUMNS).min() == mechanism.sigma


@every_mechanism
def test_the_promise_weakens_as_sigma_falls(kind: str) -> None:
    mechanism = calibrated(kind, claim())
    epsilons = [
        mechanism.model_copy(update={"sigma": mechanism.sigma * factor // 10}).privacy(claim(), COLUMNS, 40).epsilon
        for factor in (40, 20, 10, 5, 2)
    ]
    assert epsilons == sorted(set(epsilons))


@every_mechanism
@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize("corrupt", [0, 3])
def test_calibration_keeps_the_claim_and_one_step_less_of_noise_breaks_it(
    kind: str, epsilon: str, neighbours: str, corrupt: int
) -> None:
    given = claim(epsilon=epsilon, neighbours=neighbours, max_corrupt_clients=corrupt)
    mechanism = calibrated(kind, given)
    mechanism.check(given, COLUMNS, 1000)
    assert mechanism.sigma > MIN_SIGMA
    with pytest.raises(FalseClaimError):
        mechanism.model_copy(update={"sigma": mechanism.sigma - 1}).check(given, COLUMNS, 1000)


@every_mechanism
def test_calibration_never_goes_below_the_coarsest_noise_that_integers_allow(kind: str) -> None:
    given = claim(epsilon="1000000", delta="0.9")
    mechanism = uncalibrated(kind).model_copy(update={"row_bound": "1"})
    assert mechanism.smallest_sigma(given, COLUMNS) == MIN_SIGMA


@every_mechanism
@pytest.mark.parametrize("clients", [40, 41, 80, 999])
def test_what_a_cohort_gives_is_never_worse_than_the_claim(kind: str, clients: int) -> None:
    mechanism = calibrated(kind, claim())
    statement = mechanism.privacy(claim(), COLUMNS, clients)
    statement.require(claim())
    assert statement.epsilon <= 1
    assert statement.delta_at(1.0) <= 1e-6


@every_mechanism
def test_at_the_minimum_the_claim_is_used_up(kind: str) -> None:
    assert 0.999 < calibrated(kind, claim()).privacy(claim(), COLUMNS, 40).epsilon <= 1


@every_mechanism
def test_against_a_null_row_the_same_noise_gives_the_stated_fraction_of_mu(kind: str) -> None:
    mechanism = calibrated(kind, claim())
    replaced = mechanism.privacy(claim(), COLUMNS, 40).mu
    zeroed = mechanism.privacy(claim(neighbours="zero-out"), COLUMNS, 40).mu
    # Linear mechanisms: B against 2B. Products: |u u^T| = B^2 against sqrt(2) B^2.
    assert zeroed / replaced == pytest.approx(2**-0.5 if kind == "second_moment" else 0.5, rel=1e-9)


@every_mechanism
def test_every_corrupt_client_weakens_the_promise(kind: str) -> None:
    mechanism = calibrated(kind, claim())
    mus = [mechanism.privacy(claim(max_corrupt_clients=corrupt), COLUMNS, 40).mu for corrupt in range(10)]
    assert mus == sorted(set(mus))


@every_mechanism
def test_nothing_is_promised_where_no_honest_client_is_left(kind: str) -> None:
    mechanism = calibrated(kind, claim())
    corrupt = 40 // mechanism.num_rows
    with pytest.raises(RowUnderfilledError):
        mechanism.privacy(claim(min_clients=100, max_corrupt_clients=corrupt), COLUMNS, 40)


@every_mechanism
def test_a_bound_that_is_not_positive_is_refused(kind: str) -> None:
    for bound in ("0", "-1"):
        with pytest.raises(InvalidTaskError):
            calibrated(kind, claim()).model_copy(update={"row_bound": bound}).check(claim(), COLUMNS, 1000)


@every_mechanism
@pytest.mark.parametrize("row_bound", [0.001, 1, 1000])
def test_decoding_undoes_the_grid(kind: str, row_bound: float) -> None:
    given = claim()
    mechanism = uncalibrated(kind, row_bound).calibrated(given, COLUMNS, 1000)
    assert mechanism.row_bound == real(row_bound)
    row = np.array([[0.5, -0.25, 0.125]]) * row_bound
    exact = mechanism.encode(row, source("noise")) - mechanism.noise(1, COLUMNS, source("noise"))
    matrix = mechanism.public_matrix(1, bytes(32))
    sketch = np.zeros((matrix.rows, exact.shape[1]), np.uint64)
    matrix.add_reports(sketch, np.arange(1), to_ring(exact))
    decoded = mechanism.decode(from_ring(sketch), COLUMNS)
    truth = {"sum": row[0], "second_moment": row.T @ row}.get(kind, np.abs(row))
    decoded = np.abs(decoded).max(axis=0, keepdims=True) if kind == "osnap" else decoded
    scale = row_bound**2 if kind == "second_moment" else row_bound
    assert np.abs(decoded - truth).max() < 1e-3 * scale


@every_mechanism
def test_it_has_its_page_and_its_vectors(kind: str) -> None:
    page = (ROOT / "docs/mechanisms" / f"{kind}.md").read_text("utf-8")
    assert page.startswith(f"# `{kind}`")
    for field in ("row_bound", "fraction_bits", "sigma"):
        assert f"`{field}`" in page
    vectors = json.loads((ROOT / "tests/vectors/release.json").read_text("ascii"))
    operations = {v["operation"] for v in vectors if v["input"].get("mechanism", {}).get("kind") == kind}
    assert operations == {"sketch", "decode"}
