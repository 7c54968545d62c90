"""Our Gaussian profile, its inverses and its composition against Google's dp-accounting."""

import math

import dp_accounting
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from papers.loss_distribution import LossDistribution
from papers.zero_concentrated import zcdp_epsilon

from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.discrete import discrete_delta, kappa
from lintra_protocol.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from lintra_protocol.privacy.statement import SMOOTHING

MUS = [0.01, 0.1, 0.236704380663, 0.5, 1.0, 3.0]
EPSILONS = [0.0, 0.1, 0.5, 1.0, 4.0]


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_our_profile_is_theirs_and_a_mu_off_by_a_millionth_is_not(mu: float, epsilon: float) -> None:
    theirs = GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon(epsilon)
    # They subtract two tails as they stand, which leaves an absolute error of about one unit in the last place.
    assert gaussian_delta(epsilon, mu) == pytest.approx(theirs, rel=1e-9, abs=1e-16)
    if theirs > 1e-9:
        assert gaussian_delta(epsilon, mu * (1 + 1e-6)) != pytest.approx(theirs, rel=1e-9, abs=1e-16)


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_our_epsilon_is_theirs(mu: float, delta: float) -> None:
    assert gaussian_epsilon(mu, delta) == pytest.approx(
        dp_accounting.get_epsilon_gaussian(1 / mu, delta), rel=1e-8, abs=1e-8
    )


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 4.0, 10.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3])
def test_our_noise_for_a_promise_is_theirs(epsilon: float, delta: float) -> None:
    assert 1 / gaussian_mu(epsilon, delta) == pytest.approx(dp_accounting.get_sigma_gaussian(epsilon, delta), rel=1e-7)


def test_our_composition_lies_between_their_optimistic_and_pessimistic_distributions() -> None:
    mus = [0.3, 0.4, 0.2, 0.2, 0.1]
    together = Spending(mu_squared="0.34", slack="0", delta_coalition="0")
    assert together.mu == pytest.approx(math.hypot(*mus))
    bounds = []
    for pessimistic in (False, True):
        losses = [
            pld.from_gaussian_mechanism(1 / mu, pessimistic_estimate=pessimistic, value_discretization_interval=1e-4)
            for mu in mus
        ]
        total = losses[0]
        for loss in losses[1:]:
            total = total.compose(loss)
        bounds.append([total.get_delta_for_epsilon(epsilon) for epsilon in (0.5, 1.0, 2.0)])
    for epsilon, low, high in zip((0.5, 1.0, 2.0), *bounds, strict=True):
        assert low <= together.delta_at(epsilon) <= high
        assert high < 1.01 * low
        assert gaussian_delta(epsilon, together.mu * 1.01) > high


def test_our_grid_of_losses_agrees_with_theirs() -> None:
    step = 1e-3
    ours = LossDistribution.gaussian(0.5, step)
    theirs = pld.from_gaussian_mechanism(
        2.0, value_discretization_interval=step, use_connect_dots=False, pessimistic_estimate=True
    )
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        assert ours.delta_at(epsilon) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=1e-6, abs=1e-14)


def test_our_concentrated_conversion_is_never_below_the_exact_epsilon_of_theirs() -> None:
    for mu in MUS:
        exact = dp_accounting.get_epsilon_gaussian(1 / mu, 1e-6)
        assert exact <= zcdp_epsilon(mu * mu / 2, 1e-6) < 1.2 * exact + 0.01


@pytest.mark.parametrize("sigma", [8, 20, 60])
def test_theorem_d1_bounds_their_exact_discrete_gaussian_and_is_close(sigma: int) -> None:
    sensitivity = sigma // 2
    exact = pld.from_discrete_gaussian_mechanism(
        sigma, sensitivity=sensitivity, value_discretization_interval=1e-4, pessimistic_estimate=False
    )
    mu = sensitivity / math.sqrt(sigma**2 - SMOOTHING)
    for epsilon in (0.3, 1.0, 2.0):
        bound = discrete_delta(epsilon, mu, kappa(SMOOTHING))
        theirs = exact.get_delta_for_epsilon(epsilon)
        assert theirs <= bound
        # Theorem D1 gives up SMOOTHING of the variance, which is 1/16 at sigma 8 and 1/900 at sigma 60.
        assert bound < theirs * (1 + 60 * SMOOTHING / sigma**2)
