"""Balanced sketches."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.transforms.osnap import BalancedOsnap, block_bounds
from support import source


@pytest.mark.parametrize(("rows", "clients"), [(1, 1), (1, 7), (2, 7), (7, 7), (8, 7), (5, 0), (64, 1000)])
def test_row_sizes_differ_by_at_most_one(rows: int, clients: int) -> None:
    matrix = BalancedOsnap(rows, clients, bytes(32))
    assert_array_equal(matrix.row_counts(), [clients // rows + (row < clients % rows) for row in range(rows)])


def test_every_report_has_one_entry_of_plus_or_minus_one() -> None:
    row_numbers, signs = BalancedOsnap(4, 100, bytes(32)).entries(np.arange(100))
    assert row_numbers.shape == signs.shape == (100, 1)
    assert set(signs.ravel().tolist()) == {-1, 1}
    assert set(row_numbers.ravel().tolist()) == set(range(4))


def test_the_same_seed_gives_the_same_matrix_and_another_another() -> None:
    entries = [
        np.concatenate(BalancedOsnap(4, 50, seed).entries(np.arange(50))) for seed in (bytes(32), bytes(32), b"x" * 32)
    ]
    assert_array_equal(entries[0], entries[1])
    assert not np.array_equal(entries[0], entries[2])


def test_adding_in_pieces_and_in_any_order_gives_the_same_sketch() -> None:
    matrix = BalancedOsnap(3, 20, bytes(32))
    shares = np.frombuffer(source("shares")(8 * 20 * 5), np.uint64).reshape(20, 5)
    whole, pieces = np.zeros((3, 5), np.uint64), np.zeros((3, 5), np.uint64)
    matrix.add_reports(whole, np.arange(20), shares)
    for ranks in (np.array([19, 3]), np.array([], np.int64), np.setdiff1d(np.arange(20), [3, 19])[::-1]):
        matrix.add_reports(pieces, ranks, shares[ranks])
    assert_array_equal(whole, pieces)


def test_a_row_is_the_signed_sum_of_its_reports() -> None:
    matrix = BalancedOsnap(3, 10, bytes(32))
    row_numbers, signs = matrix.entries(np.arange(10))
    dense = np.zeros((3, 10), np.int64)
    dense[row_numbers[:, 0], np.arange(10)] = signs[:, 0]
    shares = np.arange(20).reshape(10, 2)
    sketch = np.zeros((3, 2), np.uint64)
    matrix.add_reports(sketch, np.arange(10), shares.astype(np.uint64))
    assert_array_equal(sketch.view(np.int64), dense @ shares)


@pytest.mark.parametrize(("rows", "sparsity"), [(4, 2), (5, 2), (7, 3), (8, 4), (3, 3)])
def test_a_column_has_one_entry_in_every_block_and_blocks_are_even(rows: int, sparsity: int) -> None:
    matrix = BalancedOsnap(rows, 50, bytes(32), sparsity)
    row_numbers, signs = matrix.entries(np.arange(50))
    assert row_numbers.shape == signs.shape == (50, sparsity)
    assert set(signs.ravel().tolist()) == {-1, 1}
    bounds = block_bounds(rows, sparsity)
    assert [bounds[0][0], bounds[-1][1]] == [0, rows]
    for block, (first, after) in enumerate(bounds):
        counts = np.bincount(row_numbers[:, block], minlength=rows)
        assert counts[first:after].sum() == 50
        assert np.ptp(counts[first:after]) <= 1
        assert after - first in (rows // sparsity, -(-rows // sparsity))
    assert_array_equal(matrix.row_counts(), np.bincount(row_numbers.ravel(), minlength=rows))


def test_blocks_are_dealt_independently() -> None:
    row_numbers, signs = BalancedOsnap(8, 400, bytes(32), 2).entries(np.arange(400))
    assert not np.array_equal(row_numbers[:, 0], row_numbers[:, 1] - 4)
    # 400 products of fair signs have deviation 20; six are a false alarm in 10^9.
    assert abs((signs[:, 0] * signs[:, 1]).sum()) < 120
    assert abs((signs[:, 0] * signs[:, 0]).sum()) > 120


def test_the_first_block_is_dealt_like_a_whole_matrix_of_one() -> None:
    whole = BalancedOsnap(4, 30, bytes(32)).entries(np.arange(30))
    half = BalancedOsnap(8, 30, bytes(32), 2).entries(np.arange(30))
    for one, two in zip(whole, half, strict=True):
        assert_array_equal(one[:, 0], two[:, 0])


@pytest.mark.parametrize("sparsity", [0, 4])
def test_a_column_has_at_least_one_entry_and_at_most_one_in_a_row(sparsity: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 3 entries"):
        BalancedOsnap(3, 5, bytes(32), sparsity)


@pytest.mark.parametrize(("rows", "clients"), [(0, 1), (-1, 1), (1, -1)])
def test_an_impossible_shape_is_the_callers_mistake(rows: int, clients: int) -> None:
    with pytest.raises(ValueError, match="at least one row"):
        BalancedOsnap(rows, clients, bytes(32))


def test_copies_are_one_or_one_for_each_entry() -> None:
    assert BalancedOsnap(4, 5, bytes(32), 2, copies=2).copies == 2
    with pytest.raises(ValueError, match="2 entries in a column apply to 1 copy or to as many, got 3"):
        BalancedOsnap(4, 5, bytes(32), 2, copies=3)


@pytest.mark.parametrize("largest_sorted", [1 << 20, 10])
def test_all_columns_in_turn_are_the_entries_of_all_ranks(monkeypatch: pytest.MonkeyPatch, largest_sorted: int) -> None:
    matrix = BalancedOsnap(17, 100, bytes(32), 3, largest_sorted=largest_sorted)
    for module in ("osnap", "base"):
        monkeypatch.setattr(f"lintra_protocol.transforms.{module}.BLOCK", 7)
    columns = [np.concatenate(parts) for parts in zip(*matrix.columns(), strict=True)]
    for found, expected in zip(columns, matrix.entries(np.arange(100)), strict=True):
        np.testing.assert_array_equal(found, expected)
