"""Projections of rows by public random signs, which a seed spells (docs/proofs/moments.md#range-finder)."""

from functools import lru_cache

import numpy as np

from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.noise.clipping import quantise


@lru_cache(maxsize=4)
def omega(seed: bytes, num_columns: int, rank: int) -> FloatArray:
    """Return the public signs, shape `(d, r)`, read-only: 1, or -1 where bit i r + j of the seed's stream is 1.

    `seed` is 32 bytes; `num_columns` is d. `rank` is r.
    """
    count = num_columns * rank
    stream = np.frombuffer(expand(seed, "range finder")(-(-count // 8)), np.uint8)
    bits = np.unpackbits(stream, count=count, bitorder="little")
    found: FloatArray = (1 - 2 * bits.astype(np.int64)).astype(np.float64).reshape(num_columns, rank)
    found.flags.writeable = False
    return found


def projections(steps: IntArray, signs: FloatArray, halvings: int, squared_bound: int) -> IntArray:
    """Return p, the rows' projections in steps, rounded and clipped; shape `(n, r)`.

    Omega^T x is exact: |x_1| + .. + |x_d| stays far below 2^53, so no partial sum is rounded in whatever order. `steps`
    are clipped integer rows, shape `(n, d)`, squared norms at most 2^60 and d at most 2^20. `signs` are Omega, shape
    `(d, r)`. `halvings` are h; p counts 2^h steps of Omega^T x. `squared_bound` is R_p.
    """
    return quantise(steps.astype(np.float64) @ signs * 2.0**-halvings, squared_bound)
