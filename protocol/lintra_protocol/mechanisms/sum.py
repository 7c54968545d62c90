"""`sum`: the plain sum of the rows, hence their mean (Burkhardt et al. 2025, Section 3.1)."""

from fractions import Fraction
from math import isqrt
from typing import ClassVar, Literal

import numpy as np

from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.ring import FloatArray, IntArray
from lintra_protocol.transforms.ones import Ones


class Sum(Mechanism):
    """The sum over all clients; the servers' matrix is one row of ones."""

    kind: Literal["sum"] = "sum"

    start_bits: ClassVar[int] = 24

    def num_words(self, num_columns: int) -> int:
        """Return d."""
        return num_columns

    @property
    def num_rows(self) -> int:
        """Return 1."""
        return 1

    def encode_exactly(self, steps: IntArray) -> IntArray:
        """Return the clipped row itself."""
        return steps

    def sigmas(self, num_columns: int) -> IntArray:
        """Return `sigma` for every column."""
        return np.full(num_columns, self.sigma, np.int64)

    def squared_distance(self, claim: Claim) -> Fraction:
        """Return (2B)^2 where one row is replaced, B^2 where it becomes the null row."""
        return Fraction(4 if claim.neighbours == "replace-one" else 1) * self.squared_bound

    def largest_word(self) -> int:
        """Return the integer norm bound."""
        return isqrt(self.squared_bound)

    def public_matrix(self, num_clients: int, seed: bytes) -> Ones:
        """Return the row of ones."""
        return Ones(num_clients)

    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        """Return the sum, shape `(d,)`, in normalised units."""
        total: FloatArray = sketch[0] * np.float64(2.0**-self.fraction_bits)
        return total
