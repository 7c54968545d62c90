"""The clip counter: a word more in a report, so that the sum tells how many rows clipping changed.

A client that clipped its row sends g there, another one 0, with noise like that of any other word. Whoever sees the sum
knows whether the bounds were too narrow, at the price of sqrt(1 + w^2) times as much noise in every word
(docs/explanation/privacy.md#clip-counter).
"""

from abc import abstractmethod
from fractions import Fraction
from math import isqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import Frozen, Real, fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.privacy.statement import Neighbours


class ClipCounter(Frozen):
    """A mechanism as far as it counts clipped rows; g is `clip_count_weight` times the distance of replaced rows.

    In a sketch of m rows it is sqrt(m) times that (`mechanisms.sketched`).

    In the canonical encoding the weight is left out where it is 0, which means that nothing is counted.
    """

    kind: str
    clip_count_weight: Real = Field(default="0", exclude_if=lambda weight: weight == "0")

    counts_clipped: ClassVar[bool] = False
    """Whether a report of this kind has room for a word that counts clipped rows."""

    @abstractmethod
    def squared_row_distance(self, neighbours: Neighbours) -> Fraction:
        """Return the largest squared distance of two neighbouring noiseless reports without the clip counter."""

    @property
    def clip_words(self) -> int:
        """Return how many words of a report count clipped rows: 1, the last, with a clip counter, else 0."""
        return int(self.clip_count_weight != "0")

    @property
    def squared_clip_scale(self) -> Fraction:
        """Return the square of what the weight refers to: the squared distance of replaced rows.

        Also if the claim is about null rows: a client need not know.
        """
        return self.squared_row_distance("replace-one")

    @property
    def clip_steps(self) -> int:
        """Return g, what a clipped row sends in the last word: w times the root of `squared_clip_scale`; or 0.

        Rounded down.
        """
        if not self.clip_words:
            return 0
        square = fraction(self.clip_count_weight) ** 2 * self.squared_clip_scale
        return isqrt(square.numerator // square.denominator)

    def clip_words_of(self, clipped: NDArray[np.bool_]) -> IntArray:
        """Return what rows send in the clip counter, shape `(n, 1)` or, without one, `(n, 0)`."""
        words: IntArray = self.clip_steps * clipped[:, np.newaxis].astype(np.int64)
        return words[:, : self.clip_words]

    def clipped_rows(self, sketch: IntArray) -> float:
        """Return how many rows were clipped, noise included, from released integers of shape `(m, w/c)`.

        The noise of every report adds the variance (sigma / g)^2, independent of all other numbers. The total stands in
        row 0, behind all else.

        Raises:
            ValueError: nothing counts clipped rows.
        """
        if not self.clip_words:
            raise ValueError("this mechanism has no clip counter")
        return float(sketch[0, -1]) / self.clip_steps

    def require_clip_count(self) -> None:
        """Refuse a clip counter that this kind cannot have, or a weight that is out of range.

        Raises:
            InvalidTaskError: in these words.
        """
        if self.clip_words and not self.counts_clipped:
            raise InvalidTaskError(f"clip_count_weight: {self.kind} cannot count clipped rows; use 0")
        if not 0 <= fraction(self.clip_count_weight) <= 1:
            raise InvalidTaskError(f"clip_count_weight lies between 0 and 1, got {self.clip_count_weight}")
