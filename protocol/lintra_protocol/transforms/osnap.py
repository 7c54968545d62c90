"""Sparse signed sketches (Nelson and Nguyen 2013; Burkhardt et al. 2025, Definition 2.1), balanced and drawn late.

A public pseudorandom permutation of the cohort deals its reports to the rows in turn, so that row sizes differ by at
most one. With one entry per column the leverage of a report is exactly one over its row's size, hence balance makes
the price over the central Gaussian mechanism 1 (docs/privacy.md#sketch).
"""

import numpy as np

from lintra_protocol.randomness import expand
from lintra_protocol.ring import IntArray, ring_from_bytes
from lintra_protocol.transforms.base import PublicMatrix


class BalancedOsnap(PublicMatrix):
    """A matrix of shape `(rows, num_clients)` with one entry of -1 or +1 in each column."""

    def __init__(self, rows: int, num_clients: int, seed: bytes) -> None:
        """Draw the matrix.

        Args:
            rows: m, at least 1.
            num_clients: n, the size of the frozen cohort.
            seed: 32 bytes that nobody could predict before the cohort was frozen.
        """
        if rows < 1 or num_clients < 0:
            raise ValueError(f"a sketch has at least one row and no fewer than 0 columns, got {rows} x {num_clients}")
        self.rows = rows
        self.num_clients = num_clients
        # One word per report gives both: 63 bits to sort by, and the sign. The stable order makes the result the
        # same on every machine even if two reports drew the same 63 bits.
        words = ring_from_bytes(expand(seed, "osnap balanced")(8 * num_clients))
        order = np.argsort(words >> np.uint64(1), kind="stable")
        self._row_numbers = np.empty(num_clients, np.int64)
        self._row_numbers[order] = np.arange(num_clients) % rows
        self._signs = 1 - 2 * (words & np.uint64(1)).astype(np.int64)

    def entries(self, ranks: IntArray) -> tuple[IntArray, IntArray]:
        """Return the one row number and sign of every report, each of shape `(len(ranks), 1)`."""
        return self._row_numbers[ranks, np.newaxis], self._signs[ranks, np.newaxis]

    def row_counts(self) -> IntArray:
        """Return the row sizes: `num_clients // rows`, one more in the first `num_clients % rows` rows."""
        counts: IntArray = np.bincount(self._row_numbers, minlength=self.rows).astype(np.int64)
        return counts
