"""Both rounds of `ron_gauss` as one release, for the analyses that make or judge synthetic rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from lintra_analysis.releases.centred_products import CentredProducts
from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.releases.refusals import NoCells, NoRangeSums
from lintra_protocol.crypto.ring import FloatArray


@dataclass(frozen=True, eq=False)
class BothRounds(NoCells, NoRangeSums):
    """A second round together with the first.

    `first` is the release of the first round; `second` is the release of the second.
    """

    first: ProjectedSums
    second: CentredProducts

    @property
    def num_clients(self) -> int:
        """Return how many rows are in the second round."""
        return self.second.num_clients

    @property
    def clipped(self) -> ClippedRows | None:
        """Return how many rows clipping changed, in the round in which more may have been; None if neither counted."""
        counted = [each for each in (self.first.clipped, self.second.clipped) if each is not None]
        return max(counted, key=lambda each: each.upper_share, default=None)

    @property
    def columns(self) -> tuple[ScaledColumn, ...]:
        """Refuse, as `second_moment`."""
        return self.second.columns

    def restrict(self, names: Sequence[str]) -> NoReturn:
        """Refuse, as `second_moment`."""
        self.second.restrict(names)

    def second_moment(self) -> NoReturn:
        """Refuse: products about class means are no second moments about one point."""
        self.second.second_moment()

    def totals(self) -> None:
        """Return None: there are no sums in a second round."""
        return

    def rounds(self) -> tuple[ProjectedSums, CentredProducts]:
        """Return the releases of both rounds."""
        return self.first, self.second

    def table(self) -> tuple[list[str], FloatArray]:
        """Return a name for every number of the second round, and the numbers, shape `(1, w)`."""
        return self.second.table()
