"""Row weights: a row that is far out is shrunk together with its constant and its target, and so counts less.

What is clipped is f = (c, z), the target in it times k. A row is shrunk by its own factor t, so that the products of
t f are those of a row of weight t^2 (docs/reference/mechanisms/second_moment.md#row-weights). Before it is shrunk the
features may be turned by a public matrix (#turned-features).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.noise.clipping import column_norms, dithered_norm, quantise_shrunk, shrink_factors, within_reach

WeightedBy = Literal["features", "all"]
"""What says how much a row counts: its features alone, or its target too."""

LARGEST_TURN = 10**6
"""No entry of a matrix that turns features is larger, so that no turned feature overflows."""


@lru_cache(maxsize=64)
def turning(rows: tuple[tuple[str, ...], ...]) -> FloatArray:
    """Return the matrix T that a document spells in decimals, shape `(p, p)`."""
    return np.array([[float(entry) for entry in row] for row in rows])


def turned(features: FloatArray, basis: FloatArray) -> FloatArray:
    """Return T z for features z, the rows of shape `(n, p)`, products added up in the order of the columns.

    Every party that adds up in this order, each product and sum rounded to a double, finds the same bits.
    """
    found = np.zeros_like(features)
    for place in range(features.shape[1]):
        found += features[:, place : place + 1] * basis[:, place]
    return found


@dataclass(frozen=True, eq=False)
class RowWeights:
    """How rows of d columns become vectors of q = d + 1 numbers, and how these are shrunk."""

    #: "features": t = min(1, R_x/|(c, z without the target)|), R_x = R/sqrt(2), and the target is moved into [-Y, Y];
    #: "all": t = min(1, R/|f|)
    by: WeightedBy
    constant: float  #: c, in normalised units
    target: int | None  #: number of the target's column; None without
    target_bound: float  #: Y, in normalised units; inf under "all", where nothing moves it
    target_factor: float  #: k
    unit: float  #: steps in a normalised unit
    basis: FloatArray | None = None  #: T, by which the features are turned, shape `(p, p)`; None leaves them

    def vectors(self, rows: FloatArray) -> FloatArray:
        """Return f of normalised rows of shape `(n, d)` in steps, shape `(n, d + 1)`; 0 where a number is missing."""
        whole: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(rows), axis=1)
        known = within_reach(np.where(whole[:, np.newaxis], rows, 0.0))
        if self.basis is not None:
            features = [place for place in range(rows.shape[1]) if place != self.target]
            known[:, features] = turned(known[:, features], self.basis)
        if self.target is not None:
            inside = np.clip(known[:, self.target], -self.target_bound, self.target_bound)
            known[:, self.target] = inside * self.target_factor
        vectors: FloatArray = np.column_stack([self.constant * whole, known]) * self.unit
        return vectors

    def clip(self, rows: FloatArray, squared_bound: int, random_bytes: RandomBytes) -> IntArray:
        """Return integer vectors, shape `(n r, d + 1)`, of rows of shape `(n, d)`, or of persons, `(n, r, d)`.

        Those of a person are shrunk together: no squared norm of all of them exceeds `squared_bound`. Under "features"
        the features' part is shrunk to R/sqrt(2), and all of it to R, which for single rows follows.
        """
        vectors = self.vectors(rows.reshape(-1, rows.shape[-1]))
        together = vectors.reshape(len(rows), -1)
        shrunk = together * self._factors(vectors, len(rows), squared_bound)[:, np.newaxis]
        return quantise_shrunk(shrunk, squared_bound, random_bytes).reshape(vectors.shape)

    def straightening(self, num_columns: int) -> FloatArray | None:
        """Return B, shape `(d + 1, d + 1)`: B^T M B are products of columns if M are those of turned ones; else None.

        The constant comes first, in M and in B^T M B.
        """
        if self.basis is None:
            return None
        whole = np.eye(num_columns + 1)
        features = [place + 1 for place in range(num_columns) if place != self.target]
        whole[np.ix_(features, features)] = np.linalg.inv(self.basis).T
        return whole

    def average_weight(self, rows: FloatArray, squared_bound: int) -> float:
        """Return the mean of t^2 over rows of shape `(n, d)`; a row that is left out counts 0."""
        vectors = self.vectors(rows)
        counted = np.isfinite(rows).all(axis=1)
        return float((self._factors(vectors, len(rows), squared_bound) ** 2 * counted).mean())

    def _factors(self, vectors: FloatArray, num_persons: int, squared_bound: int) -> FloatArray:
        """Return t of each person whose vectors follow each other, shape `(num_persons,)`."""
        together = vectors.reshape(num_persons, -1)
        norm = dithered_norm(squared_bound, together.shape[1])
        factors = shrink_factors(column_norms(together), norm)
        if self.by == "features" and self.target is not None:
            features = np.delete(vectors, self.target + 1, axis=1).reshape(num_persons, -1)
            factors = np.minimum(factors, shrink_factors(column_norms(features), norm / sqrt(2)))
        return factors

    def moves_target(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each normalised row of shape `(n, d)` whether its target lies beyond [-Y, Y]."""
        if self.target is None:
            return np.zeros(len(rows), np.bool_)
        return np.greater(np.abs(rows[:, self.target]), self.target_bound)
