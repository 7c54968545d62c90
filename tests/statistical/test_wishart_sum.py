"""Random examples of honest clients add up to Wishart noise, and hide a row exactly as well as its curve says."""

import math

import numpy as np
import pytest
from scipy import stats

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import real
from lintra_protocol.mechanisms import WishartSecondMoment
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.privacy.wishart import wishart_delta
from support import source
from support.measured import encode_rows, measurement_of

CLIENTS, COLUMNS, ROUNDS = 25, 3, 6000
FREEDOM = CLIENTS - COLUMNS + 1
CRITICAL = math.sqrt(math.log(2 / 1e-6) / (2 * ROUNDS))
"""A distance of distribution functions that the right law exceeds once in a million (Massart 1990)."""


def mechanism_of(weight: float) -> WishartSecondMoment:
    """Return a mechanism whose longest row has the squared length `weight`, in units of an example's variance."""
    sigma = 2**26
    bound = math.sqrt(weight * sigma) / 2**13
    return WishartSecondMoment(row_bound=real(bound), fraction_bits=13, sigma=sigma)


def wishart(mechanism: WishartSecondMoment, label: str, row: tuple[float, ...] = (0.0, 0.0, 0.0)) -> FloatArray:
    """Return the examples' sums in units of v, shape `(ROUNDS, d, d)`, plus one client's row; no mean taken off."""
    rows = np.zeros((ROUNDS * CLIENTS, COLUMNS))
    rows[::CLIENTS] = row
    reports = encode_rows(mechanism, rows, source(label)).reshape(ROUNDS, CLIENTS, -1).sum(axis=1)
    matrices = np.array([measurement_of(mechanism, COLUMNS).decode(each[np.newaxis]) for each in reports])
    found: FloatArray = matrices * 4.0**mechanism.fraction_bits / mechanism.variance + CLIENTS * np.eye(COLUMNS)
    return found


def hidden(matrices: FloatArray) -> FloatArray:
    """Return 1 / (e^T W^-1 e) for the first axis e, the one number that the curve is about."""
    values: FloatArray = 1 / np.linalg.inv(matrices)[:, 0, 0]
    return values


@pytest.mark.slow
def test_the_hidden_number_is_chi_square_with_the_stated_freedom_and_no_other() -> None:
    matrices = wishart(mechanism_of(1.0), "law")
    assert stats.kstest(hidden(matrices), stats.chi2(FREEDOM).cdf).statistic < CRITICAL
    for wrong in (FREEDOM - 1, FREEDOM + 1):
        assert stats.kstest(hidden(matrices), stats.chi2(wrong).cdf).statistic > CRITICAL
    # Every diagonal word alone has as many degrees of freedom as there are honest clients.
    for own in np.diagonal(matrices, axis1=1, axis2=2).T:
        assert stats.kstest(own, stats.chi2(CLIENTS).cdf).statistic < CRITICAL
        assert stats.kstest(own, stats.norm(CLIENTS, math.sqrt(2 * CLIENTS)).cdf).statistic > CRITICAL


@pytest.mark.slow
def test_what_clients_send_has_mean_zero_and_the_stated_covariance() -> None:
    # Six deviations of six means and 21 covariances, the largest kurtosis of a sum of 25 being 3.5: a false alarm
    # below 1e-7. Another 10 % of deviation is rejected.
    upper = np.triu_indices(COLUMNS)
    noise = (wishart(mechanism_of(1.0), "size") - CLIENTS * np.eye(COLUMNS))[:, *upper] / math.sqrt(CLIENTS)
    stated = np.diag(1.0 + np.equal(*upper))
    assert np.abs(noise.mean(axis=0)).max() < 6 * math.sqrt(2 / ROUNDS)
    limit = 6 * math.sqrt(2.5 / ROUNDS) * 2
    assert np.abs(noise.T @ noise / ROUNDS - stated).max() < limit
    assert np.abs(noise.T @ noise / ROUNDS - stated * 1.1**2).max() > limit


@pytest.mark.parametrize(("epsilon", "weight"), [(0.2, 1.5), (0.5, 4.0)])
@pytest.mark.slow
def test_the_best_event_tells_a_row_from_the_null_row_as_often_as_the_curve_says(epsilon: float, weight: float) -> None:
    """The best event is a half-line of the hidden number, up to a bar that the curve's derivation gives."""
    mechanism = mechanism_of(weight)
    bound = float(mechanism.row_bound)
    null = hidden(wishart(mechanism, "null"))
    full = hidden(wishart(mechanism, "full", (bound, 0.0, 0.0)))
    bar = weight / -math.expm1(-(2 * epsilon + weight) / (FREEDOM - 2))
    measured = (null <= bar).mean() - math.exp(epsilon) * (full <= bar).mean()
    stated = wishart_delta(epsilon, FREEDOM, weight, "zero-out")
    # Two frequencies of 6000: five deviations are a false alarm below 1e-6.
    limit = 5 * (1 + math.exp(epsilon)) / 2 / math.sqrt(ROUNDS)
    assert abs(measured - stated) < limit
    assert abs(measured - wishart_delta(epsilon, FREEDOM, weight * 2, "zero-out")) > limit
    claim = Claim(epsilon=str(epsilon), delta="0.5", min_clients=CLIENTS, neighbours="zero-out")
    assert measured - limit < measurement_of(mechanism, COLUMNS, claim).privacy(CLIENTS).delta_at(epsilon)
