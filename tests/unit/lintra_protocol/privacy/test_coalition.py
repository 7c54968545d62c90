"""How many corrupt clients can share a row, against exact tails and the vectors."""

import math
from fractions import Fraction

import pytest

from lintra_protocol.privacy.coalition import kl_bernoulli, static_quota

DELTA = 1e-9


def exact_tail(trials: int, rows: int, q: int) -> Fraction:
    """P(Bin(trials, 1/rows) >= q) in exact arithmetic."""
    below = sum(math.comb(trials, k) * (rows - 1) ** (trials - k) for k in range(q))
    return 1 - Fraction(below, rows**trials)


def exact_share_of_balanced_rows(corrupt: int, clients: int, row: int, q: int) -> Fraction:
    """P(a row of `row` of the clients, drawn without replacement, holds at least q of the corrupt)."""
    ways = sum(math.comb(corrupt, k) * math.comb(clients - corrupt, row - k) for k in range(q, min(row, corrupt) + 1))
    return Fraction(ways, math.comb(clients, row))


@pytest.mark.parametrize(("t", "rows", "quota"), [(100, 64, 16), (1000, 64, 49), (1000, 1024, 15), (10**4, 1024, 40)])
def test_hashed_quotas_have_their_reference_values(t: int, rows: int, quota: int) -> None:
    assert static_quota(t, rows, DELTA, balanced=False) == quota


@pytest.mark.parametrize(
    ("t", "rows", "delta"), [(100, 64, 1e-9), (60, 3, 1e-4), (40, 2, 0.3), (200, 50, 0.9), (7, 5, 1e-2)]
)
def test_the_hashed_quota_is_the_smallest_that_exact_arithmetic_allows(t: int, rows: int, delta: float) -> None:
    quota = static_quota(t, rows, delta, balanced=False)
    assert rows * exact_tail(t, rows, quota) <= delta
    assert rows * exact_tail(t, rows, quota - 1) > delta


@pytest.mark.parametrize(("t", "clients", "rows"), [(30, 97, 8), (50, 640, 64), (99, 130, 4)])
def test_the_balanced_quota_holds_for_rows_that_are_one_client_longer(t: int, clients: int, rows: int) -> None:
    quota = static_quota(t, rows, 1e-3, balanced=True, min_clients=clients)
    for cohort in (clients, clients + 1, clients + rows):
        assert rows * exact_share_of_balanced_rows(t, cohort, -(-cohort // rows), quota) <= 1e-3


def test_the_balanced_quota_is_the_smallest_that_its_bound_allows() -> None:
    quota = static_quota(10**4, 1024, DELTA, balanced=True)
    bounds = [1024 * math.exp(-(10**4) * kl_bernoulli(q / 10**4, 1 / 1024)) for q in (quota - 1, quota)]
    assert bounds[1] <= DELTA < bounds[0]


@pytest.mark.parametrize("balanced", [False, True])
def test_a_quota_is_never_more_than_the_coalition(balanced: bool) -> None:
    assert static_quota(0, 64, DELTA, balanced) == 0
    assert static_quota(5, 1, DELTA, balanced) == 5
    assert static_quota(2, 3, DELTA, balanced) == 2


@pytest.mark.parametrize("balanced", [False, True])
def test_a_coalition_of_a_million_gets_its_quota(balanced: bool) -> None:
    assert 10**6 // 1024 < static_quota(10**6, 1024, DELTA, balanced) < 1.3 * 10**6 / 1024


def test_the_divergence_of_coins_has_its_known_values() -> None:
    assert kl_bernoulli(0.5, 0.25) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert kl_bernoulli(0.3, 0.3) == 0.0
    assert kl_bernoulli(1, 0.1) == pytest.approx(math.log(10))
    assert kl_bernoulli(0, 0.1) == pytest.approx(-math.log(0.9))
    assert kl_bernoulli(0.5, 0) == kl_bernoulli(0.5, 1) == math.inf
    assert kl_bernoulli(0, 0) == kl_bernoulli(1, 1) == 0.0


@pytest.mark.parametrize("arguments", [(-1, 4, 0.1), (1, 0, 0.1), (1, 4, 0.0), (1, 4, 1.0), (1, 4, math.nan)])
def test_senseless_arguments_are_refused(arguments: tuple[int, int, float]) -> None:
    with pytest.raises(ValueError, match="no quota"):
        static_quota(*arguments, balanced=True)
    with pytest.raises(ValueError, match="cannot be corrupt"):
        static_quota(5, 2, 0.1, balanced=True, min_clients=4)
    with pytest.raises(ValueError, match="probabilities"):
        kl_bernoulli(1.1, 0.5)
