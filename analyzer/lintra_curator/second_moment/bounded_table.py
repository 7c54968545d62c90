"""What a curator hands to a mechanism: a table of rows in normalised units, with its columns and its public bound."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lintra_analysis.releases.columns import MAGNITUDE, ScaledColumn, require_distinct
from lintra_curator.claims.row_checks import CLIPPED, bounded_rows
from lintra_protocol.crypto.ring import FloatArray


@dataclass(frozen=True, eq=False)
class BoundedTable:
    """Rows that are known to lie within the bound; the only way to a release. `BoundedTable.of` makes one.

    Attributes:
        columns: the d columns.
        rows: shape `(n, d)`, normalised, none longer than the bound; n is at least d.
        row_bound: B, public.

    >>> rows = np.array([[3.0, 4.0], [0.3, 0.4]])
    >>> table = BoundedTable.of(rows, plain_columns(["left", "right"], 1.0), row_bound=1.0)
    >>> table.rows.round(2).tolist()  # the first row was longer than the bound
    [[0.6, 0.8], [0.3, 0.4]]
    """

    columns: tuple[ScaledColumn, ...]
    rows: FloatArray = field(repr=False)
    row_bound: float

    def __post_init__(self) -> None:
        widest = math.sqrt(MAGNITUDE)
        if not 1 / widest <= self.row_bound <= widest:
            raise ValueError(f"row_bound must lie between {1 / widest:g} and {widest:g}, got {self.row_bound}")
        # Not `longest > bound`: a NaN must be refused too.
        longest = np.einsum("ij,ij->i", self.rows, self.rows).max()
        if not longest <= self.squared_bound:
            raise ValueError(f"a row is longer than the bound {self.row_bound}, or not finite; use BoundedTable.of")

    @classmethod
    def of(
        cls, rows: FloatArray, columns: Sequence[ScaledColumn], row_bound: float, *, clip: bool = True
    ) -> "BoundedTable":
        """Check a curator's rows, and shrink those that are longer than the bound.

        Args:
            rows: finite, shape `(n, d)`, in normalised units: (x - center) / scale for every column.
            columns: what they are; `plain_columns` makes some that need no units.
            row_bound: B, chosen without a look at the rows.
            clip: shrink longer rows onto the sphere; if False they are refused.

        Raises:
            ValueError: shapes or numbers are wrong, there are fewer rows than columns, or a row is too long.
            InvalidReleaseError: two columns have the same name.
        """
        bounded = bounded_rows(rows, row_bound, clip=clip)
        require_distinct(columns)
        count, size = bounded.shape
        if size != len(columns):
            raise ValueError(f"the rows have {size} entries, but {len(columns)} columns are named")
        if size > count:
            raise ValueError(f"a second moment of {size} columns needs at least as many rows, got {count}")
        return cls(tuple(columns), bounded, float(row_bound))

    @property
    def squared_bound(self) -> float:
        """B^2, with what rounding may have left of a clipped row beyond the sphere."""
        return (self.row_bound * CLIPPED) ** 2

    def products(self) -> FloatArray:
        """Return S = Z^T Z, shape `(d, d)`, in floating point."""
        return np.asarray(self.rows.T @ self.rows, np.float64)


def plain_columns(names: Iterable[str], row_bound: float) -> tuple[ScaledColumn, ...]:
    """Return columns whose own unit is the normalised one, with values in [-B, B].

    >>> [column.name for column in plain_columns(["left", "right"], 1.0)]
    ['left', 'right']

    Args:
        names: of the columns, in order.
        row_bound: B, the norm that no row exceeds.
    """
    return tuple(ScaledColumn(name, 0.0, 1.0, -row_bound, row_bound) for name in names)
