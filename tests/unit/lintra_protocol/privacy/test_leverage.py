"""Leverage scores against exact arithmetic, closed forms and the published examples of the design."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.errors import RowUnderfilledError
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.leverage import (
    LeverageBounds,
    coalition_factor,
    coalition_reach,
    gram_inverse,
    gram_matrix,
    shared_pairs,
)
from lintra_protocol.transforms.osnap import BalancedOsnap


def sparse(columns: list[list[int]]) -> tuple[IntArray, IntArray]:
    """Return row numbers and signs of columns that all have equally many entries."""
    dense = np.array(columns)
    rows = np.array([np.flatnonzero(column) for column in dense])
    return rows, np.take_along_axis(dense, rows, axis=1)


COLUMNS = [[1, 1, 0], [1, -1, 0], [0, 1, 1], [1, 0, 1], [1, 0, -1], [0, 1, -1], [1, 1, 0]]
ROWS, SIGNS = sparse(COLUMNS)


def test_a_small_sketch_has_the_known_gram_matrix_and_leverages() -> None:
    assert_array_equal(gram_matrix(3, ROWS, SIGNS), [[5, 1, 0], [1, 5, 0], [0, 0, 4]])
    inverse = gram_inverse(3, ROWS, SIGNS)
    expected = [1 / 3, 1 / 2, 11 / 24, 11 / 24, 11 / 24, 11 / 24, 1 / 3]
    leverages = inverse.leverages(ROWS, SIGNS)
    assert_allclose(leverages, expected, rtol=1e-12)
    assert np.all(leverages >= expected)
    assert 4 - 1e-12 < inverse.smallest_eigenvalue() <= 4
    assert_allclose(gram_inverse(3, ROWS[1:], SIGNS[1:]).leverages(ROWS[1:], SIGNS[1:]), 1 / 2, rtol=1e-12)


def test_a_small_sketch_has_the_known_coalition_bound() -> None:
    most = shared_pairs(3, ROWS, SIGNS)
    assert most == 1
    assert [coalition_reach(corrupt, 2, most) for corrupt in (0, 1, 2)] == [0, 2, 4]
    assert LeverageBounds.of(3, ROWS, SIGNS).against(0, 0) == pytest.approx(1 / 2, rel=1e-8)
    assert LeverageBounds.of(3, ROWS, SIGNS).against(1, 1) == pytest.approx(1.0, rel=1e-8)
    with pytest.raises(RowUnderfilledError, match="weighs up to 4 in the sketch, whose smallest eigenvalue is 4"):
        LeverageBounds.of(3, ROWS, SIGNS).against(2, 2)


def test_with_one_entry_in_a_column_leverage_is_one_over_the_honest_clients_of_the_row() -> None:
    counts = np.array([3, 2, 5])
    numbers = np.repeat(np.arange(3), counts)[:, np.newaxis]
    general = gram_inverse(3, numbers, np.ones_like(numbers)).leverages(numbers, np.ones_like(numbers))
    assert_allclose(general, 1 / counts[numbers[:, 0]], rtol=1e-12)
    # The general bound is exact here for the worst client: 1/2 / (1 - 1/2).
    assert LeverageBounds.of(3, numbers, np.ones_like(numbers)).against(1, 1) == pytest.approx(1, rel=1e-8)


def test_noise_for_a_leverage_gives_the_planned_mu() -> None:
    # Squared norm bound 65536^2, rows replaced, leverage 1/64: the published variance, and mu* again from it.
    variance = 4791012321
    mu = 2 * 65536 * (1 / 64) ** 0.5 / variance**0.5
    assert mu == pytest.approx(0.236704380655, abs=5e-13)
    assert mu <= gaussian_mu(1, 1e-6)
    assert 2 * 65536 / 8 / (variance - 1) ** 0.5 > gaussian_mu(1, 1e-6)


def test_rows_without_clients_are_left_out() -> None:
    shifted = np.where(ROWS > 0, ROWS + 3, ROWS)
    inverse = gram_inverse(7, shifted, SIGNS)
    assert_array_equal(inverse.place, [0, -1, -1, -1, 1, 2, -1])
    assert_allclose(inverse.leverages(shifted, SIGNS), gram_inverse(3, ROWS, SIGNS).leverages(ROWS, SIGNS), rtol=1e-12)


@pytest.mark.parametrize("columns", [[[1, 1], [1, 1], [-1, -1]], [[1, 1, 0], [1, 1, 0], [0, 1, 1]]])
def test_dependent_rows_are_refused_and_not_approximated(columns: list[list[int]]) -> None:
    with pytest.raises(RowUnderfilledError, match="dependent"):
        gram_inverse(len(columns[0]), *sparse(columns))


def test_a_smaller_quota_of_a_row_tightens_the_bound() -> None:
    numbers, signs = BalancedOsnap(16, 2000, bytes(32), 4).entries(np.arange(2000))
    free, one, ten = (LeverageBounds.of(16, numbers, signs).against(20, quota) for quota in (0, 1, 10))
    assert LeverageBounds.of(16, numbers, signs).against(0, 0) == free < one < ten


def test_a_larger_coalition_loosens_the_bound() -> None:
    numbers, signs = BalancedOsnap(16, 2000, bytes(32), 4).entries(np.arange(2000))
    bounds = [LeverageBounds.of(16, numbers, signs).against(corrupt, corrupt) for corrupt in (0, 1, 5, 20, 50)]
    assert bounds == sorted(set(bounds))


def test_without_a_coalition_there_is_no_factor_and_no_eigenvalue_is_needed() -> None:
    assert coalition_factor(0, -1.0) == 1.0
    assert coalition_factor(1, 4.0) == pytest.approx(4 / 3)


def test_blocks_of_columns_do_not_change_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, signs = BalancedOsnap(8, 300, bytes(32), 3).entries(np.arange(300))
    whole = gram_inverse(8, numbers, signs).leverages(numbers, signs), shared_pairs(8, numbers, signs)
    monkeypatch.setattr("lintra_protocol.privacy.leverage.BLOCK", 7)
    assert_array_equal(gram_inverse(8, numbers, signs).leverages(numbers, signs), whole[0])
    assert shared_pairs(8, numbers, signs) == whole[1]


def test_many_rows_have_the_leverages_of_the_dense_matrix_and_dependent_ones_are_refused() -> None:
    # Three blocks of 33, 33 and 34 rows: places are padded, and the inverse is put together of its corners.
    numbers, signs = BalancedOsnap(100, 600, bytes(32), 3).entries(np.arange(600))
    dense = np.zeros((100, 600))
    np.put_along_axis(dense, numbers.T, signs.T, axis=0)
    expected = np.einsum("ri,ri->i", dense, np.linalg.solve(dense @ dense.T, dense))
    found = gram_inverse(100, numbers, signs).leverages(numbers, signs)
    assert_allclose(found, expected, rtol=1e-11)
    assert np.all(found >= expected * (1 - 1e-13))
    # Two rows whose entries always meet with the same sign are one and the same.
    both = np.concatenate([numbers[:, :1], numbers[:, :1] + 100], axis=1)
    with pytest.raises(RowUnderfilledError, match="dependent"):
        gram_inverse(200, both, np.repeat(signs[:, :1], 2, axis=1))


def test_bounds_without_coalitions_are_the_same_and_let_no_coalition_pass() -> None:
    matrix = BalancedOsnap(16, 2000, bytes(32), 4)
    alone, bounds = matrix.leverage_alone, matrix.leverage_bounds
    assert alone.against(0, 0) == bounds.against(0, 0)
    assert bounds.against(1, 1) > bounds.against(0, 0)
    matrix.shows_coalitions = True
    assert matrix.leverage_alone is alone  # asked for before
    with pytest.raises(RowUnderfilledError, match="smallest eigenvalue is 0"):
        alone.against(1, 1)
