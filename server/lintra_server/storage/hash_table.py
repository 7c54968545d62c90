"""A table in memory of many keys of 16 or 32 bytes, each with a number.

A slot holds part of one word, a keyed hash of a key, and the key's number. Keys that meet may lead to the wrong number,
so whoever asks looks there. With plain prefixes a client could grind keys that all meet in one run of slots; against
secret factors it cannot.
"""

from collections.abc import Sequence
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray

Words = NDArray[np.uint64]
Numbers = NDArray[np.uint32]
Bytes = NDArray[np.uint8]

_FEWEST_SLOTS = 64
_MOST_SLOTS = 1 << 32
_SLICE = 1 << 18
_LOW = 2**64 - 1
_HALF = 2**32 - 1
_FIRST, _LAST = np.uint64(_LOW ^ _HALF), np.uint64(_HALF)

_FEW = 20
"""So many keys are faster entered one by one."""

_FEW_ASKED = 64
"""So many are faster looked up one by one, where a wait for the disk left the caches to others.

In a loop that does nothing else arrays are faster from some 20 on. A commit of 32 takes 40 microseconds one by one, and
90 with arrays, whose code and objects have to come from memory.
"""

_WINDOW = 8
_NO_SLOT = 1
"""Stands behind the last slot: it is not free, and nobody's tag."""


class HashTable:
    """Keys and their numbers: open addressing, 3/8 full at most (Knuth, TAOCP 3, section 6.4).

    Each of a key's last two parts of eight bytes is multiplied with a secret factor, modulo 2^64. The first bits of the
    sum choose the slot; 32 of them stand there beside the key's number; seven of one product are the slot's tag. So two
    keys meet with at most twice the probability of random words, unless both parts agree in nearly all of their lower
    bits (Dietzfelbinger et al. 1997). What grinding costs is in docs/explanation/benchmarks-parts.md#look-ups.

    Tags lie apart, a byte for each slot: most keys that are looked up are new, and find a free slot or other tags, in
    memory so small that the processor's caches hold much of it. A slot and its tag take nine bytes, 24 to 48 a key.

    A few keys are looked up one by one in plain integers; many at once, as arrays, by windows of eight tags.
    Both walk the same slots: nothing is ever taken out, so an entry stands before the first free slot.
    """

    def __init__(self, random_bytes: RandomBytes, expected: int, key_bytes: int) -> None:
        """Hold nothing yet, with room for some keys of 16 or 32 bytes."""
        self._key_bytes = key_bytes
        self._parts = Struct(f"{key_bytes - 16}x2Q").unpack
        self._for_slot, self._for_tag = np.frombuffer(random_bytes(16), np.uint64)
        self._factor, self._tag_factor = int(self._for_slot), int(self._for_tag)
        self._count = 0
        self._make(expected)

    def __len__(self) -> int:
        """Return how many keys are in it."""
        return self._count

    @property
    def nbytes(self) -> int:
        """How many bytes of memory it takes."""
        return self._tags.nbytes + self._entries.nbytes

    def add(self, numbers: Numbers, keys: bytes) -> None:
        """Add keys, joined, and the number of each, shape `(n,)`."""
        if not len(numbers):
            return
        self._count += len(numbers)
        if 8 * self._count > 3 * len(self._entries) < 3 * _MOST_SLOTS:
            held = np.flatnonzero(self._tags[: len(self._entries)])
            entries, tags = self._entries[held], self._tags[held]
            self._make(self._count)
            self._place(entries, tags)
        if len(numbers) <= _FEW:
            size = self._key_bytes
            for start, number in zip(range(0, len(keys), size), numbers.tolist(), strict=True):
                self._enter(keys[start : start + size], number)
        else:
            words, tags = self._hashed(keys)
            self._place(words & _FIRST | numbers, tags)

    def candidates(self, keys: Sequence[bytes]) -> list[tuple[int, int]]:
        """Return which numbers some keys may have: places among these keys, and numbers."""
        if len(keys) != 1:
            return self._of_several(keys)
        part, last = self._parts(keys[0])
        product = part * self._tag_factor
        word = last * self._factor + product  # longer than 64 bits: what is beyond them is cut off where it is used
        tags, mask = self._plain_tags, self._mask
        slot = word >> self._shift & mask
        if not (held := tags[slot]):
            return []
        tag, pairs = product >> 57 & 127 | 128, []
        while held:
            if held == tag and (entry := self._plain_entries[slot]) >> 32 == word >> 32 & _HALF:
                pairs.append((0, entry & _HALF))
            slot = slot + 1 & mask
            held = tags[slot]
        return pairs

    def _of_several(self, keys: Sequence[bytes]) -> list[tuple[int, int]]:
        if len(keys) <= _FEW_ASKED:
            return [(place, number) for place, one in enumerate(keys) for _, number in self.candidates([one])]
        words, tags = self._hashed(b"".join(keys))
        slots = self._slots(words)
        windows = self._windows[slots].view(np.uint8).reshape(-1, _WINDOW)
        # Eight flags of a window are one number, which is 0 if no slot in it is free: the run goes on.
        longer = (windows == 0).view(np.uint64).ravel() == 0
        pairs: list[tuple[int, int]] = []
        alike = (windows == tags[:, np.newaxis]).ravel().nonzero()[0]
        if alike.size:
            places = alike // _WINDOW
            entries = self._entries[slots[places] + alike % _WINDOW]
            same = ((entries ^ words[places]) & _FIRST == 0) & ~longer[places]
            pairs += zip(places[same].tolist(), (entries[same] & _LAST).tolist(), strict=True)
        for place in longer.nonzero()[0].tolist():
            pairs += [(place, number) for _, number in self.candidates([keys[place]])]
        return pairs

    def _enter(self, key: bytes, number: int) -> None:
        part, last = self._parts(key)
        product = part * self._tag_factor
        word, tag = last * self._factor + product & _LOW, product >> 57 & 127 | 128
        entry, slot, tags = word >> 32 << 32 | number, word >> self._shift, self._plain_tags
        while held := tags[slot]:
            if held == tag and self._plain_entries[slot] == entry:
                return
            slot = slot + 1 & self._mask
        tags[slot], self._plain_entries[slot] = tag, entry

    def _place(self, entries: Words, tags: Bytes) -> None:
        for start in range(0, len(entries), _SLICE):
            rest, marks = entries[start : start + _SLICE], tags[start : start + _SLICE]
            slots = self._slots(rest)
            while slots.size:
                # All that found a free slot write there; one of those that met stays. Two that are alike in all, word,
                # tag and number, are one entry, which leads to both.
                free = self._tags[slots] == 0
                taken = slots[free]
                self._tags[taken], self._entries[taken] = marks[free], rest[free]
                left = (self._entries[slots] != rest) | (self._tags[slots] != marks)
                rest, marks, slots = rest[left], marks[left], (slots[left] + 1) & self._mask

    def _make(self, count: int) -> None:
        """Make room for so many keys, and hold none."""
        size = min(max(_FEWEST_SLOTS, 1 << (-(-8 * count // 3) - 1).bit_length()), _MOST_SLOTS)
        self._entries, self._tags = np.zeros(size, np.uint64), np.zeros(size + _WINDOW, np.uint8)
        self._tags[size:] = _NO_SLOT
        # The tags of a slot and of those behind it, as one number for every slot: the same memory once more.
        self._windows = np.ndarray((size,), np.uint64, self._tags.data, strides=(1,))
        # Again the same memory: an array makes an object of its own of each number that is read, which costs far more.
        self._plain_entries, self._plain_tags = self._entries.data, self._tags.data
        self._mask = size - 1
        self._shift = 64 - self._mask.bit_length()

    def _hashed(self, keys: bytes) -> tuple[Words, Bytes]:
        """Return the sum that chooses the slot of each key, and its tag, which says that a slot is taken."""
        parts = np.frombuffer(keys, np.uint64).reshape(-1, self._key_bytes // 8)
        # Products and sums wrap, as they must.
        products = parts[:, -2] * self._for_tag
        tags = (products >> np.uint64(57)).astype(np.uint8)
        return parts[:, -1] * self._for_slot + products, tags | np.uint8(128)

    def _slots(self, words: Words) -> IntArray:
        return (words >> np.uint64(self._shift)).view(np.int64)
