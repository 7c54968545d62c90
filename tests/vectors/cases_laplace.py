"""Vectors of noise that adds up to discrete Laplace noise."""

import plain
from given import Vector, good, seed
from plain_laplace import share

SIZES = ((4, 1), (4, 3), (100, 7), (2896, 8), (5000, 2), (1000, 100_000))


def laplace() -> list[Vector]:
    """Return shares of several laws: one word for the positive part of each, then one for the negative part of each."""
    found = []
    for scale, shares in SIZES:
        stream = plain.keystream(seed(f"laplace {scale} {shares}"), 16 * 12)
        words = plain.bytes_words(stream)
        values = [share(scale, shares, [words[i], words[12 + i]]) for i in range(12)]
        found.append(
            good(f"scale {scale}, {shares} shares", "laplace_shares", [str(one) for one in values],
                 scale=scale, shares=shares, random=stream.hex())
        )  # fmt: skip
    return found
