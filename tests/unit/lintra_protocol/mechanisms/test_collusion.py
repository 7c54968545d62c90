"""What a claim is worth if other parts of the clients collude than it was made for."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.mechanisms.collusion import (
    PERCENTAGES,
    default_corrupt_clients,
    epsilons_if_colluding,
    half_of,
    released_epsilons_if_colluding,
)
from lintra_protocol.privacy.gaussian import gaussian_epsilon
from lintra_protocol.privacy.shares_seen import SharesSeen
from lintra_protocol.privacy.statement import Claim
from support import make_task
from support.measured import measurement_of

FIVE = Claim(epsilon="1", delta="0.000001", min_clients=1000, max_corrupt_clients=50, delta_coalition="0.0000005")


def test_a_claim_holds_at_its_own_part_and_weakens_with_every_larger_one() -> None:
    for kind, options in (("sum", {}), ("osnap", {"rows": 30}), ("osnap", {"rows": 8, "sparsity": 2})):
        task = make_task(kind, claim=FIVE, **options)  # type: ignore[arg-type]
        shown = epsilons_if_colluding(measurement_of(task, task.num_columns), task.claim)
        assert tuple(shown) == PERCENTAGES
        assert sorted(shown.values()) == list(shown.values())
        assert shown[5] <= 1.0001
        assert shown[0] < 1 < shown[20]


def test_of_a_sum_it_is_the_noise_of_the_honest_clients_that_is_left() -> None:
    claim = FIVE.model_copy(update={"delta_coalition": "0"})
    task = make_task("sum", claim=claim)
    mu = task.privacy(1000).mu
    for percent, epsilon in epsilons_if_colluding(measurement_of(task, 3), claim).items():
        honest = 1000 - 10 * percent
        assert epsilon == pytest.approx(gaussian_epsilon(mu * math.sqrt(950 / honest), 1e-6), rel=1e-6)


def test_what_shares_of_verified_reports_show_is_paid_for_at_the_epsilon_that_is_shown() -> None:
    claim = FIVE.model_copy(update={"delta_coalition": "0"})
    task = make_task("sum", claim=claim)
    mu, seen = task.privacy(1000).mu, SharesSeen(Fraction(18, 10**8), Fraction(1, 10**4))
    plain = epsilons_if_colluding(measurement_of(task, 3), claim)
    for percent, epsilon in epsilons_if_colluding(measurement_of(task, 3), claim, seen).items():
        # One client more is given away, and delta is what noise, two clients or more, and shares take together.
        honest = 1000 - 10 * percent - 1
        taken = 1e-8 + 1.8e-7 * (1 + math.exp(epsilon))
        assert epsilon == pytest.approx(gaussian_epsilon(mu * math.sqrt(950 / honest), 1e-6 - taken), rel=1e-6)
        assert epsilon > plain[percent] * 1.04
    # With a little more no epsilon is enough for a fifth, while the promise is still worth something.
    more = epsilons_if_colluding(measurement_of(task, 3), claim, SharesSeen(Fraction(22, 10**8), Fraction(1, 10**4)))
    assert more[5] < 1.2 < more[20] == math.inf


def test_a_coalition_that_may_fill_a_row_leaves_nothing() -> None:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=1000, max_corrupt_clients=20, threat="adaptive")
    task = make_task("osnap", rows=10, claim=claim)
    shown = epsilons_if_colluding(measurement_of(task, 3), claim)
    assert shown[5] < math.inf
    assert shown[20] == math.inf


@pytest.mark.parametrize("sparsity", [1, 2])
def test_of_a_release_it_follows_from_the_matrix_and_the_cohort_that_were_there(sparsity: int) -> None:
    task = make_task("osnap", rows=8, sparsity=sparsity, claim=FIVE, max_clients=4000)
    small, large = (
        released_epsilons_if_colluding(
            measurement_of(task, task.num_columns), task.claim, task.mechanism.public_matrix(clients, bytes(32))
        )
        for clients in (1000, 3000)
    )
    assert all(large[percent] < small[percent] for percent in PERCENTAGES)


def test_the_default_is_a_twentieth_rounded_down_and_half_of_delta() -> None:
    assert [default_corrupt_clients(clients) for clients in (2, 19, 20, 600, 999)] == [0, 0, 1, 30, 49]
    assert half_of("0.000001") == "0.0000005"
    assert half_of("0.0000000000000000000000000000000000000001") == "0"


@pytest.mark.parametrize("num_clients", [8, 19, 20, 21, 39, 99, 1000, 1019])
def test_per_cent_of_clients_that_collude_are_rounded_down(num_clients: int) -> None:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=num_clients)
    task = make_task("sum", claim=claim, max_clients=2000)
    mu = task.privacy(num_clients).mu
    for percent, epsilon in epsilons_if_colluding(measurement_of(task, 3), claim).items():
        honest = num_clients - math.floor(Fraction(percent, 100) * num_clients)
        assert epsilon == pytest.approx(gaussian_epsilon(mu * math.sqrt(num_clients / honest), 1e-6), rel=1e-6)


@given(st.integers(1, 10_000))
def test_the_usual_number_of_corrupt_clients_is_five_per_cent_rounded_down(min_clients: int) -> None:
    assert default_corrupt_clients(min_clients) == min_clients // 20
