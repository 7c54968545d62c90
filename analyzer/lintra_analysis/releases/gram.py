"""Where releases meet: an unbiased estimate of Z^T Z, together with the law of its error.

Every estimator reads a `GramEstimate`. It asks the matrix for the answer and the error law for how far off
the answer may be; all laws answer the same questions, so that no estimator needs to know which mechanism it serves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lintra_analysis.releases.columns import ScaledColumn, positions
from lintra_analysis.releases.noise_laws.law import ErrorLaw
from lintra_protocol.ring import FloatArray


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

    columns: tuple[ScaledColumn, ...]
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

    def totals(self) -> None:
        """Return None: second moments hold sums of rows, if at all, as products with a constant column."""
        return

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
