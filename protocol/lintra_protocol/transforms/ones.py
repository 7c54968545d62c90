"""The plain sum: one row of ones."""

import numpy as np

from lintra_protocol.crypto.ring import IntArray, RingArray
from lintra_protocol.transforms.base import PublicMatrix


class Ones(PublicMatrix):
    """The matrix 1^T of shape `(1, num_clients)`."""

    def __init__(self, num_clients: int) -> None:
        """Sum over a cohort of `num_clients` reports."""
        self.rows = 1
        self.num_clients = num_clients

    def entries(self, ranks: IntArray) -> tuple[IntArray, IntArray]:
        """Return row 0 and sign +1 for every report, both of shape `(n, 1)`."""
        shape = (len(ranks), 1)
        return np.zeros(shape, np.int64), np.ones(shape, np.int64)

    def row_counts(self) -> IntArray:
        """Return the cohort's size, shape `(1,)`."""
        return np.array([self.num_clients], np.int64)

    def add_reports(self, sketch: RingArray, ranks: IntArray, shares: RingArray) -> None:
        """Add the sum of the shares, shape `(n, w)`, to a sketch of shape `(1, w)`."""
        sketch[0] += shares.sum(axis=0, dtype=np.uint64)
