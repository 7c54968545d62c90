"""`first_column`: the noisy total of the first column; a report is one word."""

from collections.abc import Mapping
from fractions import Fraction
from math import isqrt
from typing import ClassVar, Literal

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.layout import Block, Layout, Words
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Neighbours


class FirstColumn(Mechanism):
    """The sum of the first column."""

    kind: Literal["first_column"] = "first_column"

    start_bits: ClassVar[int] = 24

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return the total."""
        return Layout((Block("total", 1, self.sigma, isqrt(self.squared_bound), 2.0**-self.fraction_bits),))

    def fill(self, steps: IntArray, setting: Setting) -> Mapping[str, Words]:
        """Return the first of the integers of each row."""
        return {"total": steps[:, :1]}

    def decode(self, layout: Layout, sketch: IntArray) -> FloatArray:
        """Return the total in normalised units, shape `(1,)`."""
        return layout.first_values(sketch, "total")

    def squared_distance(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> Fraction:
        """Return (2 B)^2, or B^2 against the null row."""
        return Fraction(4 if neighbours == "replace-one" else 1) * self.squared_bound
