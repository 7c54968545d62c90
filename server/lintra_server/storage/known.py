"""Which reports a batch holds: an exact table in memory, for whoever commits, read from the segments at first use.

A slot holds part of one word, a keyed hash of an identifier, and the number of the segment that holds it. A word may
lead to the wrong segment but never decides: that segment's own identifiers do. With plain prefixes a client could grind
identifiers that all meet in one run of slots; against secret factors it cannot.

Nothing of an open transaction is ever in a table. What a commit stored is added after it, in the order of the segments'
numbers; whatever happened to a commit that failed, the table is forgotten and read again.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from struct import Struct

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import HASH_BYTES
from lintra_server.storage.chains import Chains
from lintra_server.storage.marks import BEGIN, End, Row
from lintra_server.storage.segments import Written

Words = NDArray[np.uint64]
Numbers = NDArray[np.uint32]
Bytes = NDArray[np.uint8]

MOST_TABLES = 64
"""Batches whose identifiers are kept in memory; those of the others are read again when they are asked for."""

_FEWEST_SLOTS = 64
_MOST_SLOTS = 1 << 32
_SLICE = 1 << 18
_LOW = 2**64 - 1
_HALF = 2**32 - 1
_FIRST, _LAST = np.uint64(_LOW ^ _HALF), np.uint64(_HALF)
_parts = Struct(f"{HASH_BYTES - 16}x2Q").unpack

_FEW = 20
"""So many identifiers are faster entered one by one."""

_FEW_ASKED = 64
"""So many are faster looked up one by one, where a wait for the disk left the caches to others.

In a loop that does nothing else arrays are faster from some 20 on. A commit of 32 takes 40 microseconds one by one, and
90 with arrays, whose code and objects have to come from memory.
"""

_ROWS_AT_ONCE = 4096
_WINDOW = 8
_NO_SLOT = 1
"""Stands behind the last slot: it is not free, and nobody's tag."""


class IdTable:
    """Identifiers of one batch and their segments: open addressing, 3/8 full at most (Knuth, TAOCP 3, section 6.4).

    Of an identifier's last two parts of eight bytes each is multiplied with a secret factor, modulo 2^64. The first
    bits of one product choose the slot; 32 of them stand there beside the number of the segment; seven of the other are
    the slot's tag. So two identifiers meet with at most twice the probability of random words, unless their last parts
    agree in nearly all of their lower bits (Dietzfelbinger et al. 1997). What grinding costs is in
    docs/explanation/benchmarks.md#look-ups.

    Tags lie apart, a byte for each slot: most identifiers that are looked up are new, and find a free slot or other
    tags, in memory so small that the processor's caches hold much of it. A slot and its tag take nine bytes, 24 to 48
    an identifier.

    A few identifiers are looked up one by one in plain integers; many at once, as arrays, by windows of eight tags.
    Both walk the same slots: nothing is ever taken out, so an entry stands before the first free slot.
    """

    def __init__(self, random_bytes: RandomBytes, expected: int) -> None:
        """Hold nothing yet, with room for some identifiers."""
        self._for_slot, self._for_tag = np.frombuffer(random_bytes(16), np.uint64)
        self._factor, self._tag_factor = int(self._for_slot), int(self._for_tag)
        self._count = 0
        self.last = -1
        """The number of the last segment that is in it."""
        self._make(expected)

    def __len__(self) -> int:
        """Return how many identifiers are in it."""
        return self._count

    @property
    def nbytes(self) -> int:
        """How many bytes of memory it takes."""
        return self._tags.nbytes + self._entries.nbytes

    def add(self, numbers: Numbers, ids: bytes) -> None:
        """Add the identifiers of segments that follow the last one.

        `numbers` are those of the segment of each identifier, ascending, shape `(n,)`.
        """
        if not len(numbers):
            return
        self._count += len(numbers)
        if 8 * self._count > 3 * len(self._entries) < 3 * _MOST_SLOTS:
            held = np.flatnonzero(self._tags[: len(self._entries)])
            entries, tags = self._entries[held], self._tags[held]
            self._make(self._count)
            self._place(entries, tags)
        if len(numbers) <= _FEW:
            for start, number in zip(range(0, len(ids), HASH_BYTES), numbers.tolist(), strict=True):
                self._enter(ids[start : start + HASH_BYTES], number)
        else:
            words, tags = self._hashed(ids)
            self._place(words & _FIRST | numbers, tags)
        self.last = int(numbers[-1])

    def candidates(self, report_ids: Sequence[bytes]) -> list[tuple[int, int]]:
        """Return which segments may hold which of some identifiers: places among these, and segment numbers."""
        if len(report_ids) != 1:
            return self._of_several(report_ids)
        part, last = _parts(report_ids[0])
        word = last * self._factor  # longer than 64 bits: what is beyond them is cut off where it is used
        tags, mask = self._plain_tags, self._mask
        slot = word >> self._shift & mask
        if not (held := tags[slot]):
            return []
        tag, pairs = part * self._tag_factor >> 57 & 127 | 128, []
        while held:
            if held == tag and (entry := self._plain_entries[slot]) >> 32 == word >> 32 & _HALF:
                pairs.append((0, entry & _HALF))
            slot = slot + 1 & mask
            held = tags[slot]
        return pairs

    def _of_several(self, report_ids: Sequence[bytes]) -> list[tuple[int, int]]:
        if len(report_ids) <= _FEW_ASKED:
            return [(place, number) for place, one in enumerate(report_ids) for _, number in self.candidates([one])]
        words, tags = self._hashed(b"".join(report_ids))
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
            pairs += [(place, number) for _, number in self.candidates([report_ids[place]])]
        return pairs

    def _enter(self, report_id: bytes, segment: int) -> None:
        part, last = _parts(report_id)
        word, tag = last * self._factor & _LOW, part * self._tag_factor >> 57 & 127 | 128
        entry, slot, tags = word >> 32 << 32 | segment, word >> self._shift, self._plain_tags
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
                # tag and segment, are one entry: it leads to the segment that holds both.
                free = self._tags[slots] == 0
                taken = slots[free]
                self._tags[taken], self._entries[taken] = marks[free], rest[free]
                left = (self._entries[slots] != rest) | (self._tags[slots] != marks)
                rest, marks, slots = rest[left], marks[left], (slots[left] + 1) & self._mask

    def _make(self, count: int) -> None:
        """Make room for so many identifiers, and hold none."""
        size = min(max(_FEWEST_SLOTS, 1 << (-(-8 * count // 3) - 1).bit_length()), _MOST_SLOTS)
        self._entries, self._tags = np.zeros(size, np.uint64), np.zeros(size + _WINDOW, np.uint8)
        self._tags[size:] = _NO_SLOT
        # The tags of a slot and of those behind it, as one number for every slot: the same memory once more.
        self._windows = np.ndarray((size,), np.uint64, self._tags.data, strides=(1,))
        # Again the same memory: an array makes an object of its own of each number that is read, which costs far more.
        self._plain_entries, self._plain_tags = self._entries.data, self._tags.data
        self._mask = size - 1
        self._shift = 64 - self._mask.bit_length()

    def _hashed(self, ids: bytes) -> tuple[Words, Bytes]:
        """Return the product that chooses the slot of each identifier, and its tag, which says that a slot is taken."""
        parts = np.frombuffer(ids, np.uint64).reshape(-1, HASH_BYTES // 8)
        # Products wrap, as they must.
        tags = (parts[:, -2] * self._for_tag >> np.uint64(57)).astype(np.uint8)
        return parts[:, -1] * self._for_slot, tags | np.uint8(128)

    def _slots(self, words: Words) -> IntArray:
        return (words >> np.uint64(self._shift)).view(np.int64)


MOST_RECENT = 1024
"""Identifiers of a batch that wait to be entered into its table together."""


class HeldIds:
    """The identifiers of one batch and their segments: the last ones in a set, all before them in a table.

    Arrays are filled fast only if many come at once, and commits are small, so what they store waits until it is worth
    the call. A set takes some 150 bytes an identifier, which these few may.
    """

    def __init__(self, random_bytes: RandomBytes, expected: int) -> None:
        """Hold nothing yet, with room for some identifiers."""
        self._table = IdTable(random_bytes, expected)
        self._recent = set[bytes]()
        self._waiting: list[Written] = []
        self.end = BEGIN
        """Where the last row ends whose identifiers are here."""

    @property
    def last(self) -> int:
        """Return the number of the last segment whose identifiers are here."""
        return self.end.number

    def add(self, numbers: Numbers, ids: bytes, end: End) -> None:
        """Add the identifiers of rows that follow the last one (see `IdTable.add`), up to an end."""
        self._enter()
        self._table.add(numbers, ids)
        self.end = end

    def note(self, segment: Written) -> None:
        """Add the identifiers of the segment that follows the last one."""
        self._recent.update(segment.report_ids)
        self._waiting.append(segment)
        self.end = segment.end
        if len(self._recent) >= MOST_RECENT:
            self._enter()

    def candidates(self, report_ids: Sequence[bytes]) -> list[tuple[int, int]]:
        """Return which segments may hold which of some identifiers: places among these, and segment numbers."""
        pairs = self._table.candidates(report_ids)
        if not self._recent.isdisjoint(report_ids):
            recent = {one: segment.number for segment in self._waiting for one in segment.report_ids}
            pairs += [(place, recent[one]) for place, one in enumerate(report_ids) if one in recent]
        return pairs

    def _enter(self) -> None:
        if self._waiting:
            counts = [len(segment.report_ids) for segment in self._waiting]
            numbers = np.repeat(np.array([segment.number for segment in self._waiting], np.uint32), counts)
            self._table.add(numbers, b"".join([one for segment in self._waiting for one in segment.report_ids]))
            self._recent.clear()
            self._waiting.clear()


class KnownIds:
    """The tables of the batches that uploads came for lately; thread-safe."""

    def __init__(self, chains: Chains, random_bytes: RandomBytes) -> None:
        """Know nothing yet; `random_bytes` draws secret factors."""
        self._chains = chains
        self._random_bytes = random_bytes
        self._tables: dict[int, HeldIds] = {}
        self._lock = threading.Lock()

    def among(self, connection: Connection, batch: int, report_ids: Sequence[bytes], end: End) -> set[bytes]:
        """Return those of some identifiers that a batch holds, as its segments stand in this transaction.

        Of 32 bytes each; `end` is where the batch ends in this transaction.
        """
        if not report_ids:
            return set()
        while True:
            with self._lock:
                pairs = self._table(connection, batch, end).candidates(report_ids)
            wanted = {number for _, number in pairs}
            held = self._chains.some(connection, batch, wanted)
            if held is not None and not _are_there(found := _held(report_ids, pairs, held), report_ids, pairs):
                held = self._chains.sure(connection, batch, wanted, end)
                found = set() if held is None else _held(report_ids, pairs, held)
            if held is not None:
                return found
            self.forget(batch)  # segments were rewritten into others meanwhile, or this transaction is an older one

    def remembered(
        self, reading: Callable[[], AbstractContextManager[Connection]], batch: int, report_ids: Sequence[bytes]
    ) -> set[bytes] | None:
        """Return those of some identifiers that a batch holds, as far as memory leads; None if it leads nowhere.

        What is returned is stored. Another one may be, too, if another process stored it: only a commit decides.

        `reading` begins a transaction, which new identifiers do not need.
        """
        with self._lock:
            table = self._tables.get(batch)
            if table is None:
                return None
            pairs = table.candidates(report_ids)
        if not pairs:
            return set()
        with reading() as connection:
            held = self._chains.some(connection, batch, {number for _, number in pairs})
        found = set() if held is None else _held(report_ids, pairs, held)
        return found if _are_there(found, report_ids, pairs) else None

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

    def _table(self, connection: Connection, batch: int, end: End) -> HeldIds:
        """Return the table of a batch, with every row up to its end."""
        table = self._tables.pop(batch, None)
        if table is None or table.end.total > end.total:
            table = HeldIds(self._random_bytes, end.total)
        if table.end != end:
            self._fill(table, connection, batch, end)
        while len(self._tables) >= MOST_TABLES:
            del self._tables[next(iter(self._tables))]  # the one that was not asked for the longest
        self._tables[batch] = table
        return table

    def _fill(self, table: HeldIds, connection: Connection, batch: int, end: End) -> None:
        """Add the rows that a table lacks, many at a time; it is not used if one of them is not right."""
        rows = self._chains.rows(connection, batch, table.end, end)
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            _add(table, some)


def _add(table: HeldIds, rows: Sequence[Row]) -> None:
    counts = [len(row.ids) // HASH_BYTES for row in rows]
    numbers = np.repeat(np.array([row.number for row in rows], np.uint32), counts)
    table.add(numbers, b"".join([row.ids for row in rows]), rows[-1].end)


def _held(report_ids: Sequence[bytes], pairs: Sequence[tuple[int, int]], segments: Mapping[int, bytes]) -> set[bytes]:
    """Return those identifiers that are in the segments which the table named for them.

    `pairs` are places among `report_ids` and numbers of segments; `segments` are their identifiers, joined, by number.
    """
    if len(pairs) <= _FEW:
        return {report_ids[place] for place, number in pairs if _holds(segments[number], report_ids[place])}
    apart = {
        number: {ids[start : start + HASH_BYTES] for start in range(0, len(ids), HASH_BYTES)}
        for number, ids in segments.items()
    }
    return {report_ids[place] for place, number in pairs if report_ids[place] in apart[number]}


def _are_there(found: set[bytes], report_ids: Sequence[bytes], pairs: Sequence[tuple[int, int]]) -> bool:
    """Return whether every identifier was found that a table leads to.

    Else two words met, or another row stands there now: that of a commit that failed follows the row before it, too.
    """
    return found.issuperset([report_ids[place] for place, _ in pairs])


def _holds(ids: bytes, report_id: bytes) -> bool:
    place = ids.find(report_id)
    while place % HASH_BYTES and place >= 0:
        place = ids.find(report_id, place + 1)
    return place >= 0
