"""What the two sketches share: rows dealt to the rows of a public matrix, and a clip counter that bypasses it.

The matrix would scatter a count over its rows and give it signs. So the counter is a total: servers add up the last
word of all reports as it is, in row 0 of a column of its own, where all clients' noise stands behind it
(docs/explanation/privacy.md#clip-counter).
"""

from fractions import Fraction
from math import exp, inf, isqrt, log1p, sqrt
from typing import ClassVar

import numpy as np
from pydantic import Field

from lintra_protocol.crypto.ring import RING_BITS, FloatArray, IntArray
from lintra_protocol.errors import RowUnderfilledError
from lintra_protocol.mechanisms.base import MAX_SERVERS, Mechanism
from lintra_protocol.mechanisms.layout import Block, Layout
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.discrete import row_slack
from lintra_protocol.privacy.headroom import log_wrap_probability
from lintra_protocol.privacy.statement import SMOOTHING, Claim


class SketchedRows(Mechanism):
    """A balanced sketch of m rows, `rows`, with s entries in every column, `sparsity`.

    A report holds the copies of a row, and behind them the clip counter if there is one. The released sketch has d
    columns, and one more for the counter: its row 0 holds the total, its other rows nothing.
    """

    rows: int = Field(ge=1, le=2**20)
    sparsity: int = Field(default=1, ge=1, le=64)

    counts_clipped: ClassVar[bool] = True
    start_bits: ClassVar[int] = 20

    @property
    def num_rows(self) -> int:
        """Return m."""
        return self.rows

    def num_words(self, num_columns: int) -> int:
        """Return c d, copy after copy, and one for the clip counter."""
        return self.copies * num_columns + self.clip_words

    def sketch_words(self, num_columns: int) -> int:
        """Return the ring words in a row of the sketch: d, and one for the clip counter."""
        return num_columns + self.clip_words

    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        """Return the sketch of shape `(m, d)` in normalised units, divided by sqrt(s)."""
        values: FloatArray = sketch[:, :num_columns] * np.float64(2.0**-self.fraction_bits / sqrt(self.sparsity))
        return values

    def largest_row(self, num_clients: int) -> int:
        """Return how many reports enter the fullest row: one of the smallest of the s blocks."""
        return -(-num_clients // max(1, self.rows // self.sparsity))

    def smallest_row(self, num_clients: int, claim: Claim) -> int:
        """Return how many honest clients stand behind the emptiest row: one of the largest of the s blocks."""
        return num_clients // -(-self.rows // self.sparsity) - self.quota(claim)

    # --- the clip counter --------------------------------------------------------------------------------------

    @property
    def squared_clip_scale(self) -> Fraction:
        """Return m times the squared distance of replaced rows: behind the total stands m times a row's noise.

        So the counter makes all noise sqrt(1 + w^2) times as large, as it does in a sum. Where servers add the noise
        the total has no more than any other number, which hides a row s times.
        """
        times = self.sparsity if self.noising_servers else self.rows
        return times * self.squared_row_distance("replace-one")

    def squared_distance(self, claim: Claim, num_columns: int) -> Fraction:
        """Return the largest squared distance of two neighbouring noiseless reports: of all copies, and g^2."""
        return self.copies * self.squared_copy_distance(claim, num_columns) + self.clip_steps**2

    def squared_copy_distance(self, claim: Claim, num_columns: int) -> Fraction:
        """Return the largest squared distance of one copy of two neighbouring rows."""
        del num_columns
        return self.squared_row_distance(claim.neighbours)

    def counter_mu(self, claim: Claim, num_clients: int) -> float:
        """Return what the clip counter adds to mu: the root of g^2 / ((n - t) sigma^2 - 4), rounded up; 0 without one.

        Its total is a sum of all clients' words, so that Theorem D1 holds for it with n - t honest ones. Its noise is
        independent of the sketch's, so that both squares of mu add up.
        """
        if not self.clip_words:
            return 0.0
        variance = self._honest(claim, num_clients) * self.sigma**2 - SMOOTHING
        return float(self.clip_steps) / sqrt(variance) * (1 + 1e-15)

    def counter_slack(self, claim: Claim, num_clients: int) -> float:
        """Return K of Theorem D1 for the clip counter's total; 0 without one."""
        if not self.clip_words:
            return 0.0
        return row_slack(self._honest(claim, num_clients), 1, float(self.sigma) ** 2, SMOOTHING)

    def _honest(self, claim: Claim, num_clients: int) -> int:
        honest = num_clients - claim.max_corrupt_clients
        if honest < 1:
            raise RowUnderfilledError(f"{num_clients} clients have no honest one beyond the tolerated coalition")
        return honest

    # --- room in the ring --------------------------------------------------------------------------------------

    @property
    def largest_entry(self) -> int:
        """Return the largest absolute value of an entry of a clipped row, in integer steps: the norm bound."""
        return isqrt(self.squared_bound)

    def largest_word(self) -> int:
        """Return the largest absolute value of a word of a noiseless report: of an entry, or the counter's g."""
        return max(self.largest_entry, self.clip_steps)

    def largest_total(self, num_clients: int) -> int:
        """Return the largest absolute value of a released number without noise: of an entry, or of the counter."""
        return max(self.largest_row(num_clients) * self.largest_entry, num_clients * self.clip_steps)

    def log_wrap_probability(self, num_columns: int, max_clients: int) -> float:
        """Return the natural log of a bound on the chance that any released entry leaves the ring."""
        largest_row, smoothing = self.largest_row(max_clients), MAX_SERVERS * self.smoothing**2
        variance, entries = self.draws(largest_row) * float(self.sigma) ** 2 + smoothing, self.rows * num_columns
        found = log_wrap_probability(entries, largest_row * self.largest_entry, variance, RING_BITS)
        if not self.clip_words:
            return found
        variance = self.draws(max_clients) * float(self.sigma) ** 2 + smoothing
        total = log_wrap_probability(self.rows, max_clients * self.clip_steps, variance, RING_BITS)
        return _log_of_sum(found, total)

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return c copies of a row of d words, which enter the same d words of the sketch."""
        step = 2.0**-self.fraction_bits / sqrt(self.sparsity)
        return Layout((Block("row", num_columns, self.sigma, self.largest_entry, step, copies=self.copies),))


def _log_of_sum(first: float, second: float) -> float:
    """Return ln(e^a + e^b)."""
    larger, smaller = max(first, second), min(first, second)
    return larger if abs(larger) == inf else larger + log1p(exp(smaller - larger))
