"""The columns of synthetic rows: what a column may hold, and where it stands in the mapped row z.

A mapped row has one coordinate in [-1, 1] for each real, integer or boolean column and for a category of two levels,
and one for every level of a larger category.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidReleaseError
from lintra_protocol.mechanisms.joint_rows import FEATURE_BITS, feature_steps, feature_width, histogram_cells

Kind = Literal["real", "integer", "boolean", "category"]
ColumnArray = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.bool_] | NDArray[np.str_]
"""The values of one column: float64, int64, bool, or text, as its kind says."""

_DIGITS = 9


@dataclass(frozen=True)
class Feature:
    """One column with public bounds, or with public levels if it is a category."""

    name: str  #: as the analyst calls it
    kind: Kind  #: what it may hold
    lower: float = 0.0  #: smallest value; 0 for booleans and categories
    upper: float = 1.0  #: largest value; 1 for booleans and categories
    levels: tuple[str, ...] = ()  #: of a category, at least two; otherwise empty
    cells: int = 0  #: cells of its released histogram; 0 for none
    unit: str = ""
    #: where cells begin, in steps of 2^-15 of the mapped column, the first left out; none for equal width
    edges: tuple[int, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower < self.upper):
            raise InvalidReleaseError(f"column {self.name!r}: the bounds must be finite and in order")
        if (self.kind == "category") != (len(self.levels) >= 2) or len(set(self.levels)) < len(self.levels):
            raise InvalidReleaseError(f"column {self.name!r}: at least two distinct levels make a category")
        if self.kind == "integer" and (self.lower % 1 or self.upper % 1):
            raise InvalidReleaseError(f"column {self.name!r}: an integer column has integer bounds")
        if self.cells < 0 or (self.kind == "category" and self.cells not in (0, len(self.levels))):
            raise InvalidReleaseError(f"column {self.name!r}: {self.cells} cells do not fit")
        if self.edges and len(self.edges) + 1 != self.cells:
            raise InvalidReleaseError(f"column {self.name!r}: {len(self.edges)} edges make other cells")

    @property
    def cell_ends(self) -> FloatArray:
        """Return where the cells of a number begin and the last ends, in the column's own unit, shape `(B + 1,)`."""
        if not self.edges:
            return np.linspace(self.lower, self.upper, self.cells + 1)
        inner = self.lower + (np.array(self.edges) * 2.0**-FEATURE_BITS + 1) / 2 * (self.upper - self.lower)
        return np.concatenate([[self.lower], inner, [self.upper]])

    def cells_of(self, values: ColumnArray) -> IntArray:
        """Return the cell of each value of the column, shape `(n,)`, as a client's encoder has it."""
        if self.kind == "category":
            places = {level: number for number, level in enumerate(self.levels)}
            return np.array([places[str(value)] for value in values.tolist()], np.int64)
        mapped = 2 * (np.asarray(values, np.float64) - self.lower) / (self.upper - self.lower) - 1
        return histogram_cells(feature_steps(mapped), self.cells, self.edges)

    @property
    def width(self) -> int:
        """Return how many coordinates of z the column takes."""
        return feature_width(len(self.levels))

    def mapped(self, values: ColumnArray) -> FloatArray:
        """Return values of the column as coordinates of a mapped row, shape `(n, width)`."""
        if self.kind == "category":
            places = {level: number for number, level in enumerate(self.levels)}
            index = np.array([places[str(value)] for value in values.tolist()], np.int64)
            levels = np.arange(1, 2) if self.width == 1 else np.arange(len(self.levels))
            return np.where(index[:, np.newaxis] == levels, 1.0, -1.0)
        middle, half = (self.upper + self.lower) / 2, (self.upper - self.lower) / 2
        return ((np.asarray(values, np.float64) - middle) / half)[:, np.newaxis]

    def emitted(self, values: FloatArray) -> ColumnArray:
        """Return real values of shape `(n,)` as the column holds them: inside its bounds and of its own type.

        Reals keep nine digits of the column's width, so that rounding errors of one machine do not show.
        """
        inside: FloatArray = np.clip(values, self.lower, self.upper)
        if self.kind == "boolean":
            return np.asarray(inside >= (self.lower + self.upper) / 2)
        if self.kind == "integer":
            return np.rint(inside).astype(np.int64)
        decimals = _DIGITS - math.ceil(math.log10(self.upper - self.lower))
        return np.clip(np.round(inside, decimals), self.lower, self.upper)

    def named(self, index: IntArray) -> NDArray[np.str_]:
        """Return the levels at the positions `index`, shape `(n,)`."""
        return np.array(self.levels)[index]


@dataclass(frozen=True)
class ClassLabel:
    """A label with public levels; the class of a row is its position among them."""

    name: str
    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.levels) < 2 or len(set(self.levels)) < len(self.levels):
            raise InvalidReleaseError(f"label {self.name!r}: a class label has distinct levels, at least two")

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return the columns that the model describes beside the others: none, the classes are the mixture's."""
        return ()

    @property
    def scale(self) -> float:
        """Return 1: no coordinate is the label's."""
        return 1.0

    @property
    def meaning(self) -> tuple[object, ...]:
        """Return what the label is in either of two rounds."""
        return self.name, *self.levels


@dataclass(frozen=True)
class NumericLabel:
    """A label that is a number: mapped to [-1, 1] and times `scale` it is the last coordinate of the model."""

    feature: Feature
    scale: float

    def __post_init__(self) -> None:
        if self.feature.kind == "category":
            raise InvalidReleaseError(f"label {self.name!r}: a category is a class label")
        if not 0 < self.scale < math.inf:
            raise InvalidReleaseError(f"label {self.name!r}: the scale must be positive and finite")

    @property
    def name(self) -> str:
        """Return the name of its column."""
        return self.feature.name

    @property
    def levels(self) -> tuple[str, ...]:
        """Return no levels: a number makes no classes."""
        return ()

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return the columns that the model describes beside the others: the label's own."""
        return (self.feature,)

    @property
    def meaning(self) -> tuple[object, ...]:
        """Return what the label is in either of two rounds; scale and cells are each round's own."""
        return self.name, self.feature.kind, self.feature.lower, self.feature.upper


Label = ClassLabel | NumericLabel
"""Both have `name`, `levels` (none for a number), `features` (none for classes), `scale` and `meaning`."""


def starts_of(features: Sequence[Feature]) -> list[int]:
    """Return the first coordinate of every feature, and after the last one m, their number."""
    return list(accumulate((feature.width for feature in features), initial=0))


def require_distinct_names(features: Sequence[Feature], label: Label | None) -> None:
    """Refuse no columns at all, or two of the same name.

    Raises InvalidReleaseError if there are none, or a name occurs twice.
    """
    names = [feature.name for feature in features] + ([label.name] if label else [])
    if not features:
        raise InvalidReleaseError("synthetic rows need at least one column")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidReleaseError(f"these column names occur twice: {', '.join(twice)}")
