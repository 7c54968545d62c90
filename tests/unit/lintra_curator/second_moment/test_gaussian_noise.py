"""Second moments with Gaussian noise in exact integers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_curator.claims.claim import CalibrationError, curator_claim
from lintra_curator.second_moment.bounded_table import BoundedTable, plain_columns
from lintra_curator.second_moment.gaussian_noise import GRID_BITS, GaussianNoise, exact_products, integer_plan
from lintra_protocol.noise.clipping import quantise
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA
from lintra_protocol.privacy.discrete import discrete_delta
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Neighbours
from support import few, source

NAMES = ("c0", "c1", "c2", "c3")
COLUMNS = plain_columns(NAMES, 2.0)
CLAIM = curator_claim(1.0, 1e-6)
ROWS = np.random.default_rng(1).normal(size=(80, 4))


def table(row_bound: float = 2.0, rows: int = 80) -> BoundedTable:
    return BoundedTable.of(ROWS[:rows], COLUMNS, row_bound)


@few
@given(st.lists(st.lists(st.floats(-1e30, 1e30), min_size=3, max_size=3), min_size=1, max_size=20))
def test_no_quantised_row_leaves_the_ball_and_sums_of_products_are_exact(rows: list[list[float]]) -> None:
    squared_bound = 4**GRID_BITS
    steps = quantise(np.array(rows), squared_bound)
    plain = [[int(value) for value in row] for row in steps]
    assert all(sum(value * value for value in row) <= squared_bound for row in plain)
    expected = [[sum(row[i] * row[j] for row in plain) for j in range(3)] for i in range(3)]
    assert exact_products(steps, squared_bound).tolist() == expected


def test_sums_of_products_stay_exact_beyond_53_bits_and_are_refused_beyond_62() -> None:
    rows = np.random.default_rng(3).integers(-(2**24), 2**24, (200, 2)) + np.array([2**24, 0])
    plain = rows.astype(object)
    exact = (plain.T @ plain).tolist()
    assert exact_products(rows, 2**51).tolist() == exact
    assert exact[0][0] > 2**53
    assert (rows.T.astype(np.float64) @ rows)[0, 0] != exact[0][0]
    with pytest.raises(CalibrationError, match="64-bit"):
        exact_products(np.zeros((2**10, 1), np.int64), 2**52)
    with pytest.raises(ValueError, match="up to a squared bound"):
        exact_products(rows, 2**53)


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.01, 1e-12), (20.0, 1e-3), (1e-6, 1e-10)])
def test_the_integer_plan_keeps_the_claim_and_half_a_percent_less_noise_breaks_it(
    epsilon: float, delta: float, neighbours: Neighbours
) -> None:
    claim = curator_claim(epsilon, delta, neighbours)
    bits, sigma, mu, slack = integer_plan(claim, 30)
    assert sigma <= MAX_SIGMA
    distance = 4.0**bits * (1 if neighbours == "replace-one" else math.sqrt(0.5))
    assert mu == pytest.approx(distance / math.sqrt(sigma**2 - 4), rel=1e-9)
    assert discrete_delta(epsilon, mu, slack) <= delta < discrete_delta(epsilon, 1.005 * mu, slack)


def test_integer_noise_costs_next_to_nothing() -> None:
    release = GaussianNoise().release(table(), CLAIM, source("cost"))
    assert release.noise.sigma / 4 == pytest.approx(1 / gaussian_mu(1.0, 1e-6), rel=1e-6)


def test_a_claim_that_no_integer_noise_keeps_is_refused() -> None:
    with pytest.raises(CalibrationError, match="more noise"):
        integer_plan(curator_claim(1e-9, 1e-15), 3)
