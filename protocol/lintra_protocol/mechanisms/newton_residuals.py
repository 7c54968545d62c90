"""Integer residuals of a Newton step, the weights that follow from them, and how far these may reach."""

from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.noise.clipping import dither


@lru_cache(maxsize=64)
def largest_weights(bits: int) -> IntArray:
    """Return c(t), the next integer at or above t (2^h - t) / 2^h, for t from 0 to 2^h; shape `(2^h + 1,)`."""
    levels = np.arange(2**bits + 1)
    weights: IntArray = -(-(levels * (2**bits - levels)) >> bits)
    weights.flags.writeable = False
    return weights


@lru_cache(maxsize=64)
def largest_ratio(bits: int, neighbours: Literal["replace-one", "zero-out"]) -> Fraction:
    """Return the largest beta for which the Hessian adds nothing to the squared distance (Theorem G1).

    Over t in 1..2^h - 1 it is the least (2^h - t)(3 2^h + t) / c(t)^2 where a row is replaced, and the least
    (4^h - t^2) / c(t)^2 against the null row.
    """
    one, weights = 2**bits, largest_weights(bits).tolist()
    first, second = (3, 1) if neighbours == "replace-one" else (1, 1)
    return min(Fraction((one - t) * (first * one + second * t), weights[t] ** 2) for t in range(1, one))


def integer_residuals(
    residual: FloatArray, factors: FloatArray, bits: int, dithers: NDArray[np.uint32]
) -> tuple[IntArray, IntArray, IntArray]:
    """Return t, rho and om of residuals between -1 and 1, each of shape `(n,)`.

    The means over the words are 2^h |r|, 2^h r u and t (2^h - t) / 2^h; always |rho| <= t <= 2^h.

    Args:
        residual: r, shape `(n,)`.
        factors: u, by how much each row is shrunk, between 0 and 1, shape `(n,)`.
        bits: h.
        dithers: random 32-bit words, shape `(n, 3)`.
    """
    one = 2**bits
    levels = np.minimum(_up_or_down(np.abs(residual) * one, dithers[:, 0]), one)
    multiples = np.minimum(_up_or_down(levels * factors, dithers[:, 1]), levels)
    weights = _up_or_down(levels * (one - levels) / one, dithers[:, 2])
    signed: IntArray = np.where(residual < 0, -multiples, multiples)
    return levels, signed, weights


def _up_or_down(values: FloatArray, words: NDArray[np.uint32]) -> IntArray:
    """Round values, shape `(n,)`, up with the probability of their fraction, else down, by a word for each."""
    return dither(values, lambda size: np.ascontiguousarray(words, "<u4").tobytes())
