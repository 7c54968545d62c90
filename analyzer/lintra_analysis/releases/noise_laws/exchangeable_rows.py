"""The error of a sketch, which its own rows show: privacy noise, the public matrix and the sampling of clients."""

from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.noise_laws.law import pair_variance_by_functionals
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray


@dataclass(frozen=True)
class ExchangeableRows:
    """The error of a sketch, read off its own rows: M is the sum of the exchangeable Q_r = y_r y_r^T - v_r I.

    So m times the sample variance of a functional of Q_r is the variance of that functional of M, sketching
    error included, whatever the data are. The privacy noise alone explains only a part of it.
    """

    rows: FloatArray
    noise_variance: FloatArray

    @property
    def measured(self) -> bool:
        """Return True: rows that hold different clients show the sampling as well."""
        return True

    @property
    def spectral_sigma(self) -> None:
        """Return None: the sketching error grows with the data."""
        return None

    @property
    def gaussian(self) -> bool:
        """Return False: whatever the data are, the sketching error follows them."""
        return False

    def product_covariance(self, theta: FloatArray) -> FloatArray:
        """Return the estimate of Cov(M theta), shape `(d, d)`, for `theta` of shape `(d,)`."""
        terms = self.rows * (self.rows @ theta)[:, np.newaxis] - np.outer(self.noise_variance, theta)
        count = self.rows.shape[0]
        covariance: FloatArray = count * np.atleast_2d(np.cov(terms, rowvar=False))
        return covariance

    def privacy_covariance(self, theta: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the part of Cov(M theta), shape `(d, d)`, that the privacy noise causes.

        With noise E and Y0 = Y - E, M theta holds E^T Y0 theta + Y0^T E theta + (E^T E - V I) theta. The first two
        have the covariance v (theta^T M theta I + |theta|^2 M + M theta theta^T + theta theta^T M), the third,
        uncorrelated with them, sum_r v_r^2 (|theta|^2 I + theta theta^T). M stands for Y0^T Y0, of which it is an
        unbiased estimate, and v for the mean of the v_r.
        """
        mean = float(self.noise_variance.mean())
        square = float(self.noise_variance @ self.noise_variance)
        norm, image = float(theta @ theta), matrix @ theta
        cross = np.outer(image, theta)
        first = mean * (float(theta @ image) * np.eye(theta.size) + norm * matrix + cross + cross.T)
        return first + square * (norm * np.eye(theta.size) + np.outer(theta, theta))

    def functional_sd(self, weights: FloatArray) -> float:
        """Return the estimated sd of <weights, M> for symmetric `weights` of shape `(d, d)`."""
        values = np.sum(self.rows @ weights * self.rows, axis=1)
        values -= self.noise_variance * np.trace(weights)
        return float(np.sqrt(self.rows.shape[0] * values.var(ddof=1)))

    def privacy_functional_sd(self, weights: FloatArray, matrix: FloatArray) -> float:
        """Return the part of `functional_sd` that the privacy noise causes, given M of shape `(d, d)`.

        With noise E and Y0 = Y - E, <W, M> holds 2 <W, E^T Y0> and <W, E^T E - V I>, uncorrelated, of variances
        4 v tr(W M W) and 2 |W|^2 sum_r v_r^2.
        """
        noise = self.noise_variance
        cross = 4 * float(noise.mean()) * float(np.sum((weights @ matrix) * weights))
        return float(np.sqrt(max(cross + 2 * float(np.sum(weights**2)) * float(noise @ noise), 0.0)))

    def entry_variance(self, basis: FloatArray) -> FloatArray:
        """Return the estimated variances of the entries of basis^T M basis, shape `(k, k)`."""
        rotated, products = self.rows @ basis, basis.T @ basis
        square, noise = rotated**2, self.noise_variance
        count = self.rows.shape[0]
        cross = rotated.T @ (noise[:, np.newaxis] * rotated)
        centred = square.T @ square - 2 * products * cross + products**2 * float(noise @ noise)
        centred -= (rotated.T @ rotated - products * float(noise.sum())) ** 2 / count
        variance: FloatArray = np.maximum(centred, 0) * count / (count - 1)
        return variance

    def correlation_variance(self, correlation: FloatArray, diagonal: FloatArray) -> FloatArray:
        """Return the first-order variances of M_ij / sqrt(M_ii M_jj), shape `(d, d)`.

        Row r moves the correlation by u_ri u_rj - r_ij (a_ri + a_rj) / 2 with u = y / sqrt(M_ii) and
        a = (y^2 - v) / M_ii. These terms sum to zero, so the sum of their squares is what varies. `correlation` is the
        estimates themselves, shape `(d, d)`; `diagonal` is M_ii, positive, shape `(d,)`.
        """
        u = self.rows / np.sqrt(diagonal)
        a = u**2 - np.outer(self.noise_variance, 1 / diagonal)
        mixed = (u * a).T @ u
        own = np.square(a).sum(axis=0)
        squares = (
            (u**2).T @ u**2
            - correlation * (mixed + mixed.T)
            + correlation**2 * (np.add.outer(own, own) + 2 * a.T @ a) / 4
        )
        np.fill_diagonal(squares, 0.0)
        count = self.rows.shape[0]
        variance: FloatArray = np.maximum(squares, 0) * count / (count - 1)
        return variance

    def pair_variance(self, correlation: FloatArray, basis: FloatArray) -> FloatArray:
        """Return the variances of u_i^T N u_j - r_ij (u_i^T N u_i + u_j^T N u_j) / 2, shape `(k, k)`, pair by pair."""
        return pair_variance_by_functionals(self.functional_sd, correlation, basis)

    def inflation(self, inverse: FloatArray) -> FloatArray:
        """Return zeros in the shape of the inverse: the rows do not say what their error adds to it."""
        return np.zeros_like(inverse)

    def informative_rows(self, matrix: FloatArray) -> float:
        """Return how many rows the data in M, shape `(d, d)`, support: their trace over that of one row's noise."""
        noise = float(self.noise_variance.mean())
        return float("inf") if noise == 0 else max(float(np.trace(matrix)), 0.0) / (noise * matrix.shape[0])

    def kernel(self, size: int) -> None:
        """Return None: the covariance follows the data."""
        del size

    def draws(self, count: int, size: int, random_bytes: RandomBytes) -> None:
        """Return None: the error follows the data."""
        del count, size, random_bytes

    def triple_covariance(self, basis: FloatArray) -> None:
        """Return None, whatever the shape of the basis: the error is not Gaussian."""
        del basis

    def floor(self, size: int) -> float:
        """Return the eigenvalue below which noise decides a block of `size` columns.

        The root f of f^2 = f0^2 + 4 v k f for k columns: f0 = v (2 sqrt(m k) + k) is the largest eigenvalue
        that noise alone produces, and 4 v k f the squared cross term of noise and data along a direction whose own
        eigenvalue is f. The top eigenvalue does not enter; docs/decisions/0010-ridge-floor.md says why.
        """
        mean = float(self.noise_variance.mean())
        alone = mean * (2 * float(np.sqrt(self.rows.shape[0] * size)) + size)
        half_cross = 2 * mean * size
        return half_cross + float(np.hypot(alone, half_cross))

    def degrees_of_freedom(self, fitted: int) -> float:
        """Return the rows left over when `fitted` coefficients are fitted to them."""
        return float(self.rows.shape[0] - fitted)

    def restrict(self, index: IntArray) -> "ExchangeableRows":
        """Return the law of the block of some columns, numbered in shape `(k,)`."""
        return ExchangeableRows(self.rows[:, index], self.noise_variance)

    def straightened(self) -> None:
        """Return None, no array of any shape: no basis is known in which noise is alike in all directions."""
        return
