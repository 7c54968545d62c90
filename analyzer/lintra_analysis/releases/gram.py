"""Where releases meet: an unbiased estimate of Z^T Z, together with the law of its error.

Every estimator reads a `GramEstimate`. It asks the matrix for the answer and the error law for how far off
the answer may be; all laws answer the same questions, so that no estimator needs to know which mechanism it serves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from lintra_analysis.releases.columns import Column, positions
from lintra_protocol.ring import FloatArray, IntArray


class ErrorLaw(Protocol):
    """What every estimator asks of the error N of a Gram matrix M of d columns."""

    def product_covariance(self, theta: FloatArray) -> FloatArray:
        """Return Cov(N theta), shape `(d, d)`, for `theta` of shape `(d,)`."""
        ...

    def privacy_covariance(self, theta: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the part of `product_covariance` that privacy costs, given M of shape `(d, d)`."""
        ...

    def functional_sd(self, weights: FloatArray) -> float:
        """Return the sd of <weights, N> for symmetric `weights` of shape `(d, d)`."""
        ...

    def entry_variance(self, basis: FloatArray) -> FloatArray:
        """Return the variances of the entries of basis^T N basis, shape `(k, k)`, for a basis of shape `(d, k)`."""
        ...

    def correlation_variance(self, correlation: FloatArray, diagonal: FloatArray) -> FloatArray:
        """Return the first-order variances of M_ij / sqrt(M_ii M_jj), shape `(d, d)`."""
        ...

    def floor(self, size: int) -> float:
        """Return the eigenvalue below which a block of `size` columns is noise."""
        ...

    def degrees_of_freedom(self, fitted: int) -> float:
        """Return those of Student's t for an error of `fitted` coefficients; infinity if the law is known."""
        ...

    def restrict(self, index: IntArray) -> "ErrorLaw":
        """Return the law of the block of some columns."""
        ...


@dataclass(frozen=True)
class SymmetricNoise:
    """The error of a noisy sum of products: a symmetric matrix N, Gaussian unless it says otherwise.

    Its sd is `sigma` off the diagonal and sqrt(2) `sigma` on it, so that
    Cov(N_ij, N_kl) = sigma^2 (d_ik d_jl + d_il d_jk) in every orthonormal basis. It is all privacy noise: the sum
    itself is exact. Two options make the diagonal, and only the diagonal, less noisy.

    Attributes:
        sigma: sd of an entry off the diagonal.
        trace_tight: the release is N - (tr N / d) (1 - 1 / sqrt(d + 1)) I over all d columns that carry noise, so
            that their diagonal has the covariance 2 sigma^2 (I - 1 1^T / (d + 1)).
        num_columns: that d; of the whole release, also when this is the law of a block. Needed if `trace_tight`.
        exact: position of a column whose product with itself is public, so that N is 0 there; not one of the d.
        gaussian: whether N is Gaussian; if not, it has these covariances all the same.
    """

    sigma: float
    trace_tight: bool = False
    num_columns: int = 0
    exact: int | None = None
    gaussian: bool = True

    def __post_init__(self) -> None:
        if self.trace_tight and self.num_columns < 1:
            raise ValueError("trace-tight noise needs num_columns, how many columns of the whole release carry it")

    def product_covariance(self, theta: FloatArray) -> FloatArray:
        """Return Cov(N theta), shape `(d, d)`, for `theta` of shape `(d,)`."""
        full = float(theta @ theta) * np.eye(theta.size) + np.outer(theta, theta)
        return self.sigma**2 * (full - np.outer(theta, theta) * self._spared(theta.size))

    def privacy_covariance(self, theta: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the part of `product_covariance` that the privacy noise causes: all of it."""
        del matrix
        return self.product_covariance(theta)

    def functional_sd(self, weights: FloatArray) -> float:
        """Return the sd of <weights, N> for symmetric `weights` of shape `(d, d)`."""
        diagonal = np.diagonal(weights)
        variance = 2 * float(np.sum(weights**2)) - float(diagonal @ self._spared(diagonal.size) @ diagonal)
        return self.sigma * float(np.sqrt(max(variance, 0.0)))

    def entry_variance(self, basis: FloatArray) -> FloatArray:
        """Return the variances of the entries of basis^T N basis, shape `(k, k)`, for a basis of shape `(d, k)`."""
        products = basis.T @ basis
        variance = np.outer(np.diagonal(products), np.diagonal(products)) + products**2
        if self.exact is not None:
            variance -= 2 * np.outer(basis[self.exact], basis[self.exact]) ** 2
        if self.trace_tight:
            noised = self._noised(basis.shape[0])[:, np.newaxis] * basis
            variance -= 2 * (basis.T @ noised) ** 2 / (self.num_columns + 1)
        scaled: FloatArray = self.sigma**2 * np.maximum(variance, 0)
        return scaled

    def correlation_variance(self, correlation: FloatArray, diagonal: FloatArray) -> FloatArray:
        """Return the first-order variances of M_ij / sqrt(M_ii M_jj), shape `(d, d)`.

        Args:
            correlation: the estimates themselves, shape `(d, d)`.
            diagonal: M_ii, positive, shape `(d,)`.
        """
        return self.pair_variance(correlation, np.diag(1 / np.sqrt(diagonal)))

    def pair_variance(self, correlation: FloatArray, basis: FloatArray) -> FloatArray:
        """Return the variances of u_i^T N u_j - r_ij (u_i^T N u_i + u_j^T N u_j) / 2, shape `(k, k)`, 0 for i = j.

        Args:
            correlation: r, shape `(k, k)`.
            basis: the u_i, shape `(d, k)`.
        """

        def less(products: FloatArray) -> FloatArray:
            own = np.diagonal(products)
            difference: FloatArray = products - correlation * np.add.outer(own, own) / 2
            return difference

        products = basis.T @ basis
        own = np.diagonal(products)
        ends = np.add.outer(own**2, own**2) + 2 * products**2
        variance = np.outer(own, own) + products**2 + correlation**2 * ends / 2
        variance -= 2 * correlation * products * np.add.outer(own, own)
        if self.exact is not None:
            variance -= 2 * less(np.outer(basis[self.exact], basis[self.exact])) ** 2
        if self.trace_tight:
            noised = self._noised(basis.shape[0])[:, np.newaxis] * basis
            variance -= 2 * less(basis.T @ noised) ** 2 / (self.num_columns + 1)
        # A column's correlation with itself is 1, whatever the noise.
        np.fill_diagonal(variance, 0.0)
        scaled: FloatArray = self.sigma**2 * np.maximum(variance, 0)
        return scaled

    def inflation(self, inverse: FloatArray) -> FloatArray:
        """Return E[N A N], shape `(d, d)`, for a symmetric A: to second order, what noise adds to an inverse."""
        trace = float(np.trace(inverse)) * np.eye(inverse.shape[0])
        return self.sigma**2 * (inverse + trace - inverse * self._spared(inverse.shape[0]))

    def floor(self, size: int) -> float:
        """Return the eigenvalue below which a block of `size` columns is noise: sigma sqrt(size)."""
        return self.sigma * float(np.sqrt(size))

    def degrees_of_freedom(self, fitted: int) -> float:
        """Return infinity: the noise is known, not estimated."""
        del fitted
        return float(np.inf)

    def restrict(self, index: IntArray) -> "SymmetricNoise":
        """Return the law of the block of some columns: the same, since it is known where each column stands."""
        kept = np.flatnonzero(index == self.exact) if self.exact is not None else np.array([], np.int64)
        return replace(self, exact=int(kept[0]) if kept.size else None)

    def _spared(self, size: int) -> FloatArray:
        """Return by how much the covariance of the diagonal of N is below 2 I, shape `(d, d)`, in sigma^2."""
        noised = self._noised(size)
        spared: FloatArray = 2 * np.diag(1 - noised)
        if self.trace_tight:
            spared += 2 * np.outer(noised, noised) / (self.num_columns + 1)
        return spared

    def _noised(self, size: int) -> FloatArray:
        """Return 1 for every column whose product with itself carries noise, else 0; shape `(d,)`."""
        noised = np.ones(size)
        if self.exact is not None:
            noised[self.exact] = 0.0
        return noised


@dataclass(frozen=True)
class ExchangeableRows:
    """The error of a sketch, read off its own rows: M is the sum of the exchangeable Q_r = y_r y_r^T - v_r I.

    So m times the sample variance of a functional of Q_r is the variance of that functional of M, sketching
    error included, whatever the data are. The privacy noise alone explains only a part of it.
    """

    rows: FloatArray
    noise_variance: FloatArray

    def product_covariance(self, theta: FloatArray) -> FloatArray:
        """Return the estimate of Cov(M theta), shape `(d, d)`, for `theta` of shape `(d,)`."""
        terms = self.rows * (self.rows @ theta)[:, np.newaxis] - np.outer(self.noise_variance, theta)
        count = self.rows.shape[0]
        covariance: FloatArray = count * np.atleast_2d(np.cov(terms, rowvar=False))
        return covariance

    def privacy_covariance(self, theta: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the part of Cov(M theta) that the privacy noise causes.

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
        a = (y^2 - v) / M_ii. These terms sum to zero, so the sum of their squares is what varies.

        Args:
            correlation: the estimates themselves, shape `(d, d)`.
            diagonal: M_ii, positive, shape `(d,)`.
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
        """Return the law of the block of some columns."""
        return ExchangeableRows(self.rows[:, index], self.noise_variance)


@dataclass(frozen=True, eq=False, repr=False)
class GramEstimate:
    """An unbiased estimate of Z^T Z over the cohort, in normalised units, and the law of its error.

    Attributes:
        columns: what the rows and columns of `matrix` are.
        matrix: shape `(d, d)`, symmetric; noise may have made it indefinite.
        errors: the law of `matrix - Z^T Z`.
        num_clients: rows of Z.
        row_bound: the L2 norm that no row of Z exceeds.
    """

    columns: tuple[Column, ...]
    matrix: FloatArray
    errors: ErrorLaw
    num_clients: int
    row_bound: float

    def __repr__(self) -> str:
        law = type(self.errors).__name__
        return f"GramEstimate(columns={len(self.columns)}, errors={law}, num_clients={self.num_clients})"

    def restrict(self, names: Sequence[str]) -> "GramEstimate":
        """Return the block of the named columns, in that order.

        Raises:
            InvalidAnalysisError: a name is unknown or named twice.
        """
        index = positions(self.columns, names)
        return GramEstimate(
            columns=tuple(self.columns[i] for i in index),
            matrix=self.matrix[np.ix_(index, index)],
            errors=self.errors.restrict(index),
            num_clients=self.num_clients,
            row_bound=self.row_bound,
        )

    def second_moment(self) -> "GramEstimate":
        """Return this estimate itself, so that estimators read it like a release."""
        return self


class HasSecondMoment(Protocol):
    """A release that estimators of second moments can read."""

    def second_moment(self) -> GramEstimate:
        """Return the estimate of Z^T Z that the release holds.

        Raises:
            InvalidAnalysisError: it holds none.
        """
        ...
