"""`second_moment`: the sum of the rows' outer products with Gaussian noise, distributed Analyze Gauss.

A client rounds and clips its row in integers and sends the exact integer products, so the sensitivity holds without
rounding slack. Off-diagonal noise has half the diagonal's variance, which makes the noise isotropic in the Frobenius
norm and the mechanism exactly Gaussian (Dwork et al. 2014; Sheffet 2019; docs/privacy.md#second-moments).
"""

from fractions import Fraction
from math import isqrt
from typing import ClassVar, Literal

import numpy as np

from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.ring import FloatArray, IntArray
from lintra_protocol.transforms.ones import Ones


class SecondMoment(Mechanism):
    """The noisy matrix sum of x x^T; a report is its upper triangle in the order (1,1), (1,2), .., (1,d), (2,2), .."""

    kind: Literal["second_moment"] = "second_moment"

    start_bits: ClassVar[int] = 12

    def num_words(self, num_columns: int) -> int:
        """Return d (d + 1) / 2."""
        return num_columns * (num_columns + 1) // 2

    @property
    def num_rows(self) -> int:
        """Return 1: the servers' matrix is one row of ones."""
        return 1

    def encode_exactly(self, steps: IntArray) -> IntArray:
        """Return the integer products of the upper triangle."""
        first, second = np.triu_indices(steps.shape[1])
        return steps[:, first] * steps[:, second]

    def sigmas(self, num_columns: int) -> IntArray:
        """Return `sigma` off the diagonal and the next integer above sqrt(2) `sigma` on it."""
        first, second = np.triu_indices(num_columns)
        diagonal = isqrt(2 * self.sigma**2 - 1) + 1
        return np.where(first == second, diagonal, self.sigma).astype(np.int64)

    def squared_distance(self, claim: Claim, num_columns: int) -> Fraction:
        """Return B^4 where one row is replaced, B^4 / 2 where it becomes the null row.

        Counted against sigma off and sqrt(2) sigma on the diagonal, the squared distance of two products is half
        their squared Frobenius distance, and |u u^T - v v^T|_F^2 = |u|^4 + |v|^4 - 2 (u.v)^2 is at most 2 B^4.
        """
        fourth_power = Fraction(self.squared_bound**2)
        return fourth_power if claim.neighbours == "replace-one" else fourth_power / 2

    def largest_word(self) -> int:
        """Return the squared integer norm bound."""
        return self.squared_bound

    def public_matrix(self, num_clients: int, seed: bytes) -> Ones:
        """Return the row of ones."""
        return Ones(num_clients)

    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        """Return the symmetric matrix of shape `(d, d)` in squared normalised units."""
        upper = np.triu_indices(num_columns)
        matrix = np.zeros((num_columns, num_columns))
        matrix[upper] = sketch[0] * 2.0 ** (-2 * self.fraction_bits)
        return matrix + np.triu(matrix, 1).T
