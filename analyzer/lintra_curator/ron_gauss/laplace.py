"""Exact samples of the discrete Laplace law, in plain integers (Canonne, Kamath, Steinke 2020, Algorithms 1 and 2).

No floating-point number is involved, so what pure differential privacy says about the law it says about the bytes.
"""

import math
from fractions import Fraction

import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray

MAX_SCALE = 1 << 55
"""Largest scale: 2^-63 of the variables then lie beyond 44 scales, where sums of 64 bits still hold them."""

_CHUNK = 1 << 12


def discrete_laplace(count: int, scale: Fraction, random_bytes: RandomBytes) -> IntArray:
    """Draw independent integers, shape `(count,)`, with P(x) proportional to exp(-|x| / scale).

    `scale` is positive, at most `MAX_SCALE`; the deviation is about sqrt(2) times it. `random_bytes` are a
    cryptographic source; bytes that were read ahead and not needed are thrown away. Raises ValueError if the count is
    negative or the scale out of range.
    """
    if count < 0:
        raise ValueError(f"a count is not negative, got {count}")
    if not 0 < scale <= MAX_SCALE:
        raise ValueError(f"the scale must be positive and at most {MAX_SCALE}, got {scale}")
    words = _Bytes(random_bytes)
    return np.array([_draw(scale.numerator, scale.denominator, words) for _ in range(count)], np.int64)


def laplace_sd(scale: Fraction) -> float:
    """Return the standard deviation of a discrete Laplace variable, 1 / (sqrt(2) sinh(1 / (2 scale))); 0 for none."""
    if not scale:
        return 0.0
    half = 1 / (2 * float(scale))
    return 0.0 if half > 700 else 1 / (math.sqrt(2) * math.sinh(half))


class _Bytes:
    """Uniform integers from a source that is read in chunks."""

    def __init__(self, random_bytes: RandomBytes) -> None:
        self._random_bytes = random_bytes
        self._buffer = b""
        self._next = 0

    def below(self, limit: int) -> int:
        """Return a uniform integer from 0 to limit - 1."""
        bits = (limit - 1).bit_length()
        length = (bits + 7) // 8
        while True:
            value = int.from_bytes(self._take(length), "little") & ((1 << bits) - 1)
            if value < limit:
                return value

    def _take(self, length: int) -> bytes:
        if self._next + length > len(self._buffer):
            rest = self._buffer[self._next :]
            self._buffer, self._next = rest + self._random_bytes(max(_CHUNK, length)), 0
        self._next += length
        return self._buffer[self._next - length : self._next]


def _draw(numerator: int, denominator: int, words: _Bytes) -> int:
    """Return one discrete Laplace integer of scale numerator / denominator."""
    while True:
        start = words.below(numerator)
        if not _exponential_coin(start, numerator, words):
            continue
        steps = 0
        while _exponential_coin(1, 1, words):
            steps += 1
        size = (start + numerator * steps) // denominator
        negative = words.below(2)
        if size or not negative:
            return -size if negative else size


def _exponential_coin(numerator: int, denominator: int, words: _Bytes) -> bool:
    """Return True with probability exp(-numerator / denominator), for a quotient from 0 to 1."""
    trial = 1
    while words.below(denominator * trial) < numerator:
        trial += 1
    return trial % 2 == 1
