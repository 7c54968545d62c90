"""Loss distributions on a grid stay above the exact curve, close to it, and closer on a finer grid."""

import math

import numpy as np
import pytest
from papers.loss_distribution import LossDistribution

from lintra_protocol.privacy.gaussian import gaussian_delta

EPSILONS = [0.0, 0.2, 0.5, 1.0, 2.0, 3.0]


def powers(mu: float, step: float, doublings: int) -> LossDistribution:
    """Return the loss of 2^doublings equal Gaussian releases."""
    loss = LossDistribution.gaussian(mu, step)
    for _ in range(doublings):
        loss = loss.compose(loss)
    return loss


@pytest.mark.parametrize("mu", [0.02, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.slow
def test_one_release_on_a_grid_is_just_above_the_exact_profile(mu: float, epsilon: float) -> None:
    step = mu * 1e-3
    exact, grid = gaussian_delta(epsilon, mu), LossDistribution.gaussian(mu, step).delta_at(epsilon)
    assert grid >= exact
    # Shifting every loss by one step is the worst that rounding up can do.
    assert grid <= gaussian_delta(epsilon - step, mu) * (1 + 1e-9) + 1e-30


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.slow
def test_three_and_four_tenths_on_a_grid_are_just_above_five_tenths(epsilon: float) -> None:
    step = 1e-4
    together = LossDistribution.gaussian(0.3, step).compose(LossDistribution.gaussian(0.4, step))
    exact = gaussian_delta(epsilon, 0.5)
    assert exact <= together.delta_at(epsilon) <= gaussian_delta(epsilon - 2 * step, 0.5) + 1e-13
    assert together.delta_at(epsilon) < 1.002 * exact


def test_eight_releases_stay_above_the_exact_curve_and_a_finer_grid_comes_closer() -> None:
    coarse, fine = powers(0.175, 1e-3, 3), powers(0.175, 1e-4, 3)
    for epsilon in EPSILONS:
        exact = gaussian_delta(epsilon, math.sqrt(8) * 0.175)
        assert exact <= fine.delta_at(epsilon) < coarse.delta_at(epsilon)
        assert fine.delta_at(epsilon) < 1.02 * exact


@pytest.mark.slow
def test_the_exact_curve_of_a_slightly_larger_mu_is_not_below_the_grid() -> None:
    # So the comparisons above would notice a mu that is wrong by one percent. Further out, where delta is below
    # 1e-13, the grid holds only the allowance for the transform's rounding.
    together = powers(0.124, 1e-5, 2)
    for epsilon in (0.0, 0.2, 0.5, 1.0):
        assert gaussian_delta(epsilon, 2 * 0.124 * 1.01) > together.delta_at(epsilon)


def test_no_probability_is_lost() -> None:
    for loss in (LossDistribution.gaussian(0.3, 1e-3), powers(0.3, 1e-3, 3)):
        assert float(loss.masses.sum()) + loss.infinite == pytest.approx(1, abs=1e-11)
        assert float(loss.masses.min()) >= 0


def test_a_gaussian_release_composes_with_randomised_response() -> None:
    # Truth with probability e^eps / (1 + e^eps): two losses, +eps and -eps, on the grid exactly.
    step, steps = 1e-3, 500
    truth = math.exp(step * steps) / (1 + math.exp(step * steps))
    masses = np.zeros(2 * steps + 1)
    masses[0], masses[-1] = 1 - truth, truth
    answer = LossDistribution(masses=masses, lowest=-steps, step=step, infinite=0.0)
    together = LossDistribution.gaussian(0.4, step).compose(answer)
    for epsilon in EPSILONS:
        parts = truth * gaussian_delta(epsilon - 0.5, 0.4) + (1 - truth) * gaussian_delta(epsilon + 0.5, 0.4)
        assert parts <= together.delta_at(epsilon) < parts * 1.02


def test_an_infinite_loss_is_never_forgiven() -> None:
    loss = LossDistribution(masses=np.array([0.9]), lowest=0, step=0.1, infinite=0.1)
    assert loss.delta_at(50.0) == 0.1
    assert loss.compose(loss).delta_at(50.0) >= 0.2


def test_grids_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="cell by cell"):
        LossDistribution.gaussian(0.3, 1e-3).compose(LossDistribution.gaussian(0.3, 2e-3))
    for mu, step in [(0.0, 1e-3), (0.3, 0.0), (math.inf, 1e-3), (math.nan, 1e-3)]:
        with pytest.raises(ValueError, match="positive"):
            LossDistribution.gaussian(mu, step)
