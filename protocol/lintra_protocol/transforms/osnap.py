"""Sparse signed sketches (Nelson and Nguyen 2013; Burkhardt et al. 2025, Definition 2.1), balanced and drawn late.

The rows are cut into s blocks, and in each block a public pseudorandom permutation of the cohort of its own deals the
reports to the block's rows in turn. So a column has one entry in every block, hence s distinct rows by construction,
and within a block row sizes differ by at most one. The block construction of Nelson and Nguyen keeps
E[S^T S] = s I, since signs are independent. With s = 1 there is one block, all rows; then the leverage of a report is
exactly one over its row's size, hence balance makes the price over the central Gaussian mechanism 1
(docs/proofs/sketch.md#sketch).

A column can be computed by itself. To 2^20 reports the permutations are tables; above, nothing is kept of a report
(see `permutation`), and its signs are the first s bits of its own 16 bytes of a keystream.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lintra_protocol.crypto.randomness import derive_seed, expand, keystream_blocks
from lintra_protocol.crypto.ring import IntArray, ring_from_bytes
from lintra_protocol.privacy.leverage import BLOCK
from lintra_protocol.transforms.base import PublicMatrix
from lintra_protocol.transforms.permutation import LARGEST_SORTED, FeistelOrder, Numbers, Order, SortedOrder

Codes = npt.NDArray[np.unsignedinteger]


class BalancedOsnap(PublicMatrix):
    """A matrix of shape `(rows, num_clients)` with `sparsity` entries of -1 or +1 in each column."""

    def __init__(
        self,
        rows: int,
        num_clients: int,
        seed: bytes,
        sparsity: int = 1,
        copies: int = 1,
        totals: int = 0,
        largest_sorted: int = LARGEST_SORTED,
    ) -> None:
        """Draw the matrix.

        `rows` is m, at least 1; `num_clients` is n, the size of the frozen cohort. `seed` is 32 bytes that nobody could
        predict before the cohort was frozen. `sparsity` is s, entries in each column, at most m. `copies` is the number
        of noised copies of a row in a report: 1, or s, one for each entry of a column. `totals` are words of a report,
        behind all copies, that are added up without the matrix. `largest_sorted` is the largest n whose order is a
        sort; another one than the protocol's is for tests.
        """
        if copies not in (1, sparsity):
            raise ValueError(f"{sparsity} entries in a column apply to 1 copy or to as many, got {copies}")
        if rows < 1 or num_clients < 0:
            raise ValueError(f"a sketch has at least one row and no fewer than 0 columns, got {rows} x {num_clients}")
        self.rows = rows
        self.num_clients = num_clients
        self.copies = copies
        self.totals = totals
        self._bounds = block_bounds(rows, sparsity)
        self._orders: list[Order] = []
        self._tables: list[Codes] = []
        if num_clients > largest_sorted:
            stream = expand(seed, "osnap network")
            self._orders = [FeistelOrder(num_clients, stream) for _ in self._bounds]
            self._sign_seed = derive_seed(seed, "osnap signs")
            return
        # One word per entry gives both: 63 bits to sort by, and the sign.
        stream, positions = expand(seed, "osnap balanced"), np.arange(num_clients, dtype=np.uint32)
        for bounds in self._bounds:
            words, table = ring_from_bytes(stream(8 * num_clients)), np.empty(num_clients, np.min_scalar_type(2 * rows))
            # What goes to places all over the table is as short as can be.
            table[SortedOrder(words).ranks] = _codes(bounds, positions).astype(table.dtype)
            table |= (words & np.uint64(1)).astype(table.dtype)
            self._tables.append(table)

    def entries(self, ranks: IntArray) -> tuple[IntArray, IntArray]:
        """Return the row numbers and signs of some reports, one per block, each of shape `(len(ranks), sparsity)`."""
        return _spelled([own[ranks] for own in self._tables] if self._tables else self._computed(ranks))

    def columns(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the entries of all columns in the shapes of `entries`, some at a time, in the order of their ranks."""
        if not self._tables:
            yield from super().columns()
            return
        for start in range(0, self.num_clients, BLOCK):
            yield _spelled([own[start : start + BLOCK] for own in self._tables])

    def _computed(self, ranks: IntArray) -> list[Codes]:
        """Return the codes of some reports in every block, of which no table is kept."""
        drawn, found = keystream_blocks(self._sign_seed, ranks), []
        for block, (bounds, order) in enumerate(zip(self._bounds, self._orders, strict=True)):
            codes = _codes(bounds, order.positions(ranks).astype(np.uint32))
            codes |= drawn[:, block // 8] >> np.uint8(block % 8) & np.uint8(1)
            found.append(codes)
        return found

    def row_counts(self) -> IntArray:
        """Return how many columns have an entry in each row, shape `(m,)`.

        In a block of b rows these are `num_clients // b`, and one more in its first `num_clients % b`.
        """
        sizes = [after - first for first, after in self._bounds]
        counts = [self.num_clients // size + (np.arange(size) < self.num_clients % size) for size in sizes]
        return np.concatenate(counts).astype(np.int64)


def _codes(bounds: tuple[int, int], positions: Numbers) -> Numbers:
    """Return for places in the order of a block of rows, shape `(k,)`, twice the row: its last bit is for the sign."""
    first, after = bounds
    codes = positions % np.uint32(after - first)
    codes += np.uint32(first)
    codes <<= np.uint32(1)
    return codes


def _spelled(codes: Sequence[Codes]) -> tuple[IntArray, IntArray]:
    """Return row numbers and signs, both of shape `(k, s)`, of codes: twice the row number, and 1 if the sign is -1.

    `codes` has one for each block, shape `(k,)`.
    """
    shape = len(codes), len(codes[0])
    row_numbers, signs = np.empty(shape, np.int64), np.empty(shape, np.int64)
    for own, rows, sign in zip(codes, row_numbers, signs, strict=True):
        rows[:] = own
        np.bitwise_and(rows, 1, out=sign)
        rows >>= 1
        sign *= -2
        sign += 1
    return row_numbers.T, signs.T


def block_bounds(rows: int, sparsity: int) -> list[tuple[int, int]]:
    """Return where each of `sparsity` blocks begins and ends: block j is the rows from floor(j m / s) on.

    Raises ValueError if there are no blocks, or fewer rows than blocks.
    """
    if not 1 <= sparsity <= rows:
        raise ValueError(f"a sketch of {rows} rows has from 1 to {rows} entries in a column, got {sparsity}")
    ends = [block * rows // sparsity for block in range(sparsity + 1)]
    return list(pairwise(ends))
