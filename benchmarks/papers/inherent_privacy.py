"""What data hide by themselves: leverages, and the least noise for a fixed set of possible data ("relative DP").

This is analysis, not protection. "Relative to S" means that the data are known to be one of a set S that was fixed
without a look at them; with S = the private data and their neighbours, as in the experiments of Wei et al. 2023 (v3),
the noise itself is a function of the data, and nothing is promised. No release here is gated on it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_curator.claims.row_checks import bounded_rows, checked_rows, require_count, require_epsilon
from lintra_curator.ndis.closed_form import rp_pstar
from lintra_curator.projection.random_projection import projection_delta
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.bisection import narrow

ANALYSIS_ONLY = (
    "an analysis relative to a fixed set of data, not a guarantee of differential privacy: noise chosen from private "
    "data reveals them"
)


@dataclass(frozen=True)
class InherentPrivacy:
    """How much noise random projection needs relative to a set of data, beside what all data need.

    Attributes:
        sketch_rows: r.
        largest_leverage: over all data of the set and all their neighbours.
        private_leverage: p*, the largest leverage at which no noise is needed.
        delta_without_noise: upper bound of delta(epsilon) of the bare projection D^T G.
        sigma: the least noise deviation with which every leverage is at most p*.
        published_sigma: none if the largest leverage is at most p*, else that for all data, l / sqrt(p*).
        worst_case_sigma: that for all data with rows of norm at most l, l sqrt(1 / p* - 1).
        caveat: what this is not.
    """

    epsilon: float
    delta: float
    sketch_rows: int
    largest_leverage: float
    private_leverage: float
    delta_without_noise: float
    sigma: float
    published_sigma: float
    worst_case_sigma: float
    caveat: str = ANALYSIS_ONLY


def leverages(rows: FloatArray, regularization: float = 0.0) -> FloatArray:
    """Return v^T (D^T D + regularization I)^-1 v of every row v of D, shape `(n,)`, each between 0 and 1.

    `rows` are D, shape `(n, d)`, of any rank; a null row has leverage 0. `regularization` is in row units squared, at
    least 0.

    Raises:
        ValueError: if it is negative or not finite, or the rows are.
    """
    if not 0 <= regularization < math.inf:
        raise ValueError(f"regularization must be finite and at least 0, got {regularization}")
    return np.minimum(_Spectrum.of(checked_rows(rows)).leverages(regularization), 1.0)


def inherent_privacy(
    datasets: Sequence[FloatArray],
    epsilon: float,
    delta: float,
    sketch_rows: int,
    row_bound: float,
    additions: FloatArray | None = None,
) -> InherentPrivacy:
    """Report the privacy of random projection relative to a set of data, and the least noise that it needs.

    The leverage of a neighbour pair is that of the row in the larger data: of each row that may leave, and
    h / (1 + h) with h = u^T (D^T D)^-1 u of each row u that may join. Wei et al. 2023 (v3) add no noise or that for all
    data; here it is the smallest ridge that brings every leverage down to p*, which is never more. `datasets` are the
    set, arrays of shape `(n, d)` with one d; every row of each may leave. `epsilon` is at least 0; `delta` is strictly
    between 0 and 1. `sketch_rows` are r; `row_bound` is l, of all rows in question. `additions` are rows that may join,
    shape `(k, d)`; none by default.

    Raises:
        ValueError: if an argument is out of range or a row longer than the bound.
    """
    require_epsilon(epsilon)
    require_count(sketch_rows, "sketch_rows")
    if not datasets:
        raise ValueError("an analysis needs at least one data set")
    tables = [bounded_rows(rows, row_bound, clip=False) for rows in datasets]
    joining = None if additions is None else bounded_rows(additions, row_bound, clip=False)
    spectra = [_Spectrum.of(table, joining) for table in tables]
    private = rp_pstar(epsilon, delta, sketch_rows)
    largest = max(spectrum.largest(0.0) for spectrum in spectra)
    ceiling = row_bound**2 * (1 / private - 1)
    sigma2 = max(_least_ridge(spectrum, private, ceiling) for spectrum in spectra)
    return InherentPrivacy(
        epsilon,
        delta,
        sketch_rows,
        largest_leverage=largest,
        private_leverage=private,
        delta_without_noise=projection_delta(epsilon, largest, sketch_rows),
        sigma=math.sqrt(sigma2),
        published_sigma=0.0 if largest <= private else row_bound / math.sqrt(private),
        worst_case_sigma=math.sqrt(ceiling),
    )


@dataclass(frozen=True, eq=False, repr=False)
class _Spectrum:
    """Rows in the eigenbasis of D^T D, squared, with its eigenvalues; those of rounding size are 0."""

    eigenvalues: FloatArray
    leaving: FloatArray
    joining: FloatArray

    @classmethod
    def of(cls, rows: FloatArray, joining: FloatArray | None = None) -> "_Spectrum":
        size = rows.shape[1]
        if joining is not None and joining.shape[1] != size:
            raise ValueError(f"rows that join have {joining.shape[1]} columns, the data {size}")
        # By singular values of the rows: those of D^T D would lose half of the digits.
        singular, basis = np.linalg.svd(np.linalg.qr(rows, mode="r"), full_matrices=True)[1:]
        singular = np.concatenate([singular, np.zeros(size - len(singular))])
        lost = singular <= max(rows.shape) * np.finfo(float).eps * singular.max(initial=0.0)
        singular[lost] = 0.0
        leaving = np.square(rows @ basis.T)
        leaving[:, lost] = 0.0
        added = np.zeros((0, size)) if joining is None else np.square(joining @ basis.T)
        return cls(np.square(singular), leaving, added)

    def leverages(self, ridge: float) -> FloatArray:
        return self._quotients(self.leaving, ridge)

    def largest(self, ridge: float) -> float:
        """Return the largest leverage over leaving and joining rows."""
        left = self.leverages(ridge).max(initial=0.0)
        scores = self._quotients(self.joining, ridge)
        with np.errstate(invalid="ignore"):
            joined = np.where(np.isinf(scores), 1.0, scores / (1 + scores)).max(initial=0.0)
        return min(1.0, float(max(left, joined)))

    def _quotients(self, squares: FloatArray, ridge: float) -> FloatArray:
        """Return sum_j squares_j / (w_j + ridge), infinite where a square stands over nothing."""
        weights = self.eigenvalues + ridge
        used = weights > 0
        total: FloatArray = squares[:, used] @ (1 / weights[used])
        # A row that joins outside the span of the others is seen at once.
        outside = squares[:, ~used].sum(axis=1) > 1e-20 * squares.sum(axis=1)
        return np.where(outside, np.inf, total)


def _least_ridge(spectrum: _Spectrum, private: float, ceiling: float) -> float:
    """Return the smallest ridge with no leverage above `private`, on the safe side; `ceiling` is always enough."""
    if spectrum.largest(0.0) <= private:
        return 0.0
    aim = private * (1 - 1e-13)
    if spectrum.largest(ceiling) > aim:
        return ceiling
    return narrow(ceiling, 0.0, lambda ridge: spectrum.largest(ridge) - aim, width=1e-13 * ceiling)[0]
