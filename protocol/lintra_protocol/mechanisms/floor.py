"""The floor: noise that every server adds to that of clients, word by word (docs/proofs/servers.md#two-layers)."""

from dataclasses import dataclass

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray

MAX_SERVERS = 16
"""Most servers that a task may have; headroom is for the noise of so many."""

MIN_FLOOR = 2
"""The least deviation of a floor: with a variance below 4 the price of integers exceeds 1e-12."""


@dataclass(frozen=True)
class Floor:
    """Noise of every server, in proportion to that of a report: a word of deviation s gets ceil(deviation s / sigma).

    Attributes:
        deviation: of each server's noise in a word whose noise has deviation `sigma`; 0 for no floor.
        sigma: the mechanism's.
        servers: N, how many add it.
    """

    deviation: int = 0
    sigma: int = 1
    servers: int = 0

    def of(self, sigmas: IntArray) -> IntArray:
        """Return the deviation of one server's noise in words of these deviations, same shape; 0 for an exact count."""
        rounded_up: IntArray = -(-self.deviation * sigmas // self.sigma)
        return rounded_up

    def variance(self, sigmas: IntArray) -> FloatArray:
        """Return the variance of all servers' noise in words of these deviations, same shape."""
        total: FloatArray = self.servers * np.square(self.of(sigmas), dtype=np.float64)
        return total

    def largest_variance(self, sigma: int) -> float:
        """Return that of as many servers as a task may have, in a word of this deviation."""
        return MAX_SERVERS * float(self.of(np.array(sigma))) ** 2 if self.deviation else 0.0


NO_FLOOR = Floor()
