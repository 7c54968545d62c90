"""The integer vector of a row: known vectors, exact bounds, and taking the sum apart again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.mechanisms.joint_rows import (
    JointWords,
    feature_slices,
    feature_steps,
    histogram_cells,
    label_steps,
    level_features,
    level_numbers,
    project,
)
from lintra_protocol.noise.clipping import clip_exactly
from lintra_protocol.transforms.orthonormal import orthonormal
from support import few
from support.joint_words import packed, spread

FRAME = orthonormal(np.array([[3, 1], [-1, 2], [2, 2], [0, -4]]))
NO_CELLS = np.zeros((4, 0), np.int64)


def test_a_known_row_is_counted_projected_and_clipped() -> None:
    lower, upper = np.array([0, 0, 0, -10]), np.array([16, 4, 1, 10])
    row = np.array([[12, 3, 0.5, -7]])
    features = feature_steps((row - (lower + upper) / 2) / ((upper - lower) / 2))
    assert_array_equal(features, [[16384, 16384, 0, -22938]])
    vector = project(features, FRAME, 12)
    assert_array_equal(vector, [[1095, 3352]])
    clipped = clip_exactly(vector, 2000)
    assert_array_equal(clipped, [[620, 1900]])
    assert np.square(clipped).sum() == 3994400


def test_the_vector_of_a_known_row() -> None:
    vector = packed(JointWords(2, 2, False, ()), np.array([1]), np.array([[620, 1900]]), NO_CELLS[:1], 4096)
    assert_array_equal(vector, [[0, 4096, 0, 0, 620, 1900, 384400, 1178000, 3610000]])


def test_the_sum_of_known_rows_and_its_parts() -> None:
    layout = JointWords(2, 2, False, ())
    vectors = np.array([[1000, 500], [-800, 300], [200, -1500], [-400, -900]])
    total = packed(layout, np.array([0, 0, 1, 1]), vectors, NO_CELLS, 4096).sum(axis=0)
    assert_array_equal(total, [8192, 8192, 200, 800, -200, -2400, 1840000, 320000, 3400000])
    parts = layout.unpack(total.astype(float))
    assert_array_equal(parts.counts, [8192, 8192])
    assert_array_equal(parts.sums, [[200, 800], [-200, -2400]])
    assert_array_equal(parts.products, [[[1840000, 320000], [320000, 3400000]]])
    assert parts.histograms == ()
    assert "1840000" not in repr(parts)


@given(
    st.integers(1, 3), st.integers(1, 4), st.booleans(), st.lists(st.integers(1, 4), max_size=3), st.integers(0, 2**32)
)
@few
def test_the_parts_of_a_sum_are_those_of_its_rows(
    classes: int, size: int, per_class: bool, bins: list[int], seed: int
) -> None:
    generator = np.random.default_rng(seed)
    layout = JointWords(classes, size, per_class, tuple(bins))
    groups, vectors = generator.integers(0, classes, 20), generator.integers(-50, 50, (20, size))
    cells = np.stack([generator.integers(0, number, 20) for number in bins], axis=1) if bins else np.zeros((20, 0), int)
    parts = layout.unpack(packed(layout, groups, vectors, cells, 7).sum(axis=0).astype(float))
    inside = [groups == number for number in range(classes)]
    assert_array_equal(parts.sums, [vectors[each].sum(axis=0) for each in inside])
    products = [vectors[each].T @ vectors[each] for each in inside]
    assert_array_equal(parts.products, products if per_class else [sum(products)])
    if classes > 1:
        assert_array_equal(parts.counts, [7 * each.sum() for each in inside])
    else:
        assert parts.counts is None
    for column, (number, found) in enumerate(zip(bins, parts.histograms, strict=True)):
        assert_array_equal(found, 7 * np.bincount(cells[:, column], minlength=number))


def test_every_word_is_filled_by_what_it_is() -> None:
    filled = spread(JointWords(2, 2, True, (3,)), 1, 2, 3, 4, 5)
    assert_array_equal(filled, [1, 1, 2, 2, 2, 2, 3, 4, 3, 3, 4, 3, 5, 5, 5])
    assert JointWords(10, 38, False, (17,) * 64).ends[3] == 10 + 380 + 741 + 17 * 64 == 2219


@given(st.lists(st.lists(st.integers(-(2**27), 2**27), min_size=3, max_size=3), min_size=1), st.integers(1, 2**30))
@few
def test_no_vector_leaves_the_ball_and_none_inside_is_touched(vectors: list[list[int]], bound: int) -> None:
    given_vectors = np.array(vectors)
    clipped = clip_exactly(given_vectors, bound)
    for before, after in zip(given_vectors.tolist(), clipped.tolist(), strict=True):
        assert sum(entry**2 for entry in after) <= bound**2
        if sum(entry**2 for entry in before) <= bound**2:
            assert before == after
        assert all(a * b >= 0 and abs(b) <= abs(a) for a, b in zip(before, after, strict=True))


def test_a_clipped_vector_keeps_its_length_and_direction_up_to_rounding() -> None:
    clipped = clip_exactly(np.array([[3_000_000, -4_000_000]]), 1_000_000)
    assert np.abs(clipped - [[600_000, -800_000]]).max() <= 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_never_becomes_an_integer(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        feature_steps(np.array([0.0, value]))


def test_huge_values_are_moved_to_the_bounds() -> None:
    assert_array_equal(feature_steps(np.array([1e300, -1e300, 1.0, -1.0, 0.0])), [32768, -32768, 32768, -32768, 0])
    assert_array_equal(label_steps(np.array([1e300, -1e300, 0.25]), 10), [10, -10, 2])
    assert_array_equal(level_numbers(np.array([1e300, -1e300, 1.0]), 3), [2, 0, 1])


def test_projecting_is_exact_up_to_one_rounding() -> None:
    generator = np.random.default_rng(3)
    features, frame = generator.integers(-(2**15), 2**15, (5, 40)), generator.integers(-(2**15), 2**15, (40, 3))
    for bits in (0, 5, 12, 15):
        exact = features.astype(object) @ frame.astype(object)
        assert_array_equal(project(features, frame, bits), (exact + 2 ** (29 - bits)) // 2 ** (30 - bits))


@pytest.mark.parametrize("bits", [0, 12, 15])
def test_the_identity_only_rounds(bits: int) -> None:
    features = np.array([[-32768, -5, -4, -1, 0, 3, 4, 12, 32768]])
    expected = [[int(np.floor(entry / 2 ** (15 - bits) + 0.5)) for entry in features[0]]]
    assert_array_equal(project(features, None, bits), expected)


@pytest.mark.parametrize("bins", [1, 2, 3, 17, 100, 255, 256])
def test_whole_numbers_with_a_cell_each_land_in_their_own(bins: int) -> None:
    values = np.linspace(-1, 1, bins) if bins > 1 else np.zeros(1)
    assert_array_equal(histogram_cells(feature_steps(values), bins), np.arange(bins))


def test_cells_have_equal_width_and_the_upper_bound_lies_in_the_last() -> None:
    steps: IntArray = np.arange(-(2**15), 2**15 + 1)
    counts = np.bincount(histogram_cells(steps, 4), minlength=4)
    assert_array_equal(counts, [2**14, 2**14, 2**14, 2**14 + 1])


def test_categories_become_one_feature_per_level_and_two_levels_one() -> None:
    assert_array_equal(level_features(np.array([0, 1]), 2), [[-32768], [32768]])
    assert_array_equal(level_features(np.array([2, 0]), 3), [[-32768, -32768, 32768], [32768, -32768, -32768]])
    assert feature_slices([0, 3, 2]) == [slice(0, 1), slice(1, 4), slice(4, 5)]


def test_a_vector_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 9 words"):
        JointWords(2, 2, False, ()).unpack(np.zeros(8))
