"""The fast product is the plain one, bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.ring import IntArray, RingArray
from lintra_protocol.transforms.base import Ones, PublicMatrix
from lintra_protocol.transforms.osnap import BalancedOsnap
from lintra_server.batches.transform import add_reports, is_right, weights


class Sparse(PublicMatrix):
    """A matrix with several entries per column."""

    def __init__(self, rows: int, num_clients: int, sparsity: int) -> None:
        rng = np.random.default_rng(num_clients)
        self.rows, self.num_clients = rows, num_clients
        self._row_numbers = rng.integers(0, rows, (num_clients, sparsity))
        self._signs = rng.choice(np.array([-1, 1]), (num_clients, sparsity))

    def entries(self, ranks: IntArray) -> tuple[IntArray, IntArray]:
        return self._row_numbers[ranks], self._signs[ranks]

    def row_counts(self) -> IntArray:
        return np.bincount(self._row_numbers.ravel(), minlength=self.rows)


def matrices(count: int) -> list[PublicMatrix]:
    return [Ones(count), BalancedOsnap(1, count, bytes(32)), BalancedOsnap(7, count, bytes(32)), Sparse(5, count, 4)]


def copied(count: int) -> list[PublicMatrix]:
    return [BalancedOsnap(rows, count, bytes(32), copies, copies) for rows, copies in ((2, 2), (7, 3))]


def with_totals(count: int) -> list[PublicMatrix]:
    return [BalancedOsnap(7, count, bytes(32), copies, copies, totals=1) for copies in (1, 3)]


def both(matrix: PublicMatrix, ranks: IntArray, shares: RingArray) -> tuple[RingArray, RingArray]:
    words = (shares.shape[1] - matrix.totals) // matrix.copies + matrix.totals
    start = np.full((matrix.rows, words), 2**64 - 3, np.uint64)
    fast, plain = start.copy(), start.copy()
    checks = start @ weights(words)
    add_reports(matrix, fast, ranks, shares, checks)
    matrix.add_reports(plain, ranks, shares)
    assert is_right(np.column_stack([plain, checks]))
    return fast, plain


@given(st.integers(0, 40), st.integers(1, 5), st.integers(0, 2**32))
def test_the_fast_product_equals_the_plain_one_with_every_wrap(count: int, words: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.integers(0, 2**64, (count, words), np.uint64)
    for matrix in matrices(count):
        assert_array_equal(*both(matrix, rng.permutation(count), shares))
    for matrix in copied(count):
        assert_array_equal(*both(matrix, rng.permutation(count), np.tile(shares, matrix.copies)))
    for matrix in with_totals(count):
        sent = np.hstack([np.tile(shares, matrix.copies), shares[:, :1]])
        fast, plain = both(matrix, rng.permutation(count), sent)
        assert_array_equal(fast, plain)
        started = np.full(1, 2**64 - 3, np.uint64)
        assert_array_equal(fast[0, -1:], started + shares[:, :1].sum(axis=0, dtype=np.uint64))


@pytest.mark.parametrize("count", [0, 1])
def test_no_report_and_one_report_are_cohorts_too(count: int) -> None:
    for matrix in matrices(count):
        fast, plain = both(matrix, np.arange(count), np.full((count, 3), 2**64 - 1, np.uint64))
        assert fast.dtype == np.uint64
        assert_array_equal(fast, plain)


def test_blocks_in_any_order_give_the_same() -> None:
    shares = np.random.default_rng(1).integers(0, 2**64, (1000, 4), np.uint64)
    ranks = np.random.default_rng(2).permutation(1000)
    for matrix in matrices(1000):
        whole, pieces = np.zeros((2, matrix.rows, 4), np.uint64)
        add_reports(matrix, whole, np.arange(1000), shares)
        for start in range(0, 1000, 333):
            block = ranks[start : start + 333]
            add_reports(matrix, pieces, block, shares[block])
        assert_array_equal(whole, pieces)


def test_every_entry_of_a_column_applies_to_a_copy_of_its_own() -> None:
    matrix = BalancedOsnap(7, 20, bytes(32), 3, copies=3)
    shares = np.random.default_rng(3).integers(0, 2**64, (20, 3, 5), np.uint64)
    expected = np.zeros((7, 5), np.uint64)
    for rank, (own_rows, own_signs) in enumerate(zip(*matrix.entries(np.arange(20)), strict=True)):
        for copy in range(3):
            expected[own_rows[copy]] += shares[rank, copy] * own_signs.view(np.uint64)[copy]
    for apply in (lambda *rest: add_reports(matrix, *rest), matrix.add_reports):
        sketch = np.zeros((7, 5), np.uint64)
        apply(sketch, np.arange(20), shares.reshape(20, 15))
        assert_array_equal(sketch, expected)


def test_the_check_finds_one_wrong_word_in_a_row_and_never_two_of_which_the_highest_bits_are_wrong() -> None:
    sketch = np.random.default_rng(4).integers(0, 2**64, (2, 5), np.uint64)
    check = sketch @ weights(5)
    for wrong in (1, 2, 3, 4):
        broken = sketch.copy()
        broken[1, :wrong] ^= np.uint64(1 << 63)
        assert is_right(np.column_stack([broken, check])) == (wrong % 2 == 0)
    for bit in range(64):
        broken = sketch.copy()
        broken[0, 3] ^= np.uint64(1 << bit)
        assert not is_right(np.column_stack([broken, check]))
