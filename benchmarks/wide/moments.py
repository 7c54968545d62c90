"""The noise of a range finder, the sums that it adds up, and R2 of predictions over all rows from their products."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.gaussian import gaussian_mu

DELTA = 1e-6


def noise_sd(epsilon: float, bound: float, length: float) -> float:
    """Return s_E for rows up to `length` and projections up to `bound`, no client corrupt: 2 B C / mu."""
    return 2 * length * bound / gaussian_mu(epsilon, DELTA)


def sums_of(blocks: Iterable[FloatArray], projection: FloatArray, bound: float) -> FloatArray:
    """Return the sum of products of rows with their projections, clipped at the bound; shape `(d, r)`."""
    values = np.zeros(projection.shape)
    for block in blocks:
        seen = block @ projection
        seen *= np.minimum(1.0, bound / np.linalg.norm(seen, axis=1))[:, np.newaxis]
        values += block.T @ seen
    return values


@dataclass(frozen=True)
class Moments:
    """What all rows add up to.

    Attributes:
        products: of 1 and all columns, shape `(d + 1, d + 1)`.
        clipped: products of all columns with one or several projections, each clipped; shape `(d, k r)`.
    """

    products: FloatArray
    clipped: FloatArray

    @classmethod
    def of(cls, blocks: Iterable[FloatArray], projections: FloatArray, rank: int, bound: float) -> "Moments":
        """Add up in one pass.

        Args:
            blocks: rows, each of shape `(k, d)`.
            projections: one or several beside each other, shape `(d, k r)`.
            rank: r, the columns of each.
            bound: where the projection of a row is clipped, in each.
        """
        size, width = projections.shape
        products, clipped = np.zeros((size + 1, size + 1)), np.zeros(projections.shape)
        for block in blocks:
            joined = np.column_stack([np.ones(len(block)), block])
            products += joined.T @ joined
            seen = (block @ projections).reshape(len(block), width // rank, rank)
            seen *= np.minimum(1.0, bound / np.linalg.norm(seen, axis=2))[:, :, np.newaxis]
            clipped += block.T @ seen.reshape(len(block), width)
        return cls(products, clipped)

    @property
    def rows(self) -> int:
        """Return their number."""
        return round(float(self.products[0, 0]))

    def r2(self, intercept: float, slopes: FloatArray) -> float:
        """Return R2 of predictions of the last column by all others."""
        found = np.array([intercept, *slopes])
        left = self.products[-1, -1] - 2 * found @ self.products[:-1, -1] + found @ self.products[:-1, :-1] @ found
        return float(1 - left / (self.products[-1, -1] - self.products[0, -1] ** 2 / self.products[0, 0]))

    def least_squares(self) -> float:
        """Return R2 of least squares of the last column on all others, without privacy."""
        found = np.asarray(np.linalg.lstsq(self.products[:-1, :-1], self.products[:-1, -1], rcond=1e-12)[0], np.float64)
        return self.r2(float(found[0]), found[1:])
