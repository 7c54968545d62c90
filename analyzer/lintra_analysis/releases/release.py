"""What was released, whatever mechanism it came from: a record of parts, of which most releases hold one or two."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from lintra_analysis.releases.cell_counts import CellCounts
from lintra_analysis.releases.centred_products import CentredProducts
from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.crossed_cells import CrossedCells
from lintra_analysis.releases.directions import Directions
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.releases.newton_sums import NewtonSums
from lintra_analysis.releases.range_sums import RangeSums
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_analysis.releases.sketch import Sketch
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

Part = (
    SecondMomentSum
    | Sketch
    | Totals
    | CellCounts
    | CrossedCells
    | RangeSums
    | ProjectedSums
    | CentredProducts
    | NewtonSums
)
Name = Literal["moments", "totals", "cells", "crossed", "range_sums", "joint_sums", "centred", "newton"]

REFUSALS = {
    "cells": "this release counts no rows in cells, so it holds no quantiles; release a histogram of these columns",
    "crossed": "this release counts no combinations of columns; release a histogram with `crossed`, or with `survival`",
    "range_sums": "this release is no range finder; ask for `pca` or `regression`, which need all second moments, or "
    "release a range_finder where columns are too many for that",
    "totals": "this release holds no sums of rows; release a sum of these columns",
    "centred": "this release holds no second round of ron_gauss; release a ron_gauss_centred after the first",
    "joint_sums": "synthetic rows need a release of the mechanism ron_gauss: class counts, sums, products and "
    "histograms",
    "newton": "this release holds no step of a logistic regression; release a newton_step of these columns",
    "moments of newton": "a newton_step holds sums at one parameter and no second moments; ask for `logit`",
    "moments of cells": "a histogram looks at each column alone and holds no second moments; ask for `histogram`, "
    "whose quantiles it does hold, or release a second moment or a sketch of these columns",
    "moments of crossed": "a crossed histogram holds no second moments; ask for `survival`, `logrank` or `chi_square`, "
    "or release a second moment of these columns",
    "moments of totals": "a sum of rows holds no second moments, so nothing about how columns vary together; release "
    "a second moment or a sketch of these columns instead",
    "moments of range_sums": "a range finder holds the leading directions of the second moments and not all of them; "
    "ask for `wide_components`, or for `wide_ridge` of a target",
    "moments of centred": "the second of two rounds holds products about class means and nothing else; open it with "
    "the release of the first round for a model of both",
    "moments of projected": "these rows were projected, so their products are not about named columns",
    "moments of levels": "a category of more than two levels has several coordinates, not one column",
    "moments of noise": "the noise of these products is not that of one symmetric Gaussian matrix",
}
"""Why a part that is absent cannot be had: by its name, and for second moments by what the release holds instead."""


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """Released numbers with all that an estimator must know about them; a part that is absent is None.

    >>> from lintra_analysis import open_release
    >>> release = open_release("flights.npz")
    >>> release.num_clients, [column.name for column in release.restrict(["hour", "delay"]).columns]
    (240, ['hour', 'delay'])

    Attributes:
        moments: a noisy sum of z z^T, or a sketch; both give `second_moment`.
        totals: a noisy sum of rows on their own. Moments with a constant column hold sums as products with it.
        cells: rows in each cell of each column.
        crossed: rows in each combination of cells of all columns.
        range_sums: products of all columns with projected ones.
        joint_sums: what synthetic rows are modelled on.
        centred: products about class means, of a second round.
        newton: gradient and Hessian of a logistic regression at a public parameter.
        directions: what the columns of a second round's moments stand for; None where they are columns.
    """

    moments: SecondMomentSum | Sketch | None = None
    totals: Totals | None = None
    cells: CellCounts | None = None
    crossed: CrossedCells | None = None
    range_sums: RangeSums | None = None
    joint_sums: ProjectedSums | None = None
    centred: CentredProducts | None = None
    newton: NewtonSums | None = None
    directions: Directions | None = None

    def __repr__(self) -> str:
        return repr(self._main)

    @property
    def _main(self) -> Part:
        """Return the part that has the number of rows, and is what a file holds."""
        names = ("newton", "centred", "joint_sums", "cells", "crossed", "range_sums", "moments", "totals")
        parts: list[Part | None] = [getattr(self, name) for name in names]
        return next(part for part in parts if part is not None)

    @overload
    def need(self, name: Literal["moments"]) -> SecondMomentSum | Sketch: ...
    @overload
    def need(self, name: Literal["totals"]) -> Totals: ...
    @overload
    def need(self, name: Literal["cells"]) -> CellCounts: ...
    @overload
    def need(self, name: Literal["crossed"]) -> CrossedCells: ...
    @overload
    def need(self, name: Literal["range_sums"]) -> RangeSums: ...
    @overload
    def need(self, name: Literal["joint_sums"]) -> ProjectedSums: ...
    @overload
    def need(self, name: Literal["newton"]) -> NewtonSums: ...
    def need(self, name: Name) -> Part:
        """Return a part.

        Raises:
            InvalidAnalysisError: it is absent; the detail says why, and what to do.
        """
        part: Part | None = getattr(self, name)
        if part is None and name == "moments" and self._instead == "":
            part = self.need("joint_sums").as_second_moment()
        if part is None:
            raise InvalidAnalysisError(REFUSALS.get(name) or REFUSALS[f"{name} of {self._instead}"])
        return part

    @property
    def _instead(self) -> str:
        """Return what a release without moments holds in their place; empty if joint sums have products of columns."""
        if self.joint_sums is not None and self.centred is None:
            return self.joint_sums.obstacle
        return next(
            name
            for name in ("newton", "centred", "cells", "crossed", "range_sums", "totals")
            if getattr(self, name) is not None
        )

    @property
    def num_clients(self) -> int:
        """Return how many rows are in the release."""
        return self._main.num_clients

    @property
    def columns(self) -> tuple[ScaledColumn, ...]:
        """Return the columns that the release is about.

        Raises:
            InvalidAnalysisError: it is not about single columns.
        """
        if self.newton is not None:
            return (*self.newton.columns, self.newton.target)
        return next(iter(self._parts_of_columns().values())).columns

    @property
    def clipped(self) -> ClippedRows | None:
        """Return how many rows clipping changed; of two rounds the larger number; None if nobody counted."""
        parts = (self.newton, self.centred, self.joint_sums, self.range_sums, self.moments, self.totals)
        counted = [part.clipped for part in parts if part is not None and part.clipped is not None]
        return max(counted, key=lambda each: each.upper_share, default=None)

    def restrict(self, names: Sequence[str]) -> "Release":
        """Return the release of the named columns only, in that order.

        Raises:
            InvalidAnalysisError: a name is unknown or named twice, or the release is not about single columns.
        """
        parts: dict[str, Any] = {name: part.restrict(names) for name, part in self._parts_of_columns().items()}
        return Release(**parts, directions=self.directions)

    def second_moment(self) -> GramEstimate:
        """Return the estimate of Z^T Z that the release holds, with the law of its error.

        Raises:
            InvalidAnalysisError: it holds none.
        """
        return self.need("moments").second_moment()

    def table(self) -> tuple[list[str], FloatArray]:
        """Return the released numbers for a file: the heading, of k names, and lines of shape `(r, k)`."""
        return self._main.table()

    def _parts_of_columns(self) -> dict[str, SecondMomentSum | Sketch | Totals | CellCounts | CrossedCells | RangeSums]:
        """Return the parts that are about single columns, at least one."""
        names = ("cells", "crossed", "range_sums", "moments", "totals")
        parts = {name: getattr(self, name) for name in names}
        return {name: part for name, part in parts.items() if part is not None} or {"moments": self.need("moments")}
