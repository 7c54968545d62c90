"""How much the rows of a release count on average, where a row that is far out counts less."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidReleaseError
from lintra_protocol.mechanisms.row_weights import WeightedBy

if TYPE_CHECKING:
    from lintra_analysis.releases.clipped import ClippedRows

ORDINARY, MOVED = 0.98, 0.005
"""Rows of a larger average weight, of which bounds changed a smaller share, count as good as alike."""

UPPER_END = 1.645


@dataclass(frozen=True)
class WeightedRows:
    """What is known about the weights of rows (docs/reference/mechanisms/second_moment.md#row-weights)."""

    by: WeightedBy  #: "features" if a row's weight follows from its features alone, "all" if from its target too
    target: str  #: name of the target's column; "" without
    lower: float  #: a, where the target is moved into [a, b], in its own unit; -inf where it is not
    upper: float  #: b; inf where it is not
    #: W, the mean weight of a row: the constant's product with itself over n c^2. Noise may carry it below 0 or
    #: above 1.
    average: float
    sd: float  #: deviation of its noise
    #: T, by which the features were turned before rows were weighted, shape `(p, p)`; None where they were not
    basis: FloatArray | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.average) and 0 <= self.sd < math.inf):
            raise InvalidReleaseError("an average weight is finite, with a deviation")

    def is_ordinary(self, clipped: "ClippedRows | None") -> bool:
        """Whether an answer is as good as that of rows that all count alike, as far as bounds did not change them."""
        few = clipped is not None and clipped.upper_share < MOVED
        return self.by == "features" and self.average - UPPER_END * self.sd > ORDINARY and few

    def name(self, clipped: "ClippedRows | None") -> str:
        """Return what a regression of such rows is called, with the average weight.

        `clipped` counts the rows that bounds of columns, the target's among them, have changed; None if nobody counted.
        """
        if self.is_ordinary(clipped):
            return f"ordinary regression of rows within bounds (average weight {self.average:.2f})"
        return f"weighted regression: {self.words}"

    @property
    def about(self) -> str:
        """Return what intervals and tests are about."""
        if self.by == "features":
            return (
                "intervals, t and p values are about the weighted regression; its slopes are those of a linear law, if "
                "one holds for the population"
            )
        return (
            "intervals, t and p values are about the weighted regression; its slopes tend to be too small, and are not "
            "those of a linear law"
        )

    @property
    def words(self) -> str:
        """What to say beside every answer."""
        farther = "its features lie" if self.by == "features" else "its features or its target lie"
        moved = f"; {self.target} was moved into [{self.lower:g}, {self.upper:g}]" if self.by == "features" else ""
        return (
            f"a row counts less the farther {farther} from the centre: average weight {self.average:.2f} (deviation "
            f"{self.sd:.2g}){moved}"
        )
