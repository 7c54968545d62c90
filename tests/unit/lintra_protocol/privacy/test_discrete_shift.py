"""Releases beside which something is seen that says almost nothing: against explicit laws, and where no epsilon is."""

import math

import numpy as np
import pytest

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.privacy import discrete_shift as shifted
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.discrete import discrete_delta, discrete_epsilon
from lintra_protocol.privacy.discrete_shift import shifted_delta, shifted_epsilon
from lintra_protocol.privacy.gaussian import gaussian_epsilon
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.privacy.windows import repeated
from support import make_task


def statement(mu: float, shift: float) -> PrivacyStatement:
    return PrivacyStatement("replace-one", gaussian_epsilon(mu, 1e-6), 1e-6, mu, delta_shares=shift)


# --- against explicit laws ----------------------------------------------------------------------------------------


def laws(mu: float, shift: float, cells: int) -> tuple[FloatArray, FloatArray]:
    """Return N(mu, 1) and N(0, 1) in cells, each moved by `shift` in total variation to where it can be told best.

    The first gets a part of its unlikeliest outcomes' mass where the other has least, and the second the reverse.
    """
    edges = np.linspace(-8.0, mu + 8.0, cells + 1)
    tails = [np.array([0.5 * math.erfc((edge - mean) / math.sqrt(2)) for edge in edges]) for mean in (mu, 0.0)]
    first, second = (-np.diff(tail) for tail in tails)
    for law in (first, second[::-1]):
        kept = np.maximum(np.cumsum(law) - shift, 0)  # nothing of the first cells
        law[:] = np.diff(kept, prepend=0.0)
        law[-1] += shift
    return first, second


def delta_of(mus: tuple[float, ...], shift: float, epsilon: float, cells: int) -> float:
    """Compose the laws of releases outcome by outcome, and read delta off its definition."""
    first, second = np.ones(1), np.ones(1)
    for mu in mus:
        one, other = laws(mu, shift, cells)
        first, second = np.outer(first, one).ravel(), np.outer(second, other).ravel()
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize(
    ("mus", "shift"),
    [
        ((1.0,), 0.02),
        ((4.0,), 2e-9),
        ((0.6, 0.8), 0.01),
        ((3.9, 0.9), 1e-9),
        ((0.5, 0.5, 0.5), 1e-3),
        ((3.9, 0.6, 0.6), 1e-9),
        ((5.5, 1.0, 0.5), 1e-11),
    ],
)
def test_what_is_added_up_lies_above_the_exact_laws_at_every_epsilon(mus: tuple[float, ...], shift: float) -> None:
    together = Spending.zero()
    for mu in mus:
        together += Spending.of(statement(mu, shift))
    for epsilon in (0.1, 1.0, 3.0, 8.0, 12.5, 15.0, 18.0, 25.0):
        assert delta_of(mus, shift, epsilon, {1: 4000, 2: 400, 3: 60}[len(mus)]) <= together.delta_at(epsilon)


@pytest.mark.parametrize(("mu", "shift", "epsilon"), [(1.0, 0.02, 0.5), (1.0, 0.02, 1.5), (4.0, 2e-9, 15.0)])
def test_one_release_may_cost_all_that_is_counted(mu: float, shift: float, epsilon: float) -> None:
    assert delta_of((mu,), shift, epsilon, 40_000) >= Spending.of(statement(mu, shift)).delta_at(epsilon) * (1 - 1e-4)


@pytest.mark.parametrize("mus", [(4.0,), (3.9, 0.9), (3.95, 0.4, 0.4)])
def test_what_shares_show_counted_at_an_epsilon_of_12_would_be_a_false_claim_above(mus: tuple[float, ...]) -> None:
    shift, epsilon = 2e-9, 15.0
    exact = delta_of(mus, shift, epsilon, {1: 4000, 2: 1000, 3: 100}[len(mus)])
    together, at_12 = Spending.zero(), Spending.zero()
    for mu in mus:
        together += Spending.of(statement(mu, shift))
        at_12 += Spending.gaussian(mu, failure=shift * (1 + math.exp(12)))
    assert at_12.delta_at(epsilon) * 1.02 < exact <= together.delta_at(epsilon)


# --- the smallest epsilon -------------------------------------------------------------------------------------------


def by_steps(mu: float, delta: float, slack: float, shift: float) -> float:
    """Return the first epsilon from 0 upwards that is enough for itself: what noise is left shrinks as it grows."""
    epsilon = 0.0
    for _ in range(10_000):
        left = delta - shift * (1 + math.exp(epsilon))
        if left <= 0:
            return math.inf
        found = discrete_epsilon(mu, left, slack)
        if found <= epsilon * (1 + 1e-13):
            return max(found, epsilon)
        epsilon = found
    raise AssertionError("too near the point where no epsilon is enough")


@pytest.mark.parametrize("mu", [0.0, 1e-6, 0.2, 1.0, 3.0, 30.0])
@pytest.mark.parametrize("shift", [1e-24, 1e-15, 1e-9, 2e-7, 1e-3])
def test_epsilon_is_the_smallest_that_is_enough_for_itself(mu: float, shift: float) -> None:
    for slack in (0.0, 1e-12, 0.01):
        found, stepped = shifted_epsilon(mu, 1e-6, slack, shift), by_steps(mu, 1e-6, slack, shift)
        # Without a shift epsilon may be 2K too large.
        assert found == stepped == math.inf or -1e-9 <= stepped - found <= 2 * slack + 1e-9
        if 0 < found < math.inf:
            assert shifted_delta(found, mu, slack, shift) <= 1e-6
            assert shifted_delta(found * (1 - 1e-9) - 1e-12, mu, slack, shift) > 1e-6
        if found == math.inf:
            assert all(shifted_delta(epsilon, mu, slack, shift) > 1e-6 for epsilon in np.linspace(0, 30, 61))


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_epsilon_is_found_quickly_also_where_it_is_about_to_vanish(mu: float, monkeypatch: pytest.MonkeyPatch) -> None:
    least, most = 1e-20, 1e-3  # the largest shift for which some epsilon is enough lies between
    while most > least * (1 + 1e-15):
        middle = math.sqrt(least * most)
        if not least < middle < most:
            break
        least, most = (least, middle) if shifted_epsilon(mu, 1e-6, 0.0, middle) == math.inf else (middle, most)
    asked = []

    def counted(epsilon: float, mu: float, slack: float) -> float:
        asked.append(epsilon)
        return discrete_delta(epsilon, mu, slack)

    monkeypatch.setattr(shifted, "discrete_delta", counted)
    for shift in (least * (1 - 1e-12), least, most):
        asked.clear()
        epsilon = shifted_epsilon(mu, 1e-6, 0.0, shift)
        assert len(asked) < 70
        assert (epsilon == math.inf) is (shift == most)
    # It is the whole truth: with a hair more, no epsilon near the last one is enough either.
    last = shifted_epsilon(mu, 1e-6, 0.0, least)
    assert all(shifted_delta(last * (1 + k / 1e4), mu, 0.0, most * (1 + 1e-11)) > 1e-6 for k in range(-1000, 1000))


def test_the_curve_of_one_statement_and_of_what_it_spends_are_the_same() -> None:
    one = make_task(verification="norm", max_rejected="0.1").privacy(12)
    spent = Spending.of(one)
    assert spent.to_document()["delta_shares"] != "0"
    assert one.epsilon_at(1e-6) <= spent.epsilon_at(1e-6) <= one.epsilon_at(1e-6) * (1 + 1e-11)
    for epsilon in (0.5, 1.0, 15.0, 25.0):
        assert one.delta_at(epsilon) <= spent.delta_at(epsilon) <= one.delta_at(epsilon) * (1 + 1e-11)
    many = repeated(one, 40)
    together = Spending.zero()
    for _ in range(40):
        together += spent
    assert together.epsilon_at(1e-6) == pytest.approx(many.epsilon, rel=1e-9)
    assert float(together.delta_shares) == pytest.approx(40 * one.delta_shares, rel=1e-12)


# --- epsilons that no float holds e to the power of -----------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [700.0, 701.0, 800.0, 1e6, math.inf])
def test_nothing_is_promised_beside_a_shift_at_an_epsilon_beyond_all_floats(epsilon: float) -> None:
    for shift in (1e-300, 1e-15):
        assert shifted_delta(epsilon, 1.0, 0.0, shift) >= min(1.0, shift * 1e303)
        assert Spending.of(statement(1.0, shift)).delta_at(epsilon) == 1.0
    assert shifted_delta(epsilon, 1.0, 0.0, 0.0) < 1e-12


@pytest.mark.parametrize("epsilon", ["50", "800", "100000"])
def test_a_verified_task_that_promises_a_huge_epsilon_is_refused_in_words(epsilon: str) -> None:
    with pytest.raises(InvalidTaskError, match="more than a thousandth of"):
        make_task(verification="norm", max_rejected="0.1", epsilon=epsilon)
