"""The price of integer shares in delta: exact in toy sums, taken off every verified task, refused where it is large."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement
from math import exp

import numpy as np
import pytest

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.shares_seen import SharesSeen
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.privacy.windows import repeated
from lintra_protocol.task import Task
from support import make_task
from support.measured import measurement_of

# --- toy sums -------------------------------------------------------------------------------------------------

REACH = 6
"""A client's noise lies within this; its word, 0 or 1 more, within one more."""


def noise() -> FloatArray:
    weights = np.exp(-(np.arange(-REACH, REACH + 1) ** 2) / 8.0)
    return np.asarray(weights / weights.sum())


def delta_of(first: FloatArray, second: FloatArray, epsilon: float) -> float:
    return float(np.maximum(first - exp(epsilon) * second, 0).sum())


def delta_of_sum(clients: int, epsilon: float) -> float:
    """Of the sum alone, exactly: one client has 0 or 1."""
    total = np.ones(1)
    for _ in range(clients):
        total = np.convolve(total, noise())
    return delta_of(np.append(total, 0), np.append(0, total), epsilon)


def seen_shares(word: int, size: int) -> list[tuple[int, FloatArray]]:
    """What a share a - u of a client's word shows, u uniform below `size`: how often, and the law of the noise beside.

    Of most values it shows nothing; at both ends it leaves out some noise.
    """
    words, bound = word + np.arange(-REACH, REACH + 1), REACH + 1
    ends = [*range(-bound - size + 1, bound - size + 1), *range(-bound + 1, bound + 1)]
    shown = [(1, np.where((words >= m) & (words < m + size), noise(), 0.0)) for m in ends]
    return [*shown, (size - 2 * bound, noise())]


def delta_of_everything(clients: int, size: int, epsilon: float) -> float:
    """Of the sum and all shares of all clients but the last server's, exactly."""
    total, other = 0.0, seen_shares(0, size)
    for chosen in combinations_with_replacement(range(len(other)), clients - 1):
        often, law = float(math.factorial(clients - 1)), np.ones(1)
        for place in set(chosen):
            often /= math.factorial(chosen.count(place))
        for place in chosen:
            often, law = often * other[place][0], np.convolve(law, other[place][1])
        for (count, first), (_, second) in zip(seen_shares(0, size), seen_shares(1, size), strict=True):
            laws = np.convolve(np.append(first, 0), law), np.convolve(np.append(0, second), law)
            total += often * count * delta_of(*laws, epsilon)
    return total / float(size) ** clients


@pytest.mark.parametrize("clients", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("bits", [6, 10, 20])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_toy_sums_keep_to_the_price_with_all_other_shares_seen(clients: int, bits: int, epsilon: float) -> None:
    seen = SharesSeen.of(1, (REACH + 1) ** 2, bits, clients)
    exact = delta_of_everything(clients, 1 << bits, epsilon)
    assert exact <= delta_of_sum(clients - 1, epsilon) + float(seen.price(Fraction(epsilon)))
    # What shares show is not nothing: the sum's own delta alone would be a false claim.
    assert exact > delta_of_sum(clients, epsilon) * (1 + 1e-7)


def shifted(variance: float) -> tuple[FloatArray, FloatArray]:
    """Return the laws of one server's noise, and of the same moved by one step."""
    law = np.exp(-(np.arange(-60, 61) ** 2) / (2 * variance))
    return np.append(law / law.sum(), 0), np.append(0, law / law.sum())


@pytest.mark.parametrize("bits", [4, 10, 20])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_where_a_server_adds_the_noise_only_the_changed_rows_own_shares_cost_anything(
    bits: int, epsilon: float
) -> None:
    # All other clients may be corrupt: their rows are known, and bound nobody's noise. Of the differences a - u of the
    # one word that nobody knows, 0 or 1, u uniform below 2^bits, one is possible for either word alone.
    seen, alone = SharesSeen.of(1, 1, bits, 10**9, clients_noise=False), delta_of(*shifted(20.0), epsilon)
    exact = (1 + ((1 << bits) - 1) * alone) / (1 << bits)
    price = float(seen.price(Fraction(epsilon)))
    assert alone < exact <= alone + price
    # A twentieth of it would be a false claim.
    assert exact > alone + 0.05 * price


# --- tasks --------------------------------------------------------------------------------------------------------


def verified(**changes: object) -> Task:
    return make_task(verification="norm", max_rejected="0.1", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["sum", "osnap", "second_moment"])
def test_a_verified_tasks_delta_is_smaller_by_exactly_the_price(kind: str) -> None:
    task = verified(mechanism=kind, min_clients=8)
    sizes, n = task.verified, task.max_clients
    assert sizes is not None
    assert task.shares_seen is not None
    bound, size = math.sqrt(sizes.squared_bound), 2.0**sizes.word_bits
    eta, several = math.sqrt(sizes.padded) * bound / size, 2 * sizes.padded * bound * n / size
    price = several**2 + (1 + math.e) * (eta + n * 2.0**-80)
    assert float(task.shares_seen.price(Fraction(1))) == pytest.approx(price, rel=1e-6, abs=0)
    taken = fraction(task.claim.delta) - fraction(task.noise_claim.delta)
    assert 0 <= taken - task.shares_seen.price(Fraction(1)) <= Fraction(1, 10**40)
    assert task.noise_claim.max_corrupt_clients == task.claim.max_corrupt_clients + 1
    statement, of_noise = task.privacy(12), measurement_of(task, 3, task.noise_claim).privacy(12)
    assert statement.mu == of_noise.mu
    assert statement.honest_clients == measurement_of(task, 3, task.claim).privacy(12).honest_clients - 1
    assert statement.delta_at(1.0) == pytest.approx(of_noise.delta_at(1.0) + price, rel=1e-12, abs=0)
    statement.require(task.claim)


def test_with_a_million_clients_the_chance_of_two_at_an_end_of_their_range_counts() -> None:
    seen = SharesSeen.of(5158, 2**48, 79, 10**6)
    assert math.log2(seen.several) == pytest.approx(-21.7, abs=0.1)
    assert math.log2(seen.shifted - 10**6 * Fraction(1, 2**80)) == pytest.approx(-48.8, abs=0.1)
    price = float(seen.several) ** 2 + (1 + math.e) * float(seen.shifted)
    assert float(seen.price(Fraction(1))) == pytest.approx(price, rel=1e-9, abs=0)
    assert float(seen.several) ** 2 > 0.1 * price


def test_without_proofs_nothing_is_taken() -> None:
    task = make_task()
    assert task.noise_claim is task.claim
    assert task.shares_seen is None
    assert task.privacy(12) == measurement_of(task, 3, task.claim).privacy(12)


def test_a_task_whose_shares_cost_more_than_a_thousandth_of_delta_is_refused() -> None:
    verified(delta=1e-9)
    with pytest.raises(InvalidTaskError, match="more than a thousandth of"):
        verified(delta=1e-12)


def test_a_task_in_which_one_client_more_would_leave_nobody_is_refused() -> None:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=3, max_corrupt_clients=2)
    with pytest.raises(InvalidTaskError, match="leave nobody to give away"):
        verified(claim=claim)


def test_several_releases_add_up_each_part_by_itself() -> None:
    statement = verified().privacy(12)
    three = repeated(statement, 3)
    assert three.delta_shares == pytest.approx(3 * statement.delta_shares, rel=1e-12, abs=0)
    assert three.delta_coalition == pytest.approx(3 * statement.delta_coalition, rel=1e-12, abs=0)
    assert three.mu == pytest.approx(math.sqrt(3) * statement.mu, rel=1e-9, abs=0)
    assert three.delta_at(three.epsilon) <= statement.delta
    assert three.delta_at(three.epsilon * (1 - 1e-6)) > statement.delta
    # One more e^epsilon for the total epsilon, and not three for those of the parts.
    alone = replace(three, delta_shares=0.0)
    assert three.delta_at(5.0) - alone.delta_at(5.0) == pytest.approx(
        3 * statement.delta_shares * (1 + exp(5)), rel=1e-4
    )


def test_a_ledger_keeps_what_shares_show_for_the_total_epsilon() -> None:
    statement = verified().privacy(12)
    spent = Spending.of(statement)
    assert float(spent.delta_shares) == pytest.approx(statement.delta_shares, rel=1e-12, abs=0)
    assert float(spent.delta_coalition) == pytest.approx(statement.delta_coalition, rel=1e-12, abs=0)
    for epsilon in (1.0, 8.0, 20.0):
        assert spent.delta_at(epsilon) == pytest.approx(statement.delta_at(epsilon), rel=1e-9, abs=0)


def test_epsilon_is_infinite_where_shares_alone_cost_delta() -> None:
    statement = replace(verified().privacy(12), delta_shares=1e-7)
    assert statement.epsilon_at(1e-7) == math.inf
    assert statement.epsilon_at(1e-5) < math.inf
    assert statement.delta_at(statement.epsilon_at(1e-5)) <= 1e-5 * (1 + 1e-12)
