"""What every mechanism owes: exact sums, clipped rows, the stated noise, an honest promise, vectors and a page."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from lintra_protocol.crypto.ring import FloatArray, IntArray, RingArray, from_ring, to_ring
from lintra_protocol.encoding.documents import real
from lintra_protocol.errors import FalseClaimError, InvalidTaskError, RowUnderfilledError
from lintra_protocol.ideal import client_report, run
from lintra_protocol.mechanisms import MECHANISMS, AnyMechanism
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA
from lintra_protocol.noise.discrete_gaussian import discrete_gaussian
from lintra_protocol.privacy.statement import Claim
from support import make_task, nonce, source, uncalibrated
from support.conformance import Conformance, conformance
from support.measured import (
    Measurable,
    calibrated_for,
    document_of,
    encode_rows,
    layout_of,
    measurement_of,
    noise_sigmas,
    reports_without_noise,
    setting_of,
)

ROOT = Path(__file__).resolve().parents[2]
KINDS = sorted(MECHANISMS)
MEMBERS = {
    ", ".join(filter(None, (kind, word))): (kind, member)
    for kind in KINDS
    for word, member in conformance(kind).members.items()
}
"""Everything that the tests below hold to account, and its kind."""
COLUMNS, CLIENTS = 3, 600

every_kind = pytest.mark.parametrize("kind", KINDS)
every_mechanism = pytest.mark.parametrize("member", MEMBERS)


def claim(**changes: object) -> Claim:
    values = {"epsilon": "1", "delta": "0.000001", "min_clients": CLIENTS}
    return Claim.model_validate(values | changes)


def plain(member: str, row_bound: float = 1.0) -> AnyMechanism:
    kind, sizes = MEMBERS[member]
    small = uncalibrated(kind, row_bound, sizes.rows, sizes.sparsity)
    return small.model_copy(update=dict(sizes.options(row_bound)))


def of_kind(member: str) -> Conformance:
    return conformance(MEMBERS[member][0])


def calibrated(member: str, given: Claim, row_bound: float = 1.0) -> AnyMechanism:
    return calibrated_for(plain(member, row_bound), COLUMNS, given, 1000)


def sparsity_of(member: str) -> int:
    return MEMBERS[member][1].sparsity


def overlaps(member: str) -> bool:
    """Return whether rows of the sketch share a client's noise; not where every row gets a copy of its own."""
    return sparsity_of(member) > 1 and layout_of(plain(member))["row"].copies == 1


def words(array: IntArray | RingArray) -> list[list[int]]:
    return [[int(word) for word in row] for row in array]


@every_mechanism
def test_the_servers_result_is_exactly_the_matrix_times_the_noised_rows(member: str) -> None:
    kind, sizes = MEMBERS[member]
    clients_needed = of_kind(member).clients
    task = make_task(
        kind,
        columns=COLUMNS,
        num_servers=3,
        min_clients=clients_needed,
        rows=sizes.rows // 2,
        sparsity=min(sizes.sparsity, 2),
    )
    rows = [[0.01 * (index % 90), -0.3, 0.2] for index in range(clients_needed)]
    nonces = [nonce(server) for server in range(3)]
    smoothing = [source(f"server {server}") for server in range(3)]
    clients = [(row, source(f"client {index}")) for index, row in enumerate(rows)]
    release = run(task, clients, nonces, smoothing=smoothing)

    # The same clients once more, outside the protocol: what they noised, in the order of their identifiers.
    found = []
    for index, row in enumerate(rows):
        values = task.schema_arrays.row(row)[np.newaxis]
        report = client_report(task, row, task.not_before, source(f"client {index}"))
        found.append((report.report_id, task.encode(values, source(f"client {index}"))[0]))
    noised = [row for _, row in sorted(found, key=lambda pair: pair[0])]
    matrix = task.mechanism.public_matrix(len(rows), release.seed)
    row_numbers, signs = matrix.entries(np.arange(len(rows)))
    expected = [[0] * task.sketch_words for _ in range(matrix.rows)]
    for own_rows, own_signs, row in zip(row_numbers, signs, noised, strict=True):
        copies = np.split(row, task.measurement.layout.num_noised // task.sketch_words)
        for entry, (row_number, sign) in enumerate(zip(own_rows, own_signs, strict=True)):
            for place, word in enumerate(copies[entry % len(copies)]):
                expected[row_number][place] = (expected[row_number][place] + int(sign) * int(word)) % 2**64
    for server in range(3 if measurement_of(task).smoothing else 0):
        noise = discrete_gaussian(
            (matrix.rows, task.sketch_words), measurement_of(task).smoothing, source(f"server {server}")
        )
        for row_number, place in np.ndindex(noise.shape):
            expected[row_number][place] = (expected[row_number][place] + int(noise[row_number, place])) % 2**64

    sketch = from_ring(np.array(expected, dtype=object).astype(np.uint64))
    np.testing.assert_array_equal(release.values, measurement_of(task, COLUMNS).decode(sketch))


@every_mechanism
def test_the_servers_matrix_is_applied_modulo_the_ring(member: str) -> None:
    mechanism = calibrated(member, claim())
    matrix = mechanism.public_matrix(9, bytes(32))
    copies = layout_of(mechanism).num_noised // layout_of(mechanism).num_released
    shares = np.frombuffer(source(member)(8 * 9 * 4 * copies), np.uint64).reshape(9, 4 * copies)
    sketch = np.zeros((matrix.rows, 4), np.uint64)
    matrix.add_reports(sketch, np.arange(9), shares)
    row_numbers, signs = matrix.entries(np.arange(9))
    expected = [[0] * 4 for _ in range(matrix.rows)]
    for own_rows, own_signs, share in zip(row_numbers, signs, shares, strict=True):
        for entry, (row_number, sign) in enumerate(zip(own_rows, own_signs, strict=True)):
            old, own = expected[row_number], np.split(share, copies)[entry % copies]
            expected[row_number] = [(a + int(sign) * int(b)) % 2**64 for a, b in zip(old, own, strict=True)]
    assert words(sketch) == expected


def without_its_noise(mechanism: Measurable, row: FloatArray) -> IntArray:
    """Return a report of a row, shape `(1, d)`, less its noise, which is read after the words of its rounding."""
    measurement, stream = measurement_of(mechanism, COLUMNS), source("noise")
    stream(4 * measurement.mechanism.dithered_entries(COLUMNS))
    exact: IntArray = encode_rows(mechanism, row, source("noise")) - measurement.noise(1, stream)
    return exact


@every_mechanism
@pytest.mark.parametrize("row", [[1e17, 0, 0], [1e17, -1e17, 1e17], [3.0, 4.0, 0.0], [-1e-300, 1e17, 0.5]])
def test_a_hostile_row_is_clipped_into_the_ball_or_box(member: str, row: list[float]) -> None:
    mechanism = calibrated(member, claim())
    exact = without_its_noise(mechanism, np.array([row]))
    largest = layout_of(mechanism).bound
    farthest = of_kind(member).squared_length(mechanism, largest, exact.size)
    if "count" in member:
        farthest += layout_of(mechanism).rows_per_count ** 2
    assert sum(int(word) ** 2 for word in exact[0]) <= farthest
    assert int(np.abs(exact).max()) <= layout_of(mechanism).bound


@every_mechanism
def test_a_row_in_which_a_value_is_missing_makes_a_report_like_any_other(member: str) -> None:
    value = math.nan
    task = make_task(calibrated(member, claim()), columns=COLUMNS, claim=claim())
    lacking, whole = (
        client_report(task, row, task.not_before, source("client")) for row in ([0.1, value, 0.1], [0.1, 0.2, 0.1])
    )
    assert [len(share) for share in lacking.shares] == [len(share) for share in whole.shares]
    rows = task.schema_arrays.normalise(task.schema_arrays.rows(np.array([[9.0, value, -0.5]])))
    reports = reports_without_noise(task, rows)
    assert int(np.abs(reports).max()) <= layout_of(task).bound
    assert reports.any() != measurement_of(task).leaves_out


@every_mechanism
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_missing_to_the_encoder_itself_or_refused(member: str, value: float) -> None:
    mechanism = calibrated(member, claim())
    rows = np.array([[0.1, value, 0.1], [0.1, math.nan, 0.1]])
    if math.isinf(value) and of_kind(member).refuses_infinity:
        with pytest.raises(ValueError, match="finite"):
            reports_without_noise(mechanism, rows)
        return
    first, missing = reports_without_noise(mechanism, rows)
    assert first.any() != measurement_of(mechanism).leaves_out
    if math.isinf(value) and of_kind(member).cells:  # which moves nothing: beyond the bounds lie the outer cells
        assert first.sum() == missing.sum() == COLUMNS * layout_of(mechanism).bound
    else:
        np.testing.assert_array_equal(first, missing)


@every_mechanism
def test_measured_noise_is_the_stated_noise_and_this_test_would_notice_if_not(member: str) -> None:
    mechanism = calibrated(member, claim())
    sample = encode_rows(mechanism, np.zeros((20_000, COLUMNS)), source("sigma"))
    sample -= reports_without_noise(mechanism, np.zeros((1, COLUMNS)))
    stated = noise_sigmas(mechanism, COLUMNS).astype(float) * layout_of(mechanism, COLUMNS).blocks[0].spread
    # The chi-square of 20 000 squares has deviation 0.01 around 1; six of them leave a false alarm below 1e-8.
    limit, wrong = of_kind(member).noise_limits
    ratios = np.square(sample / stated).mean(axis=0)
    assert np.all(np.abs(ratios - 1) < limit)
    assert np.all(np.abs(ratios / wrong**2 - 1) > limit)
    assert np.all(np.abs((sample / stated).mean(axis=0)) < 6 / 20_000**0.5)


@every_mechanism
def test_no_word_has_less_noise_than_the_least(member: str) -> None:
    mechanism = calibrated(member, claim())
    assert noise_sigmas(mechanism, COLUMNS).shape == (layout_of(mechanism, COLUMNS).num_noised,)
    assert (
        noise_sigmas(mechanism, COLUMNS).min()
        == layout_of(mechanism).least_sigma
        >= document_of(mechanism).noise_law.min_sigma(setting_of(mechanism))
    )
    assert (layout_of(mechanism).least_sigma == mechanism.sigma) == of_kind(member).one_sigma


@every_mechanism
def test_the_promise_weakens_as_sigma_falls(member: str) -> None:
    mechanism = calibrated(member, claim())
    epsilons = [
        measurement_of(mechanism.model_copy(update={"sigma": mechanism.sigma * factor // 10}), COLUMNS, claim())
        .privacy(CLIENTS)
        .epsilon
        for factor in (40, 20, 10, 5, 2)
    ]
    assert epsilons == sorted(set(epsilons))


@every_mechanism
@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize("corrupt", [0, 3])
@pytest.mark.grid(4)
def test_calibration_keeps_the_claim_and_one_step_less_of_noise_breaks_it(
    member: str, epsilon: str, neighbours: str, corrupt: int
) -> None:
    given = claim(epsilon=epsilon, neighbours=neighbours, max_corrupt_clients=corrupt)
    mechanism = calibrated(member, given)
    measurement_of(mechanism, COLUMNS, given).check(1000)
    assert mechanism.sigma > document_of(mechanism).noise_law.min_sigma(setting_of(mechanism)) >= MIN_SIGMA
    # Calibration keeps 1e-9 of mu for rounding errors; a step of a sigma near 1e8 is less than that.
    less = mechanism.sigma - max(1, mechanism.sigma // 10**7)
    with pytest.raises(FalseClaimError):
        measurement_of(mechanism.model_copy(update={"sigma": less}), COLUMNS, given).check(1000)


@every_mechanism
def test_calibration_never_goes_below_the_coarsest_noise_that_integers_allow(member: str) -> None:
    given = claim(epsilon="1000000", delta="0.9")
    mechanism = plain(member)
    assert measurement_of(mechanism, COLUMNS, given).smallest_sigma() == document_of(mechanism).noise_law.min_sigma(
        setting_of(mechanism)
    )


@every_mechanism
@pytest.mark.parametrize("clients", [600, 601, 800, 999])
def test_what_a_cohort_gives_is_never_worse_than_the_claim(member: str, clients: int) -> None:
    mechanism = calibrated(member, claim())
    statement = measurement_of(mechanism, COLUMNS, claim()).privacy(clients)
    statement.require(claim())
    assert statement.epsilon <= 1
    assert statement.delta_at(1.0) <= 1e-6


@pytest.mark.parametrize("member", [member for member in MEMBERS if of_kind(member).is_tight])
def test_at_the_minimum_the_claim_is_used_up(member: str) -> None:
    assert 0.999 < measurement_of(calibrated(member, claim()), COLUMNS, claim()).privacy(CLIENTS).epsilon <= 1


@every_mechanism
def test_against_a_null_row_the_same_noise_gives_the_stated_fraction_of_mu(member: str) -> None:
    mechanism = calibrated(member, claim())
    replaced = measurement_of(mechanism, COLUMNS, claim()).privacy(CLIENTS).mu
    zeroed = measurement_of(mechanism, COLUMNS, claim(neighbours="zero-out")).privacy(CLIENTS).mu
    # Linear mechanisms: B against 2B; tests/kinds has the others.
    if of_kind(member).null_range is not None:
        low, high = of_kind(member).null_range
        assert low < zeroed / replaced < high
    else:
        sizes = MEMBERS[member][1]
        assert zeroed / replaced == pytest.approx(sizes.null_mu, rel=sizes.null_tolerance)


@every_mechanism
@pytest.mark.grid(2)
def test_every_corrupt_client_weakens_the_promise(member: str) -> None:
    mechanism = calibrated(member, claim(max_corrupt_clients=9))
    matrix = mechanism.public_matrix(CLIENTS, bytes(32))
    mus = [
        measurement_of(mechanism, COLUMNS, claim(max_corrupt_clients=corrupt)).release_privacy(matrix).mu
        for corrupt in range(10)
    ]
    if of_kind(member).noise_shared:  # a whole noise is whole or not
        assert len(set(mus)) == 1
        with pytest.raises(RowUnderfilledError):
            measurement_of(mechanism, COLUMNS, claim(max_corrupt_clients=10)).release_privacy(matrix)
    else:
        assert mus == sorted(set(mus))


@every_mechanism
@pytest.mark.parametrize("clients", [CLIENTS, 900, 901])
def test_the_matrix_that_is_drawn_gives_what_was_promised_before(member: str, clients: int) -> None:
    mechanism = calibrated(member, claim())
    promised = measurement_of(mechanism, COLUMNS, claim()).privacy(clients)
    actual = measurement_of(mechanism, COLUMNS, claim()).release_privacy(mechanism.public_matrix(clients, bytes(32)))
    if sparsity_of(member) == 1:
        assert actual == promised
    else:
        assert actual.mu < promised.mu or (actual.mu == promised.mu and not overlaps(member))
        assert actual.honest_clients == promised.honest_clients


@every_mechanism
def test_servers_add_noise_exactly_where_rows_overlap(member: str) -> None:
    mechanism = calibrated(member, claim())
    share = np.zeros((mechanism.num_rows, 50), np.uint64)
    measurement_of(mechanism, COLUMNS).add_server_noise(share, source("smoothing"))
    assert share.any() == (measurement_of(mechanism).smoothing > 0) == overlaps(member)
    assert measurement_of(mechanism).smoothing ** 2 >= 4 * sparsity_of(member) * overlaps(member)


@every_mechanism
def test_nothing_is_promised_where_no_honest_client_is_left(member: str) -> None:
    mechanism = calibrated(member, claim())
    corrupt = measurement_of(mechanism, None, claim()).emptiest_row(CLIENTS)
    with pytest.raises(RowUnderfilledError):
        measurement_of(mechanism, COLUMNS, claim(min_clients=1000, max_corrupt_clients=corrupt)).privacy(CLIENTS)


@every_mechanism
def test_a_bound_that_is_not_positive_is_refused(member: str) -> None:
    for bound in ("0", "-1"):
        with pytest.raises(InvalidTaskError):
            measurement_of(calibrated(member, claim()).model_copy(update={"row_bound": bound}), COLUMNS, claim()).check(
                1000
            )


@pytest.mark.parametrize(
    ("member", "row_bound"), [(member, bound) for member in MEMBERS for bound in of_kind(member).row_bounds]
)
@pytest.mark.grid(3)
def test_decoding_undoes_the_grid(member: str, row_bound: float) -> None:
    given = claim()
    mechanism = calibrated(member, given, row_bound)
    assert real(row_bound) == getattr(mechanism, "entry_bound", mechanism.row_bound)
    row = np.array([[0.5, -0.25, 0.125]]) * row_bound
    exact = without_its_noise(mechanism, row)
    matrix = mechanism.public_matrix(1, bytes(32))
    sketch = np.zeros((matrix.rows, layout_of(mechanism, COLUMNS).num_released), np.uint64)
    matrix.add_reports(sketch, np.arange(1), to_ring(exact))
    decoded = measurement_of(mechanism, COLUMNS).decode(from_ring(sketch))
    truth = of_kind(member).decoded(mechanism, row[0], row_bound)
    decoded = np.abs(decoded).max(axis=0, keepdims=True) if mechanism.num_rows > 1 else decoded
    assert np.abs(decoded - truth).max() < 1e-3 * row_bound ** of_kind(member).degree


@every_kind
def test_it_has_its_page_and_its_vectors(kind: str) -> None:
    page = (ROOT / "docs/reference/mechanisms" / f"{kind}.md").read_text("utf-8")
    assert page.startswith(f"# `{kind}`")
    for field in ("row_bound", "fraction_bits", "sigma"):
        assert f"`{field}`" in page
    vectors = json.loads((ROOT / "tests/vectors/release.json").read_text("ascii"))
    operations = {v["operation"] for v in vectors if v["input"].get("mechanism", {}).get("kind") == kind}
    assert operations == {"sketch", "decode"}
