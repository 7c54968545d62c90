"""Eigenvalues under noise: repairing an indefinite matrix, and how far noise can move a spectrum."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from lintra_analysis.releases.gram_error import GramEstimate
from lintra_protocol.crypto.ring import FloatArray


def floor_eigenvalues(matrix: FloatArray, floor: float) -> FloatArray:
    """Return the symmetric matrix, shape `(d, d)`, with every eigenvalue below `floor` raised to it.

    With floor 0 this is the nearest positive semi-definite matrix, so the distance to a true second moment
    never grows.
    """
    values, vectors = np.linalg.eigh(matrix)
    repaired: FloatArray = (vectors * np.maximum(values, floor)) @ vectors.T
    return (repaired + repaired.T) / 2


def smallest_eigenvalue(matrix: FloatArray) -> float:
    """Return the smallest eigenvalue of a symmetric matrix, shape `(d, d)`."""
    return float(np.linalg.eigvalsh(matrix)[0])


def eigenvalues_reach(matrix: FloatArray, level: float) -> bool:
    """Return whether all eigenvalues of a symmetric matrix, shape `(d, d)`, are larger than `level`."""
    try:
        np.linalg.cholesky(matrix - level * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True


def noise_norm_quantile(size: int, sigma: float, confidence: float) -> float:
    """Return q with P(|N|_2 <= q) >= confidence for the symmetric noise N of `size` columns.

    The largest eigenvalue of N / sigma follows 2 sqrt(d) + d^(-1/6) TW_1 (Tracy and Widom 1996), and TW_1 is
    close to a shifted gamma law (Chiani 2014, Table I). The largest and the smallest eigenvalue are
    exchangeable, hence the two-sided level. From d = 2 on the approximation errs on the safe side (the tests
    simulate it); it is capped by the bound P(|N|_2 > sigma (2 sqrt(d) + a)) <= 2 exp(-a^2 / 4), which holds
    for every d. `size` is d, the columns of N. `sigma` is the sd of N off the diagonal; sqrt(2) times that on it.
    `confidence` is between 0 and 1.
    """
    if size == 1:
        return float(np.sqrt(2) * sigma * special.ndtri((1 + confidence) / 2))
    tracy_widom = float(0.186054 * special.gammaincinv(46.446, (1 + confidence) / 2)) - 9.84801
    proved = 2 * float(np.sqrt(np.log(2 / (1 - confidence))))
    return float(sigma * (2 * np.sqrt(size) + min(tracy_widom * size ** (-1 / 6), proved)))


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of a Gram estimate, largest first, and how its error spreads over the eigenvectors.

    Attributes:
        values: shape `(d,)`, not clipped.
        vectors: shape `(d, d)`, columns; in each the entry of largest magnitude is positive.
        entry_variance: shape `(d, d)`, Var(v_i^T M v_j).
    """

    values: FloatArray
    vectors: FloatArray
    entry_variance: FloatArray

    @classmethod
    def of(cls, gram: GramEstimate) -> "Spectrum":
        """Decompose a Gram estimate."""
        values, vectors = np.linalg.eigh(gram.matrix)
        values, vectors = values[::-1].copy(), vectors[:, ::-1]
        largest = np.abs(vectors).argmax(axis=0)
        signs = np.where(vectors[largest, np.arange(values.size)] < 0, -1.0, 1.0)
        vectors = vectors * signs
        return cls(values, vectors, gram.errors.entry_variance(vectors))

    def leakage(self, rank: int) -> float:
        """Return the expected squared sine, summed over angles, between the top subspace and the true one.

        First-order perturbation: the sum over i <= rank < j of Var(v_i^T M v_j) / (l_i - l_j)^2.
        Full rank has none.
        """
        if rank == self.values.size:
            return 0.0
        gaps = np.subtract.outer(self.values[:rank], self.values[rank:])
        if (gaps <= 0).any():
            # A tie without any error is still exact: every basis of the tied space is as good.
            return float(rank) if (self.entry_variance[:rank, rank:] > 0).any() else 0.0
        return float((self.entry_variance[:rank, rank:] / gaps**2).sum())

    def upward_bias(self, rank: int) -> float:
        """Return by how much, to second order, noise inflates the sum of the `rank` largest eigenvalues."""
        gaps = np.subtract.outer(self.values[:rank], self.values[rank:])
        variance = self.entry_variance[:rank, rank:]
        return float(np.divide(variance, gaps, out=np.zeros_like(gaps), where=gaps > 0).sum())
