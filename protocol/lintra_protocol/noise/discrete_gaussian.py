"""Exact samples of the discrete Gaussian, by rejection from a discrete Laplace (Canonne, Kamath, Steinke 2020).

No floating-point number decides anything: every decision compares a uniform 64-bit word with an integer. Many
candidates are judged side by side; each is kept or thrown away on its own words alone, so the kept ones, in
candidate order, are independent samples. The few candidates that 64 bits cannot settle, or that are too few to be
worth an array, are finished in Python's unbounded integers.

A candidate, with t = sigma (Algorithms 2 and 3 there): draw u uniform below t, a fair sign, and v with
P(v >= j) = exp(-j). Kept with probability exp(-u/t), and not if it is "minus zero", y = u + t v with that sign is a
discrete Laplace variable; kept with probability exp(-(y - t)^2 / (2 t^2)), that becomes the discrete Gaussian. One
coin decides both: it shows exp(-(2 t u + (y - t)^2) / (2 t^2)). About 48 % are kept, whatever sigma is.

Order of words (the twin in tests/support/noise_reference.py reads the same): a step reads one word for
each candidate that takes it, in candidate order, then one for each that must redraw, until none must; what is left
for plain integers follows, one candidate at a time.
"""

import math
import operator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray, RingArray, ring_from_bytes

# With sigma below 2^29 the denominators k * 2 sigma^2 of the first 16 trials of a series stay below 2^63.
MAX_SIGMA = (1 << 29) - 1
VECTOR_TRIALS = 16
# Up to v = 7, 2 sigma u + (y - sigma)^2 < 51 sigma^2 < 2^64, and its quotient by 2 sigma^2 is at most 25.
LARGE_V = 8
MAX_QUOTIENT = 25

# Fewer live candidates than this are cheaper in a Python loop than in NumPy calls.
FEW = 4
# Candidates judged together: the arrays of a step stay in a cache of 1 MiB.
BLOCK = 16384

_WORD_MAX = (1 << 64) - 1
_MINUS_ZERO = 1


def discrete_gaussian(shape: int | tuple[int, ...], sigma: int, random_bytes: RandomBytes) -> IntArray:
    """Draw independent samples of N_Z(0, sigma^2): P(x) proportional to exp(-x^2 / (2 sigma^2)), exactly.

    Running time varies with the words drawn; bytes that were read ahead and not needed are thrown away.

    Args:
        shape: of the result.
        sigma: the parameter in ring units, an integer from 1 to `MAX_SIGMA`; the standard deviation is within
            1e-7 of it, relatively, at sigma = 1 and closer above.
        random_bytes: a cryptographic source; for many values at once `bulk_system_randomness()`.

    Raises:
        ValueError: sigma is not an integer in range, or a dimension is negative.

    Source:
        Canonne, Kamath, Steinke 2020, "The discrete Gaussian for differential privacy", Algorithms 1 to 3.
    """
    sigma = _checked_sigma(sigma)
    dimensions = shape if isinstance(shape, tuple) else (shape,)
    if any(dimension < 0 for dimension in dimensions):
        raise ValueError(f"a shape has no negative dimension, got {shape}")
    samples = np.empty(math.prod(dimensions), np.int64)
    words = _Words(random_bytes, min(5 * _candidates_for(samples.size), BLOCK))
    filled = 0
    # The blocks follow one another in one endless sequence of independent candidates, and whether a candidate is
    # kept depends on its own words only. So the kept ones are independent samples, and so is any beginning of
    # their sequence: the surplus at its end is cut off without a look at the values. (Taking the candidates that
    # finish first instead would be biased: those with small exponents need fewer words.)
    while filled < samples.size:
        kept = _judge(min(_candidates_for(samples.size - filled), BLOCK), sigma, words)
        kept = kept[: samples.size - filled]
        samples[filled : filled + kept.size] = kept
        filled += kept.size
    return samples.reshape(dimensions)


def _checked_sigma(sigma: int) -> int:
    try:
        number = operator.index(sigma)
    except TypeError:
        raise ValueError(f"sigma is an integer, got {sigma!r}") from None
    if isinstance(sigma, bool) or not 1 <= number <= MAX_SIGMA:
        raise ValueError(f"sigma lies between 1 and {MAX_SIGMA}, got {sigma}")
    return number


def _candidates_for(count: int) -> int:
    """Return how many candidates give `count` samples in one go with a probability above 99 %."""
    return count * 2082 // 1000 + 5 * math.isqrt(count) + 4


class _Words:
    """Uniform 64-bit words, read ahead in chunks and handed out in stream order."""

    def __init__(self, random_bytes: RandomBytes, chunk: int) -> None:
        self._random_bytes = random_bytes
        self._chunk = chunk
        self._buffer = np.empty(0, np.uint64)
        self._largest = 0
        self._next = 0

    def take(self, count: int) -> RingArray:
        """Return the next `count` words, read-only."""
        if self._next + count > self._buffer.size:
            self._refill(count)
        self._next += count
        return self._buffer[self._next - count : self._next]

    def below(self, limit: int, count: int) -> RingArray:
        """Return `count` uniform words below `limit`, an integer below 2^64; words that are not are redrawn."""
        words = self.take(count)
        if self._largest < limit:  # one look per chunk instead of one per step: `limit` is mostly close to 2^64
            return words
        words = words.copy()
        over = (words >= limit).nonzero()[0]
        while over.size:
            words[over] = self.take(over.size)
            over = over[words[over] >= limit]
        return words

    def integer(self, count: int) -> int:
        """Return the next `count` words as one integer, the first word on top."""
        value = 0
        for _ in range(count):
            if self._next == self._buffer.size:
                self._refill(1)
            value = value << 64 | int(self._buffer[self._next])
            self._next += 1
        return value

    def _refill(self, count: int) -> None:
        """Read on until at least `count` words are at hand."""
        rest = self._buffer[self._next :]
        fresh = ring_from_bytes(self._random_bytes(8 * max(count - rest.size, self._chunk)))
        self._buffer = np.concatenate([rest, fresh]) if rest.size else fresh
        self._largest = int(self._buffer.max())
        self._next = 0


def _judge(count: int, sigma: int, words: _Words) -> IntArray:
    """Judge `count` candidates and return those that are kept, in candidate order.

    A candidate is coded as 2 |y| + (1 if negative), so that sign and size travel in one array.
    """
    double = 2 * sigma
    step = _WORD_MAX // double
    starts = words.below(step * double, count) // step  # 2 u + sign
    codes, exponents = _add_steps(starts, sigma, words)
    quotients = exponents // (double * sigma)
    kept = codes != _MINUS_ZERO
    _thin_by_quotient(kept, quotients, words)
    exponents -= quotients * (double * sigma)
    lanes = kept.nonzero()[0]
    codes = codes[lanes[_bernoulli_exp(exponents[lanes], double * sigma, words)]]
    sizes, negative = (codes >> _ONE).view(np.int64), (codes & _ONE).view(np.int64)
    samples: IntArray = (sizes ^ -negative) + negative  # two's complement: -y is the inverted bits of y, plus one
    return samples


def _add_steps(starts: RingArray, sigma: int, words: _Words) -> tuple[RingArray, RingArray]:
    """Draw v for each candidate; return the codes of y = u + sigma v, and 2 sigma u + (y - sigma)^2.

    Candidates with v >= `LARGE_V`, one in 3000, are judged here in plain integers: a refused one becomes "minus
    zero", which is refused anyway; a kept one gets exponent 0.
    """
    draws = words.take(starts.size)
    passed = _ASCENDING_POWERS.searchsorted(draws, "right")  # how many of the powers of 1/e are not above the word
    codes = starts + _STEPS[passed] * (2 * sigma)
    distances = (codes >> _ONE) - sigma  # may wrap below zero; its square is right all the same
    exponents = distances * distances + (starts >> _ONE) * (2 * sigma)
    for lane in (draws <= _UNSETTLED[passed]).nonzero()[0].tolist():
        codes[lane], exponents[lane] = _settle_steps(int(starts[lane]), int(draws[lane]), sigma, words)
    return codes, exponents


def _settle_steps(start: int, word: int, sigma: int, words: _Words) -> tuple[int, int]:
    """Do `_add_steps` for one candidate; return its code and its exponent, or 0 if it is judged here."""
    steps = _geometric(word, words)
    code = start + 2 * sigma * steps
    exponent = 2 * sigma * (start >> 1) + ((code >> 1) - sigma) ** 2
    if steps < LARGE_V:
        return code, exponent
    quotient, numerator = divmod(exponent, 2 * sigma * sigma)
    kept = _below_power(words.integer(1), quotient, words) and _finish_series(numerator, 2 * sigma * sigma, 1, words)
    return (code if kept else _MINUS_ZERO), 0


def _thin_by_quotient(kept: NDArray[np.bool_], quotients: RingArray, words: _Words) -> None:
    """Clear `kept` except with probability exp(-quotient), wherever the quotient is at least 1."""
    lanes = quotients.nonzero()[0]
    quotients = quotients[lanes]
    draws = words.take(lanes.size)
    powers = _POWERS[quotients]
    below = draws < powers
    for tie in (draws == powers).nonzero()[0].tolist():
        below[tie] = _below_power(int(draws[tie]), int(quotients[tie]), words)
    kept[lanes] &= below


def _bernoulli_exp(numerators: RingArray, denominator: int, words: _Words) -> NDArray[np.bool_]:
    """Return, for each numerator a <= denominator b, True with probability exp(-a/b).

    Trial k = 1, 2, ... succeeds with probability a/(k b); the answer is whether the first failure has odd k, since
    the alternating series of exp(-a/b) sums exactly those cases (Canonne et al. 2020, Algorithm 1). A trial is
    w < a q for a uniform word w below k b q, so its probability is exact for any q.
    """
    accepted = np.ones(numerators.size, np.bool_)
    live = np.arange(numerators.size)
    trial = 0
    while live.size > FEW and trial < VECTOR_TRIALS:
        trial += 1
        step = _WORD_MAX // (trial * denominator)
        draws = words.below(step * trial * denominator, live.size)
        succeeded = (draws < numerators * step).nonzero()[0]
        live, numerators = live[succeeded], numerators[succeeded]
        accepted[live] = trial % 2 == 0
    for lane, numerator in zip(live.tolist(), numerators.tolist(), strict=True):
        accepted[lane] = _finish_series(numerator, denominator, trial + 1, words)
    return accepted


def _finish_series(numerator: int, denominator: int, trial: int, words: _Words) -> bool:
    """Return whether the first failure of the trials from `trial` on has an odd number; integers of any size."""
    while _bernoulli(numerator, trial * denominator, words):
        trial += 1
    return trial % 2 == 1


def _bernoulli(numerator: int, denominator: int, words: _Words) -> bool:
    """Return True with probability numerator / denominator, at most 1; integers of any size."""
    width = -(-denominator.bit_length() // 64)
    step = ((1 << 64 * width) - 1) // denominator
    while (draw := words.integer(width)) >= step * denominator:
        pass
    return draw < step * numerator


def _geometric(word: int, words: _Words) -> int:
    """Return v with P(v >= j) = exp(-j): the number of powers exp(-1), exp(-2), ... above a uniform real.

    `word` is the first 64 bits of that real; further ones are drawn while they tie with those of a power.
    """
    value, bits, steps = word, 64, 0
    while True:
        while value == (power := _exp_digits(steps + 1, bits)):
            value, bits = value << 64 | words.integer(1), bits + 64
        if value > power:
            return steps
        steps += 1


def _below_power(word: int, exponent: int, words: _Words) -> bool:
    """Return whether a uniform real with the first 64 bits `word` lies below exp(-exponent), an exact comparison."""
    value, bits = word, 64
    while value == (power := _exp_digits(exponent, bits)):
        value, bits = value << 64 | words.integer(1), bits + 64
    return value < power


@lru_cache(maxsize=128)
def _exp_digits(exponent: int, bits: int) -> int:
    """Return floor(2^bits exp(-exponent)), exactly: the first binary digits of a power of 1/e, exponent at least 1.

    The sum of exponent^i / i!, each term rounded down to a multiple of 2^-precision, encloses exp(exponent): a term
    loses less than 1 + (the loss before it) exponent / i. The precision grows until both ends give the same digits,
    which they must some time, since the power is irrational.
    """
    precision = bits + 64
    while True:
        low, loss, term, term_loss, index = 0, 0, 1 << precision, 0, 0
        # Behind index > 2 exponent the terms halve, so the first one left out bounds half the rest of the sum.
        while term or index <= 2 * exponent:
            low, loss, index = low + term, loss + term_loss, index + 1
            term, term_loss = term * exponent // index, term_loss * exponent // index + 2
        high = low + loss + 2 * (term + term_loss)
        dividend = 1 << (bits + precision)
        if dividend // low == dividend // high:
            return dividend // low
        precision *= 2


_ONE = np.uint64(1)
# The first 64 bits of exp(-j), j = 1, 2, ...; index 0 is never looked up, since exponent 0 takes no word.
_POWERS = np.array([_WORD_MAX] + [_exp_digits(j, 64) for j in range(1, MAX_QUOTIENT + 1)], np.uint64)
_ASCENDING_POWERS = _POWERS[LARGE_V:0:-1].copy()
# By the number of these powers that are not above a word: v, and the largest word for which that v is not settled,
# namely the one that ties with the last power passed, or, below all of them, every word.
_STEPS = np.arange(LARGE_V, -1, -1, dtype=np.uint64)
_UNSETTLED = np.concatenate([_ASCENDING_POWERS[:1], _ASCENDING_POWERS])
