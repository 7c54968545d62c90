"""The cells that a row of `ron_gauss` enters: one of each column's histogram, and one of each pair table.

A pair table counts two columns together. Its cells are those of the two histograms, neighbours merged, so that what
is said about one column agrees with what is said about two. Everything here is public and stands in the task.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import Real, fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.joint_rows import FEATURE_BITS, NO_CELL, MappedRows, merged_cells
from lintra_protocol.mechanisms.projected import MAX_FEATURES, ProjectedRows

MAX_BINS = 1 << 16
MAX_PAIRS = 1 << 14
MAX_WEIGHT = 64
"""Largest weight of counts and of pair tables: beyond it the rest of a report is all noise."""

_Step = Annotated[int, Field(gt=-(1 << FEATURE_BITS), le=1 << FEATURE_BITS)]
_Number = Annotated[int, Field(ge=0, lt=MAX_FEATURES)]


class CountedCells(ProjectedRows):
    """The part of a mechanism that says which cells are counted.

    All but `bins` are left out of the canonical encoding where they say nothing, so that tasks without them keep
    their identifiers.

    Attributes:
        bins: for each column how many cells its histogram has, 0 for none.
        edges: for each column where its cells begin, in steps of 2^-15, the first left out; none for equal width.
        pairs: numbers of two columns that are counted together, the smaller first, in ascending order.
        pair_bins: for each column its cells in pair tables, at most those of its histogram; 0 where it is in none.
        pair_weight: of all pair tables together, where that of all histograms together is 1.
        count_weight: by which the noise of a class count is divided; at 1 counts are free.
    """

    bins: tuple[Annotated[int, Field(ge=0, le=MAX_BINS)], ...]
    edges: tuple[tuple[_Step, ...], ...] = Field(default=(), exclude_if=lambda edges: not edges)
    pairs: tuple[tuple[_Number, _Number], ...] = Field(
        default=(), max_length=MAX_PAIRS, exclude_if=lambda pairs: not pairs
    )
    pair_bins: tuple[Annotated[int, Field(ge=0, le=MAX_BINS)], ...] = Field(
        default=(), exclude_if=lambda bins: not bins
    )
    pair_weight: Real = Field(default="1", exclude_if=lambda weight: weight == "1")
    count_weight: Real = Field(default="1", exclude_if=lambda weight: weight == "1")

    @model_validator(mode="after")
    def _bins_of_columns(self) -> "CountedCells":
        for name, given in (("bins", self.bins), ("edges", self.edges), ("pair_bins", self.pair_bins)):
            if len(given) != len(self.levels) and (given or name == "bins"):
                raise ValueError(f"{len(self.levels)} columns have levels, {len(given)} have {name}")
        if bool(self.pairs) != bool(self.pair_bins):
            raise ValueError("pairs and pair_bins stand together")
        return self

    @property
    def histogram_columns(self) -> list[int]:
        """Return the numbers of the columns that have a histogram, in order."""
        return [column for column, number in enumerate(self.bins) if number]

    @property
    def tables(self) -> tuple[int, ...]:
        """Return the cells of each pair table."""
        return tuple(self.pair_bins[first] * self.pair_bins[second] for first, second in self.pairs)

    def cells_of(self, mapped: MappedRows) -> IntArray:
        """Return the cell of each row in every histogram and then in every pair table, shape `(n, H + P)`.

        A row in which a value of a pair is missing has no cell in that table; a missing label has the first class.
        """
        places = {column: place for place, column in enumerate(self.histogram_columns)}
        merged = {}
        for column in sorted({column for pair in self.pairs for column in pair}):
            own = mapped.cells[:, places[column]] if column in places else mapped.classes
            merged[column] = merged_cells(own, self.cells_before_merging(column), self.pair_bins[column])
        tables = [
            np.where(
                (merged[first] == NO_CELL) | (merged[second] == NO_CELL),
                NO_CELL,
                merged[first] * self.pair_bins[second] + merged[second],
            )
            for first, second in self.pairs
        ]
        return np.column_stack([mapped.cells, *tables]).astype(np.int64)

    def cells_before_merging(self, column: int) -> int:
        """Return the cells of a column's histogram; of a label with levels, which has none, the number of levels."""
        return self.bins[column] or (self.levels[column] if column == self.label else 0)

    def _require_cells(self) -> None:
        """Refuse cells, edges, pairs or weights that do not fit each other."""
        for column, (num_levels, num_bins) in enumerate(zip(self.levels, self.bins, strict=True)):
            if num_levels and num_bins not in ({0} if column == self.label else {0, num_levels}):
                raise InvalidTaskError(f"column {column}: {num_bins} cells do not fit {num_levels} levels")
        for column, edges in enumerate(self.edges):
            if edges and (self.levels[column] or len(edges) + 1 != self.bins[column]):
                raise InvalidTaskError(f"column {column}: {len(edges)} edges do not make {self.bins[column]} cells")
            if any(later <= former for former, later in pairwise(edges)):
                raise InvalidTaskError(f"column {column}: edges do not ascend")
        self._require_pairs()
        for name, weight in (("pair_weight", self.pair_weight), ("count_weight", self.count_weight)):
            if not 0 < fraction(weight) <= MAX_WEIGHT:
                raise InvalidTaskError(f"{name} lies above 0 and is at most {MAX_WEIGHT}, got {weight}")
        if self.count_weight != "1" and self.num_classes == 1:
            raise InvalidTaskError("count_weight needs a label with levels")
        if self.pair_weight != "1" and not self.pairs:
            raise InvalidTaskError("pair_weight needs pairs")

    def _require_pairs(self) -> None:
        if any(not first < second < len(self.levels) for first, second in self.pairs):
            raise InvalidTaskError("a pair names two columns by number, the smaller first")
        if any(later <= former for former, later in pairwise(self.pairs)):
            raise InvalidTaskError("pairs stand in ascending order, each once")
        paired = {column for pair in self.pairs for column in pair}
        for column, number in enumerate(self.pair_bins):
            most = self.cells_before_merging(column) if column in paired else 0
            least = min(2, most) if column in paired else 0
            if not least <= number <= most or (column in paired and not number):
                raise InvalidTaskError(f"column {column}: {number} cells in pair tables do not fit {most} in all")
            if self.levels[column] and column in paired and number != self.levels[column]:
                raise InvalidTaskError(f"column {column}: levels of a category are not merged in pair tables")
        if any(cells > MAX_BINS for cells in self.tables):
            raise InvalidTaskError(f"a pair table has at most {MAX_BINS} cells")

    def _require_values(self, columns: Sequence[Column]) -> None:
        """Refuse more cells than a column has values."""
        for column, num_bins in zip(columns, self.bins, strict=True):
            lower, upper = fraction(column.lower), fraction(column.upper)
            if column.kind in {"boolean", "integer"} and num_bins > upper - lower + 1:
                raise InvalidTaskError(f"column {column.name!r} has fewer values than the {num_bins} cells")
