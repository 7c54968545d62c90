"""The error of a noisy sum of products: a symmetric random matrix with independent entries."""

from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.releases.noise_laws.law import KnownNoise
from lintra_analysis.releases.sampling import gaussians
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray


@dataclass(frozen=True)
class SymmetricNoise(KnownNoise):
    """The error of a noisy sum of products: a symmetric matrix N, Gaussian unless it says otherwise.

    Its sd is `sigma` off the diagonal and sqrt(2) `sigma` on it, so that
    Cov(N_ij, N_kl) = sigma^2 (d_ik d_jl + d_il d_jk) in every orthonormal basis. It is all privacy noise: the sum
    itself is exact. Two options make the diagonal, and only the diagonal, less noisy.
    """

    sigma: float  #: sd of an entry off the diagonal
    #: the release is N - (tr N / d) (1 - 1 / sqrt(d + 1)) I over all d columns that carry noise, so that their diagonal
    #: has the covariance 2 sigma^2 (I - 1 1^T / (d + 1))
    trace_tight: bool = False
    #: that d; of the whole release, also when this is the law of a block. Needed if `trace_tight`.
    num_columns: int = 0
    #: position of a column whose product with itself is public, so that N is 0 there; not one of the d
    exact: int | None = None
    gaussian: bool = True  #: whether N is Gaussian; if not, it has these covariances all the same
    #: position of a column that carries noise and is not one of the d: the constant under a noisy count
    apart: int | None = None

    def __post_init__(self) -> None:
        if self.trace_tight and self.num_columns < 1:
            raise ValueError("trace-tight noise needs num_columns, how many columns of the whole release carry it")

    @property
    def spectral_sigma(self) -> float:
        """Return `sigma`: both options only take noise away."""
        return self.sigma

    def product_covariance(self, theta: FloatArray) -> FloatArray:
        """Return Cov(N theta), shape `(d, d)`, for `theta` of shape `(d,)`."""
        full = float(theta @ theta) * np.eye(theta.size) + np.outer(theta, theta)
        return self.sigma**2 * (full - np.outer(theta, theta) * self._spared(theta.size))

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
            traced = self._traced(basis.shape[0])[:, np.newaxis] * basis
            variance -= 2 * (basis.T @ traced) ** 2 / (self.num_columns + 1)
        scaled: FloatArray = self.sigma**2 * np.maximum(variance, 0)
        return scaled

    def correlation_variance(self, correlation: FloatArray, diagonal: FloatArray) -> FloatArray:
        """Return the first-order variances of M_ij / sqrt(M_ii M_jj), shape `(d, d)`.

        `correlation` is the estimates themselves, shape `(d, d)`; `diagonal` is M_ii, positive, shape `(d,)`.
        """
        return self.pair_variance(correlation, np.diag(1 / np.sqrt(diagonal)))

    def pair_variance(self, correlation: FloatArray, basis: FloatArray) -> FloatArray:
        """Return the variances of u_i^T N u_j - r_ij (u_i^T N u_i + u_j^T N u_j) / 2, shape `(k, k)`, 0 for i = j.

        `correlation` is r, shape `(k, k)`; `basis` is the u_i, shape `(d, k)`.
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
            traced = self._traced(basis.shape[0])[:, np.newaxis] * basis
            variance -= 2 * less(basis.T @ traced) ** 2 / (self.num_columns + 1)
        # A column's correlation with itself is 1, whatever the noise.
        np.fill_diagonal(variance, 0.0)
        scaled: FloatArray = self.sigma**2 * np.maximum(variance, 0)
        return scaled

    def inflation(self, inverse: FloatArray) -> FloatArray:
        """Return E[N A N], shape `(d, d)`, for a symmetric A: to second order, what noise adds to an inverse."""
        trace = float(np.trace(inverse)) * np.eye(inverse.shape[0])
        return self.sigma**2 * (inverse + trace - inverse * self._spared(inverse.shape[0]))

    def kernel(self, size: int) -> FloatArray | None:
        """Return K with Cov(N theta) = sigma^2 (|theta|^2 I + (theta theta^T) o K), shape `(d, d)`, if Gaussian."""
        return 1 - self._spared(size) if self.gaussian else None

    def draws(self, count: int, size: int, random_bytes: RandomBytes) -> FloatArray | None:
        """Return `count` draws of N, shape `(count, d, d)`, if it is Gaussian: what the options take off included."""
        if not self.gaussian:
            return None
        square = gaussians((count, size, size), random_bytes) * self.sigma
        noise = (square + np.swapaxes(square, 1, 2)) / np.sqrt(2)
        noise[:, range(size), range(size)] *= self._noised(size)
        if self.trace_tight:
            # The trace is that of the whole release: columns that are not in this block add to it.
            traced = self._traced(size)
            others = self.num_columns - traced.sum()
            rest = gaussians((count,), random_bytes) * self.sigma * np.sqrt(2 * others)
            trace = np.diagonal(noise, axis1=1, axis2=2) @ traced + rest
            shift = trace / self.num_columns * (1 - 1 / np.sqrt(self.num_columns + 1))
            noise[:, range(size), range(size)] -= shift[:, np.newaxis] * traced
        return np.asarray(noise)

    def triple_covariance(self, basis: FloatArray) -> FloatArray | None:
        """Return Cov of (u_i^T N u_i, u_i^T N u_j, u_j^T N u_j), shape `(k, k, 3, 3)`, if the noise is Gaussian.

        Cov(u^T N v, w^T N x) = sigma^2 ((u w)(v x) + (u x)(v w)), less what the options take off the diagonal: with
        P(u, v) a sum of u_l v_l over some columns, their part is a multiple of P(u, v) P(w, x).
        """
        if not self.gaussian:
            return None
        size = basis.shape[1]
        first, second = np.meshgrid(range(size), range(size), indexing="ij")
        ends = [(first, first), (first, second), (second, second)]
        products = basis.T @ basis
        spared: list[tuple[float, FloatArray]] = []
        if self.exact is not None:
            spared.append((2.0, np.outer(basis[self.exact], basis[self.exact])))
        if self.trace_tight:
            traced = self._traced(basis.shape[0])[:, np.newaxis] * basis
            spared.append((2 / (self.num_columns + 1), basis.T @ traced))
        found = np.empty((size, size, 3, 3))
        for a, (u, v) in enumerate(ends):
            for b, (w, x) in enumerate(ends):
                found[:, :, a, b] = products[u, w] * products[v, x] + products[u, x] * products[v, w]
                for share, part in spared:
                    found[:, :, a, b] -= share * part[u, v] * part[w, x]
        return self.sigma**2 * found

    def floor(self, size: int) -> float:
        """Return the eigenvalue below which a block of `size` columns is noise: sigma sqrt(size)."""
        return self.sigma * float(np.sqrt(size))

    def restrict(self, index: IntArray) -> "SymmetricNoise":
        """Return the law of the block of some columns, numbered in shape `(k,)`: it is known where each stands."""

        def place(column: int | None) -> int | None:
            kept = np.flatnonzero(index == column) if column is not None else np.array([], np.int64)
            return int(kept[0]) if kept.size else None

        return replace(self, exact=place(self.exact), apart=place(self.apart))

    def _spared(self, size: int) -> FloatArray:
        """Return by how much the covariance of the diagonal of N is below 2 I, shape `(d, d)`, in sigma^2."""
        spared: FloatArray = 2 * np.diag(1 - self._noised(size))
        if self.trace_tight:
            traced = self._traced(size)
            spared += 2 * np.outer(traced, traced) / (self.num_columns + 1)
        return spared

    def _noised(self, size: int) -> FloatArray:
        """Return 1 for every column whose product with itself carries noise, else 0; shape `(d,)`."""
        noised = np.ones(size)
        if self.exact is not None:
            noised[self.exact] = 0.0
        return noised

    def _traced(self, size: int) -> FloatArray:
        """Return 1 for every column that is one of the d of the trace, else 0; shape `(d,)`."""
        traced = self._noised(size)
        if self.apart is not None:
            traced[self.apart] = 0.0
        return traced
