"""Lists of report identifiers as arrays: sorted, free of repetitions, checked once and then carried on as checked."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np

from lintra_protocol.canonical import HASH_BYTES
from lintra_protocol.errors import InvalidMessageError, InventoryMismatchError, MessageTooLargeError
from lintra_protocol.manifest import merkle_root
from lintra_protocol.ring import IntArray
from lintra_protocol.sorted_rows import (
    Bytes,
    Mask,
    edited,
    rows_in,
    search,
    shared,
    sort_order,
    strictly_ascending,
    taken,
)


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
        return cls.sorted(rows_in(b"".join(listed)))

    @classmethod
    def sorted(cls, rows: Bytes) -> "ReportIds":
        """Sort identifiers of shape `(n, 32)`, in any order.

        Raises:
            InvalidMessageError: one of them stands twice.
        """
        return cls(strictly_ascending(taken(rows, sort_order(rows))))

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
        return cls(strictly_ascending(rows_in(data)))

    @classmethod
    def sort(cls, rows: Bytes) -> "tuple[ReportIds, IntArray]":
        """Sort identifiers where they stand; return them, and the place where each stood before, shape `(n,)`.

        Args:
            rows: contiguous, of shape `(n, 32)`; it becomes the array of the list.

        Raises:
            InvalidMessageError: one of them stands twice.
        """
        columns = rows.view(np.uint64)
        order = sort_order(rows)
        for column in columns.T:  # one part of the identifiers after the other: no copy of all is made
            column[:] = column[order]
        return cls(strictly_ascending(rows)), order

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
        return shared(self.array, other.array)[0]

    def where(self, chosen: Mask) -> "ReportIds":
        """Return the chosen ones; `chosen` has shape `(n,)`."""
        return self if chosen.all() else ReportIds(taken(self.array, chosen))

    def at(self, places: IntArray) -> "ReportIds":
        """Return those that stand at some ascending places."""
        return ReportIds(taken(self.array, places))

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
        in_one, in_union = shared(self.union.array, one.array)
        self._lacks.append(np.flatnonzero(~in_one))
        if not in_union.all():
            self._grow(taken(one.array, ~in_union))

    def repeat(self, number: int) -> None:
        """Put one more list beside the others that is the same as list `number`."""
        self._lacks.append(self._lacks[number])

    def _grow(self, extra: Bytes) -> None:
        """Take up what the last list has beyond all before it."""
        places = search(self.union.array, extra)
        self.union = ReportIds(edited(self.union.array, np.zeros(0, np.int64), extra, places))
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
    places = search(own.array, extra.array)
    known = places < len(own)
    known[known] = (own.array[places[known]] == extra.array[known]).all(axis=1)
    if (len(missing) and missing[-1] >= len(own)) or known.any():
        raise InventoryMismatchError("the difference does not fit this server's own list")
    return ReportIds(edited(own.array, missing, extra.array, places))


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
