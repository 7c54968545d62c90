"""How much the rows of a release count on average, where a row that is far out counts less."""

import math
from dataclasses import dataclass

from lintra_protocol.errors import InvalidReleaseError
from lintra_protocol.mechanisms.row_weights import WeightedBy


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

    def __post_init__(self) -> None:
        if not (math.isfinite(self.average) and 0 <= self.sd < math.inf):
            raise InvalidReleaseError("an average weight is finite, with a deviation")

    @property
    def words(self) -> str:
        """What to say beside every answer."""
        farther = "its features lie" if self.by == "features" else "its features or its target lie"
        moved = f"; {self.target} was moved into [{self.lower:g}, {self.upper:g}]" if self.by == "features" else ""
        return (
            f"a row counts less the farther {farther} from the centre: average weight {self.average:.2f} (deviation "
            f"{self.sd:.2g}){moved}"
        )
