"""A released sum of the products of every two columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.releases.checks import check_noise_sd, check_release, checked_shape
from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.columns import INTERCEPT, ScaledColumn, positions, require_workable
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.noise_laws.combined_error import CombinedError
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_analysis.releases.row_count import RowCount
from lintra_analysis.releases.weighted_rows import WeightedRows
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidReleaseError


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


NARROW, LONG = 0.01, 4
"""A mean square of a column in squared scales, and a row bound over the typical length of a row, worth a word."""


@dataclass(frozen=True, eq=False, repr=False)
class SecondMomentSum:
    """The noisy sum of z z^T ("Analyze Gauss": Dwork, Talwar, Thakurta, Zhang 2014)."""

    columns: tuple[ScaledColumn, ...]  #: the d columns
    values: FloatArray  #: shape `(d, d)`, symmetric
    noise_sd: float  #: sd of the noise off the diagonal; on it, sqrt(2) times that, save for the two options
    num_clients: int  #: reports, each a row of Z or, where rows are counted, left out
    row_bound: float  #: the L2 norm that no row of Z exceeds
    #: over how many columns a noisy trace has tightened the diagonal; 0 for none. Of the whole release, also where this
    #: is a part of it.
    trace_columns: int = 0
    #: name of a column whose product with itself is public, so that it carries no noise; empty for none
    exact: str = ""
    gaussian: bool = True  #: whether the noise is Gaussian, and not only of these variances
    clipped: ClippedRows | None = None  #: how many rows clipping changed; None if nobody counted
    #: how many rows there are, if some may have been left out; the product of "(intercept)" with itself then carries
    #: the noise of any square, and is no part of a trace. None if every report is a row.
    counted: RowCount | None = None
    #: how much rows count on average, if a row that is far out counts less. The constant is then one of the columns
    #: that a trace covers.
    weighted: WeightedRows | None = None
    #: B, shape `(k, d)`, where the rows' features were turned: `values` is then B^T M B, M the k x k products with
    #: noise of `noise_sd`. None if the rows were not turned.
    straightening: FloatArray | None = None

    def __post_init__(self) -> None:
        check_release(self.columns, self.num_clients, self.row_bound)
        size = len(self.columns)
        checked_shape(self.values, (size, size))
        check_noise_sd(self.noise_sd)
        require_workable(self.values, self.noise_sd, self.row_bound)
        if not np.allclose(self.values, self.values.T, rtol=1e-9, atol=1e-9 * float(np.abs(self.values).max())):
            raise InvalidReleaseError("a second moment must be symmetric")
        if self.trace_columns < 0:
            raise InvalidReleaseError(f"a trace covers 0 columns or more, got {self.trace_columns}")
        if self.exact and self.exact not in [column.name for column in self.columns]:
            raise InvalidReleaseError(f"the release has no column {self.exact!r} that could be exact")

    def __repr__(self) -> str:
        return f"SecondMomentSum(columns={len(self.columns)}, num_clients={self.num_clients})"

    def restrict(self, names: Sequence[str]) -> "SecondMomentSum":
        """Return the release of the named columns only, in that order."""
        index = positions(self.columns, names)
        columns = tuple(self.columns[i] for i in index)
        exact = self.exact if self.exact in [column.name for column in columns] else ""
        straightening = None if self.straightening is None else self.straightening[:, index]
        values = self.values[np.ix_(index, index)]
        return replace(self, columns=columns, values=values, exact=exact, straightening=straightening)

    def second_moment(self) -> GramEstimate:
        """Return the matrix itself, which is unbiased, with the law of its noise."""
        matrix = (self.values + self.values.T) / 2
        names = [column.name for column in self.columns]
        exact = names.index(self.exact) if self.exact else None
        stands_apart = self.counted is not None and self.weighted is None and INTERCEPT in names
        apart = names.index(INTERCEPT) if stands_apart else None
        law = SymmetricNoise(self.noise_sd, self.trace_columns > 0, self.trace_columns, exact, self.gaussian, apart)
        turned = self.straightening
        errors = law if turned is None else TurnedError(law, matrix, turned)
        return GramEstimate(
            columns=self.columns,
            matrix=matrix,
            errors=errors,
            num_clients=self.num_clients,
            row_bound=self.row_bound,
            counted=self.counted,
            clipped=self.clipped,
            weighted=self.weighted,
            bound_notes=self._bound_notes(np.diagonal(matrix)),
        )

    def _bound_notes(self, squares: FloatArray) -> tuple[str, ...]:
        """Return which bounds are about ten times too wide; `squares` is the diagonal of the products, shape `(d,)`.

        A column is named if its mean square, noise added twice, is below a hundredth: it fills a tenth of its scale. A
        row bound is if the mean squared length of a row is below a sixteenth of its square. Without noise none costs.
        """
        if not self.noise_sd or self.straightening is not None:
            # Turned columns have no scale of their own.
            return ()
        count = self.num_clients if self.weighted is None else max(self.num_clients * self.weighted.average, 1.0)
        noise = 2 * np.sqrt(2) * self.noise_sd
        target = "" if self.weighted is None else self.weighted.target
        narrow = [
            column.name
            for column, square in zip(self.columns, squares.tolist(), strict=True)
            if column.constant is None and column.kind != "boolean" and not column.category and column.name != target
            if (square + noise) / count < NARROW
        ]
        notes = [f"{name} fills a tenth of its scale: its bounds are about ten times too wide" for name in narrow]
        length = float(squares.sum()) + noise * np.sqrt(len(self.columns))
        if length / self.num_clients < self.row_bound**2 / LONG**2:
            notes.append(f"the row bound is {LONG} times too long, and so the noise {LONG**2} times too large")
        return tuple(notes)

    def table(self) -> tuple[list[str], FloatArray]:
        """Return the matrix row by row, shape `(d, d)`."""
        return [column.name for column in self.columns], self.values
