"""Lists of report identifiers as arrays: sorted, free of repetitions, checked once and then carried on as checked.

Clients can grind identifiers so that many begin alike. So the first eight bytes may order, but never decide: whatever
is equal there is compared in full. Work arrays hold a slice of the lists, cut by count, however the values lie.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt

from lintra_protocol.canonical import HASH_BYTES
from lintra_protocol.errors import InvalidMessageError, InventoryMismatchError, MessageTooLargeError
from lintra_protocol.manifest import merkle_root
from lintra_protocol.ring import IntArray

_SLICE = 1 << 18
_WORDS = HASH_BYTES // 8

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]


class ReportIds(Sequence[bytes]):
    """A sorted list of report identifiers, none of which stands twice; equal to any sequence of the same ones.

    Attributes:
        array: shape `(n, 32)`, read-only, rows strictly ascending.
    """

    def __init__(self, array: Bytes) -> None:
        """Carry on a list that is already known to be sorted; see `of` and `parse`.

        Args:
            array: shape `(n, 32)`; nobody may write to it any more.
        """
        self.array = array
        self.array.flags.writeable = False

    @classmethod
    def of(cls, report_ids: Iterable[bytes]) -> "ReportIds":
        """Sort identifiers.

        Raises:
            InvalidMessageError: one of them is not 32 bytes, or stands twice.
        """
        listed = list(report_ids)
        if any(len(report_id) != HASH_BYTES for report_id in listed):
            raise InvalidMessageError(f"a report identifier has {HASH_BYTES} bytes")
        return cls.sorted(_rows(b"".join(listed)))

    @classmethod
    def sorted(cls, rows: Bytes) -> "ReportIds":
        """Sort identifiers of shape `(n, 32)`, in any order.

        Raises:
            InvalidMessageError: one of them stands twice.
        """
        return cls(_strictly_ascending(_taken(rows, _sort_order(rows))))

    @classmethod
    def parse(cls, data: bytes, max_reports: int) -> "ReportIds":
        """Read identifiers that stand one after the other, and check their order.

        Raises:
            InvalidMessageError: not a whole number of identifiers, not sorted, or one of them stands twice.
            MessageTooLargeError: more than `max_reports`.
        """
        if len(data) % HASH_BYTES:
            raise InvalidMessageError(f"identifiers take {HASH_BYTES} bytes each, got {len(data)} bytes")
        if len(data) > HASH_BYTES * max_reports:
            raise MessageTooLargeError(f"at most {max_reports} identifiers")
        return cls(_strictly_ascending(_rows(data)))

    @classmethod
    def sort(cls, rows: Bytes) -> "tuple[ReportIds, IntArray]":
        """Sort identifiers where they stand; return them, and the place where each stood before, shape `(n,)`.

        Args:
            rows: contiguous, of shape `(n, 32)`; it becomes the array of the list.

        Raises:
            InvalidMessageError: one of them stands twice.
        """
        columns = rows.view(np.uint64)
        order = _first_order(rows)
        for column in columns.T:  # one part of the identifiers after the other: no copy of all is made
            column[:] = column[order]
        return cls(_strictly_ascending(rows)), order

    @cached_property
    def root(self) -> bytes:
        """The Merkle root, computed once."""
        return merkle_root(self.array)

    def encode(self) -> bytes:
        """Return the identifiers one after the other."""
        return self.array.tobytes()

    def position(self, report_id: bytes) -> int | None:
        """Return where an identifier stands, or None."""
        place = bisect_left(self, report_id)
        return place if place < len(self) and self[place] == report_id else None

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...

    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        if isinstance(place, slice):
            return [row.tobytes() for row in self.array[place]]
        report_id: bytes = self.array[place].tobytes()
        return report_id

    def __iter__(self) -> Iterator[bytes]:
        return (row.tobytes() for row in self.array)

    def __contains__(self, report_id: object) -> bool:
        return isinstance(report_id, bytes) and self.position(report_id) is not None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ReportIds):
            return np.array_equal(self.array, other.array)
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"ReportIds({len(self)} identifiers)"

    def among(self, other: "ReportIds") -> Mask:
        """Return which of these identifiers stand in `other` too, shape `(n,)`."""
        return _shared(self.array, other.array)[0]

    def where(self, chosen: Mask) -> "ReportIds":
        """Return the chosen ones; `chosen` has shape `(n,)`."""
        return self if chosen.all() else ReportIds(_taken(self.array, chosen))

    def at(self, places: IntArray) -> "ReportIds":
        """Return those that stand at some ascending places."""
        return ReportIds(_taken(self.array, places))

    def without(self, places: IntArray) -> "ReportIds":
        """Return those that do not stand at some places."""
        kept = np.ones(len(self), bool)
        kept[places] = False
        return self.where(kept)


def intersection(lists: Sequence[ReportIds]) -> ReportIds:
    """Return the identifiers that stand in every list."""
    common, *others = lists
    for other in others:
        common = common.where(common.among(other))
    return common


def num_distinct(lists: Sequence[ReportIds]) -> int:
    """Return how many identifiers stand in at least one of the lists."""
    return len(ComparedLists.of(lists).union)


class ComparedLists:
    """Several lists beside each other. Each is compared once, with what stood in any before it, and not kept.

    Attributes:
        union: what stands in at least one of them.
    """

    def __init__(self, first: ReportIds) -> None:
        """Begin with one list."""
        self.union = first
        self._lacks: list[IntArray] = [np.zeros(0, np.int64)]

    @classmethod
    def of(cls, lists: Sequence[ReportIds]) -> "ComparedLists":
        """Compare lists, at least one; an object that stands there several times is compared once."""
        compared = cls(lists[0])
        for number, one in enumerate(lists[1:], 1):
            again = next((before for before in range(number) if lists[before] is one), None)
            if again is None:
                compared.add(one)
            else:
                compared.repeat(again)
        return compared

    def add(self, one: ReportIds) -> None:
        """Put one more list beside the others."""
        in_one, in_union = _shared(self.union.array, one.array)
        self._lacks.append(np.flatnonzero(~in_one))
        if not in_union.all():
            self._grow(_taken(one.array, ~in_union))

    def repeat(self, number: int) -> None:
        """Put one more list beside the others that is the same as list `number`."""
        self._lacks.append(self._lacks[number])

    def _grow(self, extra: Bytes) -> None:
        """Take up what the last list has beyond all before it."""
        places = _search(self.union.array, extra)
        self.union = ReportIds(_edited(self.union.array, np.zeros(0, np.int64), extra, places))
        new = places + np.arange(len(places))
        *before, last = [own + np.searchsorted(places, own, "right") for own in self._lacks]
        self._lacks = [*(np.sort(np.concatenate([own, new])) for own in before), last]

    def common(self) -> ReportIds:
        """Return the identifiers that stand in every list."""
        return self.union.without(np.concatenate(self._lacks))

    def difference(self, own: int, other: int) -> tuple[IntArray, ReportIds]:
        """Return what `difference` says of two of the lists, by their numbers."""
        mine, theirs = self._lacks[own], self._lacks[other]
        missing = np.setdiff1d(theirs, mine, assume_unique=True)
        extra = np.setdiff1d(mine, theirs, assume_unique=True)
        return missing - np.searchsorted(mine, missing), self.union.at(extra)


def difference(own: ReportIds, other: ReportIds) -> tuple[IntArray, ReportIds]:
    """Return where in `own` stands what `other` lacks, ascending, and what `other` has beyond it."""
    return ComparedLists.of([own, other]).difference(0, 1)


def apply_difference(own: ReportIds, missing: IntArray, extra: ReportIds) -> ReportIds:
    """Rebuild another server's list from one's own and the difference to it; `own` itself if there is none.

    Args:
        own: this server's list.
        missing: ascending positions in it.
        extra: identifiers that are not in it.

    Raises:
        InventoryMismatchError: the difference does not fit one's own list.
    """
    if not len(missing) and not len(extra):
        return own
    places = _search(own.array, extra.array)
    known = places < len(own)
    known[known] = (own.array[places[known]] == extra.array[known]).all(axis=1)
    if (len(missing) and missing[-1] >= len(own)) or known.any():
        raise InventoryMismatchError("the difference does not fit this server's own list")
    return ReportIds(_edited(own.array, missing, extra.array, places))


def encode_positions(positions: IntArray) -> bytes:
    """Encode ascending positions below 2^35 by the gaps between them, seven bits a byte, the lowest first (LEB128)."""
    gaps = np.diff(positions, prepend=-1) - 1
    parts = np.stack([gaps >> 7 * place & 0x7F for place in range(5)], axis=1)
    # Whether a byte is used, and whether another follows it: something is left of the gap.
    left = np.stack([gaps >> 7 * place > 0 for place in range(1, 6)], axis=1)
    used = np.concatenate([np.ones((len(gaps), 1), bool), left[:, :-1]], axis=1)
    spelled: Bytes = (parts | np.where(left, 0x80, 0))[used].astype(np.uint8)
    return spelled.tobytes()


def decode_positions(data: bytes) -> IntArray:
    """Parse what `encode_positions` made.

    Raises:
        InvalidMessageError: a number is cut off, too long, or spelled with more bytes than it needs.
    """
    read = np.frombuffer(data, np.uint8).astype(np.int64)
    if not len(read):
        return read
    ends = np.flatnonzero(read < 0x80)
    starts = np.concatenate([[0], ends[:-1] + 1])
    if len(ends) == 0 or ends[-1] != len(read) - 1 or (ends - starts).max() > 4:
        raise InvalidMessageError("a position is cut off or too long")
    if (read[ends] == 0)[ends > starts].any():
        raise InvalidMessageError("a position is spelled with more bytes than it needs")
    place = np.arange(len(read)) - np.repeat(starts, ends - starts + 1)
    gaps = np.add.reduceat((read & 0x7F) << 7 * place, starts)
    return np.cumsum(gaps + 1) - 1


# --- order --------------------------------------------------------------------------------------------------------


def _rows(data: bytes) -> Bytes:
    return np.frombuffer(data, np.uint8).reshape(-1, HASH_BYTES)


def _taken(rows: Bytes, chosen: Mask | IntArray) -> Bytes:
    """Return `rows[chosen]`, whole identifiers at a time."""
    whole = np.ascontiguousarray(rows).view(f"V{HASH_BYTES}").ravel()
    return whole[chosen].view(np.uint8).reshape(-1, HASH_BYTES)


def _words(rows: Bytes) -> Words:
    """Return each identifier as numbers whose order, first to last, is that of its bytes; shape `(n, 4)`."""
    return np.ascontiguousarray(rows).view(">u8").astype(np.uint64)


def _first_words(rows: Bytes) -> Words:
    """Return the first of these numbers, shape `(n,)`."""
    return np.ascontiguousarray(rows).view(">u8")[:, 0].astype(np.uint64)


def _sort_order(rows: Bytes) -> IntArray:
    """Return the order that sorts identifiers, equal ones beside each other; shape `(n,)`.

    What is sorted are the first bits of each with its place behind them; where these agree, whole ones decide.
    """
    bits = np.uint64(max(len(rows) - 1, 1).bit_length())
    packed = _first_words(rows) >> bits << bits | np.arange(len(rows), dtype=np.uint64)
    packed.sort()
    order = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    packed >>= bits
    tied = np.flatnonzero(packed[1:] == packed[:-1])
    return _settled(order, np.union1d(tied, tied + 1), rows)


def _merge_order(rows: Bytes) -> tuple[IntArray, IntArray]:
    """Return the order that sorts two lists one behind the other, and where in it one equals the next."""
    first = _first_words(rows)
    order = np.argsort(first, kind="stable")
    ordered = first[order]
    tied = np.flatnonzero(ordered[1:] == ordered[:-1])
    same = _same(rows, order, tied)
    # Two that begin alike are, as a rule, the same one in both lists: nothing is left to order there.
    crowded = np.zeros(len(tied), bool)
    crowded[1:] = tied[1:] == tied[:-1] + 1
    crowded[:-1] |= crowded[1:]
    unsettled = tied[crowded | ~same]
    if len(unsettled):
        order = _settled(order, np.union1d(unsettled, unsettled + 1), rows)
        same = _same(rows, order, tied)
    return order, tied[same]


def _same(rows: Bytes, order: IntArray, places: IntArray) -> Mask:
    """Return whether what stands at some places equals what stands behind it."""
    words = np.ascontiguousarray(rows).view(np.uint64)
    left, right = order[places], order[places + 1]
    same: Mask = words[left, 0] == words[right, 0]
    for word in range(1, _WORDS):
        same &= words[left, word] == words[right, word]
    return same


def _settled(order: IntArray, places: IntArray, rows: Bytes) -> IntArray:
    """Order what stands at some places by all bytes; what begins alike stands together there already."""
    unsettled = order[places]
    order[places] = unsettled[np.lexsort(_words(_taken(rows, unsettled)).T[::-1])]
    return order


def _first_order(rows: Bytes) -> IntArray:
    """Return what `_order` does for a list as a whole, with work arrays of two words an identifier."""
    first = rows.view(">u8")[:, 0].astype(np.uint64)
    order = np.argsort(first)
    first = first[order]
    tied = first[1:] == first[:-1]
    places = np.flatnonzero(np.append(tied, False) | np.append(False, tied)) if tied.any() else np.zeros(0, np.int64)
    order[places] = order[places][np.lexsort(_words(rows[order[places]]).T[::-1])]
    return order


def _strictly_ascending(rows: Bytes) -> Bytes:
    """Return the rows as they are.

    Raises:
        InvalidMessageError: one of them is not larger than the one before.
    """
    for start in range(0, len(rows) - 1, _SLICE):
        first = _first_words(rows[start : start + _SLICE + 1])
        ties = np.flatnonzero(first[:-1] >= first[1:])
        for tie in ties:
            pair = rows[start + tie].tobytes(), rows[start + tie + 1].tobytes()
            if pair[0] == pair[1]:
                raise InvalidMessageError("a report identifier is listed twice")
            if pair[0] > pair[1]:
                raise InvalidMessageError("report identifiers are not sorted")
    return rows


def _rank(rows: Bytes, report_id: bytes, place: Callable[..., int]) -> int:
    return place(range(len(rows)), report_id, key=lambda index: rows[index].tobytes())


def _search(rows: Bytes, wanted: Bytes) -> IntArray:
    """Return for each wanted identifier how many of the sorted rows are smaller, shape `(k,)`."""
    low, high = np.zeros(len(wanted), np.int64), np.full(len(wanted), len(rows))
    words, sought = np.ascontiguousarray(rows).view(">u8"), _words(wanted)
    for _ in range(len(rows).bit_length()):
        middle = (low + high) // 2
        found = words[np.minimum(middle, len(rows) - 1)].astype(np.uint64)
        # The first word that differs decides; where none does, nothing is smaller.
        smaller = np.zeros(len(wanted), bool)
        for word in reversed(range(_WORDS)):
            mine, theirs = found[:, word], sought[:, word]
            smaller = (mine < theirs) | ((mine == theirs) & smaller)
        going = low < high
        low = np.where(going & smaller, middle + 1, low)
        high = np.where(going & ~smaller, middle, high)
    return low


def _shared(first: Bytes, second: Bytes) -> tuple[Mask, Mask]:
    """Return which identifiers of two sorted lists stand in the other too."""
    if first is second:
        return np.ones(len(first), bool), np.ones(len(first), bool)
    masks = np.zeros(len(first), bool), np.zeros(len(second), bool)
    at = [0, 0]
    while at[0] < len(first) and at[1] < len(second):
        pieces = [rows[start : start + _SLICE] for rows, start in zip((first, second), at, strict=True)]
        # Neither piece goes beyond the other's end, so one of them is used up whole and the next two begin together.
        last = min(piece[-1].tobytes() for piece in pieces)
        pieces = [piece[: _rank(piece, last, bisect_right)] for piece in pieces]
        both = np.concatenate(pieces)
        order, same = _merge_order(both)
        found = np.zeros(len(both), bool)
        found[order[same]] = found[order[same + 1]] = True
        cut = len(pieces[0])
        masks[0][at[0] : at[0] + cut] = found[:cut]
        masks[1][at[1] : at[1] + len(pieces[1])] = found[cut:]
        at = [start + len(piece) for start, piece in zip(at, pieces, strict=True)]
    return masks


def _edited(rows: Bytes, missing: IntArray, extra: Bytes, places: IntArray) -> Bytes:
    """Return sorted rows without some of them and with others, a slice at a time.

    Args:
        rows: shape `(n, 32)`.
        missing: ascending positions of those that go.
        extra: those that come, sorted.
        places: how many of `rows` are smaller than each of them.
    """
    result = np.empty((len(rows) - len(missing) + len(extra), HASH_BYTES), np.uint8)
    done = 0
    for start in range(0, len(rows) + 1, _SLICE):
        end = start + _SLICE
        gone = missing[slice(*np.searchsorted(missing, [start, end]))]
        come = slice(*np.searchsorted(places, [start, end]))
        kept = np.ones(len(rows[start:end]), bool)
        kept[gone - start] = False
        piece = _taken(rows[start:end], kept).view(f"V{HASH_BYTES}").ravel()
        before = places[come] - start - np.searchsorted(gone, places[come])
        piece = np.insert(piece, before, np.ascontiguousarray(extra[come]).view(f"V{HASH_BYTES}").ravel())
        result[done : done + len(piece)] = piece.view(np.uint8).reshape(-1, HASH_BYTES)
        done += len(piece)
    return result
