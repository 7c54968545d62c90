"""What every release answers, whatever mechanism it came from; what it does not hold it refuses in words."""

from collections.abc import Sequence
from typing import Protocol

from lintra_analysis.releases.cell_counts import CellCounts
from lintra_analysis.releases.centred_products import CentredProducts
from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.directions import Directions
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.releases.range_sums import RangeSums
from lintra_protocol.crypto.ring import FloatArray


class Release(Protocol):
    """Released numbers with all that an estimator must know about them.

    Whatever has these members is one; a release does not say which mechanism it came from, and nobody asks.

    >>> from lintra_analysis import open_release
    >>> release = open_release("flights.npz")
    >>> release.num_clients, [column.name for column in release.restrict(["hour", "delay"]).columns]
    (240, ['hour', 'delay'])
    """

    @property
    def columns(self) -> tuple[ScaledColumn, ...]:
        """Return the columns that the release is about.

        Raises:
            InvalidAnalysisError: it is not about single columns.
        """
        ...

    @property
    def num_clients(self) -> int:
        """Return how many rows are in the release."""
        ...

    @property
    def clipped(self) -> ClippedRows | None:
        """Return how many rows clipping changed, with the deviation of the noise; None if nobody counted."""
        ...

    @property
    def directions(self) -> Directions | None:
        """Return the directions that a second round is about; None for every other release."""
        ...

    def restrict(self, names: Sequence[str]) -> "Release":
        """Return the release of the named columns only, in that order.

        Raises:
            InvalidAnalysisError: a name is unknown or named twice, or the release is not about single columns.
        """
        ...

    def second_moment(self) -> GramEstimate:
        """Return the estimate of Z^T Z that the release holds, with the law of its error.

        Raises:
            InvalidAnalysisError: it holds none.
        """
        ...

    def totals(self) -> Totals | None:
        """Return the sums of the rows if the release holds them on their own, else None.

        Second moments with a constant column hold them as well, as products with that column.
        """
        ...

    def rounds(self) -> tuple[ProjectedSums, CentredProducts | None]:
        """Return what synthetic rows are modelled on: joint sums, and products about class means of a second round.

        Raises:
            InvalidAnalysisError: the release holds no joint sums.
        """
        ...

    def cells(self) -> CellCounts:
        """Return the rows in each cell of each column.

        Raises:
            InvalidAnalysisError: the release is no histogram.
        """
        ...

    def range_sums(self) -> RangeSums:
        """Return the products of all columns with projected ones.

        Raises:
            InvalidAnalysisError: the release is no range finder.
        """
        ...

    def table(self) -> tuple[list[str], FloatArray]:
        """Return the released numbers for a file: the heading, of k names, and lines of shape `(r, k)`."""
        ...
