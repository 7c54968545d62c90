"""The answers about very many columns: components, variances along them, and a ridge regression."""

from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from lintra_analysis.estimators.estimates import Interval, IntervalEstimate
from lintra_analysis.estimators.figures import Figure, Mark, bars, intervals
from lintra_analysis.estimators.notes import clients, listed, with_interval
from lintra_analysis.estimators.rows import Rows, rows_by_name
from lintra_analysis.estimators.table import Estimate, Matrix, Table
from lintra_analysis.estimators.tabular import levels, number
from lintra_analysis.releases.columns import INTERCEPT, ScaledColumn
from lintra_protocol.crypto.ring import FloatArray

_HEADER = ("component", "variance", "standard_error", "lower", "upper", "ratio", "squared_sine")
_SHOWN, _NAMED = 10, 3
"""Columns that a text names for each component, and features of a regression: those with the largest weights."""


@dataclass(frozen=True, eq=False, repr=False)
class WideComponents(Estimate):
    """Directions of large variance among very many columns.

    >>> from lintra_analysis import open_release, wide_components
    >>> found = wide_components(open_release("sensors.npz"), 1)
    >>> found.transform(found.mean[None]).tolist()
    [[0.0]]

    Attributes:
        columns: the d columns.
        num_clients: rows.
        confidence: of the intervals; None where there are none.
        about_means: whether variances are about the means, and not about the public centers.
        components: shape `(k, d)`, orthonormal, in normalised units.
        mean: what is subtracted from a row, in the columns' own units, shape `(d,)`.
        scale: what it is then divided by, shape `(d,)`.
        explained_variance: of the cohort's rows along each component, in normalised units squared.
        total_variance: of all columns, with the deviation of its noise; None where the trace is not released.
        explained_variance_ratio: of each component; None without a total, or where it is lost in noise.
        squared_sines: expected squared sine between each component and the cohort's rows' own, about.
        smallest_seen: variances below this are lost in the noise, about.
        notes: in plain words, what the numbers are about.
        warnings: what the analyst must know before using them.
        scaled_columns: the columns as the release has them; not part of `to_dict`.
    """

    columns: tuple[str, ...]
    num_clients: int
    confidence: float | None
    about_means: bool
    components: FloatArray
    mean: FloatArray
    scale: FloatArray
    explained_variance: tuple[IntervalEstimate, ...]
    total_variance: IntervalEstimate | None
    explained_variance_ratio: tuple[float, ...] | None
    squared_sines: tuple[float, ...]
    smallest_seen: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    scaled_columns: tuple[ScaledColumn, ...] = field(default=(), metadata={"plain": False})

    def __repr__(self) -> str:
        return f"WideComponents({len(self.components)} components, {len(self.columns)} columns)"

    @property
    def components_(self) -> FloatArray:
        """The components as scikit-learn names them, shape `(k, d)`."""
        return self.components

    @property
    def explained_variance_(self) -> FloatArray:
        """The variances along the components, shape `(k,)`."""
        return np.array([one.value for one in self.explained_variance])

    def transform(self, rows: Rows) -> FloatArray:
        """Return the scores, shape `(n, k)`, of rows in the columns' own units (see `PcaEstimate.transform`)."""
        held = rows_by_name(rows, self.columns, self.scaled_columns)
        scores: FloatArray = (held - self.mean) / self.scale @ self.components.T
        return scores

    def conf_int(self) -> dict[str, Interval | None]:
        """Return the intervals of the variances by component; None for one that has none."""
        return {f"component {i}": one.interval for i, one in enumerate(self.explained_variance, 1)}

    def table(self) -> Table:
        """Return one line for each component; a data frame holds the components themselves, shape `(k, d)`."""
        ends = levels(self.confidence) if self.confidence else ("", "")
        lines = [self._cells(i) for i in range(len(self.components))]
        first = self.components[0]
        largest = [[self.columns[i], number(first[i])] for i in np.argsort(-np.abs(first))[:_SHOWN]]
        return Table(
            title="Components of many columns from a private range finder",
            columns=[
                "component",
                "variance",
                "standard_error",
                "lower",
                "upper",
                "ratio",
                "squared_sine",
                *self.columns,
            ],
            rows=([*line, *weights.tolist()] for line, weights in zip(lines, self.components, strict=True)),
            matrix=Matrix(self.components, self._names, self.columns),
            facts=[
                ("Clients", str(self.num_clients)),
                ("About", self._about),
                ("Columns", str(len(self.columns))),
                ("Seen from", number(self.smallest_seen)),
            ],
            shown=[
                (
                    ["", "variance", "std err", *ends, "ratio", "squared sine"],
                    ([str(line[0]), *map(number, line[1:])] for line in lines),
                ),
                (["largest in component 1", "weight"], largest),
            ],
            notes=self.notes,
            warnings=self.warnings,
            figures={"": self._figure},
        )

    @property
    def _about(self) -> str:
        return "means" if self.about_means else "public centers"

    @property
    def _names(self) -> list[str]:
        return [f"component {i}" for i in range(1, len(self.components) + 1)]

    def _figure(self) -> Figure:
        """Return the variance along each component, in normalised units squared."""
        found = zip(self._names, self.explained_variance, strict=True)
        marks = [Mark(name, one.value, one.interval) for name, one in found]
        return intervals(marks, "Variance along components", f"variance about the {self._about}, in squared scales")

    def in_words(self) -> str:
        """Return the variance along each component, and the columns that it is mostly made of."""
        sentences = [f"Components of {len(self.columns)} columns, {clients(self.num_clients)}."]
        for i, one in enumerate(self.explained_variance[:_NAMED]):
            largest = [self.columns[j] for j in np.argsort(-np.abs(self.components[i]))[:_NAMED]]
            variance = with_interval(one.value, one.interval)
            sentences.append(f"Component {i + 1}: variance {variance}; mostly {listed(largest)}.")
        return " ".join(sentences)

    def _cells(self, i: int) -> list[float | None]:
        """Return a component's number, its variance with error and interval, its share and its squared sine."""
        one = self.explained_variance[i]
        ratio = None if self.explained_variance_ratio is None else self.explained_variance_ratio[i]
        ends = one.interval or (None, None)
        return [i + 1, one.value, one.standard_error, *ends, ratio, self.squared_sines[i]]


@dataclass(frozen=True, eq=False, repr=False)
class WideRidge(Estimate):
    """A ridge regression of one column on very many, along their leading components; no intervals.

    >>> from lintra_analysis import open_release, wide_ridge
    >>> found = wide_ridge(open_release("sensors.npz"), "power")
    >>> found.coefficients.shape
    (35,)

    Attributes:
        target: the column that is explained.
        features: the others.
        num_clients: rows.
        about_means: whether the fit is about the means; then its intercept is that of a line through them.
        declared: whether the task named the target, so that its products were released.
        components: how many directions the fit uses.
        floor: the ridge that follows from the noise, beside the one asked for; in normalised units, over all clients.
        intercept: of the line, in the target's own unit.
        coefficients: in own units, shape `(p,)`.
        explained_share: of the target's sum of squares, with the deviation of noise alone; None where not available.
        notes: in plain words, what the numbers are about.
        warnings: what the analyst must know before using them.
        scaled_columns: the features as the release has them; not part of `to_dict`.
    """

    target: str
    features: tuple[str, ...]
    num_clients: int
    about_means: bool
    declared: bool
    components: int
    floor: float
    intercept: float
    coefficients: FloatArray
    explained_share: IntervalEstimate | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    scaled_columns: tuple[ScaledColumn, ...] = field(default=(), metadata={"plain": False})

    def __repr__(self) -> str:
        return f"WideRidge({self.target!r} on {len(self.features)} columns)"

    def predict(self, rows: Rows) -> FloatArray:
        """Return predictions, shape `(n,)`, for rows in the features' own units.

        Args:
            rows: a frame or a mapping, whose columns are taken by name; or an array of shape `(n, p)`.

        Raises:
            ValueError: a column is missing, the shape does not fit, a number is not finite, or a level is unknown.
        """
        found: FloatArray = rows_by_name(rows, self.features, self.scaled_columns) @ self.coefficients + self.intercept
        return found

    def table(self) -> Table:
        """Return one line for each coefficient, the intercept first; a data frame holds the coefficients alone."""
        share = self.explained_share
        rows = [[name, number(value)] for name, value in self._largest()]
        return Table(
            title=f"Ridge regression of {self.target} on many columns from a private range finder",
            columns=("name", "coefficient"),
            rows=chain([(INTERCEPT, self.intercept)], zip(self.features, self.coefficients.tolist(), strict=True)),
            matrix=Matrix(self.coefficients, self.features, ("coefficient",)),
            facts=[
                ("Clients", str(self.num_clients)),
                ("Columns", str(len(self.features))),
                ("Directions", str(self.components)),
                ("Explained", "-" if share is None else f"{number(share.value)} +- {number(share.standard_error)}"),
            ],
            shown=[(["largest by scale", "coefficient"], [[INTERCEPT, number(self.intercept)], *rows])],
            notes=self.notes,
            warnings=self.warnings,
            figures={"": self._figure},
        )

    def in_words(self) -> str:
        """Return how much is explained, and the largest coefficients by their columns' scales."""
        share = self.explained_share
        told = "not told" if share is None else number(share.value)
        said = [f"{name} {number(value)}" for name, value in self._largest()]
        return (
            f"Ridge regression of {self.target} on {len(self.features)} columns, {clients(self.num_clients)}, without "
            f"intervals. Explained share: {told}. Largest by scale: {listed(said)}."
        )

    def _largest(self) -> list[tuple[str, float]]:
        """Return the features with the largest coefficients, counted in their scales."""
        scaled = self.coefficients * np.array([column.scale for column in self.scaled_columns])
        largest = np.argsort(-np.abs(scaled))[:_SHOWN]
        return [(self.features[i], float(self.coefficients[i])) for i in largest]

    def _figure(self) -> Figure:
        """Return the largest coefficients, each times the public scale of its column.

        All bars are hollow, since nothing here tells a coefficient from 0.
        """
        scale = {column.name: column.scale for column in self.scaled_columns}
        values = {name: value * scale[name] for name, value in self._largest()}
        across = f"change of {self.target} for one scale of a feature"
        return bars(values, [False] * len(values), f"Largest coefficients of {self.target}", across)
