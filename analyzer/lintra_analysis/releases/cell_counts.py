"""A released histogram: how many rows lie in each public cell of each column."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.releases.checks import check_noise_sd, check_release, checked_shape
from lintra_analysis.releases.columns import ScaledColumn, positions, require_workable
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidReleaseError


@dataclass(frozen=True, eq=False, repr=False)
class CellCounts:
    """The noisy number of rows in each cell."""

    columns: tuple[ScaledColumn, ...]  #: the d columns
    #: of each column in its own unit, shape `(m + 1,)`, m its cells; empty where it has levels
    edges: tuple[FloatArray, ...]
    levels: tuple[tuple[str, ...], ...]  #: names of the m levels of each column; empty where it has edges
    counts: tuple[FloatArray, ...]  #: of each column, shape `(m,)`
    missing: FloatArray  #: rows in which the value of each column is missing, shape `(d,)`
    noise_sd: float  #: sd of the noise in every cell, in rows
    num_clients: int  #: rows altogether
    #: whether that number carries noise, as where organisations count their rows so; else it is exact
    counted: bool = False

    def __post_init__(self) -> None:
        check_release(self.columns, self.num_clients, 1.0)
        check_noise_sd(self.noise_sd)
        if not len(self.columns) == len(self.edges) == len(self.levels) == len(self.counts):
            raise InvalidReleaseError("a histogram has edges or levels, and counts, for each column")
        checked_shape(self.missing, (len(self.columns),))
        for column, ends, names, counts in zip(self.columns, self.edges, self.levels, self.counts, strict=True):
            cells = len(names) if names else len(ends) - 1
            if bool(names) == bool(len(ends)) or cells < 1 or (np.diff(ends) <= 0).any():
                raise InvalidReleaseError(f"column {column.name!r} needs either levels or increasing edges")
            checked_shape(counts, (cells,))
            require_workable(counts, self.noise_sd, 1.0)

    def __repr__(self) -> str:
        return f"CellCounts(columns={len(self.columns)}, num_clients={self.num_clients})"

    def restrict(self, names: Sequence[str]) -> "CellCounts":
        """Return the release of the named columns only, in that order."""
        index = positions(self.columns, names).tolist()
        return replace(
            self,
            columns=tuple(self.columns[i] for i in index),
            edges=tuple(self.edges[i] for i in index),
            levels=tuple(self.levels[i] for i in index),
            counts=tuple(self.counts[i] for i in index),
            missing=self.missing[index],
        )

    def rows_of(self, column: int) -> float:
        """Return how many rows there are, to divide a column's counts by: all, or what its own cells add up to.

        Where the number of rows carries noise, a column's own sum is as good as any other's and needs no correction.
        """
        if not self.counted:
            return float(self.num_clients)
        return max(float(self.counts[column].sum() + self.missing[column]), 1.0)

    def table(self) -> tuple[list[str], FloatArray]:
        """Return a line for each cell, shape `(cells, 5)`: numbers of its column and of itself, its ends, its rows.

        A level has its own number for both ends. The cell of missing values has the number -1 and the ends 0, and
        stands behind the others of its column.
        """
        lines = []
        for column, (ends, counts) in enumerate(zip(self.edges, self.counts, strict=True)):
            numbers = np.arange(counts.size)
            low, high = (ends[:-1], ends[1:]) if ends.size else (numbers, numbers)
            lines.append(np.column_stack([np.full(counts.size, column), numbers, low, high, counts]))
            lines.append(np.array([[column, -1, 0, 0, self.missing[column]]]))
        return ["column", "cell", "lower", "upper", "rows"], np.concatenate(lines).astype(np.float64)
