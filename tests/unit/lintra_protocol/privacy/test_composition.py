"""What releases spend together: exact sums, the profile of the sum, and the looser currency beside it."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from papers.zero_concentrated import zcdp_delta, zcdp_epsilon

from lintra_protocol.encoding.canonical import canonical_json, parse_canonical_json
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.discrete import discrete_delta
from lintra_protocol.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from lintra_protocol.privacy.statement import PrivacyStatement
from support import few, make_task


def statement(
    mu: float, slack: float = 0.0, delta_coalition: float = 0.0, delta_shares: float = 0.0
) -> PrivacyStatement:
    return PrivacyStatement(
        neighbours="replace-one",
        epsilon=gaussian_epsilon(mu, 1e-6),
        delta=1e-6,
        mu=mu,
        slack=slack,
        delta_coalition=delta_coalition,
        delta_shares=delta_shares,
        num_clients=100,
        honest_clients=100,
        leverage=0.01,
        max_corrupt_clients=0,
        threat="static",
    )


statements = st.builds(
    statement, st.floats(1e-9, 1e4), st.floats(0, 1e-12), st.floats(0, 1e-7), st.just(0.0) | st.floats(0, 1e-12)
)


def test_mu_of_three_and_four_tenths_compose_to_five_tenths() -> None:
    together = Spending.of(statement(0.3)) + Spending.of(statement(0.4))
    assert together.mu == pytest.approx(0.5, rel=1e-14)
    assert together.epsilon_at(1e-6) == pytest.approx(2.254084650220, abs=1e-11)
    assert together.delta_at(1.0) == pytest.approx(gaussian_delta(1.0, 0.5), rel=1e-11)


def test_ten_and_a_hundred_releases_have_the_known_epsilons_at_the_delta_that_belongs_to_them() -> None:
    one = statement(gaussian_mu(0.5, 1e-6))
    for count, exact, concentrated in [(10, 1.729, 1.859), (100, 6.26, 6.68)]:
        together = Spending.zero()
        for _ in range(count):
            together += Spending.of(one)
        digits = 5e-4 if count == 10 else 5e-3
        assert together.epsilon_at(1e-6) == pytest.approx(exact, abs=digits)
        assert zcdp_epsilon(together.rho, 1e-6) == pytest.approx(concentrated, abs=digits)
        # These are the numbers at delta 1e-6. At delta 1e-5 epsilon is smaller, by far more than the last digit.
        assert together.epsilon_at(1e-5) < 0.91 * exact
        assert together.epsilon_at(1e-6) < count * 0.5


def test_nothing_is_spent_by_no_release() -> None:
    assert Spending.zero().epsilon_at(1e-6) == 0.0
    assert Spending.zero().delta_at(0.0) == 0.0
    assert Spending.zero().mu == Spending.zero().rho == 0.0


def test_one_release_spends_what_its_statement_says() -> None:
    released = make_task("osnap").privacy(8)
    spent = Spending.of(released)
    assert released.epsilon_at(1e-6) <= spent.epsilon_at(1e-6) < released.epsilon_at(1e-6) * (1 + 1e-13)
    assert released.delta_at(1.0) <= spent.delta_at(1.0) < released.delta_at(1.0) * (1 + 1e-12)


def test_slack_and_coalitions_add_up_and_are_paid_for() -> None:
    together = Spending.of(statement(0.3, 1e-3, 1e-7)) + Spending.of(statement(0.4, 2e-3, 2e-7))
    expected = 3e-7 + discrete_delta(1.0, 0.5, 3e-3)
    assert expected <= together.delta_at(1.0) < expected * (1 + 1e-12)
    assert together.delta_at(together.epsilon_at(1e-6)) <= 1e-6
    assert together.epsilon_at(3e-7) == math.inf
    assert together.delta_at(-1000.0) == 1.0


@few
@given(st.lists(statements, min_size=1, max_size=6), st.randoms())
def test_the_order_of_releases_does_not_matter_and_nothing_is_rounded_down(
    releases: list[PrivacyStatement], shuffler: object
) -> None:
    forward, backward = Spending.zero(), Spending.zero()
    for release in releases:
        forward += Spending.of(release)
    for release in reversed(releases):
        backward = Spending.of(release) + backward
    assert forward == backward
    exact = sum(Fraction(release.mu) ** 2 for release in releases)
    assert exact <= fraction(forward.mu_squared) <= exact * (1 + Fraction(1, 10**19))
    assert fraction(forward.slack) >= sum(Fraction(release.slack) for release in releases)
    assert fraction(forward.delta_coalition) >= sum(Fraction(release.delta_coalition) for release in releases)
    shown = sum(Fraction(release.delta_shares) for release in releases)
    assert 0 <= fraction(forward.delta_shares) - shown <= shown / 10**19 + Fraction(len(releases), 10**40)
    assert forward.mu**2 >= exact * (1 - Fraction(1, 10**15))


@few
@given(statements, statements, st.floats(0, 20))
def test_two_releases_are_never_more_private_than_one(
    first: PrivacyStatement, second: PrivacyStatement, epsilon: float
) -> None:
    one = Spending.of(first)
    assert (one + Spending.of(second)).delta_at(epsilon) >= one.delta_at(epsilon) * (1 - 1e-11)


@few
@given(statements)
def test_what_is_spent_survives_being_written_down(release: PrivacyStatement) -> None:
    spent = Spending.of(release)
    assert Spending.from_document(spent.to_document()) == spent
    assert Spending.from_document(parse_canonical_json(canonical_json(dict(spent.to_document())))) == spent
    assert Spending.from_canonical(spent.canonical()) == spent


def test_documents_of_releases_without_verification_say_nothing_of_shares() -> None:
    plain, verified = Spending.of(statement(0.5, 0.0, 0.0)), Spending.of(statement(0.5, 0.0, 0.0, 2.0**-50))
    assert plain.canonical() == b'{"delta_coalition":"0","mu_squared":"0.25","slack":"0"}'
    assert plain.to_document() == {"mu_squared": "0.25", "slack": "0", "delta_coalition": "0"}
    assert verified.to_document() == plain.to_document() | {"delta_shares": "0.00000000000000088817841970012523234"}
    with pytest.raises(InvalidMessageError, match="left out"):
        Spending.from_canonical(b'{"delta_coalition":"0","delta_shares":"0","mu_squared":"0.25","slack":"0"}')


def test_one_number_that_is_larger_does_not_fit() -> None:
    room = Spending.of(statement(0.5, 1e-13, 1e-8, 1e-15))
    assert room.fits_into(room)
    for more in ((0.6, 1e-13, 1e-8, 1e-15), (0.5, 2e-13, 1e-8, 1e-15), (0.5, 1e-13, 2e-8, 1e-15)):
        assert not Spending.of(statement(*more)).fits_into(room)
    assert not Spending.of(statement(0.5, 1e-13, 1e-8, 2e-15)).fits_into(room)
    assert not room.fits_into(Spending.of(statement(0.5, 1e-13, 1e-8)))
    assert Spending.of(statement(0.5, 1e-13, 1e-8)).fits_into(room)


@pytest.mark.parametrize(
    "document",
    [
        {},
        None,
        {"mu_squared": "0", "slack": "0"},
        {"mu_squared": "-1", "slack": "0", "delta_coalition": "0"},
        {"mu_squared": "0", "slack": "-0.1", "delta_coalition": "0"},
        {"mu_squared": "1e3", "slack": "0", "delta_coalition": "0"},
        {"mu_squared": 1, "slack": "0", "delta_coalition": "0"},
        {"mu_squared": "1.0", "slack": "0", "delta_coalition": "0"},
        {"mu_squared": "0", "slack": "0", "delta_coalition": "0", "more": "0"},
        {"mu_squared": "0", "slack": "0", "delta_coalition": "0", "delta_shares": "-0.1"},
        {"mu_squared": "0", "slack": "0", "delta_coalition": "0", "delta_shares": None},
    ],
)
def test_a_damaged_ledger_line_is_refused(document: object) -> None:
    with pytest.raises(InvalidMessageError):
        Spending.from_document(document)


def test_a_slack_below_the_last_place_is_kept_as_the_last_place() -> None:
    assert fraction(Spending.of(statement(0.3, 1e-60)).slack) == Fraction(1, 10**40)
    assert fraction(Spending.of(statement(1e-30)).mu_squared) == Fraction(1, 10**40)


def test_releases_without_privacy_do_not_become_a_number() -> None:
    for mu in (1e10, math.inf):
        with pytest.raises(ValueError, match=r"real|finite"):
            Spending.of(statement(mu))


def test_a_delta_outside_the_open_unit_interval_is_refused() -> None:
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="delta"):
            Spending.zero().epsilon_at(delta)
        with pytest.raises(ValueError, match="delta"):
            zcdp_epsilon(0.1, delta)
    for epsilon, rho in [(-1.0, 0.1), (math.inf, 0.1), (1.0, -0.1), (1.0, math.nan)]:
        with pytest.raises(ValueError, match="finite"):
            zcdp_delta(epsilon, rho)


@pytest.mark.parametrize("mu", [1e-3, 0.05, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.5, 3.0, 40.0])
def test_concentrated_privacy_never_promises_more_than_the_exact_profile(mu: float, epsilon: float) -> None:
    assert zcdp_delta(epsilon, mu * mu / 2) >= gaussian_delta(epsilon, mu)


def test_the_best_order_beats_every_order_of_a_fine_grid() -> None:
    epsilon, rho = 1.5, 0.05
    orders = [1 + 10 ** (k / 200 - 2) for k in range(800)]
    grid = min(
        math.exp((a - 1) * (a * rho - epsilon)) * (1 - 1 / a) ** a / (a - 1)  # Proposition 12, as printed
        for a in orders
    )
    assert grid * (1 - 1e-3) < zcdp_delta(epsilon, rho) <= grid


@pytest.mark.parametrize("rho", [1e-9, 1e-3, 0.125, 5.0, 1e3])
def test_the_concentrated_epsilon_is_the_smallest(rho: float) -> None:
    epsilon = zcdp_epsilon(rho, 1e-6)
    assert zcdp_delta(epsilon, rho) <= 1e-6
    assert epsilon == 0 or zcdp_delta(epsilon * (1 - 1e-9), rho) > 1e-6
    # The simple conversion of Bun and Steinke 2016, Proposition 1.3, is looser.
    assert epsilon < rho + 2 * math.sqrt(rho * math.log(1e6))
    assert zcdp_epsilon(0.0, 1e-6) == 0.0
