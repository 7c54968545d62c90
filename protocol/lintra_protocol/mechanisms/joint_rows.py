"""One integer vector per row that sums to class counts, class sums, products and histograms of projected rows.

Pure functions on integers: whatever row comes in, the vector that goes out keeps the bounds exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.transforms.orthonormal import FRAME_BITS

FEATURE_BITS = 15
"""A feature in [-1, 1] is counted in steps of 2^-15."""

_FEATURE_ONE = 1 << FEATURE_BITS

NO_CELL = -1
"""The cell of a value that is missing."""

Edges = Sequence[Sequence[int]]
"""For each column where its histogram cells begin, the first left out; nothing for cells of equal width."""


@dataclass(frozen=True)
class JointSums:
    """What the vectors of many rows add up to, in real units.

    With a numeric label, its value is the last of the p coordinates.
    """

    #: rows in each class, shape `(K,)`; None with one class, where the number of clients is exact
    counts: FloatArray | None
    sums: FloatArray  #: of the clipped vectors of each class, shape `(K, p)`
    products: FloatArray  #: sum of v v^T, shape `(1, p, p)`, or `(K, p, p)` by class
    histograms: tuple[FloatArray, ...]  #: for each column that has one, rows in each cell
    #: for each pair of columns that are counted together, rows in each cell, row by row
    tables: tuple[FloatArray, ...] = ()

    def __repr__(self) -> str:
        classes, size = self.sums.shape
        return f"JointSums(classes={classes}, coordinates={size}, histograms={len(self.histograms)})"


@dataclass(frozen=True)
class JointWords:
    """What a vector has, in the order of its words: counts | sums by class | products by class or pooled | cells.

    The cells of the histograms come first, then those of the pair tables.
    """

    num_classes: int  #: K; with one class there are no counts
    num_coordinates: int  #: p, a numeric label counted as one
    per_class: bool  #: whether each class has products of its own
    bins: tuple[int, ...]  #: cells of each histogram
    tables: tuple[int, ...] = ()  #: cells of each pair table

    @property
    def num_counts(self) -> int:
        """Return K, or 0 with one class."""
        return self.num_classes if self.num_classes > 1 else 0

    @property
    def num_blocks(self) -> int:
        """Return how many matrices of products there are."""
        return self.num_classes if self.per_class else 1

    @property
    def triangle(self) -> int:
        """Return p (p + 1) / 2, the words of one matrix of products: (1,1), (1,2), .., (1,p), (2,2), .."""
        return self.num_coordinates * (self.num_coordinates + 1) // 2

    @cached_property
    def ends(self) -> tuple[int, int, int, int]:
        """Return where counts, sums, products and all cells end; the last is the number of words."""
        sums = self.num_counts + self.num_classes * self.num_coordinates
        products = sums + self.num_blocks * self.triangle
        return self.num_counts, sums, products, products + sum(self.bins) + sum(self.tables)

    def by_class(self, classes: IntArray, words: IntArray) -> IntArray:
        """Return words of rows, shape `(n, k)`, in the place of each row's class, shape `(n, K k)`; 0 elsewhere."""
        result = np.zeros((len(words), self.num_classes, words.shape[1]), np.int64)
        result[np.arange(len(words)), classes] = words
        return result.reshape(len(words), -1)

    def products_by_class(self, classes: IntArray, vectors: IntArray) -> IntArray:
        """Return the products of clipped integers of shape `(n, p)` in the block of each row's class."""
        first, second = np.triu_indices(self.num_coordinates)
        return self.by_class(classes, vectors[:, first] * vectors[:, second])

    def cell_words(self, cells: IntArray, indicator: int) -> IntArray:
        """Return `indicator` in the cell of each row in each histogram and each pair table, shape `(n, all cells)`.

        `cells` have shape `(n, H + P)`; `NO_CELL` stands for none.
        """
        ranks, starts = np.arange(len(cells)), np.array(self.cell_starts, np.int64) - self.ends[2]
        result = np.zeros((len(cells), self.ends[3] - self.ends[2]), np.int64)
        for column, start in enumerate(starts):
            counted = cells[:, column] != NO_CELL
            result[ranks[counted], start + cells[counted, column]] = indicator
        return result

    def unpack(self, values: FloatArray) -> JointSums:
        """Take a sum of vectors apart, shape `(w,)`, in real units (see `RonGauss.decode`).

        Raises:
            ValueError: another number of words.
        """
        if values.shape != (self.ends[3],):
            raise ValueError(f"expected {self.ends[3]} words, got an array of shape {values.shape}")
        counts, sums, products, _ = (
            values[start:end] for start, end in zip((0, *self.ends[:3]), self.ends, strict=True)
        )
        size = self.num_coordinates
        matrices = np.zeros((self.num_blocks, size, size))
        first, second = np.triu_indices(size)
        matrices[:, first, second] = products.reshape(self.num_blocks, self.triangle)
        matrices[:, second, first] = matrices[:, first, second]
        every = tuple(
            values[start : start + cells].copy()
            for start, cells in zip(self.cell_starts, self.bins + self.tables, strict=True)
        )
        return JointSums(
            counts=counts.copy() if self.num_counts else None,
            sums=sums.reshape(self.num_classes, size).copy(),
            products=matrices,
            histograms=every[: len(self.bins)],
            tables=every[len(self.bins) :],
        )

    @property
    def cell_starts(self) -> list[int]:
        """Return where each histogram begins, and then each pair table."""
        return list(accumulate(self.bins + self.tables, initial=self.ends[2]))[:-1]


@dataclass(frozen=True)
class MappedRows:
    """Rows as integers, before they are projected; `repr` shows their number only."""

    features: IntArray  #: shape `(n, m)`, in steps of 2^-15
    classes: IntArray  #: shape `(n,)`; all 0 without classes
    cells: IntArray  #: the row's cell in each histogram, shape `(n, H)`; `NO_CELL` where the value is missing

    def __repr__(self) -> str:
        return f"MappedRows({len(self.classes)})"


def map_rows(rows: FloatArray, levels: Sequence[int], bins: Sequence[int], label: int, edges: Edges = ()) -> MappedRows:
    """Map normalised rows to features, classes and cells.

    A missing value has the middle of its features, 0, and no cell; as a label it has the first class. `rows` has shape
    `(n, d)`; a category is the number of its level. NaN for what is missing. `levels` are those of each column, 0 for a
    number. `bins` are cells of each column's histogram, 0 for none. `label` is the column that is no feature, or -1.
    `edges` are those of each column's cells, in steps of 2^-15; of a column without any, cells are of equal width.
    Raises ValueError if a value is infinite, or the rows have another number of columns.
    """
    if rows.shape[1:] != (len(levels),) or np.isinf(rows).any():
        raise ValueError(f"expected finite rows of {len(levels)} columns; rows are checked before")
    missing = np.isnan(rows)
    rows = np.where(missing, 0.0, rows)
    classes, empty = np.zeros(len(rows), np.int64), np.zeros((len(rows), 0), np.int64)
    features, cells = [empty], [empty]
    for column, (num_levels, num_bins) in enumerate(zip(levels, bins, strict=True)):
        values = rows[:, column]
        numbers = level_numbers(values, num_levels) if num_levels else feature_steps(values)
        if column != label:
            own = level_features(numbers, num_levels) if num_levels else numbers[:, np.newaxis]
            features.append(np.where(missing[:, column, np.newaxis], 0, own))
        elif num_levels:
            classes = numbers
        if num_bins:
            inner = edges[column] if edges else ()
            own = numbers if num_levels else histogram_cells(numbers, num_bins, inner)
            cells.append(np.where(missing[:, column], NO_CELL, own)[:, np.newaxis])
    return MappedRows(np.hstack(features), classes, np.hstack(cells))


def feature_steps(values: FloatArray) -> IntArray:
    """Count values in steps of 2^-15, rounded half to even and moved into [-1, 1]; of any shape.

    Raises ValueError if a value is not finite; nothing is said about which.
    """
    if not np.isfinite(values).all():
        raise ValueError("expected finite values; rows are checked before they are encoded")
    return np.rint(np.clip(values, -1.0, 1.0) * _FEATURE_ONE).astype(np.int64)


def level_numbers(values: FloatArray, num_levels: int) -> IntArray:
    """Round values of any shape to the numbers of levels, 0 to `num_levels` - 1; what lies outside goes to the end."""
    return np.rint(np.clip(values, 0, num_levels - 1)).astype(np.int64)


def level_features(numbers: IntArray, num_levels: int) -> IntArray:
    """Return a category as features of shape `(n, width)`: of two levels one that is -1 or 1, of more one per level."""
    if num_levels == 2:
        return np.where(numbers == 1, _FEATURE_ONE, -_FEATURE_ONE)[:, np.newaxis].astype(np.int64)
    return np.where(numbers[:, np.newaxis] == np.arange(num_levels), _FEATURE_ONE, -_FEATURE_ONE).astype(np.int64)


def feature_width(num_levels: int) -> int:
    """Return how many features a column becomes: 1 for a number (0 levels) and for two levels, else one per level."""
    return num_levels if num_levels > 2 else 1


def histogram_cells(steps: IntArray, num_bins: int, edges: Sequence[int] = ()) -> IntArray:
    """Return the cell of each feature, in any shape, among `num_bins` over [-1, 1]; 1 itself lies in the last.

    Cells are of equal width, or cell k begins at the k-th of some ascending `edges`, in steps of 2^-15.
    """
    if edges:
        return np.searchsorted(np.asarray(edges, np.int64), steps, side="right").astype(np.int64)
    cells: IntArray = np.minimum((steps + _FEATURE_ONE) * num_bins >> (FEATURE_BITS + 1), num_bins - 1)
    return cells


def merged_cells(cells: IntArray, num_bins: int, num_merged: int) -> IntArray:
    """Return the cells of a pair table: floor(c b / B) of B cells that became b, at most B, neighbours together.

    The shape is that of `cells`. `NO_CELL` stays what it is.
    """
    merged: IntArray = cells * num_merged // num_bins
    return merged


def project(features: IntArray, frame: IntArray | None, fraction_bits: int) -> IntArray:
    """Return features times frame in steps of 2^-f, rounded half up.

    `features` has shape `(n, m)`, in steps of 2^-15, none beyond 1. `frame` has shape `(m, p)`, in steps of 2^-15; None
    for the identity. `fraction_bits` is f, at most 15.
    """
    if frame is None:
        return _shifted(features, FEATURE_BITS - fraction_bits)
    # Products are below 2^30 and fewer than 2^23 are added, so that every partial sum is an exact double.
    exact = features.astype(np.float64) @ frame.astype(np.float64)
    return _shifted(exact.astype(np.int64), FEATURE_BITS + FRAME_BITS - fraction_bits)


def label_steps(values: FloatArray, bound: int) -> IntArray:
    """Count numeric labels, in [-1, 1] and any shape, in steps of 1 / `bound`.

    They are rounded half to even and moved inside; NaN is 0.
    """
    return np.rint(np.clip(np.nan_to_num(values, nan=0.0), -1.0, 1.0) * bound).astype(np.int64)


def feature_slices(levels: Sequence[int]) -> list[slice]:
    """Return which features each column becomes, given the number of levels of each (0 for a number)."""
    ends = list(accumulate((feature_width(number) for number in levels), initial=0))
    return [slice(start, end) for start, end in pairwise(ends)]


def _shifted(values: IntArray, bits: int) -> IntArray:
    """Return values / 2^bits, rounded half up."""
    return values + (1 << bits >> 1) >> bits
