"""Gaussian and chi-square variables in floating point, from a source of random bytes.

Every variable is an inverse distribution function at the midpoint of one of 2^53 equal cells, so that 8 bytes make one
variable. The law is the continuous one up to rounding: results that use it say "continuous, floating point", and a
privacy promise about the continuous law does not speak of the last bits.
"""

import numpy as np
from scipy.special import bdtrik, gammainccinv, ndtri

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


_EXACT_BELOW = 25.0


def binomials(trials: FloatArray, share: FloatArray, random_bytes: RandomBytes) -> FloatArray:
    """Return binomial numbers of so many trials with these shares, in their common shape.

    Where the variance is below 25 the law is exact. Elsewhere it is the normal one, rounded.
    """
    trials, share = np.broadcast_arrays(trials, np.clip(share, 0.0, 1.0))
    uniform = uniforms(trials.shape, random_bytes)
    middle, variance = trials * share, trials * share * (1 - share)
    found = np.rint(middle + np.sqrt(variance) * ndtri(uniform))
    small = (variance < _EXACT_BELOW) & (variance > 0)
    exact = np.ceil(bdtrik(uniform[small], trials[small], share[small]))
    # Where the inverse has no number the probability of 0 is larger than the uniform.
    found[small] = np.where(np.isnan(exact), 0.0, exact)
    return np.asarray(np.clip(found, 0.0, trials))


def multinomials(count: int, total: float, shares: FloatArray, random_bytes: RandomBytes) -> FloatArray:
    """Return `count` draws of `total` rows over k cells of these shares, which add up to 1; shape `(count, k)`."""
    found = np.zeros((count, shares.size))
    left, rest = np.full(count, total), 1.0
    for cell, share in enumerate(shares.tolist()):
        if share > 0:
            found[:, cell] = binomials(left, np.array(min(share / rest, 1.0)), random_bytes)
            left, rest = left - found[:, cell], max(rest - share, 1e-300)
    return found
