"""What a curator's release promises, and what no calibration here can promise."""

import math
from dataclasses import dataclass

from lintra_protocol.privacy.statement import Neighbours

SMALLEST_DELTA = 1e-15
"""Below this the curves of this package are not computed to enough digits to calibrate from."""


class CalibrationError(ValueError):
    """The promise lies outside the domain in which noise can be calibrated to it.

    >>> CentralClaim(epsilon=-1.0, delta=1e-6)
    Traceback (most recent call last):
    ...
    lintra_curator.promise.claim.CalibrationError: epsilon must be positive and finite, got -1.0
    """


@dataclass(frozen=True)
class CentralClaim:
    """The promise of one release by a trusted curator: (epsilon, delta) for neighbouring tables.

    Attributes:
        epsilon: positive and finite.
        delta: from 1e-15 up to, but not including, 1.
        neighbours: "replace-one" if one row changes; "zero-out" if one row becomes the null row. The number of rows is
            public under both.

    >>> CentralClaim(epsilon=1.0, delta=1e-6)
    CentralClaim(epsilon=1.0, delta=1e-06, neighbours='replace-one')
    """

    epsilon: float
    delta: float
    neighbours: Neighbours = "replace-one"

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise CalibrationError(f"epsilon must be positive and finite, got {self.epsilon}")
        if not SMALLEST_DELTA <= self.delta < 1:
            raise CalibrationError(f"delta must lie in [{SMALLEST_DELTA}, 1), got {self.delta}")
        if self.neighbours not in ("replace-one", "zero-out"):
            raise ValueError(f"neighbours are 'replace-one' or 'zero-out', got {self.neighbours!r}")
