"""How much noise a released word carries, and that a rounded root never makes a distance smaller."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.mechanisms.noise_law import summed_deviation, upper_root


@given(st.fractions(min_value=0, max_value=2**62, max_denominator=2**40))
def test_the_root_of_a_squared_distance_is_never_below_it(square: Fraction) -> None:
    root = Fraction(upper_root(square))
    assert square <= root**2 <= square * (1 + Fraction(1, 10**14))


def test_the_deviation_of_a_word_is_that_of_all_draws_and_of_the_servers() -> None:
    """Variances add: 5 draws of deviation 12 and 400 of the servers, shared by the 4 rows of a report."""
    rng = np.random.default_rng(20261123)
    words = rng.normal(scale=12, size=(200_000, 5)).sum(axis=1) + rng.normal(scale=20, size=200_000)
    # The deviation of 200,000 draws is met to .16 %, so 1 % is beyond six of its deviations: false alarm below 1e-9.
    assert summed_deviation(12, 5, 400) == pytest.approx(float(words.std()), rel=0.01)
    assert summed_deviation(12, 6, 400) != pytest.approx(float(words.std()), rel=0.01)
    assert summed_deviation(12, 5, 400, rows=4) == summed_deviation(12, 5, 400) / 2
