"""The public directions that the products of a second round are about."""

from dataclasses import dataclass

from lintra_analysis.releases.checks import checked_shape
from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.crypto.ring import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Directions:
    """Directions of rows that stand for their columns."""

    columns: tuple[ScaledColumn, ...]  #: the d columns of a row
    basis: FloatArray  #: nearly orthonormal, shape `(d, r)`
    names: tuple[str, ...]  #: of the columns of the release that are rows along directions

    def __post_init__(self) -> None:
        checked_shape(self.basis, (len(self.columns), len(self.names)))

    def __repr__(self) -> str:
        return f"Directions({len(self.names)} of {len(self.columns)} columns)"
