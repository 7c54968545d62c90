"""`osnap`: a sparse signed sketch of the rows themselves, the paper's main mechanism (Burkhardt et al. 2025).

A client sends one noisy row, not the paper's s noisy copies; the columns are dealt to the rows after the cohort is
frozen, and balanced. So the release costs exactly what the central Gaussian mechanism would.
"""

from fractions import Fraction
from math import isqrt
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from lintra_protocol.errors import UnsupportedFeatureError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.privacy.statement import Claim, PrivacyStatement
from lintra_protocol.ring import FloatArray, IntArray
from lintra_protocol.transforms.osnap import BalancedOsnap


class Osnap(Mechanism):
    """The balanced sketch with one nonzero entry in every column."""

    kind: Literal["osnap"] = "osnap"
    rows: int = Field(ge=1, le=2**20)
    sparsity: int = Field(default=1, ge=1, le=64)

    start_bits: ClassVar[int] = 20

    def num_words(self, num_columns: int) -> int:
        """Return d: a report is one noisy row."""
        return num_columns

    @property
    def num_rows(self) -> int:
        """Return m."""
        return self.rows

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

    def public_matrix(self, num_clients: int, seed: bytes) -> BalancedOsnap:
        """Return the balanced sketching matrix of the cohort."""
        return BalancedOsnap(self.rows, num_clients, seed)

    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        """Return the sketch of shape `(m, d)` in normalised units."""
        values: FloatArray = sketch * np.float64(2.0**-self.fraction_bits)
        return values

    def privacy(self, claim: Claim, num_columns: int, num_clients: int) -> PrivacyStatement:
        """Return the exact privacy: the leverage of a report is one over its row's honest clients (Theorem 1).

        Raises:
            UnsupportedFeatureError: more than one entry per column, whose rows are dependent.
            RowUnderfilledError: the emptiest row has no honest client beyond the tolerated coalition.
        """
        if self.sparsity != 1:
            raise UnsupportedFeatureError(
                f"a sketch of sparsity {self.sparsity} needs smoothing noise from the servers; use sparsity 1"
            )
        return super().privacy(claim, num_columns, num_clients)
