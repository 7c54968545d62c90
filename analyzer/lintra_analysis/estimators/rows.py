"""Rows that an analyst holds, as an array or by the names of their columns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from lintra_analysis.estimators.estimates import checked_rows
from lintra_protocol.ring import FloatArray


class Frame(Protocol):
    """A table with named columns, such as pandas' DataFrame."""

    @property
    def columns(self) -> Iterable[str]:
        """The names."""
        ...

    def __getitem__(self, name: str, /) -> ArrayLike:
        """Return a column."""
        ...


Rows = FloatArray | Mapping[str, ArrayLike] | Frame


def rows_by_name(rows: Rows, names: Sequence[str]) -> FloatArray:
    """Return rows of shape `(k, p)`, one column for each name.

    Args:
        rows: a frame or a mapping, whose columns are taken by name whatever their order; or an array as it is.
        names: of the p columns.

    Raises:
        ValueError: a column is missing, the shape does not fit, or a number is not finite.
    """
    known = rows.keys() if isinstance(rows, Mapping) else getattr(rows, "columns", None)
    if known is None:
        return checked_rows(np.asarray(rows, np.float64), names)
    held = list(known)
    if missing := [name for name in names if name not in held]:
        raise ValueError(f"the rows lack the columns {', '.join(missing)}; they have {', '.join(map(str, held))}")
    named = cast("Frame", rows)
    return checked_rows(np.column_stack([np.asarray(named[name], np.float64) for name in names]), names)
