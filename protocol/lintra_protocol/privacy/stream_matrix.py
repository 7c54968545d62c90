"""The matrix C of a stream, its price for a source, and what errors it leaves (docs/proofs/together.md#streams).

A server adds e_k = z_k - round(sum over i < k of T[k, i] m_i) to window k, C = I + T. So C e is fresh noise, and what a
source moves is C times its reports: S_k times as much as one report, at most, with k of them.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray

STEPS = 2**8
"""Entries of C are multiples of one over this."""

_MOST_MASKED = 4.0
"""By how much headroom allows lost memories to raise the variance of a window: at most 1.7 in 240,000 random losses."""


@dataclass(frozen=True)
class StreamMatrix:
    """C, lower triangular with equal diagonals: t_0 = 1, t_j = round(256 damping c_j) / 256, c_j = binom(2j, j) / 4^j.

    These are the coefficients of the root of the prefix sums (Fichtenberger, Henzinger, Upadhyay 2022), damped.

    Attributes:
        rows: n, how many windows there are.
        reports: k, in how many of them a source may have a report.
        damping: w, from 0 for independent noise to 1.
        blur: rho, the deviation of the noise under which a server remembers its own, in deviations of that.
        memory: b, t_j is 0 from here on; None for no limit.
    """

    rows: int
    reports: int
    damping: Fraction
    blur: Fraction
    memory: int | None = None

    @cached_property
    def steps(self) -> IntArray:
        """Return 256 t_0, 256 t_1, .., shape `(n,)`, computed exactly and rounded halves up."""
        found, central, power = np.zeros(self.rows, np.int64), 1, 1
        numerator, denominator = self.damping.numerator * STEPS, self.damping.denominator
        found[0] = STEPS
        for j in range(1, min(self.rows, self.memory or self.rows)):
            central, power = central * (2 * (2 * j - 1)) // j, power * 4
            found[j] = (2 * numerator * central + denominator * power) // (2 * denominator * power)
            if not found[j]:
                break  # they never rise again
        return found

    @cached_property
    def squared_norm(self) -> Fraction:
        """Return S_k^2, the largest sum of (C^T C)[i, j] over i and j in a set of k windows: that of the first k.

        That no other set is worse where t_0 >= t_1 >= .. >= 0 is proven by Kalinin, Lampert 2024.
        """
        sums = np.cumsum(self.steps)
        sums[self.reports :] -= sums[: self.rows - self.reports].copy()
        return Fraction(sum(int(each) ** 2 for each in sums), STEPS**2)

    def distance(self, one: float, num_words: int) -> float:
        """Return by how much one source moves all windows: S_k times a report, and a step a word for rounding.

        `one` is the distance of two reports; `num_words` are the words of all windows. Rounded up (Theorem T).
        """
        return (sqrt(self.squared_norm) * one + sqrt(num_words)) * (1 + 1e-14)

    def remembered_by(self, row: int) -> range:
        """Return the windows whose memory enters a window, if a server has it."""
        reach = int(np.count_nonzero(self.steps))
        return range(max(0, row - reach + 1), row)

    def dense(self) -> FloatArray:
        """Return C, shape `(n, n)`."""
        places = np.subtract.outer(np.arange(self.rows), np.arange(self.rows))
        matrix: FloatArray = np.where(places >= 0, self.steps[np.maximum(places, 0)] / STEPS, 0.0)
        return matrix

    @cached_property
    def inverse(self) -> FloatArray:
        """Return a_0, a_1, .., the first column of C^-1, shape `(n,)`: C^-1 has equal diagonals, too."""
        column, found = self.steps / STEPS, np.zeros(self.rows)
        found[0] = 1.0
        for j in range(1, self.rows):
            found[j] = -(column[1 : j + 1] @ found[j - 1 :: -1])
        return found

    @cached_property
    def window_variance(self) -> float:
        """Return the variance of one server's noise in the last window, the noisiest, in variances of a fresh draw."""
        squares = float(self.inverse @ self.inverse)
        return squares + float(self.blur) ** 2 * (squares - 1)

    @property
    def headroom_variance(self) -> float:
        """Return a variance that no window exceeds, whatever memory a server loses, rounding included."""
        return _MOST_MASKED * self.window_variance + 1

    def variance(self, weights: FloatArray) -> float:
        """Return that of one server's noise in the sum of windows times weights, shape `(n,)`, nothing lost.

        It is |C^-T weights|^2 + rho^2 |T^T C^-T weights|^2, and T^T C^-T = I - C^-T.
        """
        fresh = np.correlate(np.concatenate([weights, np.zeros(self.rows - 1)]), self.inverse, "valid")
        return float(fresh @ fresh + float(self.blur) ** 2 * np.sum((weights - fresh) ** 2))
