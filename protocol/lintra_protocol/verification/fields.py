"""Arithmetic in the four fields of the proofs, whose primes lie just below 2^60, and exact sums by floating point.

Elements stand in arrays of `uint64` whose first axis runs over the primes. With p = 2^60 - c every carry beyond 60 bits
comes back as c times itself. Long sums of products are matrix products of limbs in `float64`: every partial sum is an
integer below 2^53, so the result is exact in whatever order a library adds.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, RingArray, ring_from_bytes

_BITS = 60
_GAPS = (107, 179, 279, 395)
PRIMES = tuple((1 << _BITS) - gap for gap in _GAPS)

ROOTS = (383824447308448458, 131347044478969944, 166254837967917052, 564895608718700323)
"""In each field a square root of -1. It keeps blinds out of a polynomial's constant term."""

ELEMENT_BYTES = 8
ELEMENT_MASK = np.uint64((1 << _BITS) - 1)
"""The bits of a random word that are kept for an element."""

VALUE_BITS, WEIGHT_BITS, WEIGHT_LIMBS = 16, 20, 3
"""Of the limbs of shared numbers, and of those of public weights: products stay below 2^36."""

_MOST_TERMS = 1 << 53 - VALUE_BITS - WEIGHT_BITS
_HALF = np.uint64(_BITS // 2)
_LOW_HALF = np.uint64((1 << _BITS // 2) - 1)

_PRODUCTS = 8
"""Of numbers of 30 bits, doubled, so many add up below 2^64."""

FieldArray = NDArray[np.uint64]

Halves = tuple[FieldArray, FieldArray]
"""Numbers in their upper bits from the 30th on, and their lower 30 bits."""


def over_primes(numbers: Sequence[int], dimensions: int) -> FieldArray:
    """Return one number for each prime, shape `(4, 1, ...)`, to stand beside arrays of so many dimensions."""
    return np.array(numbers, np.uint64).reshape(-1, *(1,) * (dimensions - 1))


def reduced(numbers: RingArray) -> FieldArray:
    """Return 64-bit numbers of shape `(4, ...)` as elements of the four fields, each below its prime."""
    near: FieldArray = numbers >> np.uint64(_BITS)
    near *= over_primes(_GAPS, numbers.ndim)
    near += numbers & ELEMENT_MASK
    # Below twice the prime; what is below the prime wraps around, and is then the smaller number as it was.
    below: FieldArray = near - over_primes(PRIMES, numbers.ndim)
    np.minimum(near, below, out=below)
    return below


def minus(first: FieldArray, second: FieldArray) -> FieldArray:
    """Return differences of elements of shapes `(4, ...)` that fit each other."""
    difference = first - second
    raised: FieldArray = difference + over_primes(PRIMES, difference.ndim)
    np.minimum(difference, raised, out=raised)
    return raised


def times(first: FieldArray, second: FieldArray) -> FieldArray:
    """Return products of elements of shapes `(4, ...)` that fit each other."""
    high_1, low_1 = first >> _HALF, first & _LOW_HALF
    high_2, low_2 = second >> _HALF, second & _LOW_HALF
    return _from_halves(high_1 * high_2, high_1 * low_2 + low_1 * high_2, low_1 * low_2)


def halve(numbers: FieldArray, upper: FieldArray) -> None:
    """Leave the lower 30 bits of numbers of any shape where they are; write the others to `upper`, of that shape."""
    np.right_shift(numbers, _HALF, out=upper)
    numbers &= _LOW_HALF


def inner(first: Halves, second: Halves) -> FieldArray:
    """Return the sums of products over the middle axis of shape `(4, m, k)`, shape `(4, k)`; m is at most 128.

    The numbers may be as large as `fold` leaves them.
    """
    (high_1, low_1), (high_2, low_2) = first, second
    fields, terms, count = high_1.shape
    parts = -(-terms // _PRODUCTS)
    pairs = ((high_1, high_2), (high_1, low_2), (low_1, high_2), (low_1, low_2))
    sums = np.empty((len(pairs), fields, parts, count), np.uint64)
    for part in range(parts):
        some = slice(part * _PRODUCTS, (part + 1) * _PRODUCTS)
        for own, (one, other) in zip(sums, pairs, strict=True):
            np.einsum("tmk,tmk->tk", one[:, some], other[:, some], out=own[:, part])
    # At most 16 parts, since a report has at most 128 columns: they add up below 2^64.
    return reduced(_from_halves(sums[0], sums[1] + sums[2], sums[3]).sum(axis=1))


def _from_halves(high: FieldArray, middle: FieldArray, low: FieldArray) -> FieldArray:
    """Return `2^60 high + 2^30 middle + low` as elements; `high` and `low` are at most 2^63, the middle any number."""
    carries = high + (middle >> _HALF)
    gaps = over_primes(_GAPS, carries.ndim)
    # The carries times the gap may have 73 bits: their upper half goes round once more.
    upper = (carries >> _HALF) * gaps
    around = (upper >> _HALF) * gaps + ((upper & _LOW_HALF) << _HALF) + (carries & _LOW_HALF) * gaps
    return reduced(around + ((middle & _LOW_HALF) << _HALF) + low)


def fold(numbers: FieldArray, room: FieldArray) -> None:
    """Bring any 64-bit numbers below 2^60 + 2^13, where they are: not yet reduced, and all that `inner` asks for.

    `numbers` are of shape `(4, ...)`; `room` has the same shape and is written over.
    """
    np.right_shift(numbers, np.uint64(_BITS), out=room)
    room *= over_primes(_GAPS, numbers.ndim)
    numbers &= ELEMENT_MASK
    numbers += room


def summed(elements: FieldArray) -> FieldArray:
    """Return the sums of elements, shape `(4, ..., k)`, over the last axis; k is at most 2^20."""
    low, high = (elements & _LOW_HALF).sum(axis=-1), (elements >> _HALF).sum(axis=-1)
    carries = (high >> _HALF) * over_primes(_GAPS, high.ndim)
    return reduced(reduced(low + carries) + ((high & _LOW_HALF) << _HALF))


def draw(rows: int, columns: int, random_bytes: RandomBytes) -> FieldArray:
    """Draw uniform elements of shape `(4, rows, columns)`, one field after the other.

    Words are kept to 60 bits, and those that are no element are skipped.
    """
    drawn = np.stack([_drawn(prime, rows * columns, random_bytes) for prime in PRIMES])
    return drawn.reshape(len(PRIMES), rows, columns)


def _drawn(prime: int, count: int, random_bytes: RandomBytes) -> RingArray:
    found = np.empty(0, np.uint64)
    while found.size < count:
        words = ring_from_bytes(random_bytes(ELEMENT_BYTES * (count - found.size))) & ELEMENT_MASK
        found = np.concatenate([found, words[words < prime]])
    return found


def weight_limbs(elements: FieldArray) -> FloatArray:
    """Return elements in limbs of 20 bits, shape `(..., 3)`, the lowest first."""
    shifts = np.arange(0, _BITS, WEIGHT_BITS, dtype=np.uint64)
    limbs = (elements[..., np.newaxis] >> shifts) & np.uint64((1 << WEIGHT_BITS) - 1)
    return limbs.astype(np.float64)


def joined(products: FloatArray) -> FieldArray:
    """Put sums of products of limbs together.

    `products` has shape `(4, a, 3, m, ..)`: for each prime, of weights' limb j (third axis) and values' limb k
    (fourth), integers from 0 to below 2^53; m is at most 5.

    Returns:
        The sum over j and k of 2^(20 j + 16 k) times each, shape `(4, a, ..)`.
    """
    at_place: dict[int, list[tuple[int, FloatArray]]] = {}
    for weight_limb in range(products.shape[2]):
        for value_limb in range(products.shape[3]):
            place, shift = divmod(WEIGHT_BITS * weight_limb + VALUE_BITS * value_limb, VALUE_BITS)
            at_place.setdefault(place, []).append((shift, products[:, :, weight_limb, value_limb]))
    highest = max(at_place)
    found = _whole(at_place[highest])
    gaps = over_primes(_GAPS, found.ndim)
    kept, rest = np.uint64(VALUE_BITS), np.uint64(_BITS - VALUE_BITS)
    for place in range(highest - 1, -1, -1):
        # Once more 16 bits up: what leaves 60 bits comes back. Below 2^60 + 2^27 + 2^61.1, so that nothing wraps.
        around = found >> rest
        around *= gaps
        found &= np.uint64((1 << _BITS - VALUE_BITS) - 1)
        found <<= kept
        found += around
        found += _whole(at_place[place])
    return reduced(found)


def _whole(products: list[tuple[int, FloatArray]]) -> FieldArray:
    """Return the sum of floats, each shifted by 0, 4 or 8 bits, as integers: below 2^53 (1 + 2^4 + 2^8) < 2^61.1."""
    found: FieldArray | None = None
    for shift, product in products:
        part = product.astype(np.uint64)
        part <<= np.uint64(shift)
        found = part if found is None else np.add(found, part, out=found)
    if found is None:
        raise ValueError("there is nothing to put together")
    return found


@lru_cache(maxsize=1)
def require_exact_sums() -> None:
    """Check once that this machine's matrix products of limbs are the integers that they have to be.

    Raises RuntimeError if they are not, so that nothing could be proven or checked here.
    """
    largest = np.full((WEIGHT_LIMBS, _MOST_TERMS), float((1 << WEIGHT_BITS) - 1))
    values = np.full((_MOST_TERMS, 5), float((1 << VALUE_BITS) - 1))
    values[::3] -= 1
    expected = sum(((1 << WEIGHT_BITS) - 1) * int(value) for value in values[:, 0])
    if (largest @ values != expected).any():
        raise RuntimeError("floating-point matrix products are not exact here: verified reports need IEEE arithmetic")
