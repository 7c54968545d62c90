"""What is told of very many columns: components, variances along them, and a ridge regression."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lintra_analysis.estimators.estimates import Interval, Measured
from lintra_analysis.estimators.notes import clients, listed, with_interval
from lintra_analysis.estimators.rows import Rows, rows_by_name
from lintra_analysis.estimators.tabular import Cell, Tabular, closing, csv_text, facts, levels, number, table, title
from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.crypto.ring import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_SHOWN, _NAMED = 10, 3
"""Columns that a text names for each component, and features of a regression: those with the largest weights."""


@dataclass(frozen=True, eq=False, repr=False)
class WideComponents(Tabular):
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
    explained_variance: tuple[Measured, ...]
    total_variance: Measured | None
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

    def to_frame(self) -> "DataFrame":
        """Return the components as a pandas table, one line for each; needs `lintra[frames]`."""
        import pandas

        names = [f"component {i}" for i in range(1, len(self.components) + 1)]
        return pandas.DataFrame(self.components, index=names, columns=list(self.columns))

    def in_words(self) -> str:
        """Return the variance along each component, and the columns that it is mostly made of."""
        sentences = [f"Components of {len(self.columns)} columns, {clients(self.num_clients)}."]
        for i, one in enumerate(self.explained_variance[:_NAMED]):
            largest = [self.columns[j] for j in np.argsort(-np.abs(self.components[i]))[:_NAMED]]
            variance = with_interval(one.value, one.interval)
            sentences.append(f"Component {i + 1}: variance {variance}; mostly {listed(largest)}.")
        return " ".join(sentences)

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the variance along each component, in normalised units squared; needs `lintra[plot]`.

        Args:
            axes: matplotlib's, to draw on; new ones if left out.

        Raises:
            InvalidAnalysisError: matplotlib is not installed.
        """
        from lintra_analysis.estimators.figures import Mark, axes_or_new, draw_intervals

        marks = [Mark(f"component {i}", one.value, one.interval) for i, one in enumerate(self.explained_variance, 1)]
        made = axes_or_new(axes, len(marks))
        about = "means" if self.about_means else "public centers"
        draw_intervals(made, marks, "Variance along components", f"variance about the {about}, in squared scales")
        return made

    def to_csv(self) -> str:
        """Return one line for each component."""
        header = ["component", "variance", "standard_error", "lower", "upper", "ratio", "squared_sine", *self.columns]
        return csv_text(header, (self._cells(i) for i in range(len(self.components))))

    def _cells(self, i: int) -> list[Cell]:
        one = self.explained_variance[i]
        ratio = None if self.explained_variance_ratio is None else self.explained_variance_ratio[i]
        start: list[Cell] = [i + 1, one.value, one.standard_error, *(one.interval or (None, None))]
        return [*start, ratio, self.squared_sines[i], *self.components[i].tolist()]

    def summary(self, privacy: str | None = None) -> str:
        """Return a text for people."""
        lines = title("Components of many columns from a private range finder")
        lines += facts(
            [
                ("Clients", str(self.num_clients)),
                ("About", "means" if self.about_means else "public centers"),
                ("Columns", str(len(self.columns))),
                ("Seen from", number(self.smallest_seen)),
            ]
        )
        ends = levels(self.confidence) if self.confidence else ("", "")
        header = ["", "variance", "std err", *ends, "ratio", "squared sine"]
        rows = []
        for i, one in enumerate(self.explained_variance):
            ratio = None if self.explained_variance_ratio is None else self.explained_variance_ratio[i]
            values = [one.value, one.standard_error, *(one.interval or (None, None)), ratio, self.squared_sines[i]]
            rows.append([f"{i + 1}", *map(number, values)])
        lines += table(header, rows)
        first = self.components[0]
        largest = np.argsort(-np.abs(first))[:_SHOWN]
        lines += table(["largest in component 1", "weight"], [[self.columns[i], number(first[i])] for i in largest])
        return "\n".join([*lines, *closing(privacy, self.warnings, self.notes)]) + "\n"


@dataclass(frozen=True, eq=False, repr=False)
class WideRidge(Tabular):
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
    explained_share: Measured | None
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

    def to_frame(self) -> "DataFrame":
        """Return the coefficients as a pandas table; needs `lintra[frames]`."""
        import pandas

        return pandas.DataFrame({"coefficient": self.coefficients}, index=list(self.features))

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

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the largest coefficients, each times the public scale of its column; needs `lintra[plot]`.

        All bars are hollow, since nothing here tells a coefficient from 0.

        Args:
            axes: matplotlib's, to draw on; new ones if left out.

        Raises:
            InvalidAnalysisError: matplotlib is not installed.
        """
        from lintra_analysis.estimators.figures import axes_or_new, draw_bars

        scale = {column.name: column.scale for column in self.scaled_columns}
        values = {name: value * scale[name] for name, value in self._largest()}
        made = axes_or_new(axes, len(values))
        across = f"change of {self.target} for one scale of a feature"
        draw_bars(made, values, [False] * len(values), f"Largest coefficients of {self.target}", across)
        return made

    def to_csv(self) -> str:
        """Return one line for each coefficient, the intercept first."""
        lines: list[list[Cell]] = [["(intercept)", self.intercept]]
        lines += [[name, float(value)] for name, value in zip(self.features, self.coefficients, strict=True)]
        return csv_text(["name", "coefficient"], lines)

    def summary(self, privacy: str | None = None) -> str:
        """Return a text for people."""
        lines = title(f"Ridge regression of {self.target} on many columns from a private range finder")
        share = self.explained_share
        shown = "-" if share is None else f"{number(share.value)} +- {number(share.standard_error)}"
        lines += facts(
            [
                ("Clients", str(self.num_clients)),
                ("Columns", str(len(self.features))),
                ("Directions", str(self.components)),
                ("Explained", shown),
            ]
        )
        rows = [[name, number(value)] for name, value in self._largest()]
        lines += table(["largest by scale", "coefficient"], [["(intercept)", number(self.intercept)], *rows])
        return "\n".join([*lines, *closing(privacy, self.warnings, self.notes)]) + "\n"
