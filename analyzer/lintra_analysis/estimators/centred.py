"""Second moments about the means, from a release whose constant column holds the sums of all others.

With the constant c in the first place, C = M_vv - M_v0 M_0v / M_00 = B^T M B for B = (-M_0v / M_00; I), and since B
minimises, an error N of M moves C by B^T N B to first order. Without a constant column the public centers stand for
the means.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.columns import Column, centers, positions, scales
from lintra_analysis.releases.gram import ErrorLaw, ExchangeableRows, GramEstimate, HasSecondMoment, SymmetricNoise
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.ring import FloatArray, IntArray


@dataclass(frozen=True, eq=False, repr=False)
class CombinedError:
    """The error B^T N B of a matrix B^T M B, by the law of N.

    Attributes:
        law: of N, an error of M.
        matrix: M, shape `(d, d)`.
        basis: B, shape `(d, k)`.
    """

    law: ErrorLaw
    matrix: FloatArray
    basis: FloatArray

    def product_covariance(self, theta: FloatArray) -> FloatArray:
        """Return Cov(B^T N B theta), shape `(k, k)`."""
        return self.basis.T @ self.law.product_covariance(self.basis @ theta) @ self.basis

    def privacy_covariance(self, theta: FloatArray, matrix: FloatArray) -> FloatArray:
        """Return the part of `product_covariance` that privacy costs."""
        del matrix
        return self.basis.T @ self.law.privacy_covariance(self.basis @ theta, self.matrix) @ self.basis

    def functional_sd(self, weights: FloatArray) -> float:
        """Return the sd of <weights, B^T N B> for symmetric `weights` of shape `(k, k)`."""
        return self.law.functional_sd(self.basis @ weights @ self.basis.T)

    def entry_variance(self, basis: FloatArray) -> FloatArray:
        """Return the variances of the entries of basis^T B^T N B basis."""
        return self.law.entry_variance(self.basis @ basis)

    def correlation_variance(self, correlation: FloatArray, diagonal: FloatArray) -> FloatArray:
        """Return the first-order variances of C_ij / sqrt(C_ii C_jj), shape `(k, k)`."""
        size = diagonal.size
        unit = self.basis / np.sqrt(diagonal)
        if isinstance(self.law, SymmetricNoise):
            return self.law.pair_variance(correlation, unit)
        variance = np.zeros((size, size))
        for i in range(size):
            for j in range(i):
                pair, r = unit[:, [i, j]], float(correlation[i, j])
                weights = pair @ np.array([[-r / 2, 0.5], [0.5, -r / 2]]) @ pair.T
                variance[i, j] = variance[j, i] = self.law.functional_sd(weights) ** 2
        return variance

    def floor(self, size: int) -> float:
        """Return the eigenvalue below which a block of `size` columns is noise."""
        return self.law.floor(size)

    def degrees_of_freedom(self, fitted: int) -> float:
        """Return those of the law of N."""
        return self.law.degrees_of_freedom(fitted)

    def restrict(self, index: IntArray) -> "CombinedError":
        """Return the law of the block of some columns."""
        return CombinedError(self.law, self.matrix, self.basis[:, index])


@dataclass(frozen=True, eq=False, repr=False)
class Centred:
    """Second moments of the varying columns about their means, or about the public centers.

    Attributes:
        gram: in normalised units; its matrix is a sum of squares and products over the cohort.
        means: of the normalised columns; 0 where the public centers stand for them. Shape `(d,)`.
        about_means: whether a constant column made the means known.
        divisor: what makes a variance of a sum of squares: n - 1 about the means, else n.
    """

    gram: GramEstimate
    means: FloatArray
    about_means: bool
    divisor: int

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that vary."""
        return self.gram.columns

    @property
    def means_in_units(self) -> FloatArray:
        """The means, or the public centers that stand for them, in the columns' own units, shape `(d,)`."""
        return centers(self.columns) + scales(self.columns) * self.means


def centred(release: HasSecondMoment, columns: Sequence[str] | None = None) -> Centred:
    """Take second moments about the means if the release holds a constant column, else about the public centers.

    Args:
        release: a sketch or a second moment.
        columns: those that take part; by default all that vary.

    Raises:
        InvalidAnalysisError: the release holds no second moments, a named column does not vary or is unknown, or
            there are too few clients.
    """
    gram = release.second_moment()
    constants = [column for column in gram.columns if column.constant]
    names = [column.name for column in gram.columns if column not in constants]
    if columns is not None:
        chosen = [gram.columns[i] for i in positions(gram.columns, columns)]
        names = [column.name for column in chosen]
        if useless := [column.name for column in chosen if column in constants]:
            raise InvalidAnalysisError(
                f"{', '.join(map(repr, useless))} is the same for everybody, so it does not vary"
            )
    if not names:
        raise InvalidAnalysisError("every column of this release is the same for everybody, so nothing varies")
    if not constants:
        return Centred(gram.restrict(names), np.zeros(len(names)), False, gram.num_clients)
    constant, value = constants[0].name, float(constants[0].constant or 1.0)
    if gram.num_clients < 2:
        raise InvalidAnalysisError("a variance about the mean needs at least 2 clients")
    whole = gram.restrict([constant, *names])
    total, first = float(whole.matrix[0, 0]), np.zeros(len(names) + 1)
    first[0] = 1.0
    if total <= 2 * whole.errors.functional_sd(np.outer(first, first)):
        raise InvalidAnalysisError(f"noise has swallowed the constant column {constant!r}, and the means with it")
    slopes = whole.matrix[0, 1:] / total
    basis = np.vstack([-slopes, np.eye(len(names))])
    # The means adapt to the noise, so the products about them are too small by what the noise of the means explains.
    adapted = whole.errors.product_covariance(first)[1:, 1:] / total
    matrix = whole.matrix[1:, 1:] - np.outer(slopes, slopes) * total + adapted
    errors = CombinedError(whole.errors, whole.matrix, basis)
    gram = GramEstimate(whole.columns[1:], (matrix + matrix.T) / 2, errors, gram.num_clients, gram.row_bound)
    return Centred(gram, slopes * value, True, gram.num_clients - 1)


def privacy_functional_sd(errors: ErrorLaw, weights: FloatArray, matrix: FloatArray) -> float:
    """Return the part of `errors.functional_sd(weights)` that privacy costs, given M of shape `(d, d)`.

    For a sketch with noise E and Y0 = Y - E, <W, M> holds 2 <W, E^T Y0> and <W, E^T E - V I>, uncorrelated, of
    variances 4 v tr(W M W) and 2 |W|^2 sum_r v_r^2.
    """
    if isinstance(errors, CombinedError):
        basis = errors.basis
        return privacy_functional_sd(errors.law, basis @ weights @ basis.T, errors.matrix)
    if not isinstance(errors, ExchangeableRows):
        return errors.functional_sd(weights)
    noise = errors.noise_variance
    cross = 4 * float(noise.mean()) * float(np.sum((weights @ matrix) * weights))
    return float(np.sqrt(max(cross + 2 * float(np.sum(weights**2)) * float(noise @ noise), 0.0)))


def sampling_functional_sd(weights: FloatArray, matrix: FloatArray, num_clients: int) -> float:
    """Return the sd of <weights, M> over draws of n clients, if rows are normal: sqrt(2 tr(W M W M) / n).

    A second moment holds no fourth moments, so this cannot be had without an assumption. `matrix` is clipped to be
    positive semi-definite by the caller.
    """
    product = weights @ matrix
    return float(np.sqrt(max(2 * float(np.sum(product * product.T)) / num_clients, 0.0)))
