"""A pair of Gaussian laws, by the invariants on which every measure of their difference depends.

After whitening by the second law the first one has covariance diag(lambda). What is stored is eta = lambda - 1, because
neighbouring releases differ little and lambda itself would lose the digits that matter
(docs/explanation/ndis.md#pairs).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.ring import FloatArray

ComplexArray = NDArray[np.complex128]
Numbers = Sequence[float] | FloatArray

ULP = 2.0**-52
_CLOSEST = 2.0**-50
_NEAR = 0.5


@dataclass(frozen=True, eq=False)
class GaussianPair:
    """X ~ N(mu1, S1) against Y ~ N(mu2, S2), in G groups of coordinates that share a variance ratio.

    The coordinates of X whitened by Y have variances lambda = 1 + eta > 0. All arguments take sequences or arrays.

    Attributes:
        eta: lambda - 1 of each group, finite and above -1, shape `(G,)`.
        mult: coordinates in each group, at least 0 and not necessarily whole, shape `(G,)`.
        tsq: squared coordinates of S1^(-1/2) (mu1 - mu2), summed over each group, shape `(G,)`.
        disjoint: the laws are mutually singular: one outcome tells them apart, and delta is 1 for every epsilon.
    """

    eta: FloatArray
    mult: FloatArray
    tsq: FloatArray
    disjoint: bool = False

    def __init__(self, eta: Numbers, mult: Numbers, tsq: Numbers, *, disjoint: bool = False) -> None:
        """Check and keep the invariants.

        Raises:
            ValueError: if the shapes differ or a number is out of its range.
        """
        arrays = [np.array(values, dtype=np.float64) for values in (eta, mult, tsq)]
        if any(array.ndim != 1 or array.shape != arrays[0].shape for array in arrays):
            shapes = ", ".join(str(array.shape) for array in arrays)
            raise ValueError(f"eta, mult and tsq are vectors of one length, got shapes {shapes}")
        if not (np.isfinite(arrays[0]) & (arrays[0] > -1)).all():
            raise ValueError("eta must be finite and above -1; laws of different ranges are Pair(..., disjoint=True)")
        if not all((np.isfinite(array) & (array >= 0)).all() for array in arrays[1:]):
            raise ValueError("mult and tsq must be finite and at least 0")
        if (arrays[2][arrays[1] == 0] > 0).any():
            raise ValueError("a group of multiplicity 0 has no mean shift")
        for name, array in zip(("eta", "mult", "tsq"), arrays, strict=True):
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "disjoint", disjoint)

    @property
    def lam(self) -> FloatArray:
        """The variance ratios lambda, shape `(G,)`."""
        return 1 + self.eta

    @property
    def dimension(self) -> float:
        """The number of coordinates, k."""
        return float(self.mult.sum())

    @property
    def offset(self) -> float:
        """The constant c = ln(|S1| / |S2|) / 2 - m^T S2^-1 m / 2, so that the loss at X = mu1 is -c."""
        return float(self.mult @ np.log1p(self.eta) - self.lam @ self.tsq) / 2

    @property
    def offset_scale(self) -> float:
        """The sum of the absolute terms of `offset`, to which its rounding error is proportional."""
        return float(self.mult @ np.abs(np.log1p(self.eta)) + self.lam @ self.tsq) / 2

    @property
    def strip(self) -> float:
        """The supremum of the real s at which the moment-generating function is finite; infinite if none."""
        largest = float(self.eta[self.mult > 0].max(initial=0.0))
        return 1 / largest if largest > 0 else math.inf

    @property
    def max_loss(self) -> float:
        """The supremum of the privacy loss ln f_X / f_Y; delta is 0 from there on."""
        used = self.mult > 0
        if self.disjoint or (self.eta[used] > 0).any() or (self.tsq[used & (self.eta == 0)] > 0).any():
            return math.inf
        below = used & (self.eta < 0)
        quadratic = self.lam[below] ** 2 * self.tsq[below] / (-2 * self.eta[below])
        return float(quadratic.sum()) - self.offset

    def reverse(self) -> "GaussianPair":
        """Return Y against X.

        Raises:
            ValueError: if a variance ratio is beyond 2^52, so that its inverse cannot be told from 0.
        """
        return GaussianPair(-self.eta / self.lam, self.mult, self.lam * self.tsq, disjoint=self.disjoint)

    def compose(self, *others: "GaussianPair") -> "GaussianPair":
        """Return the pair of all releases together, each made with independent noise; exact."""
        pairs = (self, *others)
        return GaussianPair(
            np.concatenate([pair.eta for pair in pairs]),
            np.concatenate([pair.mult for pair in pairs]),
            np.concatenate([pair.tsq for pair in pairs]),
            disjoint=any(pair.disjoint for pair in pairs),
        )

    def log_mgf(self, s: ComplexArray | FloatArray | complex) -> ComplexArray:
        """Return ln E_X exp(s L) of the loss L = ln f_X / f_Y, which is s times the Renyi divergence of order 1 + s.

        Args:
            s: any shape, with 1 / min(eta, 0) < Re s < 1 / max(eta, 0).

        Returns:
            The same shape, complex.

        Raises:
            ValueError: if some s lies outside the strip, or the laws are disjoint.
        """
        points = np.asarray(s, dtype=np.complex128)
        if self.disjoint:
            raise ValueError("the loss of disjoint laws has no moment-generating function")
        scaled = points[..., np.newaxis] * self.eta
        if not (scaled.real < 1).all():
            raise ValueError(f"the moment-generating function is infinite at Re s >= {self.strip:.6g} or far below 0")
        return self._log_mgf(points)[0]

    def log_mgf_with_size(self, s: ComplexArray) -> tuple[ComplexArray, FloatArray]:
        """Return `log_mgf` unchecked, in the shape of s, and the sum of its terms' sizes, for error bounds."""
        return self._log_mgf(s)

    def _log_mgf(self, s: ComplexArray) -> tuple[ComplexArray, FloatArray]:
        scaled = -s[..., np.newaxis] * self.eta
        real, imaginary = scaled.real, scaled.imag
        # The complex logarithm in two real functions: exact near 1, and about twice as fast.
        modulus = 0.5 * np.log1p(real * (2 + real) + imaginary * imaginary)
        angle = np.arctan2(imaginary, 1 + real)
        sizes = np.abs(modulus) + np.abs(angle)
        near = real < -_NEAR
        lost: FloatArray | float = 0.0
        if near.any():
            # Towards the end of the strip the square would lose the digits twice; once is inevitable, and counted.
            modulus[near] = np.log(np.hypot(1 + real[near], imaginary[near]))
            lost = np.where(near, -real / (1 + real), 0.0)
            sizes = np.abs(modulus) + np.abs(angle) + lost
        total = -s * self.offset - 0.5 * (modulus @ self.mult + 1j * (angle @ self.mult))
        size = np.abs(s) * self.offset_scale + 0.5 * (sizes @ self.mult)
        if self.tsq.any():
            quotient = (self.lam**2 * self.tsq) / (1 + scaled)
            total = total + 0.5 * s * s * quotient.sum(axis=-1)
            size = size + 0.5 * np.abs(s) ** 2 * (np.abs(quotient) * (1 + lost)).sum(axis=-1)
        # The sums over groups round as well, in eight or more interleaved parts.
        return total, size * (1 + len(self.eta) / 8)


def pair_from_gaussians(
    mu1: Numbers | float, s1: FloatArray | float, mu2: Numbers | float, s2: FloatArray | float
) -> GaussianPair:
    """Return the pair N(mu1, S1) against N(mu2, S2) (Wei, Lu, Magdon-Ismail, Zikas 2023, v4 Theorem 4.1).

    Gaussian laws are equivalent if their covariances have one range and the means differ within it, and disjoint
    otherwise. A covariance counts as singular in a direction whose variance, in units of the diagonals, is below
    rounding error. Relative errors of eta and t^2 are about 1e-15 times the condition of S2 in those units, also where
    the covariances differ little; what is certified about a pair is certified about the pair as stored.

    Args:
        mu1: mean of X, shape `(k,)`, or a number for k = 1.
        s1: its covariance, symmetric and positive semidefinite, shape `(k, k)`.
        mu2: mean of Y.
        s2: its covariance.

    Raises:
        ValueError: if shapes do not fit, a number is not finite, a covariance is asymmetric or not positive
            semidefinite, or the laws are too far apart to compare.
    """
    means = [_mean(mu, name) for mu, name in ((mu1, "mu1"), (mu2, "mu2"))]
    size = means[0].size
    if means[1].size != size:
        raise ValueError(f"the means have {size} and {means[1].size} coordinates")
    covariances = [_covariance(s, size, name) for s, name in ((s1, "S1"), (s2, "S2"))]
    # Units must not matter: both laws are measured in the coordinates' own scale, a power of 2 so that nothing rounds.
    diagonal = np.diag(covariances[0]) + np.diag(covariances[1])
    scale = np.exp2(np.round(np.log2(np.where(diagonal > 0, diagonal, 1.0)) / 2))
    covariances = [s / scale / scale[:, np.newaxis] for s in covariances]
    _require_semidefinite(covariances)
    shift, slack = (means[0] - means[1]) / scale, float(np.linalg.norm((abs(means[0]) + abs(means[1])) / scale))
    basis = _common_range(covariances)
    if basis is None or np.linalg.norm(shift - basis @ (basis.T @ shift)) > 64 * size * ULP * slack:
        return GaussianPair([], [], [], disjoint=True)
    if len(basis.T) < size:
        covariances, shift = [basis.T @ s @ basis for s in covariances], basis.T @ shift
    eta, tsq = _invariants(covariances[0], covariances[1], shift)
    # What is below the rounding of the factorisation would only make a group of its own.
    eta[np.abs(eta) < 32 * max(size, 8) * ULP * min(1.0, np.abs(eta).max(initial=0.0))] = 0.0
    tsq[tsq < (64 * ULP) ** 2 * size * tsq.sum()] = 0.0
    if (eta <= -1 + _CLOSEST).any() or (eta >= 1 / _CLOSEST).any():
        raise ValueError("in some direction the variances differ by a factor beyond 2^50, too far apart to compare")
    return _grouped(eta, tsq)


def _invariants(first: FloatArray, second: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eta and squared t of two definite covariances, coordinate by coordinate, each of shape `(k,)`."""
    lower = np.linalg.cholesky(second)
    # The difference itself keeps the digits of neighbours that differ little; lambda - 1 would lose them.
    half = np.linalg.solve(lower, first - second)
    difference = np.linalg.solve(lower, half.T)
    if np.linalg.norm(difference, 2) <= _NEAR:
        eta, vectors = np.linalg.eigh((difference + difference.T) / 2)
        return eta, (vectors.T @ np.linalg.solve(lower, shift)) ** 2 / (1 + eta)
    upper = np.linalg.cholesky(first)
    _, singular, right = np.linalg.svd(np.linalg.solve(lower, upper))
    return (singular - 1) * (singular + 1), (right @ np.linalg.solve(upper, shift)) ** 2


def _grouped(eta: FloatArray, tsq: FloatArray) -> GaussianPair:
    """Return a pair whose coordinates of equal variance ratio are one group."""
    values, place = np.unique(eta, return_inverse=True)
    indicator = place == np.arange(len(values))[:, np.newaxis]
    return GaussianPair(values, indicator.sum(axis=1, dtype=np.float64), indicator @ tsq)


def _common_range(covariances: Sequence[FloatArray]) -> FloatArray | None:
    """Return an orthonormal basis of the range that both covariances have, or None if their ranges differ."""
    size = len(covariances[0])
    pooled = np.zeros((size, size))
    for s in covariances:
        pooled += s / max(float(np.abs(s).max(initial=0.0)), float(np.finfo(float).tiny))
    ranks = [_rank(np.asarray(np.linalg.eigvalsh(s), np.float64)) for s in covariances]
    values, vectors = np.linalg.eigh(pooled)
    rank = _rank(values)
    if ranks != [rank, rank]:
        return None
    result: FloatArray = np.eye(size) if rank == size else vectors[:, size - rank :]
    return result


def _require_semidefinite(covariances: Sequence[FloatArray]) -> None:
    """Refuse a covariance, in the coordinates' own scale, with an eigenvalue below zero by more than rounding."""
    for matrix, name in zip(covariances, ("S1", "S2"), strict=True):
        slack = 16 * len(matrix) ** 2 * ULP * float(np.abs(matrix).max(initial=0.0))
        if len(matrix) and float(np.linalg.eigvalsh(matrix)[0]) < -slack:
            raise ValueError(f"{name} is not positive semidefinite: its smallest eigenvalue is negative")


def _rank(eigenvalues: FloatArray) -> int:
    return int((eigenvalues > 16 * len(eigenvalues) * ULP * eigenvalues.max(initial=0.0)).sum())


def _mean(values: Numbers | float, name: str) -> FloatArray:
    mean = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if mean.ndim != 1 or not np.isfinite(mean).all():
        raise ValueError(f"{name} must be a vector of finite numbers, got shape {mean.shape}")
    return mean


def _covariance(values: FloatArray | float, size: int, name: str) -> FloatArray:
    """Return a covariance made exactly symmetric, or refuse it."""
    matrix = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if matrix.shape != (size, size):
        raise ValueError(f"{name} must have shape {(size, size)} like the mean, got {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} has entries that are not finite")
    largest = float(np.abs(matrix).max(initial=0.0))
    if float(np.abs(matrix - matrix.T).max(initial=0.0)) > 1e-9 * largest:
        raise ValueError(f"{name} is not symmetric")
    symmetric: FloatArray = (matrix + matrix.T) / 2
    return symmetric
