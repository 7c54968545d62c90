"""`first_column`: the noisy total of the first column; a report is one word."""

from fractions import Fraction
from math import isqrt
from typing import ClassVar, Literal

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.layout import Block, Layout
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.transforms.ones import Ones


class FirstColumn(Mechanism):
    """The sum of the first column."""

    kind: Literal["first_column"] = "first_column"

    start_bits: ClassVar[int] = 24

    @property
    def num_rows(self) -> int:
        """Return 1: all reports enter one row."""
        return 1

    def num_words(self, num_columns: int) -> int:
        """Return 1."""
        return 1

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return the total."""
        return Layout((Block("total", 1, self.sigma, isqrt(self.squared_person_bound), 2.0**-self.fraction_bits),))

    def encode_exactly(self, steps: IntArray) -> IntArray:
        """Return the first of the integers of each row, shape `(n, 1)`."""
        return steps[:, :1]

    def public_matrix(self, num_clients: int, seed: bytes) -> Ones:
        """Return one row of ones."""
        return Ones(num_clients)

    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        """Return the total in normalised units, shape `(1,)`."""
        total: FloatArray = sketch[0] * np.float64(2.0**-self.fraction_bits)
        return total

    def squared_distance(self, claim: Claim, num_columns: int) -> Fraction:
        """Return (2 B)^2, or B^2 against the null row."""
        return Fraction(4 if claim.neighbours == "replace-one" else 1) * self.squared_bound
