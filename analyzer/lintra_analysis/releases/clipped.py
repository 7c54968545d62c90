"""The number of rows that clipping changed, from the clip counter of a release: a number with noise."""

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
    """The noisy number of rows that a bound of a column or of the norm changed."""

    estimate: float  #: in rows; noise may carry it below 0 or above their number
    sd: float  #: deviation of its noise, in rows
    num_clients: int  #: n
    #: B, the norm that rows were shrunk to, without a constant column; 0 if rows are not shrunk to a norm
    row_bound: float = 0.0
    farthest: float = 0.0  #: B_max, the norm of the farthest corner of the columns' bounds

    def __post_init__(self) -> None:
        if not (math.isfinite(self.estimate) and 0 <= self.sd < math.inf and self.num_clients >= 1):
            raise InvalidReleaseError("a number of clipped rows is finite, with a deviation, of at least one row")
        if not (0 <= self.row_bound < math.inf and 0 <= self.farthest < math.inf):
            raise InvalidReleaseError("the bound of a row and its farthest corner are finite and not negative")

    @property
    def limited(self) -> bool:
        """Whether it is known how much a row within the columns' bounds may have been shrunk."""
        return self.row_bound > 0

    @property
    def worth_a_word(self) -> bool:
        """Whether more than a few rows may have been clipped."""
        return self.upper_share > FEW

    @property
    def tests_hold(self) -> bool:
        """Whether so few rows were clipped that tests say something about the real ones."""
        return self.upper_share <= MANY

    @property
    def most_shrunk(self) -> float:
        """Return by which part the norm bound shrinks the longest row that the columns' bounds allow."""
        return max(1 - self.row_bound / self.farthest, 0.0) if self.farthest > 0 else 0.0

    @property
    def square_limit(self) -> float:
        """Return by how much X^T X of the unshrunk rows may exceed the one at hand, in Frobenius norm."""
        return self.upper_rows * max(self.farthest**2 - self.row_bound**2, 0.0)

    def product_limit(self, constant: float) -> float:
        """Return the same of rows that begin with a constant, which shrinking leaves alone."""
        longer = max(self.farthest - self.row_bound, 0.0)
        return math.hypot(self.square_limit, math.sqrt(2) * constant * self.upper_rows * longer)

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
            return f"{counted}: answers are about the clipped rows"
        return f"{counted}: answers are about the clipped rows, and tests and p values say nothing about the real ones"
