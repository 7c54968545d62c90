"""Lists of report identifiers as arrays: sorted, without repetitions, and checked once."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np

from lintra_protocol.cohort.merkle import LEAF_IDS, InclusionProof, Tree, TreeBuilder
from lintra_protocol.cohort.row_order import NONE, Bytes, Mask, rows_in, sort_order, strictly_ascending, taken
from lintra_protocol.cohort.sorted_rows import EditedRows, HeldRows, OrderedRows, SortedIds, compared, inserted, search
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import HASH_BYTES
from lintra_protocol.errors import InvalidMessageError, InventoryMismatchError, MessageTooLargeError

_NOBODY: Bytes = np.zeros((0, HASH_BYTES), np.uint8)

_TOGETHER = 1 << 16
"""Positions that are spelled together: each takes a hundred bytes of memory meanwhile."""


class ReportIds(Sequence[bytes]):
    """A sorted list of report identifiers, none of which stands twice; equal to any sequence of the same ones.

    `rows` are the identifiers, wherever they are.
    """

    def __init__(self, rows: SortedIds | Bytes, root: bytes | None = None) -> None:
        """Carry on a list that is already known to be sorted; see `of`, `parse` and `ListBuilder`.

        `rows` are of shape `(n, 32)`, if it is an array; nobody may write to it any more. `root` is the Merkle root,
        where it is known; it is computed when it is asked for, if not given.
        """
        self.rows = rows if isinstance(rows, SortedIds) else HeldRows(rows)
        self._root = root

    @classmethod
    def of(cls, report_ids: Iterable[bytes]) -> "ReportIds":
        """Sort identifiers; raise InvalidMessageError if one of them is not 32 bytes, or stands twice."""
        listed = list(report_ids)
        if any(len(report_id) != HASH_BYTES for report_id in listed):
            raise InvalidMessageError(f"a report identifier has {HASH_BYTES} bytes")
        return cls.sorted(rows_in(b"".join(listed)))

    @classmethod
    def sorted(cls, rows: Bytes) -> "ReportIds":
        """Sort identifiers of shape `(n, 32)`, in any order."""
        return cls(strictly_ascending(taken(rows, sort_order(rows))))

    @classmethod
    def parse(cls, data: bytes, max_reports: int) -> "ReportIds":
        """Read identifiers that stand one after the other, and check their order.

        Raises InvalidMessageError if it is not a whole number of identifiers, they are not sorted, or one of them
        stands twice; MessageTooLargeError if there are more than `max_reports`.
        """
        if len(data) % HASH_BYTES:
            raise InvalidMessageError(f"identifiers take {HASH_BYTES} bytes each, got {len(data)} bytes")
        if len(data) > HASH_BYTES * max_reports:
            raise MessageTooLargeError(f"at most {max_reports} identifiers")
        return cls(strictly_ascending(rows_in(data)))

    @classmethod
    def sort(cls, rows: Bytes) -> "tuple[ReportIds, IntArray]":
        """Sort identifiers without moving them; return them, and where each of them stands, shape `(n,)`.

        `rows` are contiguous, of shape `(n, 32)`; the list looks at it, so nobody may write to it any more.
        """
        order = sort_order(rows)
        return cls(strictly_ascending(OrderedRows(rows, order))), order

    @property
    def array(self) -> Bytes:
        """The identifiers as one array in memory, shape `(n, 32)`."""
        return self.rows.array if isinstance(self.rows, HeldRows) else self.rows[:]

    @property
    def root(self) -> bytes:
        """The Merkle root, computed once."""
        if self._root is None:
            self._root = self.tree.root
        return self._root

    @cached_property
    def tree(self) -> Tree:
        """The tree over them, for which all are hashed once: 1 byte an identifier."""
        builder = TreeBuilder()
        for piece in self.rows.pieces():
            builder.add(np.ascontiguousarray(piece).reshape(-1).data)
        return builder.tree()

    def encode(self) -> bytes:
        """Return the identifiers one after the other."""
        return self.array.tobytes()

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the same, or what stands from one place to another, a few megabytes at a time."""
        return (piece.tobytes() for piece in self.rows.pieces(start, stop))

    def position(self, report_id: bytes) -> int | None:
        """Return where an identifier stands, or None."""
        place = self.rows.rank(report_id)
        return place if place < len(self) and self.rows.one(place) == report_id else None

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...

    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        if isinstance(place, slice):
            return [row.tobytes() for row in self.array[place]]
        at = range(len(self))[place]
        return self.rows.one(at)

    def __iter__(self) -> Iterator[bytes]:
        return (row.tobytes() for piece in self.rows.pieces() for row in piece)

    def __contains__(self, report_id: object) -> bool:
        return isinstance(report_id, bytes) and self.position(report_id) is not None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ReportIds):
            return len(self) == len(other) and not len(compared(self.rows, other.rows)[0])
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"ReportIds({len(self)} identifiers)"

    def among(self, other: "ReportIds") -> Mask:
        """Return which of these identifiers stand in `other` too, shape `(n,)`."""
        found = np.ones(len(self), bool)
        found[compared(self.rows, other.rows)[0]] = False
        return found

    def where(self, chosen: Mask) -> "ReportIds":
        """Return the chosen ones; `chosen` has shape `(n,)`."""
        return self.without(np.flatnonzero(~chosen))

    def at(self, places: IntArray) -> "ReportIds":
        """Return those that stand at some ascending places, shape `(k,)`."""
        return ReportIds(self.rows.at(places))

    def without(self, places: IntArray) -> "ReportIds":
        """Return those that stand at none of some places, shape `(k,)`: a look at this list, not a copy of it."""
        return ReportIds(EditedRows(self.rows, places, _NOBODY, NONE)) if len(places) else self

    def prove(self, report_id: bytes, tree: Tree) -> tuple[InclusionProof, ...]:
        """Prove that an identifier is in this list, or that it is not (see `manifest.verify_absence`).

        `report_id` is 32 bytes.

        Returns:
            The leaf that holds it, or would hold it; two where it would stand between them; none of an empty list.
        """
        place, last = self.rows.rank(report_id), len(self) - 1
        leaves = {min(max(place, 0), last) // LEAF_IDS} if len(self) else set[int]()
        if 0 < place <= last and self.rows.one(place) != report_id:
            leaves.add((place - 1) // LEAF_IDS)
        starts = ((leaf, leaf * LEAF_IDS) for leaf in sorted(leaves))
        return tuple(tree.prove(leaf, self.rows[start : start + LEAF_IDS].tobytes()) for leaf, start in starts)


class ListBuilder:
    """A list that arrives in order, in chunks of any length: checked, counted and hashed as it comes, and not kept."""

    def __init__(self) -> None:
        """Begin with an empty list."""
        self._tree = TreeBuilder()
        self._rest = b""
        self._last = b""
        self.num_bytes = 0

    def add(self, chunk: bytes | memoryview) -> None:
        """Take the next bytes."""
        self.num_bytes += len(chunk)
        joined = self._rest + chunk if self._rest else chunk
        whole = len(joined) // HASH_BYTES * HASH_BYTES
        self._rest = bytes(joined[whole:])
        if whole:
            coming = memoryview(joined)[:whole]
            if self._last >= coming[:HASH_BYTES].tobytes():
                strictly_ascending(rows_in(self._last + coming[:HASH_BYTES]))  # which says what is wrong
            strictly_ascending(rows_in(coming))
            self._last = bytes(coming[-HASH_BYTES:])
            self._tree.add(coming)

    def tree(self) -> Tree:
        """End the list; return the tree over it.

        Raises InvalidMessageError if it is not a whole number of identifiers.
        """
        if self._rest:
            raise InvalidMessageError(f"identifiers take {HASH_BYTES} bytes each, got {self.num_bytes} bytes")
        return self._tree.tree()


def intersection(lists: Sequence[ReportIds]) -> ReportIds:
    """Return the identifiers that stand in every list."""
    return ComparedLists.of(lists).common()


class ComparedLists:
    """Several lists beside each other. Each is read once, beside what stood in any before it; kept is what differs."""

    def __init__(self, first: ReportIds) -> None:
        """Begin with one list."""
        self._first = first
        # What others have beyond it, and how many of it are smaller than each of these.
        self._extra, self._places = _NOBODY, NONE
        self._lacks: list[IntArray] = [NONE]
        self._partial: tuple[IntArray, Bytes] | None = None

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

    @property
    def union(self) -> ReportIds:
        """What stands in at least one of them."""
        return ReportIds(EditedRows(self._first.rows, NONE, self._extra, self._places))

    def add(self, one: ReportIds) -> None:
        """Put one more list beside the others."""
        self._partial = None
        missing, extra, places = compared(self.union.rows, one.rows)
        self._lacks.append(missing)
        if len(extra):
            self._grow(extra, places)

    def repeat(self, number: int) -> None:
        """Put one more list beside the others that is the same as list `number`."""
        self._lacks.append(self._lacks[number])

    def _grow(self, extra: Bytes, places: IntArray) -> None:
        """Take up what the last list has beyond all before it; so many of these are smaller."""
        new = places + np.arange(len(places))
        *before, last = [own + np.searchsorted(places, own, "right") for own in self._lacks]
        self._lacks = [*(np.sort(np.concatenate([own, new])) for own in before), last]
        among = np.searchsorted(self._extra_at, places)
        self._extra = inserted(self._extra, among, extra)
        self._places = np.insert(self._places, among, places - among)

    @property
    def _extra_at(self) -> IntArray:
        """Where among all stands what is not in the first list."""
        return self._places + np.arange(len(self._places))

    def common(self) -> ReportIds:
        """Return the identifiers that stand in every list."""
        lacking = np.setdiff1d(np.unique(np.concatenate(self._lacks)), self._extra_at, assume_unique=True)
        return self._first.without(lacking - np.searchsorted(self._extra_at, lacking))

    def difference(self, own: int, other: int) -> tuple[IntArray, ReportIds]:
        """Return what `difference` says, in its shapes, of two of the lists, by their numbers."""
        mine, theirs = self._lacks[own], self._lacks[other]
        missing = np.setdiff1d(theirs, mine, assume_unique=True)
        extra = np.setdiff1d(mine, theirs, assume_unique=True)
        places, rows = self._not_common()
        return missing - np.searchsorted(mine, missing), ReportIds(taken(rows, np.searchsorted(places, extra)))

    def _not_common(self) -> tuple[IntArray, Bytes]:
        """Return what some list lacks, and where among all it stands; read once for all differences."""
        if self._partial is None:
            places = np.unique(np.concatenate(self._lacks))
            self._partial = places, self.union.rows.at(places)
        return self._partial


def difference(own: ReportIds, other: ReportIds) -> tuple[IntArray, ReportIds]:
    """Return where in `own` stands what `other` lacks, ascending, shape `(k,)`, and what `other` has beyond it."""
    missing, extra, _ = compared(own.rows, other.rows)
    return missing, ReportIds(extra)


def apply_difference(own: ReportIds, missing: IntArray, extra: ReportIds) -> ReportIds:
    """Rebuild another server's list from one's own and the difference to it, as a look at one's own.

    `own` is this server's list; `missing` holds ascending positions in it, shape `(k,)`. `extra` holds identifiers that
    are not in it. Raises InventoryMismatchError if the difference does not fit one's own list.
    """
    if not len(missing) and not len(extra):
        return own
    places, known = search(own.rows, extra.array)
    if (len(missing) and missing[-1] >= len(own)) or known.any():
        raise InventoryMismatchError("the difference does not fit this server's own list")
    return ReportIds(EditedRows(own.rows, missing, extra.array, places))


def encode_positions(positions: IntArray) -> bytes:
    """Encode ascending positions below 2^35, shape `(k,)`, by the gaps between them.

    A gap takes seven bits a byte, the lowest first (LEB128).
    """
    gaps = np.diff(positions, prepend=-1) - 1
    return b"".join(_leb128(gaps[start : start + _TOGETHER]) for start in range(0, len(gaps), _TOGETHER))


def _leb128(gaps: IntArray) -> bytes:
    parts = np.stack([gaps >> 7 * place & 0x7F for place in range(5)], axis=1)
    # Whether a byte is used, and whether another follows it: something is left of the gap.
    left = np.stack([gaps >> 7 * place > 0 for place in range(1, 6)], axis=1)
    used = np.concatenate([np.ones((len(gaps), 1), bool), left[:, :-1]], axis=1)
    spelled: Bytes = (parts | np.where(left, 0x80, 0))[used].astype(np.uint8)
    return spelled.tobytes()


def decode_positions(data: bytes) -> IntArray:
    """Parse what `encode_positions` made, to an array of shape `(k,)`.

    Raises InvalidMessageError if a number is cut off, too long, or spelled with more bytes than it needs.
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
