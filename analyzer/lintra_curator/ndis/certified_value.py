"""A number that was computed, with an interval that holds the true one."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class CertifiedValue:
    """A value and the interval in which the exact one lies; a promise quotes `hi`, a refutation `lo`.

    The interval allows for truncation, discretisation and rounding of the computation
    (docs/explanation/ndis.md#evaluator).

    Attributes:
        value: the computed number.
        lo: at most the true one.
        hi: at least the true one.
    """

    value: float
    lo: float
    hi: float

    def __post_init__(self) -> None:
        if not self.lo <= self.value <= self.hi:
            raise ValueError(f"the interval [{self.lo}, {self.hi}] does not hold {self.value}")

    @classmethod
    def of(cls, value: float, error: float, ceiling: float = 1.0) -> "CertifiedValue":
        """Return a probability known to an absolute error; `hi` is at most `ceiling`, and 1 if nothing is known."""
        if not (math.isfinite(value) and math.isfinite(error)):
            return cls(ceiling, 0.0, ceiling)
        clipped = min(max(value, 0.0), ceiling)
        # A true value below the smallest double must not be reported as 0.
        upper = math.nextafter(value + error, math.inf) if error > 0 else value
        return cls(clipped, min(max(value - error, 0.0), clipped), min(ceiling, max(upper, clipped)))

    def __contains__(self, number: float) -> bool:
        return self.lo <= number <= self.hi
