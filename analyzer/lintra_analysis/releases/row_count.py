"""The number of rows in a release where rows with a missing number were left out: a number with noise."""

import math
from dataclasses import dataclass

from lintra_protocol.errors import InvalidReleaseError


@dataclass(frozen=True)
class RowCount:
    """The noisy number of rows that were not left out."""

    estimate: float  #: in rows; noise may carry it below 0 or above the number of reports
    sd: float  #: deviation of its noise, in rows
    num_clients: int  #: how many reports there are, rows that were left out among them
    contributed: bool = False  #: whether these are rows of organisations, each report those of one

    def __post_init__(self) -> None:
        if not (math.isfinite(self.estimate) and 0 <= self.sd < math.inf and self.num_clients >= 1):
            raise InvalidReleaseError("a number of rows is finite, with a deviation, of at least one report")

    @property
    def rows(self) -> int:
        """The number to divide by: the estimate in whole rows, at least one."""
        return max(round(self.estimate), 1)

    @property
    def words(self) -> str:
        """What to say beside every answer."""
        if self.contributed:
            return (
                f"{self.num_clients} organisations counted their rows with noise: about {self.rows} rows (deviation "
                f"{self.sd:.3g}), those with a missing number left out; errors contain the noise of the count"
            )
        return (
            f"rows in which a number was missing were left out: about {self.rows} of {self.num_clients} reports "
            f"count (deviation {self.sd:.3g}); answers are about those"
        )
