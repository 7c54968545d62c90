"""The common form of releases: an unbiased estimate of Z^T Z, together with the law of its error.

Every estimator reads a `GramEstimate`. It asks the matrix for the answer and the error law for how far off
the answer may be; all laws answer the same questions, so that no estimator needs to know which mechanism it serves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lintra_analysis.releases.columns import ScaledColumn, positions
from lintra_protocol.crypto.ring import FloatArray

if TYPE_CHECKING:
    from lintra_analysis.releases.clipped import ClippedRows
    from lintra_analysis.releases.noise_laws.law import ErrorLaw
    from lintra_analysis.releases.row_count import RowCount
    from lintra_analysis.releases.weighted_rows import WeightedRows


class HasRows:
    """Sums over rows that were counted, or of which every report is one.

    `num_clients` is the number of reports, each a row of Z or, where rows are counted, left out. `counted` says how
    many rows there are, if some may have been left out; None if every report is a row.
    """

    num_clients: int
    counted: "RowCount | None"

    @property
    def num_rows(self) -> int:
        """Rows of Z: what sums are divided by. Where rows are counted it carries noise, `count_error` of it."""
        return self.num_clients if self.counted is None else self.counted.rows

    @property
    def count_error(self) -> float:
        """The relative deviation of `num_rows`; 0 if every report is a row."""
        return 0.0 if self.counted is None else self.counted.sd / self.counted.rows

    @property
    def count_notes(self) -> tuple[str, ...]:
        """What to say beside every answer about rows that were left out, if there may be any."""
        return () if self.counted is None else (self.counted.words,)


@dataclass(frozen=True, eq=False, repr=False)
class GramEstimate(HasRows):
    """An unbiased estimate of Z^T Z over the cohort, in normalised units, and the law of its error."""

    columns: tuple[ScaledColumn, ...]  #: what the rows and columns of `matrix` are
    matrix: FloatArray  #: shape `(d, d)`, symmetric; noise may have made it indefinite
    errors: "ErrorLaw"  #: the law of `matrix - Z^T Z`
    num_clients: int  #: reports, each a row of Z or, where rows are counted, left out
    row_bound: float  #: the L2 norm that no row of Z exceeds
    #: how many rows there are, if some may have been left out; None if every report is a row
    counted: "RowCount | None" = None
    clipped: "ClippedRows | None" = None  #: how many rows clipping changed; None if nobody counted
    #: how much rows count on average, if a row that is far out counts less; else None
    weighted: "WeightedRows | None" = None
    bound_notes: tuple[str, ...] = ()  #: in words, bounds that are far wider than the rows

    @property
    def total_weight(self) -> float:
        """What a sum of squares is divided by for a mean square: the rows, or their weights together, at least 1."""
        return self.num_rows if self.weighted is None else max(self.num_rows * self.weighted.average, 1.0)

    def residual_weight(self, fitted: int) -> float:
        """What a residual sum of squares is divided by for the variance of a residual: `total_weight` less `fitted`.

        A residual e of a row that counts w adds w e^2 to that sum, and w^2 e^2 x x^T to the covariance of the sums
        that sampling makes. With residuals of one variance, and w at most 1, that variance times X^T X is never too
        small for it; the sum over the number of rows is.
        """
        return max(self.total_weight - fitted, 1.0)

    @property
    def tests_hold(self) -> bool:
        """Whether so few rows were clipped that p values are given."""
        return self.clipped is None or self.clipped.tests_hold

    def __repr__(self) -> str:
        law = type(self.errors).__name__
        return f"GramEstimate(columns={len(self.columns)}, errors={law}, num_clients={self.num_clients})"

    @cached_property
    def eigenvectors(self) -> tuple[FloatArray, FloatArray]:
        """The eigenvalues of `matrix`, ascending, shape `(d,)`, and its eigenvectors in columns, shape `(d, d)`."""
        values, vectors = np.linalg.eigh(self.matrix)
        return values, vectors

    def restrict(self, names: Sequence[str]) -> "GramEstimate":
        """Return the block of the named columns, in that order."""
        index = positions(self.columns, names)
        columns, matrix = tuple(self.columns[i] for i in index), self.matrix[np.ix_(index, index)]
        return replace(self, columns=columns, matrix=matrix, errors=self.errors.restrict(index))

    @property
    def row_notes(self) -> tuple[str, ...]:
        """What to say beside every answer: bounds far too wide, and rows that are weighted or may be left out."""
        return (*self.bound_notes, *(() if self.weighted is None else (self.weighted.words,)), *self.count_notes)

    def second_moment(self) -> "GramEstimate":
        """Return this estimate itself, so that estimators read it like a release."""
        return self


class HasSecondMoment(Protocol):
    """A release that estimators of second moments can read."""

    def second_moment(self) -> GramEstimate:
        """Return the estimate of Z^T Z that the release holds; raise InvalidAnalysisError if it holds none."""
        ...
