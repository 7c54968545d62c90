"""The Gaussian profile and its inverses, to the digits of the vectors and far into the tails."""

import math

import pytest

from lintra_protocol.privacy.gaussian import compose_mu, gaussian_delta, gaussian_epsilon, gaussian_mu

PROFILE = [
    (1, 0.5, 6.829594983115e-3),
    (1, 1, 1.269367375066e-1),
    (0.5, 0.25, 2.708880218318e-3),
    (4, 1, 4.712241200793e-5),
    (0, 1, 3.829249225480e-1),
    (0.1, 0.02, 1.124001235691e-9),
    (10, 3, 1.858951431586e-2),
]

# Computed with mpmath at 100 digits: both deep tails, tiny distances, both sides of the change of formula.
HIGH_PRECISION = [
    (1.0, 0.027, 1.742395210492646e-303),
    (0.01188266771899942, 0.00036351721941949315, 1.2893670793422743e-239),
    (1e6, 1400.0, 1.3295707085305186e-46),
    (0.0, 1e-12, 3.9894228040143267e-13),
    (1e-9, 1e-9, 8.3315470629344039e-11),
    (0.5, 0.9999999, 0.23842166824064861),
    (0.5, 1.0000001, 0.23842174802910469),
    (50.0, 12.0, 0.95938295433713387),
    (-2.0, 0.3, 0.86466471676359287),
    (-0.01, 0.05, 0.02521640315720151),
]

MU = [
    (1, 1e-6, 0.236704380663),
    (1, 1e-5, 0.268051123211),
    (0.5, 1e-6, 0.124106149031),
    (0.1, 1e-6, 0.027544650244),
    (4, 1e-6, 0.837858757090),
    (10, 1e-9, 1.537877336815),
    (1, 1e-12, 0.152489651246),
    (0.1, math.exp(-9), 0.041845751166),
    (0.5, math.exp(-9), 0.172916414034),
    (2, 1e-9, 0.351549815898),
]

EPSILON = [(0.5, 1e-6, 2.254084650220), (1, 1e-6, 4.886554117462), (0.2, 1e-5, 0.725521750858)]


@pytest.mark.parametrize(("epsilon", "mu", "delta"), PROFILE)
def test_the_profile_has_its_reference_values(epsilon: float, mu: float, delta: float) -> None:
    assert gaussian_delta(epsilon, mu) == pytest.approx(delta, rel=3e-13)


@pytest.mark.parametrize(("epsilon", "mu", "delta"), HIGH_PRECISION)
def test_the_profile_keeps_its_relative_accuracy_everywhere(epsilon: float, mu: float, delta: float) -> None:
    assert gaussian_delta(epsilon, mu) == pytest.approx(delta, rel=1e-12, abs=0)


@pytest.mark.parametrize(("epsilon", "delta", "mu"), MU)
def test_mu_has_its_reference_values(epsilon: float, delta: float, mu: float) -> None:
    assert gaussian_mu(epsilon, delta) == pytest.approx(mu, abs=6e-13)


@pytest.mark.parametrize(("mu", "delta", "epsilon"), EPSILON)
def test_epsilon_has_its_reference_values(mu: float, delta: float, epsilon: float) -> None:
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, abs=2e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-310), (0.0, 1 - 1e-16), (1e4, 1e-300), (1e-300, 1e-12)])
def test_mu_is_found_at_the_ends_of_the_range(epsilon: float, delta: float) -> None:
    assert gaussian_delta(epsilon, gaussian_mu(epsilon, delta)) == pytest.approx(delta, rel=1e-9, abs=0)


def test_the_edges_of_the_profile_are_exact() -> None:
    assert gaussian_delta(0.0, 0.0) == gaussian_delta(1.0, 0.0) == gaussian_delta(math.inf, 1.0) == 0.0
    assert gaussian_delta(-1.0, 0.0) == -math.expm1(-1.0)
    assert gaussian_delta(1.0, math.inf) == gaussian_delta(-math.inf, 1.0) == gaussian_delta(1e308, 1.7e308) == 1.0
    assert gaussian_epsilon(0.0, 1e-9) == 0.0
    assert gaussian_epsilon(1e-7, 1e-6) == 0.0
    assert gaussian_epsilon(math.inf, 0.1) == gaussian_epsilon(1e200, 0.1) == math.inf


def test_releases_compose_like_perpendicular_distances() -> None:
    assert compose_mu([0.3, 0.4]) == pytest.approx(0.5, rel=1e-15)
    assert compose_mu([]) == 0.0
    one = gaussian_mu(0.5, 1e-6)
    assert gaussian_epsilon(compose_mu([one] * 10), 1e-6) == pytest.approx(1.729, abs=5e-4)
    assert gaussian_epsilon(compose_mu([one] * 100), 1e-6) == pytest.approx(6.26, abs=5e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(-0.1, 0.1), (math.inf, 0.1), (math.nan, 0.1), (1, 0), (1, 1), (1, math.nan)]
)
def test_a_promise_out_of_range_has_no_mu(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="must"):
        gaussian_mu(epsilon, delta)


@pytest.mark.parametrize(("epsilon", "mu"), [(math.nan, 1.0), (1.0, -0.1), (1.0, math.nan)])
def test_a_profile_out_of_range_is_refused(epsilon: float, mu: float) -> None:
    with pytest.raises(ValueError, match="privacy profile"):
        gaussian_delta(epsilon, mu)
