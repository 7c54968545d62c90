"""Row weights: a row that is far out is shrunk together with its constant and its target, and so counts less.

What is clipped is f = (c, z), the target in it times k. A row is shrunk by its own factor t, so that the products of
t f are those of a row of weight t^2 (docs/reference/mechanisms/second_moment.md#row-weights).
"""

from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.noise.clipping import column_norms, dithered_norm, quantise_shrunk, shrink_factors, within_reach

WeightedBy = Literal["features", "all"]
"""What says how much a row counts: its features alone, or its target too."""


@dataclass(frozen=True)
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

    def vectors(self, rows: FloatArray) -> FloatArray:
        """Return f of normalised rows of shape `(n, d)` in steps, shape `(n, d + 1)`; 0 where a number is missing."""
        whole: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(rows), axis=1)
        known = within_reach(np.where(whole[:, np.newaxis], rows, 0.0))
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
