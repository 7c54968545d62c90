"""Second moments as a mechanism."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.mechanisms import SecondMoment
from lintra_protocol.privacy.statement import Claim

MECHANISM = SecondMoment(row_bound="5", fraction_bits=0, sigma=10)
CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=64)


def test_a_report_is_the_upper_triangle_row_by_row() -> None:
    assert_array_equal(MECHANISM.encode_exactly(np.array([[2, 3, 5]])), [[4, 6, 10, 9, 15, 25]])


def test_the_diagonal_has_at_least_twice_the_variance() -> None:
    assert_array_equal(MECHANISM.sigmas(3), [15, 10, 10, 15, 10, 15])
    for sigma in (4, 7, 1000, 2**28):
        diagonal = int(MECHANISM.model_copy(update={"sigma": sigma}).sigmas(1)[0])
        assert diagonal**2 >= 2 * sigma**2 > (diagonal - 1) ** 2


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_no_two_rows_of_a_small_ball_are_further_apart_than_stated(neighbours: str) -> None:
    claim = CLAIM.model_copy(update={"neighbours": neighbours})
    rows = np.array([row for row in product(range(-5, 6), repeat=2) if sum(x * x for x in row) <= 25])
    encoded = MECHANISM.encode_exactly(rows)
    others = encoded if neighbours == "replace-one" else np.zeros((1, 3), np.int64)
    squares = (encoded[:, np.newaxis] - others[np.newaxis]) ** 2
    # Exact units: off the diagonal sigma counts once, on it sqrt(2) times.
    largest = (squares * [1, 2, 1]).sum(axis=2).max() / 2
    assert largest == MECHANISM.squared_distance(claim, 2)


def test_decoding_mirrors_the_triangle() -> None:
    mechanism = MECHANISM.model_copy(update={"fraction_bits": 1})
    assert_array_equal(mechanism.decode(np.array([[4, -8, 12]]), 2), [[1.0, -2.0], [-2.0, 3.0]])
