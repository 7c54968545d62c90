"""The error of a drawn Wishart matrix, which is noisier where the data are larger.

One law for projections, inverse Wishart draws and added Wishart noise; it answers the same questions as the laws in
`lintra_analysis.releases.noise_laws`.
"""

from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.releases.noise_laws.law import KnownNoise
from lintra_protocol.crypto.ring import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class WishartError(KnownNoise):
    """Cov(N_ij, N_kl) = spread (C_ik C_jl + C_il C_jk) + common C_ij C_kl.

    All of it is privacy noise: the draw that hides the rows is what errs.
    """

    centre: FloatArray  #: C, shape `(d, d)`: the mean of the draw, or the draw itself where the mean holds the data
    spread: float  #: 1 / r for a mean of r outer products
    common: float  #: 0, except for inverse Wishart draws, whose scale errs as well
    sigma: float  #: sd of an entry off the diagonal where there are no data

    def __repr__(self) -> str:
        return f"WishartError(columns={self.centre.shape[0]}, spread={self.spread:.4g})"

    def product_covariance(self, theta: FloatArray) -> FloatArray:
        """Return Cov(N theta), shape `(d, d)`, for `theta` of shape `(d,)`."""
        image = self.centre @ theta
        return self.spread * float(theta @ image) * self.centre + (self.spread + self.common) * np.outer(image, image)

    def functional_sd(self, weights: FloatArray) -> float:
        """Return the sd of <weights, N> for symmetric `weights` of shape `(d, d)`."""
        product = weights @ self.centre
        variance = 2 * self.spread * float(np.sum(product * product.T)) + self.common * float(np.trace(product)) ** 2
        return float(np.sqrt(max(variance, 0.0)))

    def entry_variance(self, basis: FloatArray) -> FloatArray:
        """Return the variances of the entries of basis^T N basis, shape `(k, k)`, for orthonormal columns."""
        rotated = basis.T @ self.centre @ basis
        diagonal = np.diagonal(rotated)
        variance: FloatArray = self.spread * np.outer(diagonal, diagonal) + (self.spread + self.common) * rotated**2
        return variance

    def correlation_variance(self, correlation: FloatArray, diagonal: FloatArray) -> FloatArray:
        """Return the first-order variances of M_ij / sqrt(M_ii M_jj), shape `(d, d)`.

        The gradient is N_ij / sqrt(M_ii M_jj) - r_ij (N_ii / M_ii + N_jj / M_jj) / 2. `correlation` is the estimates
        themselves, shape `(d, d)`; `diagonal` is M_ii, positive, shape `(d,)`.
        """
        scaled = self.centre / np.sqrt(np.outer(diagonal, diagonal))
        own = np.diagonal(scaled)
        both = 2 * self.spread + self.common
        entry = self.spread * (np.outer(own, own) + scaled**2) + self.common * scaled**2
        mixed = both * scaled * np.add.outer(own, own)
        ends = both * np.add.outer(own**2, own**2) + 4 * self.spread * scaled**2 + 2 * self.common * np.outer(own, own)
        variance: FloatArray = np.maximum(entry - correlation * mixed + correlation**2 * ends / 4, 0)
        np.fill_diagonal(variance, 0.0)
        return variance

    def floor(self, size: int) -> float:
        """Return the eigenvalue below which a block of `size` columns is noise: sigma sqrt(size)."""
        return self.sigma * float(np.sqrt(size))

    def restrict(self, index: IntArray) -> "WishartError":
        """Return the law of the block of some columns, numbered in shape `(k,)`."""
        return replace(self, centre=self.centre[np.ix_(index, index)])
