"""Rows that an analyst holds, as an array or by the names of their columns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lintra_analysis.estimators.estimates import checked_rows
from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.crypto.ring import FloatArray


class DataFrame(Protocol):
    """A table with named columns, such as pandas' DataFrame."""

    @property
    def columns(self) -> Iterable[str]:
        """The names."""
        ...

    def __getitem__(self, name: str, /) -> ArrayLike:
        """Return a column."""
        ...


class Series(Protocol):
    """One column, or one row whose index holds names, such as pandas' Series."""

    @property
    def index(self) -> Iterable[object]:
        """The names of its values, or numbers."""
        ...

    def to_numpy(self) -> NDArray[np.generic]:
        """Return the values."""
        ...


Rows = ArrayLike | Mapping[str, ArrayLike] | DataFrame | Series


def rows_by_name(rows: Rows, names: Sequence[str], columns: Sequence[ScaledColumn] = ()) -> FloatArray:
    """Return rows of shape `(k, p)`, one column for each name.

    `rows` are a frame or a mapping, whose columns are taken by name whatever their order; a series whose index holds
    the names, which is one row; or an array as it is. An array of one dimension is one row of p numbers, or k rows
    where p is 1. `names` are those of the p columns. `columns` are those of the release, at least these p if any. With
    them a category may stand in `rows` as it is, a column of levels, in the place of its indicators.

    Raises:
        ValueError: a column is missing, the shape does not fit, a number is not finite, or a level is unknown.
    """
    if hasattr(rows, "iloc") and not hasattr(rows, "columns"):
        series = cast("Series", rows)
        index = list(series.index)
        if any(isinstance(name, str) for name in index):
            rows = {str(name): [value] for name, value in zip(index, series.to_numpy(), strict=True)}
        else:
            rows = series.to_numpy()
    known = rows.keys() if isinstance(rows, Mapping) else getattr(rows, "columns", None)
    if known is None:
        table = np.asarray(rows, np.float64)
        if table.ndim == 1 and (len(names) == 1 or table.size == len(names)):
            table = table.reshape(-1, len(names))
        return checked_rows(table, names)
    held, named = list(known), cast("DataFrame", rows)
    indicators = {column.name: column for column in columns if column.category in held and column.name not in held}
    if missing := [name for name in names if name not in held and name not in indicators]:
        raise ValueError(f"the rows lack the columns {', '.join(missing)}; they have {', '.join(map(str, held))}")
    found = [
        _indicated(named[indicators[name].category], indicators[name])
        if name in indicators
        else np.asarray(named[name], np.float64)
        for name in names
    ]
    return checked_rows(np.column_stack(found), names)


def _indicated(values: ArrayLike, column: ScaledColumn) -> FloatArray:
    """Return 1 where a column of levels has the indicator's own, else 0; what is no level counts as `OTHER`."""
    from lintra_protocol.fields.schema import OTHER  # which a regression without categories need not load

    levels = [str(value) for value in np.asarray(values, object)]
    strange = sorted(set(levels) - set(column.levels))
    if strange and OTHER not in column.levels:
        raise ValueError(
            f"column {column.category!r} holds {strange[0]!r}, which is none of its levels: {', '.join(column.levels)}"
        )
    return np.array([float((each if each in column.levels else OTHER) == column.level) for each in levels])
