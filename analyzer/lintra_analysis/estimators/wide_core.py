"""The core of the products of very many columns between the directions that stand out of the noise.

The singular vectors of M W that stand out of the noise are kept, and the core of M between them is found by least
squares: M U = U X where U^T W is known. Not Nystroem (Tropp, Yurtsever, Udell, Cevher 2017), which divides by a noisy
core (docs/reference/mechanisms/range_finder.md).
"""

import math
from dataclasses import dataclass

import numpy as np

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

EDGE = 1.02
"""What a singular value must exceed, in multiples of the largest one of noise alone."""

LEAST_FREE = 8
"""Degrees of freedom that are left for the error of a variance, at least."""


@dataclass(frozen=True, eq=False)
class Core:
    """Directions U of shape `(d, k)` and the core of M between them.

    Attributes:
        directions: U, orthonormal.
        seen: G = U^T W, shape `(k, r)`.
        inverse: P, the pseudo-inverse of G, shape `(r, k)`.
        core: X, symmetric, shape `(k, k)`.
    """

    directions: FloatArray
    seen: FloatArray
    inverse: FloatArray
    core: FloatArray

    def components(self) -> tuple[FloatArray, FloatArray]:
        """Return the components, shape `(d, k)`, and the sums of squares along them, shape `(k,)`, largest first."""
        values, turn = np.linalg.eigh(self.core)
        return self.directions @ turn[:, ::-1], np.maximum(values[::-1], 0.0)


def leading(values: FloatArray, noise_sd: float, most: int) -> FloatArray:
    """Return the left singular vectors that stand out of the noise, shape `(d, k)`, k at most `most`.

    Raises:
        InvalidAnalysisError: none does.
    """
    size, rank = values.shape
    vectors, sizes, _ = np.linalg.svd(values, full_matrices=False)
    edge = EDGE * noise_sd * (math.sqrt(size) + math.sqrt(rank))
    kept = min(int((sizes > edge).sum()), most)
    if kept < 1:
        raise InvalidAnalysisError(
            f"nothing stands above the noise: the largest singular value is {sizes[0]:.4g}, noise alone reaches "
            f"{edge:.4g}; more clients or a larger epsilon are needed"
        )
    found: FloatArray = vectors[:, :kept]
    return found


def core_between(directions: FloatArray, values: FloatArray, projection: FloatArray) -> Core:
    """Return the core of M between some orthonormal directions, shape `(d, k)`, by least squares.

    `values` and `projection` are what the release holds, both of shape `(d, w)`.
    """
    seen = directions.T @ projection
    inverse = np.asarray(np.linalg.pinv(seen), np.float64)
    core: FloatArray = directions.T @ values @ inverse
    return Core(directions, seen, inverse, (core + core.T) / 2)


def variances_from_halves(
    values: FloatArray, projection: FloatArray, noise_sd: float
) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Return directions from one half of the products, sums of squares along them from the other, and their errors.

    In the other half H = X G + noise, so that H P is the core, and what is left of H tells the error.

    Returns:
        Directions of shape `(d, k)`, sums of squares and standard errors of shape `(k,)`, and degrees of freedom.

    Raises:
        InvalidAnalysisError: there are too few columns in W, or nothing stands above the noise.
    """
    half = projection.shape[1] // 2
    if half <= LEAST_FREE:
        raise InvalidAnalysisError(
            f"intervals need a rank of at least {2 * LEAST_FREE + 2}, the release has {projection.shape[1]}; ask for "
            "`wide_components`"
        )
    directions = leading(values[:, :half], noise_sd, half - LEAST_FREE)
    other = core_between(directions, values[:, half:], projection[:, half:])
    held = directions.T @ values[:, half:]
    core = held @ other.inverse
    free = projection.shape[1] - half - directions.shape[1]
    left = np.linalg.norm(held - core @ other.seen, axis=1) / math.sqrt(free)
    errors = np.maximum(left, noise_sd) * np.linalg.norm(other.inverse, axis=0)
    return directions, np.diagonal(core).copy(), errors, free
