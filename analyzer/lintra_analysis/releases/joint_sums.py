"""The content of a `ron_gauss` release: noisy counts, sums, products and histograms of projected rows, and their noise.

Numbers are in units of mapped rows z, counts in rows. A `repr` shows shapes and never the numbers.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.columns import INTERCEPT, ScaledColumn
from lintra_analysis.releases.features import Feature, Label, require_distinct_names, starts_of
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import JsonValue, base64url, canonical_json, domain_hash
from lintra_protocol.errors import InvalidReleaseError
from lintra_protocol.privacy.statement import PrivacyStatement


@dataclass(frozen=True)
class NoiseDeviations:
    """Deviations of the whole noise in the released numbers, in the units of `ProjectedSums`."""

    count: float  #: of every class count, in rows
    sum: float  #: of every entry of the sums
    product: float  #: of every product off the diagonal
    diagonal: float  #: of every product on the diagonal
    cell: float  #: of every histogram cell, in rows
    law: Literal["discrete Gaussian", "discrete Laplace"]  #: its family; both are exact and on integers
    table: float = field(default=0.0, repr=False)  #: of every cell of a pair table, in rows

    def __post_init__(self) -> None:
        given = (self.count, self.sum, self.product, self.diagonal, self.cell, self.table)
        if not all(0 <= sd < math.inf for sd in given):
            raise InvalidReleaseError("deviations of noise must be finite and not negative")


@dataclass(frozen=True, eq=False, repr=False)
class PairTable:
    """Noisy counts of two columns together; `repr` shows their names only.

    Its cells are those of the columns' histograms, neighbours merged: cell c of B became floor(c b / B) of b. `second`
    is the name of another, the label perhaps. `cells` are rows in each pair of cells, shape `(b1, b2)`.
    """

    first: str
    second: str
    cells: FloatArray

    def __repr__(self) -> str:
        return f"PairTable({self.first!r}, {self.second!r}, {self.cells.shape[0]} x {self.cells.shape[1]})"


@dataclass(frozen=True, eq=False, repr=False)
class ProjectedSums:
    """Class counts, class sums, pooled products and column histograms of n projected rows, with noise.

    K classes, m coordinates, projected dimension p, and P = p, or p + 1 with a numeric label.
    """

    features: tuple[Feature, ...]  #: the columns; together they have m coordinates
    label: Label | None  #: public levels (K of them), public bounds, or None (K = 1)
    frame: FloatArray | None  #: shape `(m, p)`, orthonormal columns; None if the rows were not projected (p = m)
    counts: FloatArray  #: shape `(K,)`; with K = 1 it is n
    sums: FloatArray  #: shape `(K, P)`
    products: FloatArray  #: shape `(P, P)`, symmetric; `(K, P, P)` if the covariance is not pooled
    histograms: tuple[FloatArray, ...]  #: for each of `histogram_features` as many numbers as it has cells
    num_clients: int  #: n, rows that were added
    radius: float  #: the norm that no projected row exceeds, the label not counted
    noise: NoiseDeviations  #: deviations of the noise
    promise: PrivacyStatement = field(compare=False)  #: to the people behind the rows
    clipped: ClippedRows | None = None  #: how many rows clipping changed; None if nobody counted
    tables: tuple[PairTable, ...] = ()  #: pairs of columns that were counted together

    def __post_init__(self) -> None:
        require_distinct_names(self.features, self.label)
        if self.num_clients < 1:
            raise InvalidReleaseError(f"a release has at least 1 client, got {self.num_clients}")
        if not (math.isfinite(self.radius) and self.radius > 0):
            raise InvalidReleaseError(f"the radius must be positive and finite, got {self.radius}")
        m, p = self.num_coordinates, self.dimension
        if self.frame is not None and self.frame.shape[0] != m:
            raise InvalidReleaseError(f"the frame has {self.frame.shape[0]} rows, the columns {m} coordinates")
        if not 1 <= p <= m:
            raise InvalidReleaseError(f"the projected dimension must lie in 1..{m}, got {p}")
        size, classes = self.size, self.num_classes
        pooled = self.products.ndim == 2
        _require(self.counts, (classes,), "counts")
        _require(self.sums, (classes, size), "sums")
        _require(self.products, (size, size) if pooled else (classes, size, size), "products")
        expected = self.histogram_features
        if len(self.histograms) != len(expected):
            raise InvalidReleaseError(f"{len(self.histograms)} histograms for {len(expected)} columns")
        for feature, cells in zip(expected, self.histograms, strict=True):
            _require(cells, (feature.cells,), f"histogram of {feature.name!r}")
        counted = self.counted_cells
        for table in self.tables:
            most = (counted.get(table.first, 0), counted.get(table.second, 0))
            if not all(1 <= size <= own for size, own in zip(table.cells.shape, most, strict=True)):
                raise InvalidReleaseError(
                    f"pair table of {table.first!r} and {table.second!r}: cells do not fit {most}"
                )
            _require(table.cells, table.cells.shape, f"pair table of {table.first!r} and {table.second!r}")

    def __repr__(self) -> str:
        return (
            f"ProjectedSums(columns={len(self.features)}, classes={self.num_classes}, dimension={self.dimension}, "
            f"num_clients={self.num_clients})"
        )

    @property
    def num_classes(self) -> int:
        """Return K."""
        return max(1, len(self.levels))

    @property
    def levels(self) -> tuple[str, ...]:
        """Return the names of the classes; none without a label or with a numeric one."""
        return () if self.label is None else self.label.levels

    @property
    def histogram_features(self) -> tuple[Feature, ...]:
        """Return the columns, and a numeric label after them; a histogram of each, empty if it has no cells."""
        return self.features if self.label is None else (*self.features, *self.label.features)

    @property
    def counted_cells(self) -> dict[str, int]:
        """Return by name the cells that each column has before any are merged; a class label has its levels."""
        found = {feature.name: feature.cells for feature in self.histogram_features if feature.cells}
        if self.label is not None and self.label.levels:
            found[self.label.name] = len(self.label.levels)
        return found

    @property
    def label_features(self) -> tuple[Feature, ...]:
        """Return the label's column if it is a number, and so the last coordinate; else nothing."""
        return () if self.label is None else self.label.features

    @property
    def label_scale(self) -> float:
        """Return what a numeric label of 1 is in the last coordinate; 1 if there is none."""
        return 1.0 if self.label is None else self.label.scale

    @property
    def num_coordinates(self) -> int:
        """Return m."""
        return starts_of(self.features)[-1]

    @property
    def dimension(self) -> int:
        """Return p."""
        return self.num_coordinates if self.frame is None else self.frame.shape[1]

    @property
    def size(self) -> int:
        """Return P: p, and one more for a numeric label."""
        return self.dimension + len(self.label_features)

    @property
    def digest(self) -> str:
        """Return a hash of the released numbers and of everything public about them, in base64url."""
        arrays = [self.counts, self.sums, self.products, *self.histograms, *(table.cells for table in self.tables)]
        if self.frame is not None:
            arrays.append(self.frame)
        said: list[JsonValue] = [repr(self.features), repr(self.label), self.num_clients, repr(self.noise)]
        # Said only where they are, so that a release without them keeps its digest.
        edges: list[JsonValue] = [list(feature.edges) for feature in self.histogram_features if feature.edges]
        pairs: list[JsonValue] = [[table.first, table.second, repr(self.noise.table)] for table in self.tables]
        if edges or pairs:
            said += [edges, pairs]
        public = canonical_json(said)
        parts = [np.ascontiguousarray(array, "<f8").tobytes() for array in arrays]
        return base64url(domain_hash("joint sums", public, *parts))

    def table(self) -> tuple[list[str], FloatArray]:
        """Return a name for every released number, and the numbers, shape `(1, w)`, in the units of mapped rows."""
        levels = self.levels or ("",)
        axes = [f"h{number + 1}" for number in range(self.dimension)]
        axes += [feature.name for feature in self.label_features]
        first, second = np.triu_indices(self.size)
        pairs = [f"{axes[i]}*{axes[j]}" for i, j in zip(first.tolist(), second.tolist(), strict=True)]
        blocks = levels if self.products.ndim == 3 else ("",)
        names = [f"count[{level}]" for level in levels]
        names += [f"sum[{level}] {axis}" for level in levels for axis in axes]
        names += [f"product[{block}] {pair}" for block in blocks for pair in pairs]
        for feature, cells in zip(self.histogram_features, self.histograms, strict=True):
            names += [f"cell[{feature.name}] {number}" for number in range(cells.size)]
        for table in self.tables:
            places = np.ndindex(table.cells.shape)
            names += [f"cells[{table.first}, {table.second}] {row} {column}" for row, column in places]
        products = self.products.reshape(-1, self.size, self.size)[:, first, second]
        values = np.concatenate([self.counts, self.sums.ravel(), products.ravel(), *self.histograms])
        values = np.concatenate([values, *(table.cells.ravel() for table in self.tables)])
        return names, values[np.newaxis]

    @property
    def obstacle(self) -> str:
        """Return why the products are no second moments of columns, as a word of `REFUSALS`; empty if they are."""
        if self.frame is not None:
            return "projected"
        if any(feature.width > 1 for feature in self.features):
            return "levels"
        symmetric = self.noise.diagonal >= math.sqrt(2) * self.noise.product * (1 - 1e-9)
        return "" if self.products.ndim == 2 and symmetric else "noise"

    def as_second_moment(self) -> SecondMomentSum:
        """Return products and sums as one noisy matrix; the sums become an intercept, as noisy as the products."""
        noise = self.noise
        sum_sd = math.sqrt(self.num_classes) * noise.sum
        constant = noise.product / sum_sd if sum_sd > 0 and noise.product > 0 else 1.0
        columns = [ScaledColumn(INTERCEPT, 0.0, 1 / constant, 1.0, 1.0)]
        columns += [_column(f.name, f.lower, f.upper, 1.0, f.unit) for f in self.features]
        bound = math.hypot(self.radius, constant)
        for own in self.label_features:
            columns.append(_column(own.name, own.lower, own.upper, self.label_scale, own.unit))
            bound = math.hypot(bound, self.label_scale)
        total = constant * self.sums.sum(axis=0)
        corner = np.array([[constant**2 * self.num_clients]])
        values = np.block([[corner, total[np.newaxis]], [total[:, np.newaxis], self.products]])
        return SecondMomentSum(tuple(columns), values, noise.product, self.num_clients, bound, exact=INTERCEPT)


def _column(name: str, lower: float, upper: float, scale: float, unit: str) -> ScaledColumn:
    return ScaledColumn(name, (lower + upper) / 2, (upper - lower) / 2 / scale, lower, upper, unit)


def _require(array: FloatArray, shape: tuple[int, ...], name: str) -> None:
    if array.shape != shape:
        raise InvalidReleaseError(f"{name}: an array of shape {array.shape} stands where {shape} belongs")
    if not np.isfinite(array).all():
        raise InvalidReleaseError(f"{name}: a release holds finite numbers only")
