"""A released sum of the rows themselves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.releases.checks import check_noise_sd, check_release, checked_shape
from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.columns import ScaledColumn, positions, require_workable
from lintra_analysis.releases.gram_error import HasRows
from lintra_analysis.releases.row_count import RowCount
from lintra_protocol.crypto.ring import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Totals(HasRows):
    """The noisy sum of the rows."""

    columns: tuple[ScaledColumn, ...]  #: the d columns
    values: FloatArray  #: shape `(d,)`
    noise_sd: float  #: sd of the noise in every entry
    num_clients: int  #: reports, each a row of Z or, where rows are counted, left out
    row_bound: float  #: the L2 norm that no row of Z exceeds
    clipped: ClippedRows | None = None  #: how many rows clipping changed; None if nobody counted
    #: how many rows there are, if some may have been left out; None if every report is a row
    counted: RowCount | None = None

    def __post_init__(self) -> None:
        check_release(self.columns, self.num_clients, self.row_bound)
        checked_shape(self.values, (len(self.columns),))
        check_noise_sd(self.noise_sd)
        require_workable(self.values, self.noise_sd, self.row_bound)

    def __repr__(self) -> str:
        return f"Totals(columns={len(self.columns)}, num_clients={self.num_clients})"

    def restrict(self, names: Sequence[str]) -> "Totals":
        """Return the release of the named columns only, in that order."""
        index = positions(self.columns, names)
        return replace(self, columns=tuple(self.columns[i] for i in index), values=self.values[index])

    def table(self) -> tuple[list[str], FloatArray]:
        """Return the sums in one row, shape `(1, d)`."""
        return [column.name for column in self.columns], self.values[np.newaxis]
