"""`histogram`: how many rows lie in each of some public cells, column by column; hence shares, quantiles and bounds.

A row adds `indicator` to one cell of every column, so that it moves the sum by a fixed distance whatever it holds:
nothing has to be clipped, and the promise is exact (docs/reference/mechanisms/histogram.md).
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import prod
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from lintra_protocol.crypto.randomness import RandomBytes, no_randomness
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Real, fraction, omitted
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.layout import Block, Layout, Words
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim, Neighbours

MAX_CELLS = 4096
"""Most cells of one column."""


class Histogram(Mechanism):
    """The noisy number of rows in each cell of each column; the servers' matrix is one row of ones.

    Words: the cells of the first column from the lowest up, then one for rows in which its value is missing; then those
    of the second, and so on. The number of rows needs no word, since it is that of the reports.

    Attributes:
        edges: for each column e_0 < .. < e_m in its own unit, which make the cells [e_i, e_{i+1}), the last one closed;
            e_0 and e_m are the column's bounds. Empty for a column with `levels`.
        levels: for each column how many levels it has, one cell each: those of a category, 2 of a boolean, 0 of a
            number.
        indicator: U, what a row adds to its cell; larger means finer noise.
        crossed: whether there is one histogram, whose cells are all combinations of cells of the columns, those of the
            last column next to each other, and one for rows in which any value is missing; left out of the document
            where it is false.
        row_bound: "1", and `fraction_bits` 0: nothing is clipped or scaled.
    """

    kind: Literal["histogram"] = "histogram"
    row_bound: Real = "1"
    fraction_bits: int = Field(default=0, ge=0, le=40)
    edges: tuple[Annotated[tuple[Real, ...], Field(max_length=MAX_CELLS + 1)], ...]
    levels: tuple[Annotated[int, Field(ge=0, le=1024)], ...]
    indicator: int = Field(default=4096, ge=1, le=2**30)
    crossed: bool = omitted(False)

    allows: ClassVar[frozenset[str]] = frozenset({"contributors", "levels", "server noise", "floor", "stream"})
    start_bits: ClassVar[int] = 0

    @model_validator(mode="after")
    def _cells_of_columns(self) -> "Histogram":
        if len(self.edges) != len(self.levels):
            raise ValueError(f"{len(self.edges)} columns have edges, {len(self.levels)} have levels")
        for column, (ends, num_levels) in enumerate(zip(self.edges, self.levels, strict=True)):
            if num_levels == 1 or (num_levels > 0) == (len(ends) > 0) or len(ends) == 1:
                raise ValueError(f"column {column} has either at least 2 levels, or at least 2 edges")
            if any(fraction(low) >= fraction(high) for low, high in pairwise(ends)):
                raise ValueError(f"the edges of column {column} do not increase")
        if self.crossed and not (len(self.edges) >= 2 and prod(self.cells) <= MAX_CELLS):
            raise ValueError(f"crossed columns are 2 or more, with at most {MAX_CELLS} cells together")
        return self

    @property
    def cells(self) -> tuple[int, ...]:
        """Return how many cells each column has, that of missing values left out."""
        return tuple(n or len(ends) - 1 for n, ends in zip(self.levels, self.edges, strict=True))

    @property
    def counted_cells(self) -> tuple[int, ...]:
        """Return how many cells each histogram has, that of missing values left out: of a column, or of all crossed."""
        return (prod(self.cells),) if self.crossed else self.cells

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return one block: all cells, and one more of each histogram; those of a histogram add up to the rows."""
        words = sum(self.counted_cells) + len(self.counted_cells)
        cells = Block("cells", words, self.sigma, bound=self.indicator, per=self.indicator)
        return Layout((cells,), counter="cells", rows_per_count=self.indicator * len(self.counted_cells))

    def squared_distance(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> Fraction:
        """Return 2 H U^2 where one row is replaced, H U^2 where it becomes the null row, which lies in no cell.

        A row has U in one cell of each of the H histograms, one for each column or a single crossed one; that of
        another row differs from it in two words at most. Both are attained, by rows that share no cell. Of r rows of a
        person it is r^2 times that.
        """
        one = len(self.counted_cells) * self.indicator**2 * setting.rows_per_person**2
        return Fraction(2 * one if neighbours == "replace-one" else one)

    def squared_length(self, num_columns: int, setting: Setting) -> int:
        """Return H U^2: U in one cell of each of the H histograms."""
        return len(self.counted_cells) * self.indicator**2

    def with_centre_for_missing(self, rows: FloatArray) -> FloatArray:
        """Return the rows, shape `(n, d)`, as they are: a missing number has a cell of its own."""
        return rows

    def clip(self, rows: FloatArray, setting: Setting, random_bytes: RandomBytes = no_randomness) -> IntArray:
        """Return the cell of each value of rows in own units, both of shape `(n, d)`.

        A value is compared with the double nearest to an edge. What lies beyond the first or last edge counts in the
        first or last cell, and a level is rounded to a whole number. What is missing, a NaN, has the last cell.

        Raises:
            ValueError: the rows have another number of columns.
        """
        if rows.shape[1:] != (len(self.edges),):
            raise ValueError(f"expected rows of {len(self.edges)} columns; rows are checked before")
        numbers = np.empty(rows.shape, np.int64)
        for column, (ends, cells) in enumerate(zip(self.edges, self.cells, strict=True)):
            inner = np.array([float(fraction(end)) for end in ends[1:-1]])
            missing = np.isnan(rows[:, column])
            values = np.where(missing, 0.0, rows[:, column])
            own = np.searchsorted(inner, values, side="right") if ends else np.rint(np.clip(values, 0, cells - 1))
            numbers[:, column] = np.where(missing, cells, own)
        return numbers

    def fill(self, steps: IntArray, setting: Setting) -> Mapping[str, Words]:
        """Return U in the cell of each histogram, for numbers of cells of shape `(n, d)`."""
        if self.crossed:
            complete = (steps < np.array(self.cells)).all(axis=1)
            inside = np.ravel_multi_index(tuple(np.where(complete, own, 0) for own in steps.T), self.cells)
            steps = np.where(complete, inside, prod(self.cells))[:, np.newaxis]
        starts = np.cumsum([0, *(number + 1 for number in self.counted_cells)])
        words = np.zeros((len(steps), starts[-1]), np.int64)
        words[np.arange(len(steps))[:, np.newaxis], starts[:-1] + steps] = self.indicator
        return {"cells": words}

    def is_clipped(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Return False for each row, shape `(n,)`: none is too large."""
        return np.zeros(len(rows), np.bool_)

    def clipping_rule(self, setting: Setting) -> str:
        """Return in words what a client does to a row that is too large."""
        counted = "one cell" if self.crossed else "one cell of each column"
        return f"a row is counted in {counted}; what lies beyond the outer edges counts in the outer cells"

    def decode(self, layout: Layout, sketch: IntArray) -> FloatArray:
        """Return the rows in every cell, shape `(w,)`; noise may make a number negative."""
        return layout.first_values(sketch, "cells")

    def by_column(self, counts: FloatArray) -> tuple[FloatArray, ...]:
        """Return the decoded numbers, shape `(w,)`, as one array for each histogram, missing values last."""
        return tuple(np.split(counts, list(accumulate(number + 1 for number in self.counted_cells))[:-1]))

    # --- what a task may say -----------------------------------------------------------------------------------

    @property
    def noisy_count_advice(self) -> str:
        """Return "": the cells of a column, with that of missing values, add up to the number of rows."""
        return ""

    def check_options(self, claim: Claim, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError for a scale, and edges of another number of columns."""
        if (self.row_bound, self.fraction_bits) != ("1", 0):
            raise InvalidTaskError("a histogram has row_bound 1 and fraction_bits 0: nothing is clipped or scaled")
        if len(self.edges) != num_columns:
            raise InvalidTaskError(f"edges are those of {len(self.edges)} columns, the task has {num_columns}")

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Refuse columns that this mechanism does not fit.

        Raises:
            InvalidTaskError: levels differ, values are centred or scaled, or the outer edges are not the bounds.
        """
        for column, ends, num_levels in zip(columns, self.edges, self.levels, strict=True):
            held = 2 if column.kind == "boolean" else len(column.levels)
            if held != num_levels:
                raise InvalidTaskError(f"column {column.name!r} has {held} levels, not {num_levels}")
            if (column.center, column.scale) != ("0", "1"):
                raise InvalidTaskError(
                    f"column {column.name!r}: a histogram counts values in their own unit; give center 0 and scale 1"
                )
            outer = tuple(fraction(end) for end in (ends[0], ends[-1])) if ends else ()
            if ends and outer != (fraction(column.lower), fraction(column.upper)):
                raise InvalidTaskError(
                    f"column {column.name!r}: the outer edges {ends[0]} and {ends[-1]} are not its bounds "
                    f"{column.lower} and {column.upper}"
                )
