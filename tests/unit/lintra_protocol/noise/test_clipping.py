"""Rounding inside a ball."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.randomness import RandomBytes, system_randomness
from lintra_protocol.noise.clipping import (
    MAX_SQUARED_BOUND,
    clip_norms,
    quantise,
    quantise_dithered,
    quantise_entries,
    quantise_shrunk,
    squared_integer_bound,
)


@pytest.mark.parametrize(
    ("bound", "bits", "squared"),
    [
        (Fraction(1), 0, 1),
        (Fraction(1), 10, 4**10),
        (Fraction(1, 10), 2, 0),
        (Fraction(3, 2), 1, 9),
        (Fraction(7, 10), 3, 31),
    ],
)
def test_the_squared_bound_is_rounded_down(bound: Fraction, bits: int, squared: int) -> None:
    assert squared_integer_bound(bound, bits) == squared


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ((0.6, -0.8), (6, -8)),
        ((0.75, 0.66), (7, 6)),
        ((3.0, 4.0), (6, 8)),
        ((0.0, 0.0), (0, 0)),
        ((0.24, -0.26), (2, -3)),
    ],
)
def test_known_rows_of_a_ball_of_ten_steps(row: tuple[float, float], expected: tuple[int, int]) -> None:
    assert_array_equal(quantise(np.array([row]) * 10, 100), [expected])


def test_a_row_one_above_the_bound_is_already_outside() -> None:
    assert_array_equal(quantise(np.array([[0.7, 0.7], [0.7, 0.6]]), 1), [[0, 0], [0, 0]])
    assert_array_equal(quantise(np.array([[0.7, 0.7]]), 2), [[1, 1]])


def test_rows_inside_are_not_touched_before_rounding() -> None:
    rows = np.array([[3.0, 4.0], [0.1, 0.2], [-5.0, 0.0]])
    assert_array_equal(clip_norms(rows, 5.0), rows)


def test_a_row_alone_is_rounded_and_clipped_as_it_is_among_others() -> None:
    rng = np.random.default_rng(6)
    directions = rng.normal(size=(400, 3))
    directions /= np.sqrt(np.square(directions).sum(axis=1))[:, np.newaxis]
    near = 1 + rng.choice([-1, 0, 1], 400) * 2.0 ** -rng.integers(1, 53, 400)
    rows = 10 * directions * near[:, np.newaxis]
    rows[:40] *= rng.choice([1e-3, 0.5, 1e200], (40, 1))
    rows[40:50] = [2.5, -3.5, 0.5]  # halves go to the even neighbour
    alone = [row[np.newaxis] for row in rows]
    assert_array_equal(np.concatenate([quantise(row, 100) for row in alone]), quantise(rows, 100))
    assert_array_equal(np.concatenate([clip_norms(row, 10.0) for row in alone]), clip_norms(rows, 10.0))


def test_huge_rows_keep_their_direction() -> None:
    assert_array_equal(quantise(np.full((1, 9), 1e308), 100), [[3] * 9])
    assert_array_equal(quantise(np.array([[-1.7e308, 1.0]]), 2**60), [[-(2**30), 0]])


def test_the_arguments_are_not_changed() -> None:
    rows = np.array([[7.5, 6.6], [30.0, 40.0]])
    quantise(rows, 100)
    assert_array_equal(rows, [[7.5, 6.6], [30.0, 40.0]])


def test_no_rows_and_no_columns_are_fine() -> None:
    assert quantise(np.empty((0, 3)), 1).shape == (0, 3)
    assert quantise(np.empty((2, 0)), 1).shape == (2, 0)


@pytest.mark.parametrize("squared", [0, -1, MAX_SQUARED_BOUND + 1])
def test_a_bound_out_of_range_is_the_callers_mistake(squared: int) -> None:
    with pytest.raises(ValueError, match=r"1\.\.2\^60"):
        quantise(np.ones((1, 1)), squared)


def test_entries_are_rounded_to_nearest_and_then_moved_into_the_box() -> None:
    rows = np.array([[2.5, -3.5, 8.6, -1e308, np.inf, -0.2]])
    assert_array_equal(quantise_entries(rows, 8), [[2, -4, 8, -8, 8, 0]])
    assert quantise_entries(np.empty((0, 3)), 1).shape == (0, 3)


def test_a_box_is_neither_empty_nor_beyond_31_bits_and_holds_numbers_only() -> None:
    for bound in (0, -1, 2**31):
        with pytest.raises(ValueError, match="bound of an entry"):
            quantise_entries(np.ones((1, 1)), bound)
    with pytest.raises(ValueError, match="not a number"):
        quantise_entries(np.array([[np.nan]]), 5)


@pytest.mark.parametrize("lost", [np.nan, np.inf, -np.inf])
def test_an_entry_that_is_no_number_never_becomes_an_integer(lost: float) -> None:
    """Its integer would be -2^63, whose square wraps to 0 and so seems to lie inside the ball."""
    with pytest.raises(ValueError, match="not finite"):
        quantise_shrunk(np.array([[lost, 1.0]]), 100, system_randomness)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6),
    st.integers(1, 2**60),
    st.sampled_from([lambda count: b"\xff" * count, bytes, system_randomness]),
)
def test_no_dithered_row_leaves_the_ball_whatever_it_holds_and_whatever_is_drawn(
    row: list[float], squared_bound: int, random_bytes: RandomBytes
) -> None:
    (steps,) = quantise_dithered(np.array([row]), squared_bound, random_bytes)
    assert sum(int(step) ** 2 for step in steps) <= squared_bound
