"""The sum as a mechanism."""

import numpy as np

from lintra_protocol.mechanisms import Sum
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim
from support.measured import calibrated_for, measurement_of


def test_the_calibrated_noise_is_the_central_gaussian_mechanisms() -> None:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=100)
    mechanism = calibrated_for(Sum(row_bound="1", fraction_bits=0, sigma=4), 3, claim, 1000)
    central = 2 * 2.0**mechanism.fraction_bits / gaussian_mu(1.0, 1e-6)
    assert abs(mechanism.sigma * 10 / central - 1) < 1e-6


def test_decoding_counts_in_steps() -> None:
    decoded = measurement_of(Sum(row_bound="1", fraction_bits=2, sigma=4), 2).decode(np.array([[4, -9]]))
    np.testing.assert_array_equal(decoded, [1.0, -2.25])
