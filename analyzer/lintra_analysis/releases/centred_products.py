"""The second of two rounds: noisy products about the class means that a first release gave.

About their means rows are short, so that products need less noise; counts, means and histograms are the first's.
"""

import math
from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.features import Label
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidReleaseError
from lintra_protocol.privacy.statement import PrivacyStatement


@dataclass(frozen=True, eq=False, repr=False)
class CentredProducts:
    """The noisy sum of u u^T, u a projected row less the centre of its class."""

    names: tuple[str, ...]  #: of the columns, the label's not among them
    label: Label | None  #: as in the first release; `scale` of a numeric one is this round's own
    frame: FloatArray | None
    #: shape `(K, P)`, what was subtracted from mapped rows; from a numeric label as a part of its range
    centers: FloatArray
    products: FloatArray  #: shape `(P, P)`, or `(K, P, P)`
    product_sd: float  #: deviation of the noise off the diagonal; on it sqrt(2) times that
    num_clients: int  #: n
    radius: float  #: the norm that no centred row exceeds
    first_task: str  #: identifier of the first round's task
    promise: PrivacyStatement
    grid: float = 0.0  #: the step that centres were rounded to
    clipped: ClippedRows | None = None  #: how many rows this round's clipping changed; None if nobody counted

    def __post_init__(self) -> None:
        classes = 1 if self.label is None else max(1, len(self.label.levels))
        size = self.centers.shape[-1]
        if self.centers.shape != (classes, size) or self.products.shape not in ((size, size), (classes, size, size)):
            raise InvalidReleaseError(
                f"products of shape {self.products.shape} do not fit {self.centers.shape} centres"
            )
        if not (np.isfinite(self.centers).all() and np.isfinite(self.products).all()):
            raise InvalidReleaseError("a release holds finite numbers only")
        if self.num_clients < 1 or not 0 <= self.product_sd < math.inf:
            raise InvalidReleaseError("a release has at least 1 client and a finite noise")

    def __repr__(self) -> str:
        return f"CentredProducts(classes={len(self.centers)}, num_clients={self.num_clients})"

    def table(self) -> tuple[list[str], FloatArray]:
        """Return a name for every released number, and the numbers, shape `(1, w)`."""
        blocks = self.products.reshape(-1, *self.products.shape[-2:])
        first, second = np.triu_indices(self.products.shape[-1])
        names = [
            f"product[{k}] h{i + 1}*h{j + 1}" for k in range(len(blocks)) for i, j in zip(first, second, strict=True)
        ]
        return names, blocks[:, first, second].reshape(1, -1)
