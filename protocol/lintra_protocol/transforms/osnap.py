"""Sparse signed sketches (Nelson and Nguyen 2013; Burkhardt et al. 2025, Definition 2.1), balanced and drawn late.

The rows are cut into s blocks, and in each block a public pseudorandom permutation of the cohort of its own deals the
reports to the block's rows in turn. So a column has one entry in every block, hence s distinct rows by construction,
and within a block row sizes differ by at most one. The block construction of Nelson and Nguyen keeps
E[S^T S] = s I, since signs are independent. With s = 1 there is one block, all rows; then the leverage of a report is
exactly one over its row's size, hence balance makes the price over the central Gaussian mechanism 1
(docs/privacy.md#sketch).
"""

from itertools import pairwise

import numpy as np

from lintra_protocol.randomness import expand
from lintra_protocol.ring import IntArray, ring_from_bytes
from lintra_protocol.transforms.base import PublicMatrix


class BalancedOsnap(PublicMatrix):
    """A matrix of shape `(rows, num_clients)` with `sparsity` entries of -1 or +1 in each column."""

    def __init__(
        self, rows: int, num_clients: int, seed: bytes, sparsity: int = 1, copies: int = 1, totals: int = 0
    ) -> None:
        """Draw the matrix.

        Args:
            rows: m, at least 1.
            num_clients: n, the size of the frozen cohort.
            seed: 32 bytes that nobody could predict before the cohort was frozen.
            sparsity: s, entries in each column, at most m.
            copies: noised copies of a row in a report: 1, or s, one for each entry of a column.
            totals: words of a report, behind all copies, that are added up without the matrix.
        """
        if copies not in (1, sparsity):
            raise ValueError(f"{sparsity} entries in a column apply to 1 copy or to as many, got {copies}")
        if rows < 1 or num_clients < 0:
            raise ValueError(f"a sketch has at least one row and no fewer than 0 columns, got {rows} x {num_clients}")
        self.rows = rows
        self.num_clients = num_clients
        self.copies = copies
        self.totals = totals
        # One word per entry gives both: 63 bits to sort by, and the sign. The stable order makes the result the
        # same on every machine even if two reports drew the same 63 bits.
        stream = expand(seed, "osnap balanced")
        self._row_numbers = np.empty((num_clients, sparsity), np.int64)
        self._signs = np.empty((num_clients, sparsity), np.int64)
        for block, (first, after) in enumerate(block_bounds(rows, sparsity)):
            words = ring_from_bytes(stream(8 * num_clients))
            order = np.argsort(words >> np.uint64(1), kind="stable")
            self._row_numbers[order, block] = first + np.arange(num_clients) % (after - first)
            self._signs[:, block] = 1 - 2 * (words & np.uint64(1)).astype(np.int64)

    def entries(self, ranks: IntArray) -> tuple[IntArray, IntArray]:
        """Return the row numbers and signs of every report, one per block, each of shape `(len(ranks), sparsity)`."""
        return self._row_numbers[ranks], self._signs[ranks]

    def row_counts(self) -> IntArray:
        """Return the row sizes: in a block of b rows `num_clients // b`, one more in its first `num_clients % b`."""
        counts: IntArray = np.bincount(self._row_numbers.ravel(), minlength=self.rows).astype(np.int64)
        return counts


def block_bounds(rows: int, sparsity: int) -> list[tuple[int, int]]:
    """Return where each of `sparsity` blocks begins and ends: block j is the rows from floor(j m / s) on.

    Raises:
        ValueError: there are no blocks, or fewer rows than blocks.
    """
    if not 1 <= sparsity <= rows:
        raise ValueError(f"a sketch of {rows} rows has from 1 to {rows} entries in a column, got {sparsity}")
    ends = [block * rows // sparsity for block in range(sparsity + 1)]
    return list(pairwise(ends))
