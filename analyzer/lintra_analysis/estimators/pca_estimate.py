"""The answer of a component analysis: a table, scores by column name, and the words that scikit-learn uses."""

from dataclasses import dataclass, field

import numpy as np

from lintra_analysis.estimators.estimates import Interval, Of, checked_rows
from lintra_analysis.estimators.figures import Figure, Mark, intervals
from lintra_analysis.estimators.notes import clients, listed, with_interval
from lintra_analysis.estimators.quantities import Quantity
from lintra_analysis.estimators.rows import Rows, rows_by_name
from lintra_analysis.estimators.table import Estimate, Matrix, Table
from lintra_analysis.estimators.tabular import Cell, levels, number
from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.crypto.ring import FloatArray

_SHOWN, _NAMED = 6, 3


@dataclass(frozen=True, eq=False, repr=False)
class PcaEstimate(Estimate):
    """The k directions in which the cohort's normalised rows vary most.

    >>> from lintra_analysis import open_release, pca
    >>> estimate = pca(open_release("flights.npz"), 2)
    >>> estimate.transform([[12.0, 800.0, 5.0]]).shape  # hour, distance and delay
    (1, 2)

    Attributes:
        components: shape `(k, d)`, orthonormal rows; in each the entry of largest magnitude is positive.
        component_errors: standard errors of the entries, all causes together, shape `(k, d)`; NaN for a component
            that is not told apart from others.
        mean: what is subtracted from a row, in the columns' own units, shape `(d,)`.
        scale: what it is then divided by, the public scales, shape `(d,)`.
        about_means: whether `mean` holds the means, and not the public centers.
        of: whether errors and intervals are about the "cohort" or the "population".
        explained_variance: along each component, in normalised units squared.
        simultaneous: intervals of the cohort's variances that hold all at once, whether or not the components are told
            apart; None where the noise has no known norm.
        noise_norm: q with P(|noise|_2 <= q) >= confidence, in sums over the clients; what they rest on.
        resolved: whether the gap after the last component stands out of the noise.
        explained_variance_ratio: the same over the sum for all d; None if the sum is lost in noise.
        cumulative_ratio: of the first 1, 2, .., k components.
        subspace_error: expected squared sine, summed over the k angles, between these components and the cohort's.
        warnings: in plain words, what the analyst must know before using the numbers.
        scaled_columns: the columns as the release has them; not part of `to_dict`.
    """

    columns: tuple[str, ...]
    num_clients: int
    of: Of
    confidence: float
    components: FloatArray
    component_errors: FloatArray
    mean: FloatArray
    scale: FloatArray
    about_means: bool
    explained_variance: tuple[Quantity, ...]
    simultaneous: tuple[Interval, ...] | None
    noise_norm: float | None
    resolved: bool
    explained_variance_ratio: tuple[Quantity, ...] | None
    cumulative_ratio: tuple[Quantity, ...] | None
    subspace_error: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    scaled_columns: tuple[ScaledColumn, ...] = field(default=(), metadata={"plain": False})

    def __repr__(self) -> str:
        return f"PcaEstimate({self.n_components_} components, {len(self.columns)} columns, {self.num_clients} clients)"

    @property
    def feature_names_in_(self) -> tuple[str, ...]:
        """The columns in the order that `transform` expects of an array."""
        return self.columns

    @property
    def components_(self) -> FloatArray:
        """The components as scikit-learn names them, shape `(k, d)`."""
        return self.components

    @property
    def n_components_(self) -> int:
        """The number of components."""
        return int(self.components.shape[0])

    @property
    def mean_(self) -> FloatArray:
        """What is subtracted from a row, shape `(d,)`."""
        return self.mean

    @property
    def explained_variance_(self) -> FloatArray:
        """The variances along the components, shape `(k,)`."""
        return np.array([quantity.value for quantity in self.explained_variance])

    @property
    def explained_variance_ratio_(self) -> FloatArray:
        """The shares of the components, shape `(k,)`; NaN if they are lost in noise."""
        shares = self.explained_variance_ratio
        return np.full(self.n_components_, np.nan) if shares is None else np.array([share.value for share in shares])

    @property
    def loadings(self) -> FloatArray:
        """Components times the root of their variance, shape `(d, k)`."""
        return self.components.T * np.sqrt(self.explained_variance_)

    def transform(self, rows: Rows) -> FloatArray:
        """Return the scores, shape `(n, k)`, of rows in the columns' own units.

        Args:
            rows: a frame or a mapping, whose columns are taken by name; or an array of shape `(n, d)`.

        Raises:
            ValueError: a column is missing, the shape does not fit, a number is not finite, or a level is unknown.
        """
        held = rows_by_name(rows, self.columns, self.scaled_columns)
        scores: FloatArray = (held - self.mean) / self.scale @ self.components.T
        return scores

    def inverse_transform(self, scores: FloatArray) -> FloatArray:
        """Return the rows in own units, shape `(n, d)`, that have these scores, shape `(n, k)`, and nothing else.

        Raises:
            ValueError: there is not one score for each component, or one is not finite.
        """
        names = [f"component {number}" for number in range(1, self.n_components_ + 1)]
        rows: FloatArray = checked_rows(scores, names) @ self.components * self.scale + self.mean
        return rows

    def conf_int(self) -> dict[str, Interval | None]:
        """Return the intervals of the variances by component; None for one that is not told apart from others."""
        return {f"component {i}": one.interval for i, one in enumerate(self.explained_variance, 1)}

    def table(self) -> Table:
        """Return one line for each component; a data frame holds the components themselves, shape `(k, d)`."""
        header = ["component"]
        for name in ("variance", "ratio", "cumulative"):
            header += [name, *(f"{name}_{part}" for part in ("standard_error", "privacy", "sketching", "sampling"))]
            header += [f"{name}_lower", f"{name}_upper"]
        header += ["simultaneous_lower", "simultaneous_upper"]
        header += [*self.columns, *(f"standard_error {name}" for name in self.columns)]
        parts = ["privacy", "sketching", "sampling", "ratio", "std err", "cumulative"]
        shown = min(self.n_components_, _SHOWN)
        weights = zip(self.columns, self.components.T, strict=True)
        return Table(
            title="Principal components from a private second moment",
            columns=header,
            rows=map(self._csv_row, range(self.n_components_)),
            matrix=Matrix(self.components, self._names, self.columns),
            facts=[
                ("Clients", str(self.num_clients)),
                ("About", self._about),
                ("Errors are of", f"the {self.of}"),
                ("Columns", str(len(self.columns))),
                ("Subspace error", number(self.subspace_error)),
            ],
            shown=[
                (
                    ["", "variance", "std err", *levels(self.confidence), *parts],
                    map(self._summary_row, range(self.n_components_)),
                ),
                (["", *self._names[:shown]], ([name, *map(number, column[:shown])] for name, column in weights)),
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
        return [f"component {i}" for i in range(1, self.n_components_ + 1)]

    def _figure(self) -> Figure:
        """Return the variance of each component, in normalised units squared."""
        shares = self.explained_variance_ratio_
        names = [
            name + ("" if np.isnan(share) else f" ({100 * share:.0f} %)")
            for name, share in zip(self._names, shares, strict=True)
        ]
        marks = [Mark(name, one.value, one.interval) for name, one in zip(names, self.explained_variance, strict=True)]
        title = f"Principal components: {100 * self.confidence:g} % for the {self.of}"
        return intervals(marks, title, f"variance about the {self._about}, in squared scales")

    def in_words(self) -> str:
        """Return how much each component explains, and which columns it is made of."""
        sentences = [f"Principal components of {len(self.columns)} columns, {clients(self.num_clients)}."]
        shares = self.explained_variance_ratio
        for i, direction in enumerate(self.components[:_NAMED]):
            share = None if shares is None else shares[i]
            explains = "not told" if share is None else with_interval(share.value, share.interval)
            largest = [self.columns[j] for j in np.argsort(-np.abs(direction))[:_NAMED]]
            sentences.append(f"Component {i + 1}: share of the variance {explains}; mostly {listed(largest)}.")
        if not self.resolved:
            sentences.append("The gap after the last component does not stand out of the noise.")
        return " ".join(sentences)

    def _csv_row(self, i: int) -> list[Cell]:
        row: list[Cell] = [i + 1]
        for quantities in (self.explained_variance, self.explained_variance_ratio, self.cumulative_ratio):
            quantity = None if quantities is None else quantities[i]
            error = None if quantity is None else quantity.standard_error
            row.append(None if quantity is None else quantity.value)
            row += [None] * 4 if error is None else [error.total, error.privacy, error.sketching, error.sampling]
            row += (None if quantity is None else quantity.interval) or (None, None)
        row += (None, None) if self.simultaneous is None else self.simultaneous[i]
        return [*row, *self.components[i].tolist(), *self.component_errors[i].tolist()]

    def _summary_row(self, i: int) -> list[str]:
        variance = self.explained_variance[i]
        ratio = None if self.explained_variance_ratio is None else self.explained_variance_ratio[i]
        cumulative = None if self.cumulative_ratio is None else self.cumulative_ratio[i]
        error = variance.standard_error
        parts = [None] * 4 if error is None else [error.total, error.privacy, error.sketching, error.sampling]
        row = [number(variance.value), number(parts[0]), *map(number, variance.interval or (None, None))]
        row += map(number, parts[1:])
        row.append(number(None if ratio is None else ratio.value))
        share = None if ratio is None else ratio.standard_error
        row.append(number(None if share is None else share.total))
        return [f"{i + 1}", *row, number(None if cumulative is None else cumulative.value)]
