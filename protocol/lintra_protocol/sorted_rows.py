"""Sorted arrays of report identifiers, shape `(n, 32)`: their order, and two of them beside each other.

Clients can grind identifiers so that many begin alike. So the first eight bytes may order, but never decide: whatever
is equal there is compared in full. Work arrays hold a slice of the lists, cut by count, however the values lie.
"""

from bisect import bisect_right
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lintra_protocol.canonical import HASH_BYTES
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.ring import IntArray

_SLICE = 1 << 18
_WORDS = HASH_BYTES // 8

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]


def rows_in(data: bytes) -> Bytes:
    """Return identifiers that stand one after the other as an array."""
    return np.frombuffer(data, np.uint8).reshape(-1, HASH_BYTES)


def taken(rows: Bytes, chosen: Mask | IntArray) -> Bytes:
    """Return `rows[chosen]`, whole identifiers at a time."""
    whole = np.ascontiguousarray(rows).view(f"V{HASH_BYTES}").ravel()
    return whole[chosen].view(np.uint8).reshape(-1, HASH_BYTES)


def words_of(rows: Bytes) -> Words:
    """Return each identifier as numbers whose order, first to last, is that of its bytes; shape `(n, 4)`."""
    return np.ascontiguousarray(rows).view(">u8").astype(np.uint64)


def first_words(rows: Bytes) -> Words:
    """Return the first of these numbers, shape `(n,)`."""
    return np.ascontiguousarray(rows).view(">u8")[:, 0].astype(np.uint64)


def sort_order(rows: Bytes) -> IntArray:
    """Return the order that sorts identifiers, equal ones beside each other; shape `(n,)`.

    What is sorted are the first bits of each with its place behind them; where these agree, whole ones decide.
    """
    bits = np.uint64(max(len(rows) - 1, 1).bit_length())
    packed = first_words(rows) >> bits << bits | np.arange(len(rows), dtype=np.uint64)
    packed.sort()
    order = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    packed >>= bits
    tied = np.flatnonzero(packed[1:] == packed[:-1])
    return _settled(order, np.union1d(tied, tied + 1), rows)


def _merge_order(rows: Bytes) -> tuple[IntArray, IntArray]:
    """Return the order that sorts two lists one behind the other, and where in it one equals the next."""
    first = first_words(rows)
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
    order[places] = unsettled[np.lexsort(words_of(taken(rows, unsettled)).T[::-1])]
    return order


def strictly_ascending(rows: Bytes) -> Bytes:
    """Return the rows as they are.

    Raises:
        InvalidMessageError: one of them is not larger than the one before.
    """
    for start in range(0, len(rows) - 1, _SLICE):
        first = first_words(rows[start : start + _SLICE + 1])
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


def search(rows: Bytes, wanted: Bytes) -> IntArray:
    """Return for each wanted identifier how many of the sorted rows are smaller, shape `(k,)`."""
    low, high = np.zeros(len(wanted), np.int64), np.full(len(wanted), len(rows))
    words, sought = np.ascontiguousarray(rows).view(">u8"), words_of(wanted)
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


def shared(first: Bytes, second: Bytes) -> tuple[Mask, Mask]:
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


def edited(rows: Bytes, missing: IntArray, extra: Bytes, places: IntArray) -> Bytes:
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
        piece = taken(rows[start:end], kept).view(f"V{HASH_BYTES}").ravel()
        before = places[come] - start - np.searchsorted(gone, places[come])
        piece = np.insert(piece, before, np.ascontiguousarray(extra[come]).view(f"V{HASH_BYTES}").ravel())
        result[done : done + len(piece)] = piece.view(np.uint8).reshape(-1, HASH_BYTES)
        done += len(piece)
    return result
