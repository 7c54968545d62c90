"""Reads sorted report identifiers a slice at a time, and compares two lists of them.

Clients can grind identifiers so that many begin alike. So identifiers that are equal in their first eight bytes are
compared in full. Work arrays hold a slice of the lists, cut by count, however the values lie; where a list is (in
memory, in a file, or in another list that differs a little) is the business of `SortedIds`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lintra_protocol.cohort.row_order import NONE, Bytes, Mask, Words, first_words, sort_order, taken
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import HASH_BYTES

_SLICE = 1 << 16
"""Identifiers of a list that are looked at together: two megabytes, which stay in a cache."""

Whole = npt.NDArray[np.void]


class SortedIds(ABC):
    """Sorted identifiers, wherever they are."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many there are."""

    @abstractmethod
    def __getitem__(self, asked: slice) -> Bytes:
        """Return the identifiers from one place to another, shape `(k, 32)`."""

    def one(self, place: int) -> bytes:
        """Return the identifier at a place, which is not counted from the end."""
        return self[place : place + 1].tobytes()

    def rank(self, report_id: bytes) -> int:
        """Return how many of them are smaller than an identifier."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.one(middle) < report_id:
                low = middle + 1
            else:
                high = middle
        return low

    def forget(self, before: int) -> None:
        """Let go of the memory behind all that stand before a place; they can be read again."""
        del before

    def pieces(self, first: int = 0, stop: int | None = None) -> Iterator[Bytes]:
        """Yield all identifiers, or those from one place to another, a slice at a time."""
        last = len(self) if stop is None else min(stop, len(self))
        for start in range(first, last, _SLICE):
            yield self[start : min(start + _SLICE, last)]
            self.forget(start)
        self.forget(last)

    def at(self, places: IntArray) -> Bytes:
        """Return the identifiers that stand at some ascending places, shape `(k, 32)`."""
        result = np.empty((len(places), HASH_BYTES), np.uint8)
        starts = np.arange(0, len(self) + _SLICE, _SLICE)
        ends = np.searchsorted(places, starts).tolist()
        for start, first, last in zip(starts.tolist(), ends, ends[1:], strict=False):
            if last > first:
                result[first:last] = taken(self[start : start + _SLICE], places[first:last] - start)
                self.forget(start)
        self.forget(len(self))
        return result


class HeldRows(SortedIds):
    """Identifiers in memory. `array` has shape `(n, 32)`, read-only."""

    def __init__(self, array: Bytes) -> None:
        """Hold an array, to which nobody may write any more."""
        self.array = array
        self.array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, asked: slice) -> Bytes:
        return self.array[asked]

    def one(self, place: int) -> bytes:
        """Return the identifier at a place."""
        found: bytes = self.array[place].tobytes()
        return found


class OrderedRows(SortedIds):
    """Identifiers in memory that stand in another order: none is moved, and a slice is put together when it is read."""

    def __init__(self, array: Bytes, order: IntArray) -> None:
        """Hold an array, to which nobody may write any more, and where in it each identifier stands, both `n` long."""
        self._array = array
        self._array.flags.writeable = False
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, asked: slice) -> Bytes:
        return taken(self._array, self._order[asked])


class EditedRows(SortedIds):
    """Other rows without some of them and with others: nothing is held but what differs."""

    def __init__(self, rows: SortedIds, missing: IntArray, extra: Bytes, places: IntArray) -> None:
        """Look at `rows` through a difference.

        `rows` are n identifiers; `missing` holds ascending positions of those that go. `extra` holds the identifiers
        that come, sorted, none of them in `rows`. `places` says how many of `rows` are smaller than each of them.
        """
        self._rows = rows
        self._missing = missing
        self._extra = extra
        # So many that stay come before each that goes; and here stands, among all, each that comes.
        self._stay_before = missing - np.arange(len(missing))
        self._extra_at = places - np.searchsorted(missing, places) + np.arange(len(extra))

    def __len__(self) -> int:
        return len(self._rows) - len(self._missing) + len(self._extra)

    def __getitem__(self, asked: slice) -> Bytes:
        start, stop, _ = asked.indices(len(self))
        stop = max(start, stop)
        first, last = np.searchsorted(self._extra_at, [start, stop]).tolist()
        piece, stays = self._staying(start - first, stop - last)
        if first == last:
            return piece if stays is None else taken(piece, stays)
        # One copy of the rows that stay, with room for the others.
        extra_at, whence = self._extra_at[first:last] - start, np.zeros(stop - start, np.int64)
        old = np.ones(stop - start, bool)
        old[extra_at] = False
        whence[old] = np.arange(len(piece)) if stays is None else stays
        found = taken(piece, whence) if len(piece) else np.empty((stop - start, HASH_BYTES), np.uint8)
        found[extra_at] = self._extra[first:last]
        return found

    def _staying(self, start: int, stop: int) -> tuple[Bytes, IntArray | None]:
        """Return a piece of the rows, and where in it those stand that stay, from one of their places to another.

        None stands for all of the piece.
        """
        first, last = np.searchsorted(self._stay_before, [start, max(stop - 1, start)], "right").tolist()
        begins, ends = start + first, stop + last
        piece = self._rows[begins:ends]
        if first == last or stop <= start:
            return piece[: max(stop - start, 0)], None
        kept = np.ones(len(piece), bool)
        kept[self._missing[first:last] - begins] = False
        return piece, np.flatnonzero(kept)

    def forget(self, before: int) -> None:
        """Let go of what lies beneath."""
        staying = before - int(np.searchsorted(self._extra_at, before))
        self._rows.forget(staying + int(np.searchsorted(self._stay_before, staying)))

    def rank(self, report_id: bytes) -> int:
        """Return how many of them are smaller: of the rows beneath, without those that go and with those that come."""
        beneath = self._rows.rank(report_id)
        gone = int(np.searchsorted(self._missing, beneath))
        return beneath - gone + (HeldRows(self._extra).rank(report_id) if len(self._extra) else 0)


def inserted(rows: Bytes, places: IntArray, extra: Bytes) -> Bytes:
    """Return rows of shape `(n, 32)` with others, shape `(k, 32)`, before some ascending places, shape `(k,)`."""
    return np.insert(_whole(rows), places, _whole(extra)).view(np.uint8).reshape(-1, HASH_BYTES)


def search(rows: SortedIds, wanted: Bytes) -> tuple[IntArray, Mask]:
    """Return for each of some sorted identifiers how many rows are smaller, and whether it is one of them.

    Both have shape `(k,)`. The rows are read once, from the first to the last.
    """
    places, same = np.full(len(wanted), len(rows)), np.zeros(len(wanted), bool)
    for at, mine, other_at, theirs in _side_by_side(rows, HeldRows(wanted)):
        here = slice(other_at, other_at + len(theirs))
        places[here], same[here] = _smaller(mine, theirs)
        places[here] += at
    return places, same


def compared(first: SortedIds, second: SortedIds) -> tuple[IntArray, Bytes, IntArray]:
    """Say how the second list differs from the first, by reading both once.

    Returns:
        Ascending positions in the first of what the second lacks, shape `(k,)`; the identifiers that the second has
        beyond it, sorted, shape `(j, 32)`; and how many of the first are smaller than each of these, shape `(j,)`.
    """
    missing: list[IntArray] = [NONE]
    extra: list[Bytes] = [np.zeros((0, HASH_BYTES), np.uint8)]
    places: list[IntArray] = [NONE]
    for at, mine, _, theirs in _side_by_side(first, second):
        lacks, more, smaller = _differing(mine, theirs)
        missing.append(lacks + at)
        if len(more):
            extra.append(taken(theirs, more))
            places.append(smaller + at)
    return np.concatenate(missing), np.concatenate(extra), np.concatenate(places)


def _side_by_side(first: SortedIds, second: SortedIds) -> Iterator[tuple[int, Bytes, int, Bytes]]:
    """Yield slices of two lists that hold all of both in a range of values, and where each begins; one may be empty."""
    own, other = 0, 0
    while own < len(first) or other < len(second):
        mine, theirs = first[own : own + _SLICE], second[other : other + _SLICE]
        more = own + len(mine) < len(first), other + len(theirs) < len(second)
        if any(more):
            # Neither goes beyond the other's end, so one of them is used up whole and the next two begin together.
            last = min(piece[-1].tobytes() for piece, goes_on in zip((mine, theirs), more, strict=True) if goes_on)
            mine, theirs = mine[: _not_above(mine, last)], theirs[: _not_above(theirs, last)]
        yield own, mine, other, theirs
        own, other = own + len(mine), other + len(theirs)
        first.forget(own)
        second.forget(other)


def _not_above(rows: Bytes, report_id: bytes) -> int:
    below = HeldRows(rows).rank(report_id)
    return below + (below < len(rows) and rows[below].tobytes() == report_id)


def _differing(rows: Bytes, others: Bytes) -> tuple[IntArray, IntArray, IntArray]:
    """Return where in sorted rows stands what others lack, where in these stands what they have beyond, and its rank.

    Two lists are mostly the same. So their beginnings are merged, and only what stands there alone is looked for.
    """
    words, sought = first_words(rows), first_words(others)
    if (words[1:] > words[:-1]).all() and (sought[1:] > sought[:-1]).all():
        # Each begins in its own way in either list, so that whatever is equal here stands in both.
        both = np.concatenate([words, sought])
        both.sort(kind="stable")  # a merge: both halves are sorted
        alone = np.ones(len(both), bool)
        twice = both[1:] == both[:-1]
        alone[1:] &= ~twice
        alone[:-1] &= ~twice
        single = both[alone]
        places = np.searchsorted(words, single)
        here = _stands_in(single, words, places) if len(words) else np.zeros(len(single), bool)
        lacks, more = places[here], np.searchsorted(sought, single[~here])
        if np.array_equal(_without(rows, lacks).view(np.uint64), _without(others, more).view(np.uint64)):
            return lacks, more, places[~here]
    smaller, same = _smaller(rows, others)
    lacking = np.ones(len(rows), bool)
    lacking[smaller[same]] = False
    return np.flatnonzero(lacking), np.flatnonzero(~same), smaller[~same]


def _without(rows: Bytes, places: IntArray) -> Bytes:
    """Return the rows that do not stand at some places."""
    if not len(places):
        return np.ascontiguousarray(rows)
    stays = np.ones(len(rows), bool)
    stays[places] = False
    return taken(rows, stays)


def _smaller(rows: Bytes, wanted: Bytes) -> tuple[IntArray, Mask]:
    """Return for each of some sorted identifiers how many of the sorted rows are smaller, and whether it is there."""
    words, sought = first_words(rows), first_words(wanted)
    places = np.searchsorted(words, sought)
    if not len(rows):
        return places, np.zeros(len(wanted), bool)
    beside = np.minimum(places, len(rows) - 1)
    alike = words[beside] == sought
    same = _equal(taken(rows, beside), wanted)
    # What begins like the first row of all that begin so, and is not that one, is ordered by all its bytes.
    unsettled = np.flatnonzero(alike & ~same)
    if len(unsettled):
        begun = np.unique(sought[unsettled])
        rivals = np.flatnonzero(_stands_in(words, begun, np.searchsorted(begun, words)))
        both = np.concatenate([_whole(taken(wanted, unsettled)), _whole(taken(rows, rivals))])
        order = sort_order(both.view(np.uint8).reshape(-1, HASH_BYTES))
        # The sort is stable, so an equal one among the rows comes behind the one that is looked for.
        ours = order < len(unsettled)
        smaller, which = np.cumsum(~ours)[ours], unsettled[order[ours]]
        places[which] += smaller - np.searchsorted(words[rivals], sought[which])
        there = smaller < len(rivals)
        same[which[there]] = _equal(taken(rows, rivals[smaller[there]]), taken(wanted, which[there]))
    return places, same


def _stands_in(words: Words, ascending: Words, places: IntArray) -> Mask:
    """Return which words are the ones that stand in an ascending array, not empty, at their ranks."""
    found: Mask = ascending[np.minimum(places, len(ascending) - 1)] == words
    return found


def _equal(first: Bytes, second: Bytes) -> Mask:
    """Return where identifiers of two arrays of the same shape are equal, shape `(n,)`."""
    differing = first.view(np.uint64) ^ second.view(np.uint64)
    equal: Mask = (differing[:, 0] | differing[:, 1] | differing[:, 2] | differing[:, 3]) == 0
    return equal


def _whole(rows: Bytes) -> Whole:
    """Return identifiers as elements of 32 bytes, shape `(n,)`."""
    return np.ascontiguousarray(rows).view(f"V{HASH_BYTES}").ravel()
