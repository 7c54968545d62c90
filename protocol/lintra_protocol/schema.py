"""The columns of a row: names, public bounds, public centre and scale; and what makes a row acceptable.

Everything a column says is chosen without looking at the rows. A value outside its bounds is moved to the nearest
bound; a value that is not a finite number is refused, and the message names the column.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from pydantic import StringConstraints, model_validator

from lintra_protocol.documents import Frozen, Real, fraction
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.ring import FloatArray

Row = Mapping[str, float] | Sequence[float] | FloatArray
Name = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f]{1,80}$")]


class Column(Frozen):
    """One column: a value x inside [lower, upper] enters the encoder as (x - center) / scale."""

    name: Name
    lower: Real
    upper: Real
    center: Real = "0"
    scale: Real = "1"
    unit: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> "Column":
        if fraction(self.lower) >= fraction(self.upper):
            raise ValueError(f"column {self.name!r}: lower bound {self.lower} is not below upper bound {self.upper}")
        if fraction(self.scale) <= 0:
            raise ValueError(f"column {self.name!r}: scale {self.scale} is not positive")
        return self


class Schema:
    """The columns of a task as arrays, ready to check and normalise rows."""

    def __init__(self, columns: Sequence[Column]) -> None:
        """Prepare the columns; their order is the order of every vector in the task."""
        self.names = [column.name for column in columns]
        self.lower, self.upper, self.center, self.scale = (
            np.array([float(getattr(column, field)) for column in columns])
            for field in ("lower", "upper", "center", "scale")
        )

    def row(self, row: Row) -> FloatArray:
        """Check one row, given by name or in column order; the result has shape `(d,)`, in the user's units.

        Raises:
            InvalidRowError: a missing or unknown column, a wrong length, or a value that is not a finite number.
        """
        if isinstance(row, Mapping):
            values = self._by_name(row)
        elif isinstance(row, str | bytes) or not isinstance(row, Sequence | np.ndarray):
            raise InvalidRowError(f"a row is a mapping or a sequence of numbers, got {type(row).__name__}")
        elif isinstance(row, np.ndarray) and row.ndim != 1:
            raise InvalidRowError(f"a row is an array of one dimension, got {row.ndim}")
        else:
            values = list(row)
            if len(values) != len(self.names):
                raise InvalidRowError(f"expected {len(self.names)} values ({', '.join(self.names)}), got {len(values)}")
        return np.array([_number(name, value) for name, value in zip(self.names, values, strict=True)])

    def rows(self, rows: FloatArray) -> FloatArray:
        """Check a block of rows of shape `(n, d)`; the result is float64 of the same shape, in the user's units.

        Raises:
            InvalidRowError: a wrong shape, or a value that is not finite; the detail names row and column.
        """
        block = np.asarray(rows)
        if block.ndim != 2 or block.shape[1] != len(self.names):
            raise InvalidRowError(f"expected shape (n, {len(self.names)}), got {block.shape}")
        if block.dtype.kind not in "fiu":
            raise InvalidRowError(f"expected real numbers, got an array of {block.dtype}")
        values = block.astype(np.float64, copy=False)
        finite = np.isfinite(values)
        if not finite.all():
            index, column = np.argwhere(~finite)[0]
            raise InvalidRowError(f"row {index}, column {self.names[column]!r}: not a finite number")
        return values

    def normalise(self, rows: FloatArray) -> FloatArray:
        """Move checked rows of shape `(n, d)` inside the column bounds, then centre and scale them."""
        normalised: FloatArray = (np.clip(rows, self.lower, self.upper) - self.center) / self.scale
        return normalised

    def _by_name(self, row: Mapping[str, float]) -> list[float]:
        unknown = [str(name) for name in row if name not in self.names]
        if unknown:
            raise InvalidRowError(f"unknown column {unknown[0]!r}; the columns are {', '.join(self.names)}")
        missing = [name for name in self.names if name not in row]
        if missing:
            raise InvalidRowError(f"column {missing[0]!r} is missing")
        return [row[name] for name in self.names]


def _number(name: str, value: object) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidRowError(f"column {name!r}: expected a number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidRowError(f"column {name!r}: too large for a number") from None
    if not math.isfinite(number):
        raise InvalidRowError(f"column {name!r}: not a finite number")
    return number
