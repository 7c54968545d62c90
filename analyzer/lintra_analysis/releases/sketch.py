"""A released sketch: the public matrix times noised rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.releases.checks import check_release, checked_shape
from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.columns import ScaledColumn, positions, require_workable
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.noise_laws.exchangeable_rows import ExchangeableRows
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidReleaseError


@dataclass(frozen=True, eq=False, repr=False)
class Sketch:
    """The public matrix times noised rows, divided by gamma sqrt(s) (Burkhardt et al. 2025, Section 3)."""

    columns: tuple[ScaledColumn, ...]  #: the d columns
    values: FloatArray  #: shape `(m, d)`
    row_counts: IntArray  #: shape `(m,)`, the clients that met in each row
    noise_variance: FloatArray  #: shape `(m,)`, the variance of the privacy noise in every entry of each row
    num_clients: int  #: rows of Z that are in the sketch
    row_bound: float  #: the L2 norm that no row of Z exceeds
    clipped: ClippedRows | None = None  #: how many rows clipping changed; None if nobody counted

    def __post_init__(self) -> None:
        check_release(self.columns, self.num_clients, self.row_bound)
        rows = checked_shape(self.values, (None, len(self.columns)))[0]
        if rows < 2:
            raise InvalidReleaseError(f"a sketch needs at least 2 rows, got {rows}")
        checked_shape(self.row_counts, (rows,))
        checked_shape(self.noise_variance, (rows,))
        if (self.row_counts < 0).any() or (self.noise_variance < 0).any():
            raise InvalidReleaseError("row counts and noise variances cannot be negative")
        require_workable(self.values, self.noise_variance, self.row_bound)

    def __repr__(self) -> str:
        rows, size = self.values.shape
        return f"Sketch(rows={rows}, columns={size}, num_clients={self.num_clients})"

    def restrict(self, names: Sequence[str]) -> "Sketch":
        """Return the release of the named columns only, in that order."""
        index = positions(self.columns, names)
        return replace(self, columns=tuple(self.columns[i] for i in index), values=self.values[:, index])

    def second_moment(self) -> GramEstimate:
        """Return Y^T Y - V I with V = sum_r v_r, unbiased over the noise and the public matrix."""
        total = float(self.noise_variance.sum())
        matrix = self.values.T @ self.values - total * np.eye(len(self.columns))
        errors = ExchangeableRows(self.values, self.noise_variance)
        return GramEstimate(self.columns, matrix, errors, self.num_clients, self.row_bound, clipped=self.clipped)

    def table(self) -> tuple[list[str], FloatArray]:
        """Return the sketch row by row, shape `(m, d)`."""
        return [column.name for column in self.columns], self.values
