"""The error of a second moment of linear combinations of columns, such as columns about their means."""

from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.noise_laws.law import ErrorLaw
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray


@dataclass(frozen=True, eq=False, repr=False)
class CombinedError:
    """The error B^T N B of a matrix B^T M B, by the law of N."""

    law: ErrorLaw  #: of N, an error of M
    matrix: FloatArray  #: M, shape `(d, d)`
    basis: FloatArray  #: B, shape `(d, k)`

    @property
    def measured(self) -> bool:
        """Return whether the law of N is read off the release's own rows."""
        return self.law.measured

    @property
    def spectral_sigma(self) -> None:
        """Return None: B turns noise that is alike in all directions into noise that is not."""
        return None

    @property
    def gaussian(self) -> bool:
        """Return whether N is Gaussian, and so to first order this error."""
        return self.law.gaussian

    def product_covariance(self, theta: FloatArray) -> FloatArray:
        """Return Cov(B^T N B theta), shape `(k, k)`."""
        return self.basis.T @ self.law.product_covariance(self.basis @ theta) @ self.basis

    def privacy_covariance(self, theta: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the part of `product_covariance` that privacy costs (shapes as `ErrorLaw` has them)."""
        del matrix
        return self.basis.T @ self.law.privacy_covariance(self.basis @ theta, self.matrix) @ self.basis

    def functional_sd(self, weights: FloatArray) -> float:
        """Return the sd of <weights, B^T N B> for symmetric `weights` of shape `(k, k)`."""
        return self.law.functional_sd(self.basis @ weights @ self.basis.T)

    def privacy_functional_sd(self, weights: FloatArray, matrix: FloatArray) -> float:
        """Return the part of `functional_sd` that privacy costs (shapes as `ErrorLaw` has them)."""
        del matrix
        return self.law.privacy_functional_sd(self.basis @ weights @ self.basis.T, self.matrix)

    def entry_variance(self, basis: FloatArray) -> FloatArray:
        """Return the variances of the entries of basis^T B^T N B basis, shape `(k, k)`."""
        return self.law.entry_variance(self.basis @ basis)

    def correlation_variance(self, correlation: FloatArray, diagonal: FloatArray) -> FloatArray:
        """Return the first-order variances of C_ij / sqrt(C_ii C_jj), shape `(k, k)`."""
        return self.pair_variance(correlation, np.diag(1 / np.sqrt(diagonal)))

    def pair_variance(self, correlation: FloatArray, basis: FloatArray) -> FloatArray:
        """Return the variances of u_i^T B^T N B u_j and its ends in the shapes of `ErrorLaw.pair_variance`."""
        return self.law.pair_variance(correlation, self.basis @ basis)

    def inflation(self, inverse: FloatArray) -> FloatArray:
        """Return E[B^T N B A B^T N B], shape `(k, k)`, for a symmetric A."""
        return self.basis.T @ self.law.inflation(self.basis @ inverse @ self.basis.T) @ self.basis

    def informative_rows(self, matrix: FloatArray) -> float | None:
        """Return what the law of N says of M, shape `(d, d)`."""
        return self.law.informative_rows(matrix)

    def kernel(self, size: int) -> None:
        """Return None: B turns noise that is alike in all directions into noise that is not."""
        del size

    def draws(self, count: int, size: int, random_bytes: RandomBytes) -> None:
        """Return None: nothing that is drawn anew is about means."""
        del count, size, random_bytes

    def triple_covariance(self, basis: FloatArray) -> FloatArray | None:
        """Return Cov of three functionals of each pair in the shapes of `ErrorLaw.triple_covariance`."""
        return self.law.triple_covariance(self.basis @ basis)

    def floor(self, size: int) -> float:
        """Return the eigenvalue below which a block of `size` columns is noise."""
        return self.law.floor(size)

    def degrees_of_freedom(self, fitted: int) -> float:
        """Return those of the law of N."""
        return self.law.degrees_of_freedom(fitted)

    def restrict(self, index: IntArray) -> "CombinedError":
        """Return the law of the block of some columns, numbered in shape `(k,)`."""
        return CombinedError(self.law, self.matrix, self.basis[:, index])

    def straightened(self) -> "tuple[FloatArray, ErrorLaw] | None":
        """Return None, no array of any shape: no basis is known in which noise is alike in all directions."""
        return None
