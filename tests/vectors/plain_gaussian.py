"""The discrete Gaussian sampler in plain integers and lists: the same words in the same order, one lane at a time.

It shares no code and no constant with the package, so a change of the word order there shows here.
"""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

ReadWord = Callable[[], int]

TOP = 2**64 - 1


def reader(random_bytes: Callable[[int], bytes]) -> ReadWord:
    """Read a source of bytes as little-endian 64-bit words."""
    return lambda: int.from_bytes(random_bytes(8), "little")


def samples(count: int, sigma: int, read: ReadWord) -> list[int]:
    kept: list[int] = []
    while len(kept) < count:
        missing = count - len(kept)
        wanted = missing * 2082 // 1000 + 5 * math.isqrt(missing) + 4
        kept += judge(min(wanted, 16384), sigma, read)
    return kept[:count]


def judge(count: int, sigma: int, read: ReadWord) -> list[int]:
    b = 2 * sigma**2
    pairs = [draw // (TOP // (2 * sigma)) for draw in below([2 * sigma] * count, read)]
    draws = [read() for _ in pairs]
    lanes = []
    for pair, draw in zip(pairs, draws, strict=True):
        u, negative = divmod(pair, 2)
        settled = all(draw != power(j, 64) for j in range(1, 9)) and draw > power(8, 64)
        v = geometric(draw, (lambda: 0) if settled else read)
        y = u + sigma * v
        a = 2 * sigma * u + (y - sigma) ** 2
        refused = y == 0 and negative == 1
        if v >= 8:
            refused = not (less_than_power(read(), a // b, read) and series(a % b, b, 1, read))
            a = 0
        lanes.append((-y if negative else y, a, refused))
    heavy = [(lane, a // b, read()) for lane, (_, a, _) in enumerate(lanes) if a >= b]
    failed = {lane for lane, whole, draw in heavy if draw > power(whole, 64)}
    for lane, whole, draw in heavy:
        if draw == power(whole, 64) and not less_than_power(draw, whole, read):
            failed.add(lane)
    left = [(y, a % b) for lane, (y, a, refused) in enumerate(lanes) if not refused and lane not in failed]
    accepted = bernoulli_exp([a for _, a in left], b, read)
    return [y for (y, _), good in zip(left, accepted, strict=True) if good]


def below(denominators: list[int], read: ReadWord) -> list[int]:
    """Draw for each lane a word below the largest multiple of its denominator, redrawing round by round."""
    draws = [read() for _ in denominators]
    limits = [TOP // d * d for d in denominators]
    while over := [lane for lane, draw in enumerate(draws) if draw >= limits[lane]]:
        for lane in over:
            draws[lane] = read()
    return draws


def bernoulli_exp(numerators: list[int], b: int, read: ReadWord) -> list[bool]:
    live = list(range(len(numerators)))
    first_failure = dict.fromkeys(live, 0)
    k = 1
    while len(live) > 4 and k <= 16:
        draws = below([k * b] * len(live), read)
        for lane, draw in zip(live, draws, strict=True):
            if draw >= numerators[lane] * (TOP // (k * b)):
                first_failure[lane] = k
        live = [lane for lane in live if first_failure[lane] == 0]
        k += 1
    for lane in live:
        first_failure[lane] = 1 if series(numerators[lane], b, k, read) else 2
    return [failure % 2 == 1 for failure in first_failure.values()]


def series(a: int, b: int, k: int, read: ReadWord) -> bool:
    while True:
        words = 1
        while k * b >= 2 ** (64 * words):
            words += 1
        q = (2 ** (64 * words) - 1) // (k * b)
        while True:
            draw = 0
            for _ in range(words):
                draw = draw * 2**64 + read()
            if draw < k * b * q:
                break
        if draw >= a * q:
            return k % 2 == 1
        k += 1


def geometric(word: int, read: ReadWord) -> int:
    bits, v = 64, 0
    while True:
        while word == power(v + 1, bits):
            word, bits = word * 2**64 + read(), bits + 64
        if word > power(v + 1, bits):
            return v
        v += 1


def less_than_power(word: int, exponent: int, read: ReadWord) -> bool:
    bits = 64
    while word == power(exponent, bits):
        word, bits = word * 2**64 + read(), bits + 64
    return word < power(exponent, bits)


_KNOWN: dict[tuple[int, int], int] = {}


def power(exponent: int, bits: int) -> int:
    """Return floor(2^bits e^-exponent), from 60 more decimal digits than it has."""
    if (exponent, bits) not in _KNOWN:
        with localcontext() as context:
            context.prec = bits // 3 + 60
            _KNOWN[exponent, bits] = int(Decimal(-exponent).exp() * 2**bits)
    return _KNOWN[exponent, bits]
