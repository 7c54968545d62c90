"""The ring Z_{2^64}: NumPy's `uint64` wraps modulo 2^64, so sums and sign flips are exact by construction.

Signed integers enter as two's complement and leave through the centred lift; `int64` and `uint64` share their
bits, so both directions are views and cost nothing.
"""

import numpy as np
from numpy.typing import NDArray

RING_BITS = 64

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
RingArray = NDArray[np.uint64]


def to_ring(values: IntArray) -> RingArray:
    """Map signed integers in [-2^63, 2^63) to ring elements of the same shape (a view)."""
    return values.view(np.uint64)


def from_ring(elements: RingArray) -> IntArray:
    """Lift ring elements of any shape to their centred representatives in [-2^63, 2^63) (a view of the same shape)."""
    return elements.view(np.int64)


def ring_bytes(elements: RingArray) -> bytes:
    """Encode ring elements of any shape, in C order, as little-endian 64-bit words."""
    return elements.astype("<u8", copy=False).tobytes()


def ring_from_bytes(data: bytes | memoryview) -> RingArray:
    """Decode little-endian 64-bit words to ring elements of shape `(k,)` (read-only where the platform allows)."""
    return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False)
