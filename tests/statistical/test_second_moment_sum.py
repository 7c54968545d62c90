"""Second moments of many clients, some corrupt: what is left of the noise is the central mechanism's.

400 clients, 100 of them corrupt, 3 columns. Corrupt clients know their own noise and subtract it, so what counts is
the sum of the 300 others'.
"""

from functools import cache

import numpy as np
import pytest

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.mechanisms import SecondMoment
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim
from support import source
from support.measured import calibrated_for, measurement_of

CLIENTS, CORRUPT, COLUMNS, ROUNDS = 400, 100, 3, 1600
CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=CLIENTS, max_corrupt_clients=CORRUPT)
OPTIONS = [pytest.param("0", False, marks=pytest.mark.slow), ("0.5", True)]


def calibrated(intercept: str, trace: bool) -> SecondMoment:
    plain = SecondMoment(row_bound="1", fraction_bits=0, sigma=4, intercept=intercept, trace=trace)
    return calibrated_for(plain, COLUMNS, CLAIM, 10 * CLIENTS)


@cache
def honest_noise(mechanism: SecondMoment, clients: int) -> FloatArray:
    """Return the summed noise of some clients in `ROUNDS` releases, decoded; shape `(ROUNDS, q, q)`."""
    random_bytes = source(f"noise {mechanism.trace} {clients}")
    sums = [
        measurement_of(mechanism, COLUMNS).noise(clients, random_bytes).sum(axis=0, keepdims=True)
        for _ in range(ROUNDS)
    ]
    return np.array([measurement_of(mechanism, COLUMNS).decode(total) for total in sums])


def central_deviation(intercept: str) -> float:
    """Return sigma of a trusted curator, off the diagonal, in normalised units: (B^2 + c^2) / mu."""
    return (1 + float(intercept) ** 2) / gaussian_mu(1, 1e-6)


def distance(noise: FloatArray, sigma: float, trace: bool, diagonal: float = 2.0) -> float:
    """Return the largest standardised gap between sample covariance and the central law's, over all pairs of words."""
    size = noise.shape[1]
    rows, columns = np.triu_indices(size)
    kept = noise[:, rows, columns].var(axis=0) > 0  # the intercept's own product is public
    samples = noise[:, rows, columns][:, kept] / sigma
    own = (rows == columns)[kept].astype(float)
    covariance = np.diag(1 + (diagonal - 1) * own) - trace * diagonal * np.outer(own, own) / (COLUMNS + 1)
    # Whitened by the stated law, the sample is standard normal: an average of products has deviation sqrt(1/R), of
    # squares sqrt(2/R).
    white = samples @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    gaps = white.T @ white / len(white) - np.eye(len(covariance))
    deviations = np.sqrt((1 + np.eye(len(covariance))) / len(white))
    mean = np.abs(white.mean(axis=0)).max() * np.sqrt(len(white))
    return float(max(np.abs(gaps / deviations).max(), mean))


@pytest.mark.parametrize(("intercept", "trace"), OPTIONS)
@pytest.mark.slow
def test_what_honest_clients_leave_has_mean_and_covariance_of_the_central_mechanism(
    intercept: str, trace: bool
) -> None:
    # At most 45 covariances, 9 variances and 9 means: six deviations leave a false alarm below 2e-7.
    mechanism = calibrated(intercept, trace)
    noise = honest_noise(mechanism, CLIENTS - CORRUPT)
    sigma = central_deviation(intercept)
    assert distance(noise, sigma, trace) < 6
    # A quarter more variance or less; all clients' noise, as if none were corrupt; a diagonal that is not weighted;
    # the trace ignored, or believed where there is none.
    for wrong in (1.25**0.5, 0.75**0.5, (CLIENTS / (CLIENTS - CORRUPT)) ** 0.5):
        assert distance(noise, sigma * wrong, trace) > 6
    assert distance(noise, sigma, trace, diagonal=1.0) > 6
    assert distance(noise, sigma, not trace) > 6


@pytest.mark.parametrize(("intercept", "trace"), OPTIONS)
@pytest.mark.slow
def test_one_honest_client_in_six_less_is_noticed(intercept: str, trace: bool) -> None:
    # With 250 instead of 300 clients the variance falls by a sixth; pooled over all words that is eight
    # deviations, and six are a false alarm below 1e-8.
    mechanism, sigma = calibrated(intercept, trace), central_deviation(intercept)
    limit = 6 * np.sqrt(2 / (3 * ROUNDS))
    for clients, accepted in ((CLIENTS - CORRUPT, True), (CLIENTS - CORRUPT - 50, False)):
        off_diagonal = honest_noise(mechanism, clients)[:, *np.triu_indices(COLUMNS, 1)]
        assert (abs(np.mean((off_diagonal / sigma) ** 2) - 1) < limit) == accepted
