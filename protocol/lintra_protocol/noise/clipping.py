"""Rounding a row to integers inside a ball, with the bound checked in integers.

The privacy claim rests on the integer norm alone: whatever floating point does before, no row leaves the ball.
"""

from fractions import Fraction
from functools import lru_cache
from math import hypot, isqrt

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray

MAX_SQUARED_BOUND = 1 << 60
"""Largest squared integer bound: a row one rounding away from it still has a squared norm below 2^63."""

_SHRINK = 1.0 - 2.0**-30

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
    discretisation open; see docs/explanation/privacy.md#encoding.

    Args:
        rows: finite floats of shape `(n, d)`, counted in steps; norms may exceed the bound.
        squared_bound: at most `MAX_SQUARED_BOUND`.

    Returns:
        Integers of the same shape.

    Raises:
        ValueError: the squared bound is out of range.
    """
    if not 0 < squared_bound <= MAX_SQUARED_BOUND:
        raise ValueError(f"the squared bound lies in 1..2^60, got {squared_bound}")
    if is_well_inside(rows, float(squared_bound) ** 0.5):
        steps = [round(value) for value in rows[0].tolist()]
        if sum(step * step for step in steps) <= squared_bound:
            return np.array([steps], np.int64)
    shrunk = clip_norms(rows, float(squared_bound) ** 0.5)
    result: IntArray = np.rint(shrunk).astype(np.int64)
    outside = np.flatnonzero(_squared_norms(result) > squared_bound)
    while outside.size:
        result[outside] = np.trunc(shrunk[outside]).astype(np.int64)
        shrunk[outside] *= _SHRINK
        outside = outside[_squared_norms(result[outside]) > squared_bound]
    return result


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
