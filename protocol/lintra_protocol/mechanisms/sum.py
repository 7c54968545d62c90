"""`sum`: the plain sum of the rows, hence their mean (Burkhardt et al. 2025, Section 3.1)."""

from fractions import Fraction
from math import isqrt
from typing import ClassVar, Literal

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.layout import Block, Layout
from lintra_protocol.mechanisms.row_count import CountedRows
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Neighbours
from lintra_protocol.transforms.ones import Ones


class Sum(CountedRows):
    """The sum over all clients; the servers' matrix is one row of ones.

    It may count the rows that were clipped, and those that were not left out: a row then sends half of its integer
    bound in a word more, which costs nothing where a row is replaced.
    """

    kind: Literal["sum"] = "sum"

    counts_clipped: ClassVar[bool] = True
    start_bits: ClassVar[int] = 24

    @property
    def servers_may_noise(self) -> bool:
        """Whether a task with this mechanism may leave the noise to its servers: yes."""
        return True

    @property
    def num_rows(self) -> int:
        """Return 1."""
        return 1

    def num_words(self, num_columns: int) -> int:
        """Return d, and one for each of the two counts."""
        return num_columns + self.count_words + self.clip_words

    @property
    def count_steps(self) -> int:
        """Return half of the integer norm bound, rounded down; of a person's bound, divided by the root of r."""
        rows = 1 if self.contributors is None else self.contributors.rows_per_person
        return isqrt(self.squared_person_bound // (4 * rows))

    def encode_exactly(self, steps: IntArray) -> IntArray:
        """Return the clipped rows, shape `(n, d)`, and what each counts: shape `(n, w)`."""
        words = self.count_words
        return np.pad(steps, ((0, 0), (0, words)), constant_values=self.count_steps) if words else steps

    def squared_row_distance(self, neighbours: Neighbours) -> Fraction:
        """Return the squared distance without the clip counter (docs/explanation/privacy.md#missing-numbers).

        It is (2B)^2 where one row is replaced, also by the null row, since the count adds (B/2)^2 to B^2 only; against
        the null row B^2, and (B/2)^2 more under a noisy count.
        """
        added = self.count_steps**2 * self.count_words if neighbours == "zero-out" else 0
        return super().squared_row_distance(neighbours) + added

    def squared_person_distance(self, neighbours: Neighbours) -> Fraction:
        """Return the largest squared distance if one person changes (O2, docs/explanation/privacy.md#organisations).

        With T the person's bound and r rows: 4 r T where they are replaced, r T where they are gone or null, and there
        (g r)^2 more under a noisy count.
        """
        rows = 1 if self.contributors is None else self.contributors.rows_per_person
        alone = Fraction(rows * self.squared_person_bound)
        if neighbours == "replace-one":
            return 4 * alone
        return alone + (self.count_steps * rows) ** 2 * self.count_words

    @property
    def count_deviation(self) -> float:
        """Return sigma over what a row counts."""
        return self.sigma / self.count_steps

    def sum_of_steps(self, steps: IntArray) -> IntArray:
        """Return the sum of clipped integer rows, shape `(n, d)`, and what they count: shape `(w,)`."""
        return np.append(steps.sum(axis=0), [self.count_steps * len(steps)] * self.count_words).astype(np.int64)

    def squared_report_bound(self) -> int:
        """Return the squared bound of a row, and the squares of both counts."""
        return self.squared_bound + self.count_words * self.count_steps**2 + self.clip_steps**2

    def largest_word(self) -> int:
        """Return the integer norm bound, of a person's rows where organisations contribute."""
        return max(isqrt(self.squared_person_bound), self.count_steps * self.count_words, self.clip_steps)

    def public_matrix(self, num_clients: int, seed: bytes) -> Ones:
        """Return the row of ones."""
        return Ones(num_clients)

    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        """Return the sum, shape `(d,)`, in normalised units."""
        total: FloatArray = sketch[0, :num_columns] * np.float64(2.0**-self.fraction_bits)
        return total

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return the words of the row, and one that counts it."""
        row = Block("row", num_columns, self.sigma, isqrt(self.squared_person_bound), 2.0**-self.fraction_bits)
        count = Block("count", self.count_words, self.sigma, self.count_steps, per=self.count_steps)
        return Layout((row, count), "count" * self.count_words, self.count_steps)
