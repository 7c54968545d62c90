"""No row leaves the ball, whatever floating point does; rows inside are only rounded."""

import sys
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.noise.clipping import quantise, squared_integer_bound
from support import few

EXTREMES = st.sampled_from([0.0, -0.0, 5e-324, -2.2e-308, 1e308, -sys.float_info.max, 1e154, -1e162, 2.0**30, 0.5, 1.5])
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | EXTREMES
bounds = st.integers(1, 2**60) | st.sampled_from([1, 2, 3, 4, 99, 100, 2**30, 2**59, 2**60 - 1, 2**60])
blocks = st.integers(1, 12).flatmap(lambda columns: arrays(np.float64, (3, columns), elements=FLOATS))


@few
@given(blocks, bounds)
def test_no_row_leaves_the_ball(rows: FloatArray, squared_bound: int) -> None:
    for row in quantise(rows, squared_bound):
        assert sum(int(word) ** 2 for word in row) <= squared_bound


@few
@given(blocks, bounds, st.floats(0.9999999, 1.0000001))
def test_rows_on_the_sphere_stay_in_the_ball(rows: FloatArray, squared_bound: int, factor: float) -> None:
    largest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-300)
    units = rows / largest
    units = units / np.maximum(np.sqrt(np.square(units).sum(axis=1, keepdims=True)), 1e-9)
    for row in quantise(units * squared_bound**0.5 * factor, squared_bound):
        assert sum(int(word) ** 2 for word in row) <= squared_bound


@few
@given(arrays(np.float64, (2, 4), elements=st.floats(-1, 1)), bounds)
def test_rows_inside_are_kept_up_to_rounding(rows: FloatArray, squared_bound: int) -> None:
    inside = rows * (squared_bound**0.5 / 2 * (1 - 1e-9))
    assert np.all(np.abs(quantise(inside, squared_bound) - inside) < 1)


@few
@given(blocks, bounds)
def test_integers_inside_are_kept_exactly(rows: FloatArray, squared_bound: int) -> None:
    kept = quantise(rows, squared_bound)
    again = kept.astype(np.float64)
    if np.abs(kept).max() < 2**26:  # so that no square is rounded
        np.testing.assert_array_equal(quantise(again, squared_bound), kept)


@few
@given(arrays(np.float64, (1, 3), elements=st.floats(-1e6, 1e6)), st.integers(1, 2**40))
def test_clipping_keeps_signs_and_the_direction(rows: FloatArray, squared_bound: int) -> None:
    kept = quantise(rows, squared_bound)[0]
    assert all(int(word) * value >= 0 for word, value in zip(kept, rows[0], strict=True))
    norm = float(np.sqrt(np.square(rows).sum()))
    if norm > squared_bound**0.5:
        assert np.all(np.abs(kept - rows[0] * (squared_bound**0.5 / norm)) <= 1 + 1e-6 * np.abs(kept))


@few
@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**6), st.integers(0, 20))
def test_the_squared_bound_is_the_largest_integer_below(bound: Fraction, bits: int) -> None:
    squared = squared_integer_bound(bound, bits)
    assert squared <= (bound * 2**bits) ** 2 < squared + 1
