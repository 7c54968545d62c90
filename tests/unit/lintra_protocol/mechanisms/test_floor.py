"""The floor: a kind that has one draws it in proportion, counts it in errors and headroom, and keeps both promises."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lintra_audit.trials.audit_case import make_case_task
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import from_ring
from lintra_protocol.errors import FalseClaimError, InvalidTaskError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.windows import Windows
from lintra_protocol.mechanisms import MECHANISMS
from lintra_protocol.mechanisms.floor import MAX_SERVERS
from lintra_protocol.mechanisms.layout import ROWS
from lintra_protocol.mechanisms.osnap import Osnap
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.task import Task
from support import make_task

KINDS = [kind for kind, mechanism in MECHANISMS.items() if "floor" in mechanism.allows]
every_kind = pytest.mark.parametrize("kind", KINDS)


def both(kind: str, **fields: object) -> Task:
    return make_task(kind, min_clients=200, max_corrupt_clients=10, max_clients=2000, noise="both", **fields)  # type: ignore[arg-type]


def alone_of(task: Task) -> PrivacyStatement:
    statement = task.alone_privacy()
    assert statement is not None
    return statement


def test_the_first_four_kinds_have_a_floor() -> None:
    assert {"sum", "histogram", "osnap", "second_moment"} <= set(KINDS)


@every_kind
@pytest.mark.grid(3)
def test_both_promises_are_kept_and_hardly_more(kind: str) -> None:
    task = both(kind)
    assert task.mechanism.floor > 0
    assert 0.999 < task.privacy(200).epsilon <= 1
    assert 2.997 < task.privacy(200).epsilon_alone <= 3
    # It depends on no cohort.
    assert task.privacy(200).epsilon_alone == task.privacy(2000).epsilon_alone == alone_of(task).epsilon
    assert (alone_of(task).max_corrupt_clients, alone_of(task).threat) == (199, "adaptive")
    less = task.mechanism.model_copy(update={"floor": task.mechanism.floor * 99 // 100})
    with pytest.raises(FalseClaimError, match="with all other clients invented"):
        # More noise of clients keeps the claim itself.
        task.model_copy(update={"mechanism": less.model_copy(update={"sigma": less.sigma * 21 // 20})}).check()
    with pytest.raises(FalseClaimError):
        task.model_copy(update={"mechanism": less}).check()


@every_kind
@pytest.mark.grid(3)
def test_two_servers_cost_six_parts_in_a_hundred(kind: str) -> None:
    one, two = (make_task(kind, min_clients=200, max_corrupt_clients=10, noise=noise) for noise in ("clients", "both"))
    name, behind = one.measurement.layout.blocks[0].name, one.measurement.fullest_row(200)
    errors = [float(np.max(task.measurement.layout.deviation(name, behind))) for task in (one, two)]
    costs = errors[1] / errors[0]
    assert 1.0 < costs < 1.127 + 0.02 * (behind < 200)


@every_kind
@pytest.mark.grid(3)
def test_every_server_draws_its_floor_in_proportion_and_nothing_for_exact_counts(kind: str) -> None:
    """False alarm below 1e-9: a chi-square of 4,000 draws a word, 6.5 deviations wide; a tenth less is 4 more away."""
    task = both(kind)
    layout, draws = task.measurement.layout, 4000
    share = np.zeros((draws, layout.num_released), np.uint64)
    task.measurement.add_server_noise(share, expand(bytes(32), f"floor of {kind}"))
    variances = np.square(from_ring(share).astype(np.float64)).mean(axis=0)
    expected = np.square(layout.floor.of(layout.sigmas[: layout.num_released]).astype(np.float64))
    assert np.abs(variances / expected - 1).max() < 6.5 * math.sqrt(2 / draws)
    assert np.all(expected * task.mechanism.sigma**2 >= np.square(layout.sigmas, dtype=float) * task.mechanism.floor**2)


def test_squares_have_twice_the_floor_of_products() -> None:
    """A server that drew every word with the least floor would leave the diagonal short."""
    task = both("second_moment")
    layout, floor = task.measurement.layout, task.mechanism.floor
    found = dict(layout.words_by_floor)
    assert set(found) == {floor, math.isqrt(2 * floor**2 - 1) + 1} or max(found) == pytest.approx(floor * math.sqrt(2))
    assert [len(places) for _, places in sorted(found.items())] == [3, 3]


def test_an_exact_count_of_organisations_has_no_floor() -> None:
    once = {"rows_per_person": 1, "organisations_per_person": 1}
    whose = Contributors.model_validate({"kind": "organisations", "max_rows": 10, "count": "exact"} | once)
    task = make_task("sum", min_clients=40, max_corrupt_clients=2, noise="both", contributors=whose, check=False)
    share = np.zeros((1, task.sketch_words), np.uint64)
    task.measurement.add_server_noise(share, expand(bytes(32), "organisations"))
    assert from_ring(share)[0, task.measurement.layout.released(ROWS)] == 0
    assert np.all(from_ring(share)[0, :3] != 0)


@every_kind
@pytest.mark.grid(3)
def test_errors_and_headroom_count_what_servers_add(kind: str) -> None:
    task = both(kind)
    measurement, name = task.measurement, task.measurement.layout.blocks[0].name
    plain = replace(measurement, setting=replace(measurement.setting, floor_servers=0))
    sigmas = measurement.layout[name].sigmas
    variances = [np.square(each.layout.deviation(name, 50)) for each in (plain, measurement)]
    scale = np.square(measurement.layout[name].steps / measurement.layout[name].per)
    of_servers = 3 * np.square(measurement.layout.floor.of(sigmas), dtype=np.float64)
    assert variances[1] - variances[0] == pytest.approx(of_servers * scale, rel=1e-9)
    assert measurement.layout.own_deviation(name) == pytest.approx(plain.layout.deviation(name, 1))
    most = measurement.layout.floor.largest_variance(measurement.layout.largest_sigma)
    assert most == MAX_SERVERS * float(measurement.layout.floor.of(np.array(measurement.layout.largest_sigma))) ** 2
    assert plain.log_wrap_probability(10**6) < measurement.log_wrap_probability(10**6)


def test_where_own_noise_is_enough_there_is_no_floor() -> None:
    task = make_task("sum", min_clients=5, max_corrupt_clients=1, noise="both")
    assert task.mechanism.floor == 0
    assert not task.measurement.servers_add_noise
    assert task.mechanism == make_task("sum", min_clients=5, max_corrupt_clients=1).mechanism
    assert 2.11 < task.privacy(5).epsilon_alone < 2.13


def test_windows_and_merged_windows_add_up_alone_too() -> None:
    windows = {"window": 2, "grace": 1, "max_windows": 4, "reports_per_source": 4}
    fields = {"batches": "windowed", "not_before": 1, "not_after": 9}
    one, merged = (
        make_task("sum", min_clients=200, max_clients=500, noise="both", windows=Windows(**windows, **more), **fields)  # type: ignore[arg-type]
        for more in ({}, {"max_merge": 2})
    )
    for task, times in ((one, 4), (merged, 8)):
        statement = task.worst_alone()
        assert statement is not None
        assert statement.mu == pytest.approx(alone_of(task).mu * math.sqrt(times))
        assert task.worst_together().epsilon_alone == statement.epsilon
    # A source's own noise does not count where its reports may be merged.
    assert merged.mechanism.floor > one.mechanism.floor
    distance = float(merged.measurement.squared_distance)
    assert alone_of(merged).mu == pytest.approx(math.sqrt(distance / (merged.mechanism.floor**2 - 4)))


def test_a_verified_task_keeps_both_promises_beside_what_shares_show() -> None:
    task = both("sum", verification="norm", max_rejected="0.1")
    assert task.shares_seen is not None
    assert alone_of(task).delta_shares == pytest.approx(float(task.shares_seen.shifted))
    assert alone_of(task).delta_coalition == 0
    assert alone_of(task).epsilon <= 3
    # What bounds a report is its own noise, without the floor.
    more = task.model_copy(update={"mechanism": task.mechanism.model_copy(update={"floor": 2 * task.mechanism.floor})})
    assert task.verified == more.verified


def test_a_floor_of_one_or_without_its_setting_is_refused() -> None:
    task = both("sum")
    for mechanism, changes in (
        (task.mechanism.model_copy(update={"floor": 1}), {}),
        (task.mechanism, {"noise": "clients", "claim": task.claim.model_copy(update={"epsilon_alone": None})}),
    ):
        with pytest.raises(InvalidTaskError, match="floor"):
            task.model_copy(update={"mechanism": mechanism, **changes}).check()


@pytest.mark.parametrize("kind", ["sum", "second_moment"])
def test_a_floor_that_is_too_large_for_64_bits_is_refused(kind: str) -> None:
    """Calibration tries such floors on grids that are far too fine; in 64 bits they would look small."""
    task = both(kind)
    wrapping = 2**64 // task.mechanism.sigma + 1
    huge = task.mechanism.model_copy(update={"floor": wrapping})
    with pytest.raises(InvalidTaskError, match="servers would add noise of deviation"):
        task.model_copy(update={"mechanism": huge}).check()


@pytest.mark.parametrize("weight", ["0", "0.2"])
@pytest.mark.parametrize("sparsity", [2, 3])
def test_rows_that_overlap_keep_both_promises_and_hardly_more(sparsity: int, weight: str) -> None:
    plain = Osnap(row_bound="1", fraction_bits=0, sigma=8, rows=6, sparsity=sparsity, clip_count_weight=weight)
    task = make_case_task(plain, num_columns=3, min_clients=200, max_corrupt_clients=10, epsilon="1",
                          noise="both", epsilon_alone="3")  # fmt: skip
    assert not task.measurement.smoothing
    assert 0.999 < task.privacy(200).epsilon <= 1
    assert 2.999 < task.privacy(200).epsilon_alone <= 3
    sigma, floor = float(task.mechanism.sigma), float(task.mechanism.floor)
    squared, counter = 4.0 * task.mechanism.squared_bound, 0
    if weight != "0":
        counter = task.measurement.layout["clipped"].bound
    # Everything that the honest server sends of a client alone, word by word.
    own = squared * sparsity / (floor**2 - 4 + sparsity * sigma**2) + counter**2 / (floor**2 - 4 + sigma**2)
    assert alone_of(task).mu == pytest.approx(math.sqrt(own), rel=1e-9)
    less = task.mechanism.model_copy(update={"floor": task.mechanism.floor * 95 // 100, "sigma": int(sigma * 1.01)})
    with pytest.raises(FalseClaimError, match="with all other clients invented"):
        task.model_copy(update={"mechanism": less}).check()


def test_a_drawn_matrix_hides_what_its_statement_says() -> None:
    """By the whole covariance of what is released, for the worst client of a matrix, and no floor counted twice."""
    plain = Osnap(row_bound="1", fraction_bits=0, sigma=8, rows=6, sparsity=2)
    task = make_case_task(plain, num_columns=1, min_clients=60, epsilon="1", noise="both", epsilon_alone="3")
    matrix = task.mechanism.public_matrix(60, bytes(32))
    columns = np.zeros((6, 60))
    places, signs = matrix.entries(np.arange(60))
    np.put_along_axis(columns.T, places, signs.astype(np.float64), axis=1)
    sigma, floor = float(task.mechanism.sigma), float(task.mechanism.floor)
    covariance = sigma**2 * columns @ columns.T + (floor**2 - 4) * np.eye(6)
    shown = float(np.einsum("rc,rq,qc->c", columns, np.linalg.inv(covariance), columns).max())
    mu = math.sqrt(4 * task.mechanism.squared_bound * shown)
    stated = task.release_privacy(matrix).mu
    assert mu <= stated <= mu * 1.01
