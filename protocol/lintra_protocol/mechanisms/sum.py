"""`sum`: the plain sum of the rows, hence their mean (Burkhardt et al. 2025, Section 3.1)."""

from typing import ClassVar, Literal

import numpy as np

from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.ring import FloatArray, IntArray
from lintra_protocol.transforms.ones import Ones


class Sum(Mechanism):
    """The sum over all clients; the servers' matrix is one row of ones. It may count the rows that were clipped."""

    kind: Literal["sum"] = "sum"

    counts_clipped: ClassVar[bool] = True
    start_bits: ClassVar[int] = 24

    @property
    def num_rows(self) -> int:
        """Return 1."""
        return 1

    def public_matrix(self, num_clients: int, seed: bytes) -> Ones:
        """Return the row of ones."""
        return Ones(num_clients)

    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        """Return the sum, shape `(d,)`, in normalised units."""
        total: FloatArray = sketch[0, :num_columns] * np.float64(2.0**-self.fraction_bits)
        return total
