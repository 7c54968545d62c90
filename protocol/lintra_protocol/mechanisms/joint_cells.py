"""The cells that a row of `ron_gauss` enters: one of each column's histogram, and one of each pair table.

A pair table counts two columns together. Its cells are those of the two histograms, neighbours merged, so that what
is said about one column agrees with what is said about two. Everything here is public and stands in the task.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.joint_rows import NO_CELL, MappedRows, merged_cells

MAX_BINS = 1 << 16


@dataclass(frozen=True)
class CountedCells:
    """Which cells a row enters; every field has one entry for each column, but for `pairs` (`RonGauss` says more)."""

    levels: tuple[int, ...]
    label: int
    bins: tuple[int, ...]
    edges: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...]
    pair_bins: tuple[int, ...]

    @property
    def histogram_columns(self) -> list[int]:
        """Return the numbers of the columns that have a histogram, in order."""
        return [column for column, number in enumerate(self.bins) if number]

    @property
    def tables(self) -> tuple[int, ...]:
        """Return the cells of each pair table; a pair of columns that are none, which is refused, has none."""
        bins = (*self.pair_bins, 0)
        return tuple(bins[min(first, len(bins) - 1)] * bins[min(second, len(bins) - 1)] for first, second in self.pairs)

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

    def check(self) -> None:
        """Raise InvalidTaskError for cells, edges or pairs that do not fit each other."""
        for column, (num_levels, num_bins) in enumerate(zip(self.levels, self.bins, strict=True)):
            if num_levels and num_bins not in ({0} if column == self.label else {0, num_levels}):
                raise InvalidTaskError(f"column {column}: {num_bins} cells do not fit {num_levels} levels")
        for column, edges in enumerate(self.edges):
            if edges and (self.levels[column] or len(edges) + 1 != self.bins[column]):
                raise InvalidTaskError(f"column {column}: {len(edges)} edges do not make {self.bins[column]} cells")
            if any(later <= former for former, later in pairwise(edges)):
                raise InvalidTaskError(f"column {column}: edges do not ascend")
        self._check_pairs()

    def _check_pairs(self) -> None:
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

    def check_values(self, columns: Sequence[Column]) -> None:
        """Raise InvalidTaskError for more cells than a column has values."""
        for column, num_bins in zip(columns, self.bins, strict=True):
            lower, upper = fraction(column.lower), fraction(column.upper)
            if column.kind in {"boolean", "integer"} and num_bins > upper - lower + 1:
                raise InvalidTaskError(f"column {column.name!r} has fewer values than the {num_bins} cells")
