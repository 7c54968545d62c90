"""How many rows clipping changed, as the clip counter of a release tells it: a number with noise."""

import math
from dataclasses import dataclass

from lintra_protocol.errors import InvalidReleaseError

UPPER_END = 1.6448536269514722
"""The 95 % point of a standard normal: the count lies above estimate + this many deviations in 5 % of all releases."""

FEW = 0.005
"""Up to this upper end of the share, clipping is not worth a word; a convention."""

MANY = 0.05
"""Beyond this upper end, tests are about rows that nobody has; a convention."""


@dataclass(frozen=True)
class ClippedRows:
    """The noisy number of rows that a bound of a column or of the norm changed.

    Attributes:
        estimate: in rows; noise may carry it below 0 or above their number.
        sd: deviation of its noise, in rows.
        num_clients: n.
    """

    estimate: float
    sd: float
    num_clients: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.estimate) and 0 <= self.sd < math.inf and self.num_clients >= 1):
            raise InvalidReleaseError("a number of clipped rows is finite, with a deviation, of at least one row")

    @property
    def share(self) -> float:
        """Return the estimated part of all rows, moved into [0, 1]."""
        return min(max(self.estimate / self.num_clients, 0.0), 1.0)

    @property
    def upper_rows(self) -> float:
        """Return the upper end, at 95 %, in rows: between 0 and n."""
        return min(max(self.estimate + UPPER_END * self.sd, 0.0), float(self.num_clients))

    @property
    def upper_share(self) -> float:
        """Return the upper end, at 95 %, as a part of all rows."""
        return self.upper_rows / self.num_clients

    @property
    def words(self) -> str:
        """Return in a sentence what this says about the answers."""
        counted = (
            f"about {self.share:.2%} of the rows were clipped (deviation {self.sd / self.num_clients:.2%}, at most "
            f"{self.upper_share:.2%} at 95 %)"
        )
        if self.upper_share <= FEW:
            return f"{counted}: few"
        if self.upper_share <= MANY:
            return f"{counted}: answers are about the shrunk rows"
        return f"{counted}: answers are about the shrunk rows, and tests and p values say nothing about the real ones"
