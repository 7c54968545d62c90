"""A client's share of discrete Laplace noise: a difference of two negative binomials, sampled exactly.

The sum of h negative binomials of shape 1/h is a geometric variable, and the difference of two of these is a discrete
Laplace one, P(x) proportional to (b / (b + 1))^|x| (Ghazi, Kumar, Manurangsi, Pagh 2020, Section 3). So the shares of h
clients add up to noise that gives pure epsilon, and those of more clients to that and independent noise.

A share is found where a uniform real lies among the values of the distribution function. No floating-point number
decides anything: the function's binary digits are enclosed from both sides in whole numbers, and a uniform word that
they do not settle gets more digits. Order of words: one for the positive part of each value, one for the negative part
of each, then, value by value, those that were not settled.
"""

import math
import operator
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray, RingArray, ring_from_bytes

MAX_SCALE = 1 << 16
"""Largest scale: the table of the distribution function has some forty times as many entries at most."""

MAX_SHARES = 1 << 32
"""Most clients whose noise makes a whole."""

_WORD = 64
_LAST_WORD = (1 << _WORD) - 1
_GUARD = 128
"""Bits behind those of a word. A value of the function after k steps errs by less than k^2 of the last of them."""


def laplace_shares(shape: tuple[int, ...], scale: int, shares: int, random_bytes: RandomBytes) -> IntArray:
    """Draw independent differences of two negative binomials of shape 1/`shares` and odds `scale` to 1, exactly.

    Args:
        shape: of the result.
        scale: b in ring units, from 1 to `MAX_SCALE`.
        shares: h, how many draws add up to discrete Laplace noise, from 1 to `MAX_SHARES`.
        random_bytes: a cryptographic source.

    Raises:
        ValueError: a parameter is no integer in range, or a dimension is negative.
    """
    law = _law(_within(scale, MAX_SCALE, "scale"), _within(shares, MAX_SHARES, "shares"))
    if any(dimension < 0 for dimension in shape):
        raise ValueError(f"a shape has no negative dimension, got {shape}")
    size = math.prod(shape)
    drawn = law.values(ring_from_bytes(random_bytes(16 * size)), random_bytes)
    differences: IntArray = drawn[:size] - drawn[size:]
    return differences.reshape(shape)


def _within(given: int, largest: int, name: str) -> int:
    try:
        number = operator.index(given)
    except TypeError:
        raise ValueError(f"{name} is an integer, got {given!r}") from None
    if isinstance(given, bool) or not 1 <= number <= largest:
        raise ValueError(f"{name} lies between 1 and {largest}, got {given}")
    return number


class _Ascent:
    """The values F(0), F(1), .. of the distribution function, each between two whole numbers of 2^-bits."""

    def __init__(self, scale: int, shares: int, bits: int) -> None:
        self._scale, self._shares, self._step = scale, shares, 0
        self._low, self._high = _root(scale + 1, shares, bits)
        self.low, self.high = self._low, self._high

    def climb(self) -> None:
        """Go on to the next value: P(k + 1) = P(k) b (k h + 1) / ((b + 1) h (k + 1))."""
        above = self._scale * (self._step * self._shares + 1)
        below = (self._scale + 1) * self._shares * (self._step + 1)
        self._low, self._high = self._low * above // below, -(-self._high * above // below)
        self.low, self.high, self._step = self.low + self._low, self.high + self._high, self._step + 1


class _Law:
    """A negative binomial: the first 64 binary digits of its distribution function, as far as they were needed."""

    def __init__(self, scale: int, shares: int) -> None:
        self._scale, self._shares = scale, shares
        self._ascent = _Ascent(scale, shares, _WORD + _GUARD)
        self._digits: list[int] = []
        self._doubtful: set[int] = set()
        self._enter()
        self._table = np.array(self._digits, np.uint64)

    def values(self, words: RingArray, random_bytes: RandomBytes) -> IntArray:
        """Return the value at each of some uniform reals whose first 64 bits are `words`, of shape `(k,)`."""
        self._reach(int(words.max(initial=0)))
        found = self._table.searchsorted(words, "right").astype(np.int64)
        # A word that equals some digits is not settled by them.
        tied = self._table[np.maximum(found - 1, 0)] == words
        if self._doubtful:
            tied |= np.isin(words, np.array(sorted(self._doubtful), np.uint64))
        for place in tied.nonzero()[0].tolist():
            found[place] = self._settled(int(words[place]), random_bytes)
        return found

    def _reach(self, word: int) -> None:
        """Make the table reach beyond a word; it ends where the digits do."""
        known = len(self._digits)
        while self._digits[-1] <= word and self._digits[-1] < _LAST_WORD:
            self._ascent.climb()
            self._enter()
        if len(self._digits) > known:
            self._table = np.array(self._digits, np.uint64)

    def _enter(self) -> None:
        """Write down the digits of the value reached; where its enclosure spans two words, they are in doubt."""
        low, high = self._ascent.low >> _GUARD, self._ascent.high >> _GUARD
        self._digits.append(low)
        if low != high:
            self._doubtful.update((low, high))

    def _settled(self, word: int, random_bytes: RandomBytes) -> int:
        """Return the value at a uniform real that begins with a word, of which as many digits are drawn as it takes."""
        bits = _WORD
        while True:
            word, bits = word << _WORD | int(ring_from_bytes(random_bytes(8))[0]), bits + _WORD
            ascent, value = _Ascent(self._scale, self._shares, bits + _GUARD), 0
            while word << _GUARD >= ascent.high:
                ascent.climb()
                value += 1
            if word + 1 << _GUARD <= ascent.low:
                return value


@lru_cache(maxsize=8)
def _law(scale: int, shares: int) -> _Law:
    return _Law(scale, shares)


def _root(number: int, degree: int, bits: int) -> tuple[int, int]:
    """Return two whole numbers between which 2^bits number^(-1/degree) lies, exp(-ln(number) / degree)."""
    # Both functions are rounded correctly, and the exponent is below 12: what is lost is far below the last ten digits.
    digits = bits * 30103 // 100_000 + 24
    context = Context(prec=digits)
    power = context.exp(context.divide(context.minus(context.ln(Decimal(number))), Decimal(degree)))
    scaled, doubt = Fraction(power) * (1 << bits), Fraction(1, 10 ** (digits - 12)) * (1 << bits)
    return math.floor(scaled - doubt), math.ceil(scaled + doubt)
