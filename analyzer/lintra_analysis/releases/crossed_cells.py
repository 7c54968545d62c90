"""A released crossed histogram: how many rows lie in each combination of public cells of some columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.releases.checks import check_noise_sd, check_release, checked_shape
from lintra_analysis.releases.columns import ScaledColumn, positions, require_workable
from lintra_protocol.crypto.ring import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class CrossedCells:
    """The noisy number of rows in each combination of cells of d columns."""

    columns: tuple[ScaledColumn, ...]  #: the d columns
    #: of each column in its own unit, shape `(m + 1,)`, m its cells; empty where it has levels
    edges: tuple[FloatArray, ...]
    levels: tuple[tuple[str, ...], ...]  #: names of the m levels of each column; empty where it has edges
    counts: FloatArray  #: rows, shape `(m_1, .., m_d)`
    missing: float  #: rows in which any value is missing
    noise_sd: float  #: sd of the noise in every cell, in rows; a sum of k cells has sqrt(k) times that
    num_clients: int  #: rows altogether
    #: whether that number carries noise, as where organisations count their rows so; else it is exact
    counted: bool = False
    #: how many released cells are added up in each of `counts`; more than one where columns were left out
    merged: int = 1

    def __post_init__(self) -> None:
        check_release(self.columns, self.num_clients, 1.0)
        check_noise_sd(self.noise_sd)
        sizes = [len(names) or len(ends) - 1 for names, ends in zip(self.levels, self.edges, strict=True)]
        checked_shape(self.counts, tuple(sizes))
        require_workable(self.counts, self.noise_sd, 1.0)

    def __repr__(self) -> str:
        return f"CrossedCells(columns={len(self.columns)}, num_clients={self.num_clients})"

    def restrict(self, names: Sequence[str]) -> "CrossedCells":
        """Return the combinations of the named columns only, in that order; cells of the others are added up."""
        index = positions(self.columns, names).tolist()
        others = tuple(i for i in range(len(self.columns)) if i not in index)
        left = [i for i in range(len(self.columns)) if i in index]
        counts = self.counts.sum(axis=others).transpose([left.index(i) for i in index])
        return replace(
            self,
            columns=tuple(self.columns[i] for i in index),
            edges=tuple(self.edges[i] for i in index),
            levels=tuple(self.levels[i] for i in index),
            counts=counts,
            merged=self.merged * int(np.prod([self.counts.shape[i] for i in others], dtype=np.int64)),
        )

    @property
    def cells(self) -> FloatArray:
        """The counts row by row and that of missing values last, shape `(k + 1,)`.

        Where the number of rows is exact, what they lack of it is spread over all released cells alike.
        """
        whole = np.append(self.counts.ravel(), self.missing)
        return whole if self.counted else self.spread(whole, float(self.num_clients))

    @property
    def weights(self) -> FloatArray:
        """How many released cells are in each of `cells`, shape `(k + 1,)`."""
        return np.append(np.full(self.counts.size, float(self.merged)), 1.0)

    def spread(self, whole: FloatArray, total: float) -> FloatArray:
        """Return cells, shape `(.., k + 1)`, that add up to a total: what they lack is spread over released cells."""
        gap = total - whole.sum(axis=-1, keepdims=True)
        return np.asarray(whole + gap * self.weights / self.weights.sum())

    def noise(self, gaussians: FloatArray) -> FloatArray:
        """Return noise of the law that `cells` has, of standard normal numbers, both of shape `(.., k + 1)`."""
        noise = gaussians * self.noise_sd * np.sqrt(self.weights)
        return noise if self.counted else self.spread(noise, 0.0)

    def table(self) -> tuple[list[str], FloatArray]:
        """Return a line for each combination: the number of each column's cell, and rows; shape `(k + 1, d + 1)`.

        The last line counts rows in which a value is missing, and has -1 for each cell.
        """
        numbers = np.indices(self.counts.shape).reshape(len(self.columns), -1).T
        lines = np.column_stack([numbers, self.counts.ravel()])
        last = np.append(np.full(len(self.columns), -1.0), self.missing)
        return [*(f"cell of {column.name}" for column in self.columns), "rows"], np.vstack([lines, last])
