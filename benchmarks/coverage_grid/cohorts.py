"""Clients drawn from a table, their rows normalised and shrunk, and many releases of their second moments at once."""

import zlib
from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.gaussian import gaussian_mu

DELTA = 1e-6


@dataclass(frozen=True)
class Cohort:
    """Shrunk rows in normalised units: what a release is made of.

    Attributes:
        gram: Z^T Z, the constant column first if there is one, the target last.
        num_clients: n.
        row_bound: B, of the columns without the constant.
        constant: the constant column's value, 0 for none.
    """

    gram: FloatArray
    num_clients: int
    row_bound: float
    constant: float

    @property
    def longest(self) -> float:
        """The norm that no row exceeds, with the constant."""
        return float(np.hypot(self.row_bound, self.constant))

    def sigma(self, epsilon: float) -> float:
        """Return the noise of one product: (B^2 + c^2) / mu."""
        return self.longest**2 / gaussian_mu(epsilon, DELTA)

    def law(self, epsilon: float) -> SymmetricNoise:
        """Return the noise of a release: with a constant column an exact corner and a tight trace."""
        if not self.constant:
            return SymmetricNoise(self.sigma(epsilon))
        return SymmetricNoise(self.sigma(epsilon), trace_tight=True, num_columns=len(self.gram) - 1, exact=0)

    def matrices(self, epsilon: float, draws: int, generator: np.random.Generator) -> FloatArray:
        """Return released matrices, shape `(draws, q, q)`, as the mechanism's law has them."""
        size = len(self.gram)
        noise = self.sigma(epsilon) * generator.normal(size=(draws, size, size))
        noise = (noise + np.swapaxes(noise, 1, 2)) / np.sqrt(2)
        if self.constant:
            varying = size - 1
            noise[:, 0, 0] = 0.0
            shift = np.trace(noise, axis1=1, axis2=2) / varying * (1 - 1 / np.sqrt(varying + 1))
            noise[:, range(1, size), range(1, size)] -= shift[:, np.newaxis]
        return np.asarray(self.gram + noise)

    def released(self, matrix: FloatArray, epsilon: float) -> GramEstimate:
        """Return one of the matrices as a release."""
        varying = len(self.gram) - bool(self.constant)
        named = [ScaledColumn(f"x{i}", 0, 1, -1e6, 1e6) for i in range(varying - 1)]
        named += [ScaledColumn("y", 0, 1, -1e6, 1e6)]
        if self.constant:
            named = [ScaledColumn("(intercept)", 0, 1 / self.constant, 1, 1), *named]
        return GramEstimate(tuple(named), matrix, self.law(epsilon), self.num_clients, self.longest)

    def release(self, epsilon: float, generator: np.random.Generator) -> GramEstimate:
        """Return the second moments with noise, once."""
        return self.released(self.matrices(epsilon, 1, generator)[0], epsilon)


def shrunk_rows(rows: FloatArray, intercept: bool) -> tuple[FloatArray, float]:
    """Return rows normalised from their .1 % and 99.9 % points, shrunk to the 95 % point of their norms; and that."""
    low, high = np.quantile(rows, [0.001, 0.999], axis=0)
    scale = np.where(high > low, (high - low) / 2, 1.0)
    rows = (np.clip(rows, low, high) - (low + high) / 2) / scale
    norms = np.linalg.norm(rows, axis=1)
    bound = float(np.quantile(norms, 0.95))
    rows = rows * np.minimum(1, bound / np.maximum(norms, 1e-300))[:, np.newaxis]
    return (np.column_stack([np.ones(len(rows)), rows]) if intercept else rows), bound


def cohort(table: FloatArray, num_clients: int, intercept: bool, generator: np.random.Generator) -> Cohort:
    """Draw clients from a table of shape `(n, d + 1)`, the target last, and prepare their rows."""
    chosen = generator.choice(len(table), num_clients, replace=len(table) < num_clients)
    rows, bound = shrunk_rows(table[chosen].astype(np.float64), intercept)
    return Cohort(rows.T @ rows, num_clients, bound, 1.0 if intercept else 0.0)


def seeded(seed: int, *parts: object) -> np.random.Generator:
    """Return the generator of one cell, the same whatever else is computed beside it."""
    return np.random.default_rng([seed, zlib.crc32(repr(parts).encode())])
