"""What servers apply to their shares: a public matrix over the ring, one column for each report of the cohort."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from lintra_protocol.crypto.ring import IntArray, RingArray
from lintra_protocol.privacy.leverage import BLOCK, LeverageBounds


class PublicMatrix(ABC):
    """An integer matrix of shape `(rows, num_clients)` with few nonzero entries, each of them -1 or +1.

    Columns are numbered by rank: the position of the report's identifier in the sorted cohort. A report holds `copies`
    noised copies of its row: one, to which all entries of its column apply, or one for each entry, in their order.
    Behind them stand `totals` words that bypass the matrix: they are added up as they are, in row 0.
    """

    rows: int
    num_clients: int
    copies: int = 1
    totals: int = 0

    shows_coalitions: bool = False
    """Whether bounds against coalitions will be asked for in any case: all are then computed together."""

    @abstractmethod
    def entries(self, ranks: IntArray) -> tuple[IntArray, IntArray]:
        """Return row numbers and signs, both of shape `(len(ranks), sparsity)`, of some columns' nonzero entries."""

    @abstractmethod
    def row_counts(self) -> IntArray:
        """Return how many reports enter each row; shape `(rows,)`."""

    @cached_property
    def leverage_bounds(self) -> LeverageBounds:
        """Return what the matrix shows of its clients, against any coalition (docs/proofs/sketch.md#leverage)."""
        return LeverageBounds.of_columns(self.rows, self.columns)

    @cached_property
    def leverage_alone(self) -> LeverageBounds:
        """Return the same where nobody may be corrupt, for less work: no coalition need pass."""
        if self.shows_coalitions:
            return self.leverage_bounds
        return LeverageBounds.of_columns(self.rows, self.columns, coalitions=False)

    def columns(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the entries of all columns in the shapes of `entries`, some at a time, in the order of their ranks."""
        for start in range(0, self.num_clients, BLOCK):
            yield self.entries(np.arange(start, min(start + BLOCK, self.num_clients)))

    def add_reports(self, sketch: RingArray, ranks: IntArray, shares: RingArray) -> None:
        """Add the columns of some reports times their shares to `sketch`, in place, and their totals to row 0.

        This is the plain form that every faster one must equal bit for bit. `sketch` holds ring elements of shape
        `(rows, words + totals)`; `ranks` has shape `(k,)`. `shares` are ring elements of shape `(k, copies * words +
        totals)`, in the order of `ranks`, copy after copy.
        """
        words = sketch.shape[1] - self.totals
        self.add_rows(sketch[:, :words], ranks, shares[:, : self.copies * words])
        sketch[0, words:] += shares[:, self.copies * words :].sum(axis=0, dtype=np.uint64)

    def add_rows(self, sketch: RingArray, ranks: IntArray, shares: RingArray) -> None:
        """Add the columns of some reports times their shares to `sketch`, in place; no word bypasses the matrix.

        `sketch` holds ring elements of shape `(rows, words)`; `ranks` has shape `(k,)`. `shares` are ring elements of
        shape `(k, copies * words)`.
        """
        row_numbers, signs = self.entries(ranks)
        copies = shares.reshape(len(shares), self.copies, sketch.shape[1])
        for entry, (row_number, sign) in enumerate(zip(row_numbers.T, signs.T, strict=True)):
            # In the ring -1 is 2^64 - 1, so one wrapping product applies the sign.
            signed = copies[:, entry % self.copies] * sign.view(np.uint64)[:, np.newaxis]
            np.add.at(sketch, row_number, signed)


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
