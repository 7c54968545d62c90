"""The interface of the error of an estimated second moment, and the answers that all laws of known noise share.

No estimator asks which law it has: whatever differs between laws is a question here.
"""

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray


class ErrorLaw(Protocol):
    """What every estimator asks of the error N of a Gram matrix M of d columns."""

    @property
    def measured(self) -> bool:
        """Return whether the law is read off the release's own rows, which hold different clients, and not known.

        Such a law holds sketching and the sampling of the clients beside the noise, and says nothing about a matrix
        whose eigenvalues were raised.
        """
        ...

    @property
    def spectral_sigma(self) -> float | None:
        """Return sigma if N is no larger than a symmetric matrix with entries of that sd (sqrt(2) on the diagonal).

        None if nothing like it is known; `gaussian` says whether N is Gaussian as well.
        """
        ...

    @property
    def gaussian(self) -> bool:
        """Return whether N is known to be Gaussian."""
        ...

    def product_covariance(self, theta: FloatArray) -> FloatArray:
        """Return Cov(N theta), shape `(d, d)`, for `theta` of shape `(d,)`."""
        ...

    def privacy_covariance(self, theta: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the part of `product_covariance` that privacy costs, given M of shape `(d, d)`."""
        ...

    def functional_sd(self, weights: FloatArray) -> float:
        """Return the sd of <weights, N> for symmetric `weights` of shape `(d, d)`."""
        ...

    def privacy_functional_sd(self, weights: FloatArray, matrix: FloatArray) -> float:
        """Return the part of `functional_sd` that privacy costs, given M of shape `(d, d)`."""
        ...

    def entry_variance(self, basis: FloatArray) -> FloatArray:
        """Return the variances of the entries of basis^T N basis, shape `(k, k)`, for a basis of shape `(d, k)`."""
        ...

    def correlation_variance(self, correlation: FloatArray, diagonal: FloatArray) -> FloatArray:
        """Return the first-order variances of M_ij / sqrt(M_ii M_jj), shape `(d, d)`."""
        ...

    def pair_variance(self, correlation: FloatArray, basis: FloatArray) -> FloatArray:
        """Return the variances of u_i^T N u_j - r_ij (u_i^T N u_i + u_j^T N u_j) / 2, shape `(k, k)`, 0 for i = j.

        `correlation` is r, shape `(k, k)`; `basis` is the u_i, shape `(d, k)`.
        """
        ...

    def inflation(self, inverse: FloatArray) -> FloatArray:
        """Return E[N A N], shape `(d, d)`, for a symmetric A: to second order, what noise adds to an inverse.

        Zeros where the law does not say, so that nothing is corrected.
        """
        ...

    def kernel(self, size: int) -> FloatArray | None:
        """Return K, shape `(d, d)`, if N is Gaussian and Cov(N theta) = sigma^2 (|theta|^2 I + (theta theta^T) o K).

        Sigma is `spectral_sigma`, and o multiplies entry by entry. None if the law is another one.
        """
        ...

    def draws(self, count: int, size: int, random_bytes: RandomBytes) -> FloatArray | None:
        """Return `count` draws of N for d = `size` columns, shape `(count, d, d)`, if N is Gaussian and known."""
        ...

    def triple_covariance(self, basis: FloatArray) -> FloatArray | None:
        """Return Cov of (u_i^T N u_i, u_i^T N u_j, u_j^T N u_j), shape `(k, k, 3, 3)`, if N is Gaussian.

        `basis` is the u_i, shape `(d, k)`.
        """
        ...

    def informative_rows(self, matrix: FloatArray) -> float | None:
        """Return how many rows of a sketch the data in M, shape `(d, d)`, support beside their noise; else None."""
        ...

    def floor(self, size: int) -> float:
        """Return the eigenvalue below which a block of `size` columns is noise."""
        ...

    def degrees_of_freedom(self, fitted: int) -> float:
        """Return those of Student's t for an error of `fitted` coefficients; infinity if the law is known."""
        ...

    def restrict(self, index: IntArray) -> "ErrorLaw":
        """Return the law of the block of some columns, numbered in shape `(k,)`."""
        ...

    def straightened(self) -> "tuple[FloatArray, ErrorLaw] | None":
        """Return S, shape `(d, d)`, and the law of S^-T N S^-1, if that is alike in all directions and N is not."""
        ...


class KnownNoise(ABC):
    """A law whose whole error is privacy noise of a known distribution: what then follows for all of them."""

    @property
    def measured(self) -> bool:
        """Return False: the law is known."""
        return False

    @property
    def spectral_sigma(self) -> float | None:
        """Return None: nothing is known that bounds the noise in every direction alike."""
        return None

    @property
    def gaussian(self) -> bool:
        """Return False: the noise is not known to be Gaussian."""
        return False

    @abstractmethod
    def product_covariance(self, theta: FloatArray) -> FloatArray:
        """Return Cov(N theta), shape `(d, d)`, for `theta` of shape `(d,)`."""

    @abstractmethod
    def functional_sd(self, weights: FloatArray) -> float:
        """Return the sd of <weights, N> for symmetric `weights` of shape `(d, d)`."""

    def privacy_covariance(self, theta: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the part of `product_covariance`, shape `(d, d)`, that the privacy noise causes: all of it."""
        del matrix
        return self.product_covariance(theta)

    def privacy_functional_sd(self, weights: FloatArray, matrix: FloatArray) -> float:
        """Return the part of `functional_sd`, weights of shape `(d, d)`, that the privacy noise causes: all of it."""
        del matrix
        return self.functional_sd(weights)

    def pair_variance(self, correlation: FloatArray, basis: FloatArray) -> FloatArray:
        """Return the variances of u_i^T N u_j - r_ij (u_i^T N u_i + u_j^T N u_j) / 2, shape `(k, k)`, pair by pair."""
        return pair_variance_by_functionals(self.functional_sd, correlation, basis)

    def inflation(self, inverse: FloatArray) -> FloatArray:
        """Return zeros in the shape of the inverse: the law does not say what noise adds to it."""
        return np.zeros_like(inverse)

    def informative_rows(self, matrix: FloatArray) -> float | None:
        """Return None, whatever the shape of the matrix: the release is no sketch."""
        del matrix
        return None

    def kernel(self, size: int) -> FloatArray | None:
        """Return None, no shape: the covariance has another form, or the noise is not Gaussian."""
        del size
        return None

    def draws(self, count: int, size: int, random_bytes: RandomBytes) -> FloatArray | None:
        """Return None, no array of any shape: the noise is not known to be Gaussian."""
        del count, size, random_bytes
        return None

    def triple_covariance(self, basis: FloatArray) -> FloatArray | None:
        """Return None, no array of any shape: the noise is not known to be Gaussian."""
        del basis
        return None

    def degrees_of_freedom(self, fitted: int) -> float:
        """Return infinity: the noise is known, not estimated."""
        del fitted
        return float(np.inf)

    def straightened(self) -> None:
        """Return None, no array of any shape: no basis is better than the columns' own."""
        return


class FunctionalSd(Protocol):
    """The sd of <weights, N> as a function of symmetric weights."""

    def __call__(self, weights: FloatArray, /) -> float:
        """Return the sd for `weights` of shape `(d, d)`."""
        ...


def pair_variance_by_functionals(functional_sd: FunctionalSd, correlation: FloatArray, basis: FloatArray) -> FloatArray:
    """Return what `ErrorLaw.pair_variance` asks for, one functional for each pair: k^2 / 2 of them.

    `correlation` is r, shape `(k, k)`; `basis` is the u_i, shape `(d, k)`.
    """
    size = basis.shape[1]
    variance = np.zeros((size, size))
    for i in range(size):
        for j in range(i):
            pair, r = basis[:, [i, j]], float(correlation[i, j])
            weights = pair @ np.array([[-r / 2, 0.5], [0.5, -r / 2]]) @ pair.T
            variance[i, j] = variance[j, i] = functional_sd(weights) ** 2
    return variance
