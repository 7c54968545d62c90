"""Privacy-loss distributions on a grid: Gaussian releases together with mechanisms that are not Gaussian.

Every loss is rounded up to a multiple of the step and every error of the computation is granted to an infinite loss,
so the delta read off is never too small. For Gaussian releases alone `composition.Spending` is exact and simpler; this
is its cross-check (docs/proofs/together.md#composition).
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from lintra_protocol.crypto.ring import FloatArray

# Losses further than this many deviations from their mean are cut off; what they weigh (1e-32) is not lost.
_REACH = 12.0

# A transform of length L errs in Euclidean norm by less than this times log2(L) (Higham 2002, Theorem 24.2).
_FFT_ERROR = 8 * 2.0**-53


@dataclass(frozen=True)
class LossDistribution:
    """The law of the privacy loss ln(P/Q) under P, for neighbours with laws P and Q.

    Attributes:
        masses: probability of each loss, shape `(cells,)`.
        lowest: the first cell's loss in steps; cell i has the loss `(lowest + i) * step`.
        step: width of the grid, in nats.
        infinite: probability of an infinite loss.
    """

    masses: FloatArray
    lowest: int
    step: float
    infinite: float

    @classmethod
    def gaussian(cls, mu: float, step: float) -> Self:
        """Return the loss N(mu^2/2, mu^2) of a Gaussian release, every loss rounded up to a multiple of `step`.

        Raises:
            ValueError: if `mu` or `step` is not positive and finite.
        """
        if not (0 < mu < math.inf and 0 < step < math.inf):
            raise ValueError(f"a grid needs mu and a step, both positive, got mu={mu}, step={step}")
        lowest = math.floor((mu * mu / 2 - _REACH * mu) / step)
        highest = math.ceil((mu * mu / 2 + _REACH * mu) / step)
        ends = (np.arange(lowest, highest + 1) * step - mu * mu / 2) / (mu * math.sqrt(2))
        # Upper tails above the mean and lower tails below it, so that neither side loses its digits.
        lower = np.array([math.erfc(-end) / 2 for end in ends[ends < 0]])
        upper = np.array([math.erfc(end) / 2 for end in ends[ends >= 0]])
        masses = np.concatenate([[lower[0]], np.diff(lower), [1 - lower[-1] - upper[0]], -np.diff(upper)])
        return cls(masses=masses, lowest=lowest, step=step, infinite=float(upper[-1]))

    def compose(self, other: "LossDistribution") -> "LossDistribution":
        """Return the loss of both releases together: the sum of independent losses on the same grid.

        Raises:
            ValueError: if the steps differ.
        """
        if self.step != other.step:
            raise ValueError(f"losses on grids of step {self.step} and {other.step} do not add up cell by cell")
        cells = self.masses.size + other.masses.size - 1
        length = 1 << (cells - 1).bit_length()
        product = np.fft.rfft(self.masses, length) * np.fft.rfft(other.masses, length)
        masses = np.maximum(np.fft.irfft(product, length)[:cells], 0.0)
        norms = float(np.linalg.norm(self.masses) * np.linalg.norm(other.masses))
        # The error's sum over all cells is at most its Euclidean norm times the root of their number.
        error = 3 * _FFT_ERROR * math.log2(2 * length) * math.sqrt(length) * norms
        return LossDistribution(
            masses=masses,
            lowest=self.lowest + other.lowest,
            step=self.step,
            infinite=self.infinite + other.infinite + error,
        )

    def delta_at(self, epsilon: float) -> float:
        """Return a delta for which everything together is (epsilon, delta)-differentially private.

        This is P(infinite) + E max(0, 1 - exp(epsilon - loss)) (Sommer, Meiser, Mohammadi 2019).
        """
        losses = (self.lowest + np.arange(self.masses.size)) * self.step
        above = losses > epsilon
        gains = -np.expm1(epsilon - losses[above])
        return min(1.0, self.infinite + float(gains @ self.masses[above]) * (1 + 1e-12))
