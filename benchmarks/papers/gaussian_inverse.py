"""The inverse of the second moment with a ridge, plus Gaussian noise (Sheffet 2019, Appendix B.4).

Coefficients are ratios of its entries. With the ridge the promise holds for all data; the paper's version holds only
for data that are promised to be well conditioned. Its bias falls like 1 / sqrt(n), so it is no default.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from lintra_analysis.releases.columns import ScaledColumn, positions
from lintra_analysis.releases.sampling import FLOATING_POINT_LAW
from lintra_curator.second_moment.bounded_table import BoundedTable
from lintra_curator.second_moment.central_second_moment import finite_positive, symmetric_mean
from lintra_curator.second_moment.gaussian_noise import weighted_noise
from lintra_curator.second_moment.projection import ridge_root
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.privacy.gaussian import gaussian_delta, gaussian_mu
from lintra_protocol.privacy.statement import Claim


@dataclass(frozen=True, eq=False, repr=False)
class CentralInverse:
    """A private (Z^T Z + w2 I)^-1 of a curator's table.

    Attributes:
        columns: the d columns.
        values: shape `(d, d)`, symmetric; in 1 / squared normalised units.
        sigma: sd of the noise off the diagonal; on it, sqrt(2) times that.
        ridge: w2, public.
        law: "continuous, floating point".
        num_clients: n.
        row_bound: B.
    """

    columns: tuple[ScaledColumn, ...]
    values: FloatArray
    sigma: float
    ridge: float
    claim: Claim
    mu: float
    law: str
    num_clients: int
    row_bound: float

    def __repr__(self) -> str:
        return f"CentralInverse(columns={len(self.columns)}, num_clients={self.num_clients})"

    def delta_at(self, epsilon: float) -> float:
        """Return the delta for which the release is (epsilon, delta)-private."""
        return gaussian_delta(epsilon, self.mu)

    def coefficients(self, target: str) -> FloatArray:
        """Return the ridge coefficients of one column on all others in their order, shape `(d - 1,)`, normalised.

        With H = (S + w2 I)^-1 they are -H_iy / H_yy.

        Raises:
            InvalidAnalysisError: the column is unknown, or noise has made its own entry negative.
        """
        index = int(positions(self.columns, [target])[0])
        if self.values[index, index] <= 2 * math.sqrt(2) * self.sigma:
            raise InvalidAnalysisError(f"the entry of {target!r} in the inverse cannot be told from noise")
        found: FloatArray = -np.delete(self.values[index], index) / self.values[index, index]
        return found

    def restrict(self, names: Sequence[str]) -> NoReturn:
        """Refuse: a block of an inverse is not the inverse of a block.

        Raises:
            InvalidAnalysisError: always.
        """
        raise InvalidAnalysisError(f"an inverse cannot be restricted to {len(names)} columns; release their own")

    def second_moment(self) -> NoReturn:
        """Refuse: the error of an inverted noisy inverse has no law that the estimators know.

        Raises:
            InvalidAnalysisError: always.
        """
        raise InvalidAnalysisError("an inverse gives coefficients only; release the second moment itself instead")


@dataclass(frozen=True)
class GaussianInverse:
    """(S + w2 I)^-1 + N.

    By Sherman and Morrison, a row moves the inverse by a positive matrix of rank one and norm at most
    B^2 / (w2 (w2 + B^2)); replacing one moves it by at most sqrt(2) times that in Frobenius norm. `ridge` is w2 in
    squared normalised units, public.
    """

    ridge: float

    def release(self, table: BoundedTable, claim: Claim, random_bytes: RandomBytes) -> CentralInverse:
        """Release the inverse of a table's second moment."""
        finite_positive(self.ridge, "the ridge w2")
        size = table.rows.shape[1]
        mu = gaussian_mu(claim.float_epsilon, claim.float_delta) * (1 - 1e-12)
        change = table.squared_bound / (self.ridge * (self.ridge + table.squared_bound))
        sigma = change / mu * (1.0 if claim.neighbours == "replace-one" else math.sqrt(0.5))
        inverse_root = np.linalg.inv(ridge_root(table.products(), self.ridge))
        values = symmetric_mean(inverse_root.T @ inverse_root) + sigma * weighted_noise(size, random_bytes)
        return CentralInverse(
            table.columns,
            values,
            sigma,
            self.ridge,
            claim,
            mu,
            FLOATING_POINT_LAW,
            table.rows.shape[0],
            table.row_bound,
        )
