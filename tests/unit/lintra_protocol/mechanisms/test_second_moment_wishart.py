"""Wishart noise from many clients as a mechanism."""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from lintra_protocol.errors import FalseClaimError, InvalidTaskError, RowUnderfilledError
from lintra_protocol.mechanisms import SecondMoment, WishartSecondMoment
from lintra_protocol.noise.discrete_gaussian import discrete_gaussian
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.discrete import kappa
from lintra_protocol.privacy.statement import MAX_SLACK, Claim
from lintra_protocol.privacy.wishart import wishart_delta
from support import source
from support.measured import calibrated_for, measurement_of

CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=667)
PLAIN = WishartSecondMoment(row_bound="1", fraction_bits=0, sigma=4)


@cache
def calibrated() -> WishartSecondMoment:
    return calibrated_for(PLAIN, 22, CLAIM, 6670)


def test_an_example_has_the_largest_variance_up_to_sigma_that_its_two_parts_can_have() -> None:
    for sigma in (4100, 4101, 10**6, 2**28):
        mechanism = PLAIN.model_copy(update={"sigma": sigma})
        assert mechanism.variance == mechanism.coarse**2 + 4 <= sigma < (mechanism.coarse + 1) ** 2 + 4
        assert 64 * mechanism.grid_noise >= sigma > 64 * (mechanism.grid_noise - 1)


@pytest.mark.slow
def test_calibration_pays_for_integers_and_composition_less_than_a_percent_above_the_exact_curve() -> None:
    scale = calibrated().variance / calibrated().squared_bound
    assert 1 < scale / 0.172041913 < 1.005
    gaussian = calibrated_for(SecondMoment(row_bound="1", fraction_bits=0, sigma=4), 22, CLAIM, 6670)
    deviations = [each.sigma * 4.0**-each.fraction_bits for each in (calibrated(), gaussian)]
    assert 1.04 < deviations[0] / deviations[1] < 1.06


def test_a_statement_lies_above_the_exact_curve_at_every_epsilon() -> None:
    statement = measurement_of(calibrated(), 22, CLAIM).privacy(667)
    weight = calibrated().squared_bound / calibrated().variance
    for epsilon in (0.0, 0.1, 0.5, 1.0, 1.5, 3.0):
        assert statement.delta_at(epsilon) > wishart_delta(epsilon, 646, weight, "replace-one")
    assert statement.delta_at(1.0) <= 1e-6
    assert 0 < statement.delta_coalition < 1e-6 / 8


def test_fewer_honest_clients_than_planned_give_a_larger_mu_and_never_a_release() -> None:
    planned = measurement_of(calibrated(), 22, CLAIM).privacy(667)
    planned.require(CLAIM)
    weaker = measurement_of(calibrated(), 22, CLAIM).privacy(600)
    assert weaker.mu > planned.mu * (667 / 600) ** 0.49
    with pytest.raises(FalseClaimError, match="600 honest clients"):
        weaker.require(CLAIM)
    with pytest.raises(RowUnderfilledError, match="40 honest clients give no Wishart noise for 22 columns"):
        measurement_of(calibrated(), 22, CLAIM).privacy(40)


def test_what_a_release_spends_includes_the_probability_that_no_mu_covers() -> None:
    statement = measurement_of(calibrated(), 22, CLAIM).privacy(667)
    spent = Spending.of(statement) + Spending.of(statement)
    assert spent.mu == pytest.approx(statement.mu * 2**0.5)
    assert spent.delta_at(10.0) >= 2 * statement.delta_coalition


def test_a_coarse_grid_costs_more_and_the_statement_says_so() -> None:
    fine, coarse = calibrated(), calibrated().model_copy(update={"fraction_bits": 6})
    coarse = coarse.model_copy(update={"sigma": calibrated().sigma // 4**9})
    mus = [measurement_of(each, 22, CLAIM).privacy(667).mu for each in (fine, coarse)]
    assert coarse.variance / coarse.squared_bound == pytest.approx(fine.variance / fine.squared_bound, rel=0.1)
    assert mus[1] > 2 * mus[0]


@pytest.mark.parametrize("sigma", [4100, 10**6, 2**28])
def test_the_price_of_integers_is_far_below_what_is_allowed(sigma: int) -> None:
    mechanism = PLAIN.model_copy(update={"sigma": sigma, "fraction_bits": 10})
    assert measurement_of(mechanism, 22, CLAIM).privacy(10_000_000).slack < MAX_SLACK
    # An example is two discrete Gaussians, which add up to one: the harmonic variance of their common grid.
    assert kappa(1 / (1 / mechanism.coarse**2 + 1 / 4)) <= kappa(4 * 0.999)


def test_noise_is_the_rounded_product_of_one_example_about_its_mean() -> None:
    """Take the same bytes apart: the words are the exact products, up to less than one step and the rounding noise."""
    mechanism = PLAIN.model_copy(update={"sigma": 10**6 + 4})
    noise = measurement_of(mechanism, 3).noise(200, source("example"))
    random_bytes = source("example")
    coarse = discrete_gaussian((200, 3), mechanism.coarse, random_bytes)
    fine = discrete_gaussian((200, 3), 2**19, random_bytes)
    places = list(zip(*np.triu_indices(3), strict=True))
    rest = []
    for client, words in enumerate(noise):
        entries = [int(coarse[client, k]) + Fraction(int(fine[client, k]), 2**18) for k in range(3)]
        for word, (i, j) in zip(words, places, strict=True):
            rest.append(float(int(word) - entries[i] * entries[j] + (mechanism.variance if i == j else 0)))
    # Eight deviations of the rounding noise, and six of the mean square of 1200 words: a false alarm below 1e-8.
    assert max(map(abs, rest)) < 1 + 8 * mechanism.grid_noise
    assert np.mean(np.square(rest)) / mechanism.grid_noise**2 == pytest.approx(1, abs=6 * (2 / 1200) ** 0.5)


def test_too_small_a_sigma_or_too_large_a_cohort_is_refused() -> None:
    with pytest.raises(InvalidTaskError, match="sigma 4099 is below 4100"):
        measurement_of(PLAIN.model_copy(update={"sigma": 4099}), 22, CLAIM).check(6670)
    with pytest.raises(InvalidTaskError, match="overflow"):
        measurement_of(calibrated().model_copy(update={"fraction_bits": 25, "sigma": 2**28}), 22, CLAIM).check(2**20)
    with pytest.raises(InvalidTaskError, match="no fixed-point grid of 0 to 40 bits fits"):
        calibrated_for(PLAIN.model_copy(update={"row_bound": "0.00000000001"}), 22, CLAIM, 6670)


def test_headroom_shrinks_with_the_cohort() -> None:
    logs = [measurement_of(calibrated(), 22).log_wrap_probability(clients) for clients in (10**3, 10**6, 10**9, 10**12)]
    assert logs == sorted(logs)
    assert logs[0] < -1000
    assert logs[-1] == math.inf
