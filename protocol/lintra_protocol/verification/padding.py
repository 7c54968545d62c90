"""Seven squares that fill a row's squared norm up to the bound exactly (Lagrange's four, after three large ones).

What is left after taking the largest square from a number below 2^62 three times is at most 724.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.verification.parameters import Parameters

_LARGEST_REST = 724
_LARGEST_ROOT = 26


def too_long(noised: IntArray, squared_bound: int) -> NDArray[np.bool_]:
    """Say for each of some noised rows of shape `(k, w)` whether its squared norm is above a bound below 2^62."""
    # Far above the bound an integer sum might wrap; there a float decides.
    far = np.square(noised.astype(np.float64)).sum(axis=1) > 2.0**62 * 1.01
    long: NDArray[np.bool_] = far | (np.square(noised).sum(axis=1) > squared_bound)
    return long


def padded_rows(parameters: Parameters, noised: IntArray) -> IntArray:
    """Return noised rows of shape `(k, w)` with their padding, shape `(k, w + 7)`: their squared norm is R^2.

    Raises ValueError if a row is too long; whoever made it draws its noise again.
    """
    if too_long(noised, parameters.squared_bound).any():
        raise ValueError("a row is longer than its task allows, and nothing can be proven of it")
    rest = parameters.squared_bound - np.square(noised).sum(axis=1)
    padding = np.empty((len(noised), 7), np.int64)
    for place in range(3):
        padding[:, place] = _roots(rest)
        rest = rest - np.square(padding[:, place])
    padding[:, 3:] = four_squares()[rest]
    return np.concatenate([noised, padding], axis=1)


def _roots(squares: IntArray) -> IntArray:
    """Return the largest integers whose squares are not above numbers below 2^62."""
    found = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    found -= np.square(found) > squares
    found += np.square(found + 1) <= squares
    return found


@lru_cache(maxsize=1)
def four_squares() -> IntArray:
    """Return four decreasing numbers for each of 0 to 724 whose squares add up to it, shape `(725, 4)`.

    Of several such four it is the first in the order of letters.
    """
    table = np.full((_LARGEST_REST + 1, 4), -1, np.int64)
    for a in range(_LARGEST_ROOT + 1):
        for b in range(a + 1):
            for c in range(b + 1):
                for d in range(c + 1):
                    total = a * a + b * b + c * c + d * d
                    if total <= _LARGEST_REST and table[total, 0] < 0:
                        table[total] = a, b, c, d
    return table
