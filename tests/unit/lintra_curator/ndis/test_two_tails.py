"""The paper's own form of delta, two generalised chi-square tails, agrees wherever it can be computed."""

import numpy as np
import pytest

from lintra_curator.ndis import GaussianPair, delta, ols_pair, rp_pair
from support.two_tails import two_tails

PAIRS = [
    rp_pair(0.05, 30),
    rp_pair(0.2, 12).reverse(),
    ols_pair(0.03, 0.05, 100, 6),
    ols_pair(0.03, 0.05, 100, 6).reverse(),
    GaussianPair([0.5, -0.3, 0.1], [3, 4, 2], [0.2, 0.1, 0.0]),
    GaussianPair([-0.5, -0.2], [3, 4], [0.3, 0.1]),
]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.grid(2)
@pytest.mark.slow
def test_two_generalised_chi_square_tails_give_the_same_delta(pair: GaussianPair) -> None:
    for at in (0.0, 0.2, 0.5):
        expected = delta(pair, at).value
        assert two_tails(pair, at) == pytest.approx(expected, abs=1e-7)
        wrong = GaussianPair(1.02 * pair.eta, pair.mult, 1.02 * pair.tsq)
        assert expected < 1e-5 or two_tails(wrong, at) != pytest.approx(expected, abs=1e-6)


def test_the_two_tails_lose_what_the_certified_sum_keeps() -> None:
    pair = rp_pair(0.01, 300)
    exact = 1.6462286761238336e-13
    assert abs(delta(pair, 1.0).value / exact - 1) < 1e-9
    assert abs(two_tails(pair, 1.0) / exact - 1) > 1e-2
    assert np.isfinite(two_tails(pair, 1.0))
