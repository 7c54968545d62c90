"""Public pseudorandom permutations of ranks: where each report of a sorted cohort stands before rows are dealt.

Two of them, because a sort needs an array of all ranks and a network does not:

* `SortedOrder`, to 2^20 ranks: ranks in the order of a keystream's words. Uniform but for ties.
* `FeistelOrder`, above: 10 rounds over pairs of Z_a x Z_a, a = ceil(sqrt(n)), each rank computed by itself. That it
  deals a fixed coalition like a random permutation is assumed, not proven (docs/proofs/sketch.md#coalitions).
"""

from abc import ABC, abstractmethod
from functools import cached_property
from math import isqrt

import numpy as np
import numpy.typing as npt

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray, ring_from_bytes

LARGEST_SORTED = 1 << 20
"""The largest cohort that is ordered by a sort."""

LARGEST_NETWORK = 1 << 32
"""The largest cohort that a network orders: its numbers have 32 bits."""

ROUNDS = 10
"""As FF1 has for domains of a million points or more (NIST SP 800-38G)."""

_PIECE = 1 << 16
"""Ranks that go through a network together: their halves stay in a cache."""

Numbers = npt.NDArray[np.uint32]


class Order(ABC):
    """A permutation of `range(num_ranks)`."""

    @abstractmethod
    def positions(self, ranks: IntArray) -> IntArray:
        """Return where some ranks, shape `(k,)`, stand; same shape."""


class SortedOrder(Order):
    """Ranks in the order of keystream words of 63 bits, ties by rank, so that all machines agree.

    `ranks` are the ranks in this order, shape `(n,)`.
    """

    def __init__(self, words: npt.NDArray[np.uint64]) -> None:
        """Sort. `words` are one for each rank, shape `(n,)`, their last bit ignored."""
        self.ranks = _ascending(words >> np.uint64(1))

    def positions(self, ranks: IntArray) -> IntArray:
        """Return where some ranks, shape `(k,)`, stand, in the same shape."""
        return self._positions[ranks]

    @cached_property
    def _positions(self) -> IntArray:
        positions = np.empty(len(self.ranks), np.int64)
        positions[self.ranks] = np.arange(len(self.ranks))
        return positions


class FeistelOrder(Order):
    """A Feistel network over Z_a x Z_a with alternating halves, walked until it leads below n."""

    def __init__(self, num_ranks: int, stream: RandomBytes, rounds: int = ROUNDS) -> None:
        """Draw the round functions: a words of the stream for each, modulo a.

        `num_ranks` is n, at most 2^32; `stream` is read from where it stands, 8 bytes a word. Fewer `rounds` than
        `ROUNDS` are for tests that must fail.
        """
        if num_ranks > LARGEST_NETWORK:
            raise ValueError(f"a network orders at most {LARGEST_NETWORK} ranks, got {num_ranks}")
        self._num_ranks = num_ranks
        self._side = side = isqrt(num_ranks - 1) + 1 if num_ranks else 0
        words = (ring_from_bytes(stream(8 * side)) for _ in range(rounds))
        self._rounds = [(own % np.uint64(side)).astype(np.uint32) for own in words]

    def positions(self, ranks: IntArray) -> IntArray:
        """Return where some ranks, shape `(k,)`, stand, in the same shape."""
        result = np.empty(len(ranks), np.int64)
        for start in range(0, len(ranks), _PIECE):
            result[start : start + _PIECE] = self._walked(ranks[start : start + _PIECE].astype(np.uint32))
        return result

    def _walked(self, values: Numbers) -> Numbers:
        found = self._once(values)
        # a^2 is hardly more than n, so few are left to walk on; each ends, since it walks round a circle of its own.
        beyond = np.flatnonzero(found >= self._num_ranks)
        while len(beyond):
            found[beyond] = self._once(found[beyond])
            beyond = beyond[found[beyond] >= self._num_ranks]
        return found

    def _once(self, values: Numbers) -> Numbers:
        side = np.uint32(self._side)
        left, right = values // side, values % side
        for shift in self._rounds:
            # Below 2 a, and a is at most 2^16: nothing wraps but the difference, which is then the larger one.
            moved = shift[right]
            moved += left
            left, right = right, np.minimum(moved, moved - side)
        result: Numbers = left * side + right
        return result


def _ascending(keys: npt.NDArray[np.uint64]) -> IntArray:
    """Return the stable order of keys of 63 bits: as `argsort` with `kind="stable"`, many times as fast.

    What is sorted are the first bits of each key with its number in place of the last ones, so that the sort need not
    be stable; where the first bits agree, whole keys decide.
    """
    count = len(keys)
    bits = np.uint64(max(count - 1, 1).bit_length())
    # The key's own first bit is 0; it makes room for one more of the others.
    packed = keys << np.uint64(1)
    packed >>= bits
    packed <<= bits
    packed |= np.arange(count, dtype=np.uint64)
    packed.sort()
    order = (packed & ((np.uint64(1) << bits) - np.uint64(1))).view(np.int64)
    packed >>= bits
    tied = np.flatnonzero(packed[1:] == packed[:-1])
    places = np.union1d(tied, tied + 1)
    order[places] = order[places][np.lexsort((order[places], keys[order[places]]))]
    return order
