"""Sorts report identifiers in one array, also if clients chose them to slow the sort down.

Clients can grind identifiers so that many begin alike. So identifiers are sorted by their first eight bytes, and those
that are equal there are compared in full. Work arrays hold a slice.
"""

from collections.abc import Iterator
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import HASH_BYTES
from lintra_protocol.errors import InvalidMessageError

_LONG_RUN = 1 << 12
"""Identifiers that begin alike: chance makes no such run."""

_SLICE = 1 << 16
"""Identifiers that are looked at together: two megabytes, which stay in a cache."""

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

NONE: IntArray = np.zeros(0, np.int64)


def rows_in(data: bytes | memoryview) -> Bytes:
    """Return identifiers that stand one after the other as an array."""
    return np.frombuffer(data, np.uint8).reshape(-1, HASH_BYTES)


def taken(rows: Bytes, chosen: Mask | IntArray) -> Bytes:
    """Return `rows[chosen]`, shape `(k, 32)`, whole identifiers at a time."""
    places = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
    return np.ascontiguousarray(rows).view(np.uint64).take(places, axis=0).view(np.uint8)


def words_of(rows: Bytes) -> Words:
    """Return each identifier as numbers whose order, first to last, is that of its bytes; shape `(n, 4)`."""
    return np.ascontiguousarray(rows).view(">u8").astype(np.uint64)


def first_words(rows: Bytes) -> Words:
    """Return the first of these numbers, shape `(n,)`."""
    return np.ascontiguousarray(rows).view(">u8")[:, 0].astype(np.uint64)


def sort_order(rows: Bytes) -> IntArray:
    """Return the stable order that sorts identifiers, shape `(n,)`.

    What is sorted are the first bits of each with its place behind them. Where these agree, whole ones decide; or, if
    so many agree that somebody made them so, their next bits in the same way.
    """
    return _order_from(rows, 0)


def _order_from(rows: Bytes, begin: int) -> IntArray:
    """Return the same for identifiers of which the first `begin` bits agree."""
    if begin >= 8 * HASH_BYTES:
        return np.arange(len(rows))
    bits = np.uint64(max(len(rows) - 1, 1).bit_length())
    # One array of numbers and slices beside it: of ten million identifiers it has 80 megabytes.
    packed = _bits_from(rows, begin)
    for start in range(0, len(packed), _SLICE):
        piece = packed[start : start + _SLICE]
        piece >>= bits
        piece <<= bits
        piece |= np.arange(start, start + len(piece), dtype=np.uint64)
    packed.sort()
    tied = _tied(packed, bits)
    keys = packed[tied] >> bits
    packed &= (np.uint64(1) << bits) - np.uint64(1)
    order = packed.view(np.int64)
    for run, few in _runs(keys, tied):
        unsettled = order[run]
        if few:
            order[run] = unsettled[np.lexsort(words_of(taken(rows, unsettled)).T[::-1])]
        else:
            order[run] = unsettled[_order_from(taken(rows, unsettled), begin + 64 - int(bits))]
    return order


def _bits_from(rows: Bytes, begin: int) -> Words:
    """Return 64 bits of each identifier, from bit `begin` on, with zeros behind the last; shape `(n,)`."""
    words, shift = np.ascontiguousarray(rows).view(">u8"), np.uint64(begin % 64)
    found: Words = words[:, begin // 64].astype(np.uint64)
    found <<= shift
    if shift and begin // 64 + 1 < words.shape[1]:
        found |= words[:, begin // 64 + 1].astype(np.uint64) >> (np.uint64(64) - shift)
    return found


def _tied(packed: Words, bits: np.uint64) -> IntArray:
    """Return the places of sorted numbers, ascending, that agree with a neighbour but for their last bits."""
    found, last = [NONE], -1
    for start in range(0, len(packed) - 1, _SLICE):
        piece = packed[start : start + _SLICE + 1]
        alike = piece[1:] ^ piece[:-1] < np.uint64(1) << bits
        tied = np.zeros(len(piece), bool)
        tied[1:] = alike
        tied[:-1] |= alike
        places = np.flatnonzero(tied) + start
        # The end of a slice is the beginning of the next.
        found.append(places[1:] if len(places) and places[0] == last else places)
        last = int(places[-1]) if len(places) else last
    return np.concatenate(found)


def _runs(keys: Words, places: IntArray) -> Iterator[tuple[IntArray, bool]]:
    """Yield those of some places, ascending, that stand in short runs of equal keys, and each long run.

    `keys` are one for each place; those of neighbouring runs differ. `places` has shape `(k,)`.
    """
    if not len(places):
        return
    begins = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    lengths = np.diff(begins, append=len(places))
    long = lengths > _LONG_RUN
    yield places[np.repeat(~long, lengths)], True
    for begin, length in zip(begins[long].tolist(), lengths[long].tolist(), strict=True):
        yield places[begin : begin + length], False


class Sliced(Protocol):
    """Identifiers that can be read from one place to another."""

    def __len__(self) -> int:
        """Return how many there are."""

    def __getitem__(self, asked: slice, /) -> Bytes:
        """Return those from one place to another, shape `(k, 32)`."""


S = TypeVar("S", bound=Sliced)


def strictly_ascending(rows: S) -> S:
    """Return the rows as they are; raise InvalidMessageError if one of them is not larger than the one before."""
    for start in range(0, len(rows) - 1, _SLICE):
        piece = rows[start : start + _SLICE + 1]
        first = first_words(piece)
        ties = np.flatnonzero(first[:-1] >= first[1:])
        if not len(ties):
            continue
        one, next_one = (words_of(taken(piece, ties + step)) for step in (0, 1))
        # Where they differ first; the first word, if they do not.
        place = (one != next_one).argmax(axis=1)
        lanes = np.arange(len(ties))
        wrong = np.flatnonzero(one[lanes, place] >= next_one[lanes, place])
        if len(wrong) and (one[wrong[0]] == next_one[wrong[0]]).all():
            raise InvalidMessageError("a report identifier is listed twice")
        if len(wrong):
            raise InvalidMessageError("report identifiers are not sorted")
    return rows
