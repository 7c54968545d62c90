"""The columns of a release: public centre and scale, so that any analyst can go between units.

Inside the protocol a column is z = (x - center) / scale; `x` is what the analyst calls the column.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidAnalysisError, InvalidReleaseError

INTERCEPT = "(intercept)"
"""Name of the column that is the same for everybody; it stands for the constant in a fitted line."""

MAGNITUDE = 1e60
"""Numbers of a release lie within this, and scales above its inverse: estimators multiply four of them."""


@dataclass(frozen=True)
class ScaledColumn:
    """One public column: x lies in [lower, upper], in `unit`, and travels as (x - center) / scale."""

    name: str
    center: float
    scale: float
    lower: float
    upper: float
    unit: str = ""
    #: "real", "integer", "boolean" or "category" (`schema.Kind`); an indicator of a level is a "boolean"
    kind: str = "real"
    category: str = ""  #: of an indicator, the name of that column, such as `sex` of `sex[female]`; else empty
    levels: tuple[str, ...] = ()  #: of an indicator, all levels of the category, the reference first; else empty

    def __post_init__(self) -> None:
        numbers = (self.center, self.scale, self.lower, self.upper)
        if not self.name:
            raise InvalidReleaseError("a column has no name")
        if not all(math.isfinite(number) for number in numbers):
            raise InvalidReleaseError(f"column {self.name!r}: center, scale, lower and upper must be finite")
        if self.scale <= 0 or self.lower > self.upper:
            raise InvalidReleaseError(f"column {self.name!r}: the scale must be positive and lower <= upper")
        if max(map(abs, numbers)) > MAGNITUDE or self.scale < 1 / MAGNITUDE:
            raise InvalidReleaseError(
                f"column {self.name!r}: center, scale and bounds must lie within {MAGNITUDE:g}, and the scale above "
                f"{1 / MAGNITUDE:g}; choose another unit"
            )

    @property
    def constant(self) -> float | None:
        """The normalised value that every row has here, if the bounds allow only one and it is not zero."""
        value = (self.lower - self.center) / self.scale
        return value if self.lower == self.upper and value != 0 else None

    @property
    def farthest(self) -> float:
        """The largest absolute normalised value within the bounds."""
        return max(abs(self.lower - self.center), abs(self.upper - self.center)) / self.scale

    @property
    def level(self) -> str:
        """The level that an indicator is 1 for, such as `female` of `sex[female]`; empty for other columns."""
        return self.name[len(self.category) + 1 : -1] if self.category else ""


def require_distinct(columns: Sequence[ScaledColumn]) -> None:
    """Refuse an empty list of columns, two of the same name, or the intercept's name on what is none.

    Raises InvalidReleaseError if there are none, a name occurs twice, or a column that varies is called "(intercept)".
    """
    names = [column.name for column in columns]
    if not names:
        raise InvalidReleaseError("a release needs at least one column")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidReleaseError(f"these column names occur twice: {', '.join(twice)}")
    if any(column.name == INTERCEPT and not column.constant for column in columns):
        raise InvalidReleaseError(f"the name {INTERCEPT!r} belongs to a column that is the same for everybody")


def require_workable(values: FloatArray, noise: float | FloatArray, row_bound: float) -> None:
    """Refuse numbers so large or so small that products of them leave the range of floating point.

    `values` are the released numbers, any shape. `noise` is their standard deviation or variance; 0 for none.
    `row_bound` is the L2 norm that no row exceeds. Raises InvalidReleaseError if the largest of them is beyond
    `MAGNITUDE`, or below its inverse and not 0.
    """
    for what, numbers in (("number", values), ("noise", np.asarray(noise)), ("row bound", np.asarray(row_bound))):
        largest = float(np.abs(numbers).max(initial=0.0))
        if largest > MAGNITUDE or 0 < largest < 1 / MAGNITUDE:
            raise InvalidReleaseError(
                f"the largest {what} of the release is {largest:.3g}; estimators compute with "
                f"{1 / MAGNITUDE:g} to {MAGNITUDE:g}"
            )


def listed_names(names: Sequence[str]) -> Sequence[str]:
    """Return names as a list; a text is the name of one column."""
    return [names] if isinstance(names, str) else names


def positions(columns: Sequence[ScaledColumn], names: Sequence[str]) -> IntArray:
    """Return where the named columns are, shape `(k,)`, in the order of `names`; a text is the name of one.

    Raises InvalidAnalysisError if no name is given, one is unknown, or one is given twice.
    """
    names = listed_names(names)
    known = {column.name: position for position, column in enumerate(columns)}
    if unknown := [name for name in names if name not in known]:
        raise InvalidAnalysisError(f"unknown columns: {', '.join(map(str, unknown))}; known are: {', '.join(known)}")
    if not names:
        raise InvalidAnalysisError(f"at least one column must be named; known are: {', '.join(known)}")
    if len(set(names)) < len(names):
        raise InvalidAnalysisError(f"each column may be named once, got: {', '.join(names)}")
    return np.array([known[name] for name in names], np.int64)


def scales(columns: Sequence[ScaledColumn]) -> FloatArray:
    """Return the columns' scales, shape `(d,)`."""
    return np.array([column.scale for column in columns], np.float64)


def centers(columns: Sequence[ScaledColumn]) -> FloatArray:
    """Return the columns' centres, shape `(d,)`, in their own units."""
    return np.array([column.center for column in columns], np.float64)
