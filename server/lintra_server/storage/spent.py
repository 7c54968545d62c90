"""Tokens that were used: a token is good for one report in a window, and for that one again.

A report lost at one server is completed with the same token; another report in its place is refused.

On the disk the serials lie in the row of the segment that holds their reports, in the same order, so a token costs its
sixteen bytes and no search in a tree; both go with one commit. Whether a token was used is asked of a table in memory,
which is read from the disk when a task's first upload comes: only tokens that the author made get this far, so it is
no larger than the number of tokens that were given out.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_server.storage.chains import Chains
from lintra_server.storage.marks import BEGIN, End

Words = NDArray[np.uint64]

MOST_TABLES = 64
"""Batches whose used tokens are kept in memory; those of the others are read again when their next upload comes."""

_FEWEST_SLOTS = 64


class SerialSet:
    """A set of serials in one array, at most half full (open addressing; Knuth, TAOCP 3, section 6.4).

    Slots are chosen by multiplication with secret odd numbers (Dietzfelbinger et al. 1997), since authors choose
    serials, and could choose such as meet in one slot.
    """

    def __init__(self, random_bytes: RandomBytes) -> None:
        """Hold nothing."""
        self._factors = np.frombuffer(random_bytes(16), np.uint64) | np.uint64(1)
        self._count = 0
        self._make(_FEWEST_SLOTS)

    def __len__(self) -> int:
        """Return how many serials are in it."""
        return self._count

    def has(self, serials: bytes) -> NDArray[np.bool_]:
        """Return for each of k serials, joined, whether it is in the set, shape `(k,)`."""
        first, second, slots = self._split(serials)
        found = np.zeros(len(first), bool)
        open_ones = np.arange(len(first))
        while open_ones.size:
            taken = self._taken[slots]
            same = taken & (self._first[slots] == first[open_ones]) & (self._second[slots] == second[open_ones])
            found[open_ones[same]] = True
            on = taken & ~same
            open_ones, slots = open_ones[on], (slots[on] + 1) & self._mask
        return found

    def add(self, serials: bytes) -> None:
        """Add some serials, joined, none of which is in the set or stands twice."""
        self._count += len(serials) // 16
        if 2 * self._count > len(self._taken):
            held = np.stack([self._first[self._taken], self._second[self._taken]], axis=1).tobytes()
            self._make(1 << (2 * self._count - 1).bit_length())
            self._place(held)
        self._place(serials)

    def _place(self, serials: bytes) -> None:
        first, second, slots = self._split(serials)
        while slots.size:
            # All that found a free slot write there; one of those that met stays, and reads itself.
            free = ~self._taken[slots]
            self._first[slots[free]], self._second[slots[free]] = first[free], second[free]
            self._taken[slots] = True
            stayed = free & (self._first[slots] == first) & (self._second[slots] == second)
            left = ~stayed
            first, second, slots = first[left], second[left], (slots[left] + 1) & self._mask

    def _make(self, size: int) -> None:
        self._first, self._second = np.zeros(size, np.uint64), np.zeros(size, np.uint64)
        self._taken = np.zeros(size, bool)
        self._mask = size - 1
        self._shift = np.uint64(64 - self._mask.bit_length())

    def _split(self, serials: bytes) -> tuple[Words, Words, NDArray[np.int64]]:
        """Return both halves of every serial, and the slot where the search for it begins."""
        words = np.frombuffer(serials, np.uint64)
        first, second = words[0::2], words[1::2]
        # Sums and products wrap, as they must.
        slots = (first * self._factors[0] + second * self._factors[1]) >> self._shift
        return first, second, slots.astype(np.int64)


class SpentTables:
    """The used tokens of the batches that uploads came for lately; the store's writer alone uses it."""

    def __init__(self, chains: Chains, random_bytes: RandomBytes) -> None:
        """Know nothing yet; `random_bytes` draws secret factors."""
        self._chains = chains
        self._random_bytes = random_bytes
        self._of: dict[int, SerialSet] = {}

    def of(self, connection: Connection, batch: int, end: End) -> SerialSet:
        """Return the used tokens of a batch that ends there, from the disk if need be."""
        table = self._of.pop(batch, None)
        if table is None:
            table = SerialSet(self._random_bytes)
            table.add(b"".join([row.serials for row in self._chains.rows(connection, batch, BEGIN, end)]))
            while len(self._of) >= MOST_TABLES:
                del self._of[next(iter(self._of))]  # the one that was not asked for the longest
        self._of[batch] = table
        return table

    def ready(self, batch: int) -> SerialSet | None:
        """Return the used tokens of a batch, if they are in memory."""
        return self._of.get(batch)

    def add(self, batch: int, serials: Sequence[bytes]) -> None:
        """Remember what a commit used, now that it is durable; a table that is not in memory is read later."""
        table = self._of.get(batch)
        if table is not None:
            table.add(b"".join(serials))

    def forget(self, batch: int) -> None:
        """Read a batch's tokens from the disk again when they are asked for."""
        self._of.pop(batch, None)


class SpentSerials:
    """The tokens of some uploads of one batch, within the transaction that stores their reports.

    `used` is those of them that were used before, or in this transaction. `new` is those that this transaction uses, in
    the order of its reports; empty in an open task.
    """

    def __init__(
        self, tables: SpentTables, connection: Connection, batch: int, end: End, serials: Sequence[bytes]
    ) -> None:
        """Look up which of the serials were used before, in a batch that ends there."""
        self.new: list[bytes] = []
        self._table = tables.of(connection, batch, end) if serials else None
        found = self._table.has(b"".join(serials)) if self._table is not None else np.zeros(0, bool)
        self.used = {serials[place] for place in np.flatnonzero(found).tolist()}

    def use(self, serial: bytes) -> None:
        """Use a token for the next report that is stored in this transaction."""
        self.used.add(serial)
        self.new.append(serial)

    def settle(self) -> None:
        """Remember what was used; the transaction is durable now."""
        if self._table is not None and self.new:
            self._table.add(b"".join(self.new))
