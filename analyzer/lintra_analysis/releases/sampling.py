"""Gaussian and chi-square variables in floating point, from a source of random bytes.

Every variable is an inverse distribution function at the midpoint of one of 2^53 equal cells, so that 8 bytes make one
variable. The law is the continuous one up to rounding: results that use it say "continuous, floating point", and a
privacy promise about the continuous law does not speak of the last bits.
"""

import numpy as np
from scipy.special import gammainccinv, ndtri

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray

FLOATING_POINT_LAW = "continuous, floating point"
"""What a result says whose noise was made here."""


def uniforms(shape: tuple[int, ...], random_bytes: RandomBytes) -> FloatArray:
    """Return independent uniforms (k + 1/2) / 2^53 in this shape, strictly between 0 and 1."""
    count = int(np.prod(shape, dtype=np.int64))
    words = np.frombuffer(random_bytes(8 * count), dtype="<u8") >> np.uint64(11)
    # Above 1/2 the half is lost to rounding, and the largest word would give 1.
    values: FloatArray = np.minimum((words + 0.5) * 2.0**-53, 1 - 2.0**-53)
    return values.reshape(shape)


def gaussians(shape: tuple[int, ...], random_bytes: RandomBytes) -> FloatArray:
    """Return independent standard Gaussians in this shape, none beyond 8.3 deviations."""
    values: FloatArray = ndtri(uniforms(shape, random_bytes))
    return values


def chi_squares(dof: float, shape: tuple[int, ...], random_bytes: RandomBytes) -> FloatArray:
    """Return chi-square variables in this shape, independent, of `dof` degrees of freedom, any positive real number.

    Raises ValueError if `dof` is not positive and finite.
    """
    if not 0 < dof < np.inf:
        raise ValueError(f"degrees of freedom must be positive and finite, got {dof}")
    values = 2 * gammainccinv(dof / 2, uniforms(shape, random_bytes))
    return np.asarray(values, np.float64)
