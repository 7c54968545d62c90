"""Which reports a batch holds: an exact table in memory, for whoever commits, read from the segments at first use.

A slot holds one word, a keyed hash of an identifier, and the number of the segment that holds it. A word may lead to
the wrong segment but never decides: that segment's own identifiers do. With plain prefixes a client could grind
identifiers that all meet in one run of slots; against secret factors it cannot.

Nothing of an open transaction is ever in a table. What a commit stored is added after it, in the order of the segments'
numbers; whatever happened to a commit that failed, the table is forgotten and read again.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from struct import Struct

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from lintra_protocol.canonical import HASH_BYTES
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.ring import IntArray
from lintra_server.storage.segments import Tail, Written, ids_of, read_ids

Words = NDArray[np.uint64]
Numbers = NDArray[np.uint32]

MOST_TABLES = 64
"""Batches whose identifiers are kept in memory; those of the others are read again when they are asked for."""

_FEWEST_SLOTS = 64
_SLICE = 1 << 18
_WORDS = HASH_BYTES // 8
_PARTS = Struct(f"={_WORDS}Q")
_LOW = 2**64 - 1

_FEW = 12
"""So many identifiers are faster looked up one by one."""

_NEAR = np.arange(8)


class IdTable:
    """Identifiers of one batch and their segments: open addressing, at most half full (Knuth, TAOCP 3, section 6.4).

    The word of an identifier is the sum of its four parts times secret factors, modulo 2^64, and its first bits choose
    the slot (Dietzfelbinger et al. 1997). Two identifiers meet with more than twice the probability of random words
    only if they agree in the low bits of all four parts at once; those of a hash function cannot be made to.

    A few identifiers are looked up one by one in plain integers, which costs a microsecond each; many at once, as
    arrays. Both walk the same slots: nothing is ever taken out, so an entry stands before the first free slot.
    """

    def __init__(self, random_bytes: RandomBytes, expected: int) -> None:
        """Hold nothing yet, with room for some identifiers."""
        self._factors = np.frombuffer(random_bytes(HASH_BYTES), np.uint64)
        self._plain_factors: tuple[int, ...] = tuple(self._factors.tolist())
        self._count = 0
        self.last = -1
        """The number of the last segment that is in it."""
        self._make(max(_FEWEST_SLOTS, 1 << (2 * expected - 1).bit_length()))

    def __len__(self) -> int:
        """Return how many identifiers are in it."""
        return self._count

    def add(self, numbers: Numbers, ids: bytes) -> None:
        """Add the identifiers of segments that follow the last one.

        Args:
            numbers: of the segment of each identifier, ascending, shape `(n,)`.
            ids: the identifiers, joined.
        """
        if not len(numbers):
            return
        self._count += len(numbers)
        if 2 * self._count > len(self._words):
            held = self._words != 0
            words, segments = self._words[held], self._segments[held]
            self._make(1 << (2 * self._count - 1).bit_length())
            self._place(words, segments)
        if len(numbers) <= _FEW:
            for start, number in zip(range(0, len(ids), HASH_BYTES), numbers.tolist(), strict=True):
                self._enter(self._word(ids[start : start + HASH_BYTES]), number)
        else:
            self._place(self._hashed(ids), numbers)
        self.last = int(numbers[-1])

    def candidates(self, report_ids: Sequence[bytes]) -> list[tuple[int, int]]:
        """Return which segments may hold which of some identifiers: places among these, and segment numbers."""
        pairs: list[tuple[int, int]] = []
        if len(report_ids) <= _FEW:
            taken, shift = self._plain_words, self._plain_shift
            for place, report_id in enumerate(report_ids):
                word = self._word(report_id)
                slot = word >> shift
                while held := taken[slot]:
                    if held == word:
                        pairs.append((place, self._plain_segments[slot]))
                    slot = (slot + 1) & self._mask
            return pairs
        words = self._hashed(b"".join(report_ids))
        asked, slots = np.arange(len(words)), self._slots(words)
        while asked.size:
            # Neighbours come from memory together, so that several cost hardly more than one.
            near = (slots[:, np.newaxis] + _NEAR) & self._mask
            found = self._words[near]
            rows, columns = np.nonzero(found == words[:, np.newaxis])
            pairs += zip(asked[rows].tolist(), self._segments[near[rows, columns]].tolist(), strict=True)
            on = found.all(axis=1)  # no free slot yet; also beyond an equal word, for another one may have the same
            asked, words, slots = asked[on], words[on], slots[on] + len(_NEAR)
        return pairs

    def _enter(self, word: int, segment: int) -> None:
        words, slot = self._plain_words, word >> self._plain_shift
        while held := words[slot]:
            if held == word and self._plain_segments[slot] == segment:
                return
            slot = (slot + 1) & self._mask
        words[slot], self._plain_segments[slot] = word, segment

    def _place(self, words: Words, segments: Numbers) -> None:
        for start in range(0, len(words), _SLICE):
            rest, numbers = words[start : start + _SLICE], segments[start : start + _SLICE]
            slots = self._slots(rest)
            while slots.size:
                # All that found a free slot write there; one of those that met stays. Two that are alike in both, word
                # and segment, are one entry: it leads to the segment that holds both.
                free = self._words[slots] == 0
                taken = slots[free]
                self._words[taken] = rest[free]
                self._segments[taken] = numbers[free]
                left = (self._words[slots] != rest) | (self._segments[slots] != numbers)
                rest, numbers, slots = rest[left], numbers[left], (slots[left] + 1) & self._mask

    def _make(self, size: int) -> None:
        self._words, self._segments = np.zeros(size, np.uint64), np.zeros(size, np.uint32)
        # The same memory: an array makes an object of its own of each number that is read, which costs far more.
        self._plain_words, self._plain_segments = self._words.data, self._segments.data
        self._mask = size - 1
        self._plain_shift = 64 - self._mask.bit_length()
        self._shift = np.uint64(self._plain_shift)

    def _hashed(self, ids: bytes) -> Words:
        # Sums and products wrap, as they must; 0 says that a slot is free.
        words: Words = np.frombuffer(ids, np.uint64).reshape(-1, _WORDS) @ self._factors
        return np.maximum(words, np.uint64(1))

    def _word(self, report_id: bytes) -> int:
        """Return what `_hashed` makes of one identifier."""
        a, b, c, d = _PARTS.unpack(report_id)
        p, q, r, s = self._plain_factors
        return (a * p + b * q + c * r + d * s) & _LOW or 1

    def _slots(self, words: Words) -> IntArray:
        return (words >> self._shift).astype(np.int64)


MOST_RECENT = 1024
"""Identifiers of a batch that wait to be entered into its table together."""


class HeldIds:
    """The identifiers of one batch and their segments: the last ones in a dictionary, all before them in a table.

    Arrays are filled fast only if many come at once, and commits are small, so what they store waits until it is worth
    the call. A dictionary takes some 150 bytes an identifier, which these few may.
    """

    def __init__(self, random_bytes: RandomBytes, expected: int) -> None:
        """Hold nothing yet, with room for some identifiers."""
        self._table = IdTable(random_bytes, expected)
        self._recent: dict[bytes, int] = {}
        self.last = -1
        """The number of the last segment whose identifiers are here."""

    def add(self, numbers: Numbers, ids: bytes) -> None:
        """Add the identifiers of segments that follow the last one (see `IdTable.add`)."""
        self._enter()
        self._table.add(numbers, ids)
        self.last = self._table.last

    def note(self, segment: Written) -> None:
        """Add the identifiers of the segment that follows the last one."""
        self._recent.update(dict.fromkeys(segment.report_ids, segment.number))
        self.last = segment.number
        if len(self._recent) >= MOST_RECENT:
            self._enter()

    def candidates(self, report_ids: Sequence[bytes]) -> list[tuple[int, int]]:
        """Return which segments may hold which of some identifiers: places among these, and segment numbers."""
        pairs = self._table.candidates(report_ids)
        recent = self._recent
        if not recent.keys().isdisjoint(report_ids):
            pairs += [(place, recent[one]) for place, one in enumerate(report_ids) if one in recent]
        return pairs

    def _enter(self) -> None:
        if self._recent:
            numbers = np.fromiter(self._recent.values(), np.uint32, len(self._recent))
            self._table.add(numbers, b"".join(self._recent))
            self._recent.clear()


class KnownIds:
    """The tables of the batches that uploads came for lately; thread-safe."""

    def __init__(self, random_bytes: RandomBytes) -> None:
        """Know nothing yet; `random_bytes` draws secret factors."""
        self._random_bytes = random_bytes
        self._tables: dict[int, HeldIds] = {}
        self._lock = threading.Lock()

    def among(self, connection: Connection, batch: int, report_ids: Sequence[bytes], end: Tail) -> set[bytes]:
        """Return those of some identifiers that a batch holds, as its segments stand in this transaction.

        Args:
            connection: the transaction.
            batch: the batch's number.
            report_ids: of 32 bytes each.
            end: where the batch ends in this transaction.
        """
        if not report_ids:
            return set()
        while True:
            with self._lock:
                pairs = self._table(connection, batch, end).candidates(report_ids)
            wanted = sorted({number for _, number in pairs})
            held = ids_of(connection, batch, wanted)
            if len(held) == len(wanted):
                return _held(report_ids, pairs, held)
            self.forget(batch)  # segments were rewritten into others meanwhile, or this transaction is an older one

    def remembered(
        self, reading: Callable[[], AbstractContextManager[Connection]], batch: int, report_ids: Sequence[bytes]
    ) -> set[bytes] | None:
        """Return those of some identifiers that a batch holds, as far as memory leads; None if it leads nowhere.

        What is returned is stored. Another one may be, too, if another process stored it: only a commit decides.

        Args:
            reading: begins a transaction, which new identifiers do not need.
            batch: the batch's number.
            report_ids: of 32 bytes each.
        """
        with self._lock:
            table = self._tables.get(batch)
            if table is None:
                return None
            pairs = table.candidates(report_ids)
        if not pairs:
            return set()
        wanted = sorted({number for _, number in pairs})
        with reading() as connection:
            held = ids_of(connection, batch, wanted)
        if len(held) != len(wanted):
            return None  # segments were rewritten into others
        return _held(report_ids, pairs, held)

    def are_new(self, batch: int, report_ids: Sequence[bytes]) -> bool:
        """Return whether memory alone shows that a batch holds none of some identifiers; waits for nothing.

        False says nothing. True is no promise either, if another process stores reports, too: only a commit decides.
        """
        if not self._lock.acquire(blocking=False):
            return False  # somebody may be reading a whole batch
        try:
            table = self._tables.get(batch)
            return table is not None and not table.candidates(report_ids)
        finally:
            self._lock.release()

    def lacks(self, batch: int, report_ids: Sequence[bytes], last: int) -> bool:
        """Return whether memory shows that none of some reports is in the segments of a batch up to a last one.

        False says nothing: they may be new all the same, or memory holds less of the batch, or more.
        """
        with self._lock:
            table = self._tables.get(batch)
            if table is None or table.last != last or table.candidates(report_ids):
                return False
            self._tables[batch] = self._tables.pop(batch)  # it was asked for now
            return True

    def add(self, batch: int, written: Sequence[Written]) -> None:
        """Remember what a commit stored, now that it is durable."""
        with self._lock:
            table = self._tables.get(batch)
            if table is None:
                return
            # What another thread read meanwhile is there already.
            new = [segment for segment in written if segment.number > table.last]
            if new and new[0].number != table.last + 1:
                del self._tables[batch]  # another thread made it anew, of an older state: it lacks segments between
            else:
                for segment in new:
                    table.note(segment)

    def forget(self, batch: int) -> None:
        """Read a batch's identifiers from the disk again when they are asked for."""
        with self._lock:
            self._tables.pop(batch, None)

    def _table(self, connection: Connection, batch: int, end: Tail) -> HeldIds:
        """Return the table of a batch, with every segment that this transaction sees."""
        table = self._tables.pop(batch, None)
        if table is None:
            table = HeldIds(self._random_bytes, end.total)
        if table.last < end.number:
            for numbers, ids in read_ids(connection, batch, table.last + 1):
                table.add(numbers, ids)
        while len(self._tables) >= MOST_TABLES:
            del self._tables[next(iter(self._tables))]  # the one that was not asked for the longest
        self._tables[batch] = table
        return table


def _held(report_ids: Sequence[bytes], pairs: Sequence[tuple[int, int]], segments: Mapping[int, bytes]) -> set[bytes]:
    """Return those identifiers that are in the segments which the table named for them.

    Args:
        report_ids: that were asked for.
        pairs: places among these, and the number of a segment for each.
        segments: their identifiers, joined, by number.
    """
    if len(pairs) <= _FEW:
        return {report_ids[place] for place, number in pairs if _holds(segments[number], report_ids[place])}
    apart = {
        number: {ids[start : start + HASH_BYTES] for start in range(0, len(ids), HASH_BYTES)}
        for number, ids in segments.items()
    }
    return {report_ids[place] for place, number in pairs if report_ids[place] in apart[number]}


def _holds(ids: bytes, report_id: bytes) -> bool:
    place = ids.find(report_id)
    while place % HASH_BYTES and place >= 0:
        place = ids.find(report_id, place + 1)
    return place >= 0
