"""Noise by servers: exact against toy laws, the same for every cohort and matrix, and none in a report."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import from_ring
from lintra_protocol.errors import FalseClaimError, InvalidTaskError, UnsupportedFeatureError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms import Osnap
from lintra_protocol.mechanisms.collusion import epsilons_if_colluding
from lintra_protocol.privacy.discrete import discrete_delta, row_slack
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import SMOOTHING, Claim
from support import make_task, uncalibrated
from support.measured import (
    calibrated_for,
    encode_rows,
    layout_of,
    measurement_of,
    noise_sigmas,
    reports_without_noise,
    setting_of,
    with_contributors,
    with_server_noise,
)

SERVERS, COLUMNS, CLIENTS = 3, 3, 60
CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=CLIENTS, max_corrupt_clients=7)
KINDS = {
    "sum": {"kind": "sum"},
    "second_moment": {"kind": "second_moment"},
    "osnap": {"kind": "osnap", "rows": 6},
    "osnap-3": {"kind": "osnap", "rows": 6, "sparsity": 3},
    "osnap-3-count": {"kind": "osnap", "rows": 6, "sparsity": 3},
}
every_kind = pytest.mark.parametrize("member", KINDS)


def noised(member: str, servers: int = SERVERS) -> Any:
    plain = uncalibrated(**KINDS[member], columns=COLUMNS)  # type: ignore[arg-type]
    weight = {"clip_count_weight": "0.2"} if member.endswith("count") else {}
    return calibrated_for(with_server_noise(plain.model_copy(update=weight), servers), COLUMNS, CLAIM, 1000)


# --- the theorem ----------------------------------------------------------------------------------------------


def delta_of_shift(variance: float, shift: tuple[int, ...], epsilon: float) -> float:
    """Of independent words with one server's noise, each moved by what a row moves it: exactly, tails aside."""
    reach = int(12 * math.sqrt(variance)) + 8
    places = np.arange(-reach, reach + 1)
    law = np.exp(-(places**2) / (2 * variance))
    losses, weights = np.zeros(1), np.ones(1)
    for moved in shift:
        own = ((places - moved) ** 2 - places**2) / (2 * variance)
        losses = np.add.outer(losses, own).ravel()
        weights = np.multiply.outer(weights, law / law.sum()).ravel()
    above = losses > epsilon
    return float(-(weights[above] * np.expm1(epsilon - losses[above])).sum())


SHIFTS = [(1,), (3,), (1, -1), (2, 2), (1, 2)]


@pytest.mark.parametrize("variance", [5.0, 8.0, 16.0])
def test_one_servers_noise_hides_a_shift_as_the_theorem_says(variance: float) -> None:
    for shift, epsilon in product(SHIFTS, (0.1, 0.5, 1.0, 2.0)):
        distance = math.hypot(*shift)
        stated = distance / math.sqrt(variance - SMOOTHING)
        slack = row_slack(1, len(shift), variance, SMOOTHING)
        exact = delta_of_shift(variance, shift, epsilon)
        assert exact <= discrete_delta(epsilon, stated, slack)


def test_without_the_lattice_correction_the_theorem_would_be_false() -> None:
    # At variance 5 the exact law of a shift by one step lies above the continuous one of the same variance.
    assert delta_of_shift(5.0, (1,), 1.0) > 1.05 * discrete_delta(1.0, 1 / math.sqrt(5.0), 0.0)


@pytest.mark.parametrize("clients", [9, 60, 301])
@pytest.mark.parametrize("sparsity", [1, 2, 3])
def test_every_column_of_every_matrix_moves_a_sketch_by_the_root_of_its_entries(sparsity: int, clients: int) -> None:
    # So the drawn matrix decides nothing: |s_i|^2 = s for all clients, whatever the seed.
    sketch = uncalibrated("osnap", rows=7, sparsity=sparsity)
    rows, signs = sketch.public_matrix(clients, bytes(31) + bytes([clients % 251])).entries(np.arange(clients))
    dense = np.zeros((clients, 7), np.int64)
    np.add.at(dense, (np.arange(clients)[:, np.newaxis], rows), signs)
    assert_array_equal(np.square(dense).sum(axis=1), sparsity)


# --- what is stated -------------------------------------------------------------------------------------------


@every_kind
def test_the_noise_is_the_least_that_keeps_the_claim(member: str) -> None:
    mechanism = noised(member)
    squared = float(measurement_of(mechanism, COLUMNS, CLAIM).squared_shift)
    expected = math.sqrt(squared / gaussian_mu(1.0, 1e-6) ** 2 + SMOOTHING)
    assert mechanism.sigma == pytest.approx(expected, rel=1e-6, abs=1)
    measurement_of(mechanism, COLUMNS, CLAIM).check(1000)
    less = mechanism.model_copy(update={"sigma": min(mechanism.sigma - 1, int(mechanism.sigma * (1 - 1e-7)))})
    with pytest.raises(FalseClaimError):
        measurement_of(less, COLUMNS, CLAIM).check(1000)


@every_kind
@pytest.mark.parametrize("clients", [1, 2, 5, CLIENTS, 1000])
def test_the_statement_counts_no_clients_and_looks_at_no_matrix(member: str, clients: int) -> None:
    mechanism = noised(member)
    promised = measurement_of(mechanism, COLUMNS, CLAIM).privacy(CLIENTS)
    assert (promised.noise, promised.honest_clients, promised.threat) == ("servers", 1, "adaptive")
    assert promised.max_corrupt_clients == CLIENTS - 1
    planned = measurement_of(mechanism, COLUMNS, CLAIM).privacy(clients)
    drawn = measurement_of(mechanism, COLUMNS, CLAIM).release_privacy(mechanism.public_matrix(clients, bytes(32)))
    assert drawn == planned == replace(promised, num_clients=clients, max_corrupt_clients=max(clients - 1, 7))
    planned.require(CLAIM)


@every_kind
def test_however_many_collude_and_however_many_servers_there_are_epsilon_is_the_same(member: str) -> None:
    mechanism = noised(member)
    assert len(set(epsilons_if_colluding(measurement_of(mechanism, COLUMNS), CLAIM).values())) == 1
    assert noised(member, 2).sigma == noised(member, 16).sigma == mechanism.sigma


def test_in_a_sketch_a_row_that_stands_in_s_rows_costs_the_root_of_s() -> None:
    one, three = noised("osnap"), noised("osnap-3")
    assert isinstance(three.mechanism, Osnap)
    # The grids differ by whole bits.
    steps = 2.0 ** (one.fraction_bits - three.fraction_bits)
    assert three.sigma * steps == pytest.approx(math.sqrt(3) * one.sigma, rel=1e-4)
    assert (three.leverage, measurement_of(three).smoothing) == ("0", 0)
    assert not three.mechanism.shares_noise(three.setting)


@every_kind
def test_more_servers_need_more_room_in_the_ring_and_more_clients_no_more_for_noise(member: str) -> None:
    few, many = noised(member, 2), noised(member, 16)
    coarse = {"sigma": 2**60}  # at which the noise alone fills the ring
    assert measurement_of(few.model_copy(update=coarse), COLUMNS).log_wrap_probability(4) < measurement_of(
        many.model_copy(update=coarse), COLUMNS
    ).log_wrap_probability(4)


# --- who draws ------------------------------------------------------------------------------------------------


@every_kind
def test_a_report_carries_no_noise_and_its_client_reads_no_randomness(member: str) -> None:
    mechanism, rows = noised(member), np.linspace(-0.7, 0.5, 4 * COLUMNS).reshape(4, COLUMNS)

    def nothing(count: int) -> bytes:
        raise AssertionError(f"{count} bytes of randomness")

    assert_array_equal(encode_rows(mechanism, rows, nothing), reports_without_noise(mechanism, rows))
    task = make_task(mechanism, columns=COLUMNS, claim=CLAIM, max_clients=1000, check=False)
    assert (task.noise, len(task.encode(rows, nothing))) == ("servers", 4)


@every_kind
def test_a_servers_noise_has_its_deviation_in_every_word_and_one_slightly_smaller_is_noticed(member: str) -> None:
    # 20 000 squares or more: a deviation of their mean is at most 1 %; five leave a false alarm below 1e-6.
    mechanism = noised(member)
    words = layout_of(mechanism, COLUMNS).num_released
    share = np.zeros((20_000 // words * mechanism.num_rows + 1, words), np.uint64)
    measurement_of(mechanism, COLUMNS).add_server_noise(share, expand(bytes(32), f"noise of a server {member}"))
    squares = np.square(from_ring(share) / noise_sigmas(mechanism, COLUMNS))
    allowed = 5 * math.sqrt(2 / squares.size)
    assert abs(squares.mean() - 1) < allowed < 1 / 0.95**2 - 1
    assert abs(squares.mean() / 0.9**2 - 1) > allowed
    of_words = 5 * math.sqrt(2 / len(squares))
    assert np.abs(squares.mean(axis=0) - 1).max() < of_words * math.sqrt(1 + math.log(words))


def test_a_draw_counts_once_for_each_server_whatever_the_reports() -> None:
    mechanism = noised("osnap")
    for count in (1, 3, 10):
        assert setting_of(mechanism).draws(count) == 3
        assert setting_of(with_server_noise(mechanism, 0)).draws(count) == count
    assert (setting_of(mechanism).draws(50), setting_of(with_server_noise(mechanism, 0)).draws(50)) == (3, 50)


# --- tasks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sum", "osnap", "second_moment"])
def test_a_verified_row_is_bounded_by_the_longest_honest_one_and_shares_cost_eta_alone(kind: str) -> None:
    task = make_task(kind, noise="servers", verification="norm", max_rejected="0.1", check=False)
    sizes, seen = task.verified, task.shares_seen
    assert sizes is not None
    assert seen is not None
    assert sizes.squared_bound == measurement_of(task).squared_length
    eta = math.sqrt(sizes.padded * sizes.squared_bound) / 2.0**sizes.word_bits
    assert (seen.several, seen.given_away) == (0, 0)
    assert float(seen.shifted) == pytest.approx(eta, rel=1e-6)
    assert task.noise_claim.max_corrupt_clients == task.claim.max_corrupt_clients
    statement = task.privacy(12)
    assert statement.max_corrupt_clients == 11
    assert statement.delta_at(1.0) == pytest.approx(
        measurement_of(task, 3, task.noise_claim).privacy(12).delta_at(1.0) + (1 + math.e) * eta, rel=1e-12, abs=0
    )
    statement.require(task.claim)


@pytest.mark.parametrize("kind", ["range_finder", "ron_gauss"])
def test_kinds_whose_noise_servers_cannot_add_are_refused(kind: str) -> None:
    plain = make_task(kind, min_clients=200, check=False)
    with pytest.raises(UnsupportedFeatureError, match="servers cannot add"):
        plain.model_copy(update={"noise": "servers"}).check()


def test_organisations_and_a_delta_kept_for_coalitions_are_refused_too() -> None:
    held = Contributors(rows_per_person=2, organisations_per_person=1, max_rows=1000, count="noisy")
    claim = Claim(epsilon="1", delta="0.000001", min_clients=5, max_corrupt_clients=4)
    calibrated = calibrated_for(with_contributors(uncalibrated("sum", columns=COLUMNS), held), COLUMNS, claim, 5)
    shared = make_task(calibrated, columns=COLUMNS, claim=claim, max_clients=5, max_missing="0", contributors=held)
    with pytest.raises(UnsupportedFeatureError, match="organisations and studies"):
        shared.model_copy(update={"noise": "servers"}).check()
    kept = CLAIM.model_copy(update={"delta_coalition": "0.0000001"})
    with pytest.raises(InvalidTaskError, match="no coalition of clients weakens the noise of servers"):
        make_task("sum", claim=CLAIM, noise="servers", max_clients=1000).model_copy(update={"claim": kept}).check()
