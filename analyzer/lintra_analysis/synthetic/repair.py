"""Turns a noisy matrix into a covariance: shrinks it by the known noise, keeps the trace, and raises small eigenvalues.

All of it is post-processing of released numbers and costs no privacy.
"""

import math
from dataclasses import dataclass

import numpy as np

from lintra_protocol.crypto.ring import FloatArray

FAR_SHORT = 5.0
"""A table of counts that falls short of all rows by so many deviations of its noise lacks rows."""

HALF_A_ROW = 0.5
"""Without noise, room for the rounding of a sum."""


@dataclass(frozen=True, eq=False)
class Repaired:
    """A covariance that a Gaussian can have, and how much of it the noise left."""

    matrix: FloatArray  #: shape `(p, p)`, symmetric, without negative eigenvalues
    kept: float  #: g in [0, 1], the part of the deviation from the mean eigenvalue that was kept
    floored: int  #: how many of the p eigenvalues were raised to the floor
    relative_error: float  #: root of the expected squared noise over the Frobenius norm of the noisy matrix
    raw: FloatArray  #: shape `(p, p)`, the noisy matrix, symmetric
    noise: float  #: expected squared Frobenius norm of the noise in it


def repair(matrix: FloatArray, noise: float, *, shrink: bool = True) -> Repaired:
    """Return the covariance that stands behind a noisy symmetric matrix.

    First the James-Stein step towards the mean eigenvalue with known noise (James and Stein 1961; Ledoit and Wolf
    2004), then the Euclidean projection of the eigenvalues on {w >= 0, sum w = trace}, then the floor sqrt(noise / p),
    about the deviation of one entry times sqrt(p + 1). `matrix` has shape `(p, p)`; only its symmetric part counts.
    `noise` is the expected squared Frobenius norm of the noise in it, at least 0. `shrink` says whether to take the
    first step; without it the result is less accurate and less biased. Raises ValueError if `matrix` is
    not finite and square, or `noise` is negative or not finite.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ValueError(f"expected a square matrix, got shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError("a covariance is repaired from finite numbers only")
    if not 0 <= noise < math.inf:
        raise ValueError(f"the expected squared noise must be finite and at least 0, got {noise}")
    size = matrix.shape[0]
    symmetric = (matrix + matrix.T) / 2
    norm = float(np.linalg.norm(symmetric))
    level = _usable_level(float(np.trace(symmetric)) / size, noise, norm, size)
    deviation = symmetric - level * np.eye(size)
    squared = float(np.square(deviation).sum())
    kept = max(0.0, 1 - noise / squared) if squared > 0 and shrink else 1.0
    values, vectors = np.linalg.eigh(level * np.eye(size) + kept * deviation)
    values = project_on_simplex(values, size * level)
    floor = min(math.sqrt(noise / size), level)
    floored = int((values < floor).sum())
    values = np.maximum(values, floor)
    values *= size * level / values.sum()
    return Repaired(
        matrix=(vectors * values) @ vectors.T,
        kept=kept,
        floored=floored,
        relative_error=math.sqrt(noise) / norm if norm > 0 else math.inf,
        raw=symmetric,
        noise=noise,
    )


def rows_in_cells(cells: FloatArray, num_rows: int, noise_sd: float) -> float:
    """Return how many rows a table of counts holds: all of them, or its own sum where noise cannot explain the gap.

    A row in which a value is missing is in no cell of its column. The sum of the cells falls short of all rows by
    those, and by noise; more than `FAR_SHORT` deviations of the noise are taken for missing values. `cells` are noisy
    counts, shape `(k,)`; `num_rows` is n. `noise_sd` is that of one count.
    """
    total, reach = float(cells.sum()), FAR_SHORT * noise_sd * math.sqrt(cells.size)
    return max(total, 1.0) if total < num_rows - reach - HALF_A_ROW else float(num_rows)


def project_on_simplex(values: FloatArray, total: float = 1.0) -> FloatArray:
    """Return the nearest point with entries of at least 0 that sum to `total` (Held, Wolfe, Crowder 1974).

    `values` has shape `(k,)`, finite, at least one; `total` is positive. Raises ValueError if there are no values, one
    is not finite, or `total` is not positive.
    """
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise ValueError(f"expected at least one finite number, got an array of shape {values.shape}")
    if not 0 < total < math.inf:
        raise ValueError(f"the total must be positive and finite, got {total}")
    # A constant moves nothing; without it, values beyond 2^53 totals would swallow the total.
    values = values - values.max()
    descending = np.sort(values)[::-1]
    surplus = (np.cumsum(descending) - total) / np.arange(1, values.size + 1)
    inside = descending > surplus
    inside[0] = True  # by the definition of the surplus; rounding may hide it
    last = int(np.flatnonzero(inside)[-1])
    projected: FloatArray = np.maximum(values - surplus[last], 0.0)
    return projected


def symmetric_root(matrix: FloatArray) -> FloatArray:
    """Return the symmetric square root of a positive semidefinite matrix of shape `(p, p)`.

    Unlike an eigenvector, it does not depend on the signs or the order that a linear-algebra library chose.
    """
    values, vectors = np.linalg.eigh(matrix)
    root: FloatArray = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


def _usable_level(level: float, noise: float, norm: float, size: int) -> float:
    """Return the mean eigenvalue, or what the noise alone would give where the noisy trace is not positive."""
    least = 2.0**-30 * (norm if norm > 0 else 1.0) / size
    return level if level > least else max(math.sqrt(noise) / size, least)
