"""Rounding a row to integers inside a ball, to nearest or dithered, with the bound checked in integers.

The privacy claim rests on the integer norm alone: whatever floating point does before, no row leaves the ball.
"""

from fractions import Fraction
from functools import lru_cache
from math import hypot, isqrt, sqrt

import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray

MAX_SQUARED_BOUND = 1 << 60
"""Largest squared integer bound: a row one rounding away from it still has a squared norm below 2^63."""

_SHRINK = 1.0 - 2.0**-30

_LARGEST = 2.0**400

_CLEARLY = 1.0 - 2.0**-20
"""Shorter than this part of the bound a norm is, however floating point rounds it."""


@lru_cache(maxsize=256)
def squared_integer_bound(row_bound: Fraction, fraction_bits: int) -> int:
    """Return floor(4^f B^2), the largest squared norm of a row counted in steps of 2^-f."""
    squared: Fraction = row_bound**2 * 4**fraction_bits
    return squared.numerator // squared.denominator


def clip_norms(rows: FloatArray, bound: float) -> FloatArray:
    """Shrink the rows of shape `(n, d)` whose Euclidean norm exceeds `bound` onto the sphere; direction is kept."""
    if is_well_inside(rows, bound):
        return rows.copy()
    # Counted in units of the largest entry, every norm is finite, and so is its square, however huge the row.
    largest = np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1.0)
    norms = np.sqrt(np.square(rows / largest[:, np.newaxis]).sum(axis=1))
    limits = bound / largest
    clipped: FloatArray = rows * (limits / np.maximum(norms, limits))[:, np.newaxis]
    return clipped


def is_well_inside(rows: FloatArray, bound: float) -> bool:
    """Return whether rows of shape `(n, d)` are one row clearly shorter than `bound`; most that are sent alone are.

    For one row arrays cost far more than their work. False says nothing about a row: it may be near the bound, or one
    of several.
    """
    return len(rows) == 1 and hypot(*rows[0].tolist()) < bound * _CLEARLY


def quantise(rows: FloatArray, squared_bound: int) -> IntArray:
    """Round rows, given in integer steps, so that every squared norm is at most `squared_bound`.

    Rounds to nearest; where that leaves the ball, truncates toward zero; and while a row is still outside (which only
    a floating-point norm can cause), shrinks it by 2^-30 and truncates again. Burkhardt et al. 2025 leave the
    discretisation open; see docs/proofs/integers.md#encoding.

    Args:
        rows: finite floats of shape `(n, d)`, counted in steps; norms may exceed the bound.
        squared_bound: at most `MAX_SQUARED_BOUND`.

    Returns:
        Integers of the same shape.

    Raises:
        ValueError: the squared bound is out of range, or an entry is not finite.
    """
    _check(rows, squared_bound)
    if is_well_inside(rows, float(squared_bound) ** 0.5):
        steps = [round(value) for value in rows[0].tolist()]
        if sum(step * step for step in steps) <= squared_bound:
            return np.array([steps], np.int64)
    shrunk = clip_norms(rows, float(squared_bound) ** 0.5)
    return _inside(np.rint(shrunk).astype(np.int64), shrunk, squared_bound)


def dithered_norm(squared_bound: int, entries: int) -> float:
    """Return sqrt(R) - sqrt(e), the norm that vectors of e entries are shrunk to before they are dithered; at least 0.

    Dithering moves every entry by less than a step, hence a vector by less than sqrt(e): no outcome leaves the ball.
    """
    return max(sqrt(squared_bound) - sqrt(entries), 0.0)


def within_reach(rows: FloatArray) -> FloatArray:
    """Return rows, shape `(n, d)`, with entries cut at 2^400, so that neither a norm nor its square overflows."""
    cut: FloatArray = np.clip(rows, -_LARGEST, _LARGEST)
    return cut


def column_norms(rows: FloatArray) -> FloatArray:
    """Return the Euclidean norms of rows of shape `(n, d)`, squares added up in the order of the columns; `(n,)`.

    Every party that adds up in this order, each sum rounded to a double, finds the same bits.
    """
    if not rows.shape[1]:
        return np.zeros(len(rows))
    norms: FloatArray = np.sqrt(np.add.accumulate(np.square(rows), axis=1)[:, -1])
    return norms


def shrink_factors(norms: FloatArray, bound: float) -> FloatArray:
    """Return bound / norm where a norm exceeds the bound, else 1; both of shape `(n,)`."""
    factors: FloatArray = bound / np.maximum(norms, bound) if bound > 0 else np.zeros_like(norms)
    return factors


def dither(rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Round each entry x up with probability x - floor(x), else down; the mean of what comes out is x.

    x becomes i + 1 if u < (x - i) 2^32, else i, with i = floor(x) and u a 32-bit little-endian word of the source. The
    words are read in the order of the entries, also for entries that are whole numbers. (Not floor(x + u / 2^32): above
    2^21 steps a double cannot hold that sum.)

    Args:
        rows: finite floats of shape `(n, d)`, counted in steps, below 2^31.
        random_bytes: the client's own source.
    """
    words = np.frombuffer(random_bytes(4 * rows.size), "<u4").reshape(rows.shape)
    below = np.floor(rows)
    dithered: IntArray = below.astype(np.int64) + (words < (rows - below) * 2.0**32)
    return dithered


def quantise_dithered(rows: FloatArray, squared_bound: int, random_bytes: RandomBytes) -> IntArray:
    """Shrink rows to `dithered_norm`, dither them, and check the ball in integers.

    Rows of shape `(n, d)`, result and refusals are those of `quantise`; `random_bytes` is the client's own source.
    """
    rows = within_reach(rows)
    factors = shrink_factors(column_norms(rows), dithered_norm(squared_bound, rows.shape[1]))
    return quantise_shrunk(rows * factors[:, np.newaxis], squared_bound, random_bytes)


def quantise_shrunk(shrunk: FloatArray, squared_bound: int, random_bytes: RandomBytes) -> IntArray:
    """Dither rows that were shrunk already, shape `(n, d)`, and check the ball in integers."""
    _check(shrunk, squared_bound)
    return _inside(dither(shrunk, random_bytes), shrunk.copy(), squared_bound)


def _inside(rounded: IntArray, shrunk: FloatArray, squared_bound: int) -> IntArray:
    """Return rounded rows, shape `(n, d)`, those outside the ball truncated from what they were, and shrunk on."""
    outside = np.flatnonzero(_squared_norms(rounded) > squared_bound)
    while outside.size:
        rounded[outside] = np.trunc(shrunk[outside]).astype(np.int64)
        shrunk[outside] *= _SHRINK
        outside = outside[_squared_norms(rounded[outside]) > squared_bound]
    return rounded


def _check(rows: FloatArray, squared_bound: int) -> None:
    # What is not finite would become some integer, and the square of the least, -2^63, wraps to 0: inside any ball.
    if not np.isfinite(rows).all():
        raise ValueError("a row counted in steps has an entry that is not finite")
    if not 0 < squared_bound <= MAX_SQUARED_BOUND:
        raise ValueError(f"the squared bound lies in 1..2^60, got {squared_bound}")


def quantise_entries(rows: FloatArray, bound: int) -> IntArray:
    """Round rows, given in integer steps, to nearest, and move every entry into [-bound, bound].

    Args:
        rows: floats of any shape, none of them not a number.
        bound: at least 1 and below 2^31.

    Raises:
        ValueError: the bound is out of range, or an entry is not a number.
    """
    if not 0 < bound < 1 << 31:
        raise ValueError(f"the bound of an entry lies in 1..2^31-1, got {bound}")
    if np.isnan(rows).any():
        raise ValueError("an entry is not a number")
    result: IntArray = np.clip(np.rint(rows), -bound, bound).astype(np.int64)
    return result


def clip_exactly(vectors: IntArray, bound: int) -> IntArray:
    """Shrink integer vectors of shape `(n, p)` so that every squared norm is at most `bound`^2, without rounding slack.

    A longer one is multiplied by bound / ceil(norm), entries truncated toward zero; direction is kept up to that.

    Args:
        vectors: norms below 2^31.
        bound: T, positive and below 2^31.
    """
    squares = np.einsum("ij,ij->i", vectors, vectors)
    outside = np.flatnonzero(squares > bound**2)
    result = vectors.copy()
    if outside.size:
        norms = np.array([isqrt(square - 1) + 1 for square in squares[outside].tolist()], np.int64)[:, np.newaxis]
        result[outside] = np.sign(vectors[outside]) * (np.abs(vectors[outside]) * bound // norms)
    return result


def _squared_norms(rows: IntArray) -> IntArray:
    norms: IntArray = np.einsum("ij,ij->i", rows, rows)
    return norms
