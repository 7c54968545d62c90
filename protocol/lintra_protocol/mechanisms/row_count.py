"""The count of rows, where rows in which a number is missing are left out: one noisy word of every report.

Under an exact count every report is one row, so a row of which a number is missing has the column's centre there. Under
a noisy one it is sent as the *null row*, all words 0: it looks like any other report and takes part in nothing. How
many rows are left then depends on values nobody may see, so it is a word like any other, with noise
(docs/explanation/privacy.md#missing-numbers).

Where organisations contribute, the same word counts the rows of each, if the task says so, and the rows of a person are
clipped together, as one long vector (docs/explanation/privacy.md#organisations).
"""

from abc import abstractmethod
from math import sqrt
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.contributed import by_number_of_rows
from lintra_protocol.noise.clipping import MAX_SQUARED_BOUND, quantise, squared_integer_bound
from lintra_protocol.privacy.statement import Claim

_NUMBERS_AT_ONCE = 1 << 20
"""How many numbers of persons' rows are clipped at once."""


class CountedRows(Mechanism):
    """A mechanism whose reports may hold a word that counts them, before the clip counter and after all others.

    In the canonical encoding `count` is left out where it is exact, which means the number of reports, and no word.
    """

    count: Literal["exact", "noisy"] = Field(default="exact", exclude_if=lambda count: count == "exact")

    takes_contributors: ClassVar[bool] = True
    clips_persons: ClassVar[bool] = True

    @property
    def count_words(self) -> int:
        """Return how many words of a report count it: 1 under a noisy count, else 0."""
        return int(self.count == "noisy" or self.counts_noisily)

    @property
    @abstractmethod
    def count_steps(self) -> int:
        """Return what a row that is not left out sends in the count word, in ring units; 0 is refused."""

    @property
    def leaves_out(self) -> bool:
        """Whether a row in which a number is missing is sent as the null row."""
        return self.count == "noisy" or self.counts_noisily

    def counted_rows(self, sketch: IntArray) -> float:
        """Return how many rows were not left out, noise included, from released integers of shape `(1, w)`.

        Raises:
            ValueError: the count is exact, the number of reports.
        """
        if not self.count_words:
            raise ValueError("under an exact count every report is a row")
        return float(sketch[0, -1 - self.clip_words]) / self.count_steps

    # --- contributions of organisations ------------------------------------------------------------------------

    @property
    def has_noisy_count(self) -> bool:
        """Whether rows can be counted with noise: always, unless a mechanism says more."""
        return True

    def noisy_rows(self, sketch: IntArray) -> float:
        """Return `counted_rows` of a sum of shape `(1, w)`."""
        return self.counted_rows(sketch)

    @property
    def squared_person_bound(self) -> int:
        """Return T in integer steps, the largest sum of squared norms of a person's rows; of one row, its bound."""
        if self.contributors is None:
            return self.squared_bound
        bound = self.contributors.person_bound
        if bound is None:
            return self.contributors.rows_per_person * self.squared_bound
        return squared_integer_bound(fraction(bound), self.fraction_bits)

    @property
    def person_norm(self) -> float:
        """Return the largest norm of all rows of a person together, in normalised units."""
        return sqrt(self.squared_person_bound) * 2.0**-self.fraction_bits

    def clipping_rule(self) -> str:
        """Return in words what happens to a row that is too large, or to all rows of a person together."""
        if self.contributors is None:
            return super().clipping_rule()
        rows, bound = self.contributors.rows_per_person, self.contributors.person_bound
        norm = bound or self.row_bound + f" times the root of {rows}" * (rows > 1)
        return f"all rows of a person together are shrunk to norm {norm}"

    @abstractmethod
    def sum_of_steps(self, steps: IntArray) -> IntArray:
        """Return the sum of the noiseless reports of clipped integer rows of shape `(n, d)`, shape `(w,)`."""

    def exact_sum(self, rows: FloatArray, persons: IntArray) -> IntArray:
        """Return the sum of the noiseless reports of rows that are clipped together for each person, shape `(w,)`."""
        filled, num_columns = self.filled(rows), rows.shape[1]
        total = np.zeros(self.num_words(num_columns), np.int64)
        for places in by_number_of_rows(persons):
            step = max(1, _NUMBERS_AT_ONCE // (places.shape[1] * num_columns))
            for start in range(0, len(places), step):
                whole = filled[places[start : start + step]].reshape(-1, places.shape[1] * num_columns)
                total += self.sum_of_steps(self.steps_of_persons(whole, num_columns))
        return total

    def steps_of_persons(self, rows: FloatArray, num_columns: int) -> IntArray:
        """Clip all rows of each person together, and count them in integer steps.

        `rows` are normalised, those of a person one after the other, shape `(persons, rows of each times d)`.
        `num_columns` is d.

        Returns:
            Integer rows, shape `(persons times rows of each, d)`.
        """
        return quantise(rows * 2.0**self.fraction_bits, self.squared_person_bound).reshape(-1, num_columns)

    def may_fit(self, claim: Claim, num_columns: int) -> bool:
        """Return whether the bounds of a row and of a person fit 30 bits (see `Mechanism.may_fit`)."""
        return super().may_fit(claim, num_columns) and 0 < self.squared_person_bound <= MAX_SQUARED_BOUND

    def check(self, claim: Claim, num_columns: int, max_clients: int) -> None:
        """Refuse parameters that break the claim or may overflow the ring (see `Mechanism.check`).

        Raises:
            InvalidTaskError: also where a row would count for nothing.
        """
        if self.contributors is not None and self.count == "noisy":
            raise InvalidTaskError("count: of contributors it stands in their own field; leave the mechanism's out")
        if not 0 < self.squared_person_bound <= MAX_SQUARED_BOUND:
            raise InvalidTaskError(
                f"what a person's rows are clipped to does not fit 30 bits with {self.fraction_bits} fraction bits"
            )
        super().check(claim, num_columns, max_clients)
        if self.count_words and not self.count_steps:
            raise InvalidTaskError("count 'noisy': what a row counts is less than one step of the grid")
