"""The error of products of columns whose rows were turned by a public matrix before noise was added."""

from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.noise_laws.combined_error import CombinedError
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_protocol.crypto.ring import FloatArray, IntArray


@dataclass(frozen=True, eq=False, repr=False)
class TurnedError(CombinedError):
    """The error B^T N B of products B^T M B; M was released, of rows turned by the inverse of B^T.

    N looks the same in every orthonormal basis: `law` is over all columns that carry noise, those of a trace included.
    """

    law: SymmetricNoise

    def __post_init__(self) -> None:
        if self.law.exact is not None or self.law.apart is not None:
            raise ValueError("noise that spares a column does not look the same in every orthonormal basis")

    def straightened(self) -> tuple[FloatArray, SymmetricNoise]:
        """Return S of B = Q S, shape `(k, k)`, and the law of N, which S^-T (B^T N B) S^-1 has.

        Q has orthonormal columns. S is upper triangular with a positive diagonal. What B leaves as it is S does, too.
        """
        upper = np.linalg.qr(self.basis, mode="r")
        straight: FloatArray = upper * np.sign(np.diagonal(upper))[:, np.newaxis]
        return straight, self.law

    def restrict(self, index: IntArray) -> "TurnedError":
        """Return the law of the block of some columns, numbered in shape `(k,)`."""
        return TurnedError(self.law, self.matrix, self.basis[:, index])
