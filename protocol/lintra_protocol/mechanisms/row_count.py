"""The count of rows, where rows in which a number is missing are left out: one noisy word of every report.

Under an exact count every report is one row, so a row of which a number is missing has the column's centre there. Under
a noisy one it is sent as the *null row*, all words 0: it looks like any other report and takes part in nothing. How
many rows are left then depends on values nobody may see, so it is a word like any other, with noise
(docs/privacy.md#missing-numbers).
"""

from abc import abstractmethod
from typing import Literal

from pydantic import Field

from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.ring import IntArray


class CountedRows(Mechanism):
    """A mechanism whose reports may hold a word that counts them, before the clip counter and after all others.

    In the canonical encoding `count` is left out where it is exact, which means the number of reports, and no word.
    """

    count: Literal["exact", "noisy"] = Field(default="exact", exclude_if=lambda count: count == "exact")

    @property
    def count_words(self) -> int:
        """Return how many words of a report count it: 1 under a noisy count, else 0."""
        return int(self.count == "noisy")

    @property
    @abstractmethod
    def count_steps(self) -> int:
        """Return what a row that is not left out sends in the count word, in ring units; 0 is refused."""

    @property
    def leaves_out(self) -> bool:
        """Whether a row in which a number is missing is sent as the null row."""
        return self.count == "noisy"

    def counted_rows(self, sketch: IntArray) -> float:
        """Return how many rows were not left out, noise included, from released integers of shape `(1, w)`.

        Raises:
            ValueError: the count is exact, the number of reports.
        """
        if not self.count_words:
            raise ValueError("under an exact count every report is a row")
        return float(sketch[0, -1 - self.clip_words]) / self.count_steps

    def check(self, claim: Claim, num_columns: int, max_clients: int) -> None:
        """Refuse parameters that break the claim or may overflow the ring (see `Mechanism.check`).

        Raises:
            InvalidTaskError: also where a row would count for nothing.
        """
        super().check(claim, num_columns, max_clients)
        if self.count_words and not self.count_steps:
            raise InvalidTaskError("count 'noisy': what a row counts is less than one step of the grid")
