"""Pure epsilon: what follows for mu, what several releases cost, and that a changed statement is no longer pure."""

import math
from dataclasses import replace
from statistics import NormalDist

import pytest

from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.pure import PureStatement, mu_of_pure
from lintra_protocol.privacy.windows import repeated


def below(value: float) -> float:
    """Return Phi with all its digits also far out."""
    return math.erfc(-value / math.sqrt(2)) / 2


def stated(epsilon: float = 1.0) -> PureStatement:
    return PureStatement(neighbours="replace-one", epsilon=epsilon, delta=1e-6, mu=mu_of_pure(epsilon))


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 5.0, 40.0])
def test_the_trade_off_of_mu_lies_below_that_of_pure_epsilon_and_that_of_less_mu_does_not(epsilon: float) -> None:
    quantile, mu = NormalDist().inv_cdf, mu_of_pure(epsilon)
    corner = 1 / (1 + math.exp(epsilon))
    for error in (corner / 3, corner * 0.999, corner, 0.3, 0.7):
        lines = max(0.0, 1 - math.exp(epsilon) * error, math.exp(-epsilon) * (1 - error))
        assert below(-quantile(error) - mu) <= lines * (1 + 1e-12)
    less = mu * (1 - 1e-4)
    assert below(-quantile(corner) - less) > corner


def test_the_mu_of_a_huge_epsilon_is_finite_and_goes_on_from_that_of_a_large_one() -> None:
    assert mu_of_pure(600) < mu_of_pure(600.001) < mu_of_pure(600) * 1.01
    assert math.isfinite(mu_of_pure(1e9))


def test_a_pure_statement_needs_no_delta_from_its_epsilon_on_and_has_the_curve_below() -> None:
    one = stated()
    assert one.delta_at(1.0) == one.delta_at(7.0) == 0.0
    assert 0 < one.delta_at(0.99) < 1
    assert one.epsilon_at(1e-300) == one.epsilon_at(1e-6) == 1.0
    assert one.epsilon_at(0.3) < 1.0
    assert str(one) == "epsilon 1 at delta 0 (replace-one)"


@pytest.mark.parametrize("change", [{"mu": 2.5}, {"epsilon": 0.5}, {"delta_coalition": 1e-9}, {"slack": 1e-13}])
def test_a_statement_of_which_one_number_was_changed_is_no_longer_pure(change: dict[str, float]) -> None:
    changed = replace(stated(), **change)
    assert changed.delta_at(1.0) > 0
    assert changed.epsilon_at(1e-6) > 1.0
    assert str(changed).endswith("at delta 1e-06 (replace-one)")


def test_few_releases_cost_the_sum_of_their_epsilons_and_many_what_their_curves_give() -> None:
    few, many = repeated(stated(), 3), repeated(stated(0.01), 10_000)
    assert few.epsilon == pytest.approx(3, rel=1e-11)
    assert few.delta_at(few.epsilon) == 0
    assert many.epsilon < 10
    assert many.delta_at(many.epsilon) == pytest.approx(1e-6, rel=1e-6)
    assert many.mu == pytest.approx(100 * mu_of_pure(0.01), rel=1e-9)


def test_several_reports_of_a_source_in_one_release_cost_their_number_times_epsilon() -> None:
    assert repeated(stated(), 1, 2).epsilon == pytest.approx(2, rel=1e-11)
    assert repeated(stated(), 2, 2).epsilon == pytest.approx(4, rel=1e-11)


def test_a_ledger_pays_for_the_gaussian_privacy_that_follows() -> None:
    spent = Spending.of(stated()) + Spending.of(stated())
    assert spent.mu == pytest.approx(math.sqrt(2) * mu_of_pure(1.0), rel=1e-12)
