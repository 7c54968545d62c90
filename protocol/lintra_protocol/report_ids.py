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
        return cls(_strictly_ascending(rows[_order(_words(rows))]))

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
        return ReportIds(self.array[chosen])


def intersection(lists: Sequence[ReportIds]) -> ReportIds:
    """Return the identifiers that stand in every list."""
    common, *others = lists
    for other in others:
        common = common.where(common.among(other))
    return common


def num_distinct(lists: Sequence[ReportIds]) -> int:
    """Return how many identifiers stand in at least one of the lists."""
    union = lists[0]
    for other in lists[1:]:
        new = other.where(~other.among(union))
        union = ReportIds(_merged(union.array, new.array))
    return len(union)


def difference(own: ReportIds, other: ReportIds) -> tuple[IntArray, ReportIds]:
    """Return where in `own` stands what `other` lacks, ascending, and what `other` has beyond it."""
    in_other, in_own = _shared(own.array, other.array)
    return np.flatnonzero(~in_other), other.where(~in_own)


def apply_difference(own: ReportIds, missing: IntArray, extra: ReportIds) -> ReportIds:
    """Rebuild another server's list from one's own and the difference to it.

    Args:
        own: this server's list.
        missing: ascending positions in it.
        extra: identifiers that are not in it.

    Raises:
        InventoryMismatchError: the difference does not fit one's own list.
    """
    if (len(missing) and missing[-1] >= len(own)) or extra.among(own).any():
        raise InventoryMismatchError("the difference does not fit this server's own list")
    kept = np.ones(len(own), bool)
    kept[missing] = False
    return ReportIds(_merged(own.array[kept], extra.array))


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


def _words(rows: Bytes) -> Words:
    """Return each identifier as numbers whose order, first to last, is that of its bytes; shape `(n, 4)`."""
    return np.ascontiguousarray(rows).view(">u8").astype(np.uint64)


def _order(words: Words) -> IntArray:
    """Return the order that sorts identifiers, equal ones beside each other; shape `(n,)`."""
    order = np.argsort(words[:, 0], kind="stable")
    tied = words[order[1:], 0] == words[order[:-1], 0]
    # Two that begin alike are, as a rule, the same one in two lists: nothing is left to order there.
    unsettled = tied.copy()
    unsettled[tied] = (words[order[1:][tied]] != words[order[:-1][tied]]).any(axis=1)
    unsettled[1:] |= tied[1:] & tied[:-1]
    unsettled[:-1] |= tied[1:] & tied[:-1]
    among = np.zeros(len(words), bool)
    among[1:] |= unsettled
    among[:-1] |= unsettled
    places = np.flatnonzero(among)
    order[places] = order[places][np.lexsort(words[order[places]].T[::-1])]
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
        words = _words(rows[start : start + _SLICE + 1])
        before, after = words[:-1], words[1:]
        ties = np.flatnonzero(before[:, 0] >= after[:, 0])
        for tie in ties:
            pair = rows[start + tie].tobytes(), rows[start + tie + 1].tobytes()
            if pair[0] == pair[1]:
                raise InvalidMessageError("a report identifier is listed twice")
            if pair[0] > pair[1]:
                raise InvalidMessageError("report identifiers are not sorted")
    return rows


def _rank(rows: Bytes, report_id: bytes, place: Callable[..., int]) -> int:
    return place(range(len(rows)), report_id, key=lambda index: rows[index].tobytes())


def _shared(first: Bytes, second: Bytes) -> tuple[Mask, Mask]:
    """Return which identifiers of two sorted lists stand in the other too."""
    masks = np.zeros(len(first), bool), np.zeros(len(second), bool)
    at = [0, 0]
    while at[0] < len(first) and at[1] < len(second):
        pieces = [rows[start : start + _SLICE] for rows, start in zip((first, second), at, strict=True)]
        # Neither piece goes beyond the other's end, so one of them is used up whole and the next two begin together.
        last = min(piece[-1].tobytes() for piece in pieces)
        pieces = [piece[: _rank(piece, last, bisect_right)] for piece in pieces]
        words = _words(np.concatenate(pieces))
        order = _order(words)
        left, right = order[:-1], order[1:]
        tied = np.flatnonzero(words[left, 0] == words[right, 0])
        same = tied[(words[left[tied]] == words[right[tied]]).all(axis=1)]
        found = np.zeros(len(words), bool)
        found[left[same]] = found[right[same]] = True
        cut = len(pieces[0])
        masks[0][at[0] : at[0] + cut] = found[:cut]
        masks[1][at[1] : at[1] + len(pieces[1])] = found[cut:]
        at = [start + len(piece) for start, piece in zip(at, pieces, strict=True)]
    return masks


def _merged(rows: Bytes, extra: Bytes) -> Bytes:
    """Return two sorted lists without a common identifier as one."""
    first = _words(rows[:, :8]).ravel()
    wanted = _words(extra[:, :8]).ravel()
    places, ends = np.searchsorted(first, wanted, "left"), np.searchsorted(first, wanted, "right")
    for tie in np.flatnonzero(places < ends):
        places[tie] += _rank(rows[places[tie] : ends[tie]], extra[tie].tobytes(), bisect_left)
    return np.insert(rows, places, extra, axis=0)
