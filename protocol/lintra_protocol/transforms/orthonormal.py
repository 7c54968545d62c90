"""Public orthonormal frames that are the same on every machine: Gram-Schmidt on exact integer Gaussians.

Only + - * / and square roots of IEEE doubles and correctly rounded sums are used, in one stated order, so that two
parties that know the seed know the same integers; a factorisation from a linear algebra library is not that. The
positive diagonal of Gram-Schmidt makes the frame uniform on the Stiefel manifold (Mezzadri 2007), up to rounding.
"""

import hashlib
import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.noise.discrete_gaussian import discrete_gaussian

FRAME_BITS = 15
"""Entries of a frame are counted in steps of 2^-15."""

GAUSSIAN_SIGMA = 1 << 16
"""Deviation of the integers that a frame is made of: so many that ties and zero columns do not happen."""


@lru_cache(maxsize=8)
def frame(seed: bytes, rows: int, columns: int) -> IntArray:
    """Return a uniformly random orthonormal frame, shape `(rows, columns)`, in steps of 2^-15, read-only.

    The seconds that it takes grow like rows times columns^2: 0.1 at 200 x 105, 8 at 784 x 465. `seed` is 32 public
    bytes; `rows` is m, dimension of the space. `columns` is p, dimension of the subspace, at most m. Raises ValueError
    if the shape is not that of a frame.
    """
    if not 1 <= columns <= rows:
        raise ValueError(f"a frame has from 1 to {rows} columns, got {columns}")
    result = orthonormal(discrete_gaussian((rows, columns), GAUSSIAN_SIGMA, expand(seed, "frame")))
    result.flags.writeable = False
    return result


def orthonormal(matrix: IntArray) -> IntArray:
    """Return Gram-Schmidt of the columns of an integer matrix, in steps of 2^-15 rounded half to even.

    Modified Gram-Schmidt in column order: from each column its component along every earlier one is taken away, one
    after the other, all of them a second time, and what is left is divided by its norm. Products are rounded one by
    one, sums once. `matrix` is of shape `(m, p)` and full column rank, entries below 2^53. Raises ValueError if a
    column depends on those before it.
    """
    finished: list[FloatArray] = []
    for number, column in enumerate(matrix.astype(np.float64).T):
        rest: FloatArray = column.copy()
        for earlier in finished * 2:
            rest = rest - _dot(earlier, rest) * earlier
        norm = math.sqrt(_dot(rest, rest))
        if norm <= 2.0**-40 * math.sqrt(_dot(column, column)):
            raise ValueError(f"column {number} depends on those before it; a frame needs full rank")
        finished.append(rest / norm)
    return np.rint(np.stack(finished, axis=1) * 2.0**FRAME_BITS).astype(np.int64)


def frame_digest(matrix: IntArray) -> str:
    """Return SHA-256, in base64url, of a frame's entries, any shape, as row-major little-endian 32-bit integers."""
    entries: NDArray[np.int32] = np.ascontiguousarray(matrix, dtype="<i4")
    return base64url(hashlib.sha256(entries.tobytes()).digest())


def _dot(one: FloatArray, other: FloatArray) -> float:
    """Return the sum of the rounded products, itself rounded once."""
    return math.fsum((one * other).tolist())
