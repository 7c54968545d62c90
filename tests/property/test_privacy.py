"""Laws of the privacy mathematics: monotone promises, round trips, and an epsilon that is never too small."""

import math

from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.privacy.discrete import discrete_delta, discrete_epsilon, discrete_mu, kappa, row_slack
from lintra_protocol.privacy.gaussian import RELATIVE_ERROR, compose_mu, gaussian_delta, gaussian_epsilon, gaussian_mu
from support import few

epsilons = st.floats(0, 30)
deltas = st.floats(-200, -0.01).map(math.exp)
mus = st.floats(-7, 3).map(math.exp)
slacks = st.floats(-40, -3).map(math.exp)
steps = st.floats(1e-6, 2)


@few
@given(st.floats(-30, 30), mus, steps)
def test_delta_falls_in_epsilon(epsilon: float, mu: float, step: float) -> None:
    assert gaussian_delta(epsilon + step, mu) <= gaussian_delta(epsilon, mu)


@few
@given(st.floats(-30, 30), mus, steps)
def test_delta_rises_in_mu(epsilon: float, mu: float, step: float) -> None:
    assert gaussian_delta(epsilon, mu) <= gaussian_delta(epsilon, mu * (1 + step))


@few
@given(st.floats(0, 30), mus)
def test_the_two_directions_of_the_pair_agree(epsilon: float, mu: float) -> None:
    forth, back = gaussian_delta(epsilon, mu), gaussian_delta(-epsilon, mu)
    assert math.isclose(back, 1 - math.exp(-epsilon) + math.exp(-epsilon) * forth, rel_tol=1e-12)


@few
@given(epsilons, deltas)
def test_mu_leads_back_to_delta(epsilon: float, delta: float) -> None:
    assert math.isclose(gaussian_delta(epsilon, gaussian_mu(epsilon, delta)), delta, rel_tol=1e-9)


@few
@given(mus, deltas)
def test_epsilon_is_never_under_reported_and_hardly_ever_more(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    if epsilon > 1e-3:
        assert gaussian_delta(epsilon * (1 - 1e-7), mu) > delta


@few
@given(mus, deltas, slacks)
def test_epsilon_of_integers_is_never_under_reported(mu: float, delta: float, slack: float) -> None:
    epsilon = discrete_epsilon(mu, delta, slack)
    assert discrete_delta(epsilon, mu, slack) <= delta
    assert epsilon >= gaussian_epsilon(mu, delta) * (1 - 1e-9)


@few
@given(st.floats(0.2, 30), deltas, slacks)
def test_a_planned_mu_keeps_its_promise(epsilon: float, delta: float, slack: float) -> None:
    mu = discrete_mu(epsilon, delta, slack)
    assert discrete_delta(epsilon, mu, slack) <= delta
    assert discrete_epsilon(mu, delta, slack) <= epsilon


@few
@given(st.floats(-5, 30), mus, slacks)
def test_integers_are_never_more_private_than_the_continuum(epsilon: float, mu: float, slack: float) -> None:
    assert discrete_delta(epsilon, mu, slack) >= gaussian_delta(epsilon, mu) * (1 - RELATIVE_ERROR)


@few
@given(st.floats(0.06, 15), st.floats(1e-3, 1))
def test_kappa_falls(variance: float, step: float) -> None:
    assert 0 < kappa(variance * (1 + step)) < kappa(variance)


@few
@given(st.integers(1, 3000), st.floats(0.2, 9), st.floats(0.05, 0.19))
def test_more_clients_cost_more_slack(num_clients: int, variance: float, smoothing: float) -> None:
    assert row_slack(num_clients + 1, 3, variance, smoothing) > row_slack(num_clients, 3, variance, smoothing) * (
        1 - 1e-12
    )


@few
@given(st.lists(mus, min_size=1, max_size=5), mus)
def test_another_release_never_helps_privacy(earlier: list[float], mu: float) -> None:
    assert max(compose_mu(earlier), mu) <= compose_mu([*earlier, mu]) <= compose_mu(earlier) + mu * (1 + 1e-12)
