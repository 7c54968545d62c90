"""The answer of a regression: a table, predictions by column name, and the words of statsmodels and scikit-learn."""

from dataclasses import dataclass, field

import numpy as np

from lintra_analysis.estimators.coefficients import (
    CSV_HEADER,
    MOVED_NOTE,
    PARTS_NOTE,
    POINT_NOTE,
    Coefficient,
    text_header,
)
from lintra_analysis.estimators.concentrated.regressions import Regression
from lintra_analysis.estimators.design import INTERCEPT
from lintra_analysis.estimators.estimates import Clipping, Interval, Of, check_confidence
from lintra_analysis.estimators.figures import Figure, Mark, intervals
from lintra_analysis.estimators.notes import apart_from_zero, clients, listed, r2_ends, with_interval
from lintra_analysis.estimators.rows import Rows, rows_by_name
from lintra_analysis.estimators.table import Estimate, Shown, Table
from lintra_analysis.estimators.tabular import Cell, number
from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.crypto.ring import FloatArray

NO_ROWS = (
    "a release holds no rows, so there are no residuals and no fitted values; `residual_sd` is their deviation, and "
    "`predict(rows)` and `score(rows, target)` take rows that you hold yourself"
)


@dataclass(frozen=True)
class Simultaneous:
    """Intervals that hold together with those of every other regression on the same release.

    `noise_norm` is the bound on the spectral norm of the noise that they rest on, in normalised units. `intervals` are
    for the cohort's own coefficients, the intercept last; None where there is no finite one.
    """

    noise_norm: float
    intervals: tuple[Interval | None, ...]


@dataclass(frozen=True)
class Penalised:
    """The coefficients under a penalty that was fixed before looking, told where those without one are not.

    Attributes:
        regularization: lambda = sigma (2 sqrt p + 4), in normalised units.
        coefficients: one for each feature.
        intercept: never shrunk itself.
    """

    regularization: float
    coefficients: tuple[Coefficient, ...]
    intercept: Coefficient


@dataclass(frozen=True)
class Weighting:
    """How rows of the release are weighted, in words, and how much they count on average."""

    name: str  #: what the regression is called
    about: str  #: what intervals and tests are about
    average: float


@dataclass(frozen=True, eq=False, repr=False)
class RegressionEstimate(Estimate):
    """The regression of one column on others, in the columns' own units.

    >>> from lintra_analysis import open_release, regression
    >>> estimate = regression(open_release("flights.npz"), "delay")
    >>> estimate.predict([[12.0, 800.0], [20.0, 800.0]]).shape  # hour and distance
    (2,)
    >>> print(estimate.summary())  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
    Regression of delay from a private second moment
    ...

    Attributes:
        of: whether errors, intervals and tests are about the "cohort" or the "population".
        coefficients: one for each feature: the point that predictions, tables and pictures have, and its interval.
        intercept: fitted if `intercept_fitted`, else what the public centers imply.
        bounded: whether the noise leaves a bounded set of coefficients; if not, none has an interval.
        undetermined: then, the features that make up the direction nothing is told about.
        penalised: then, coefficients that can be told.
        covariance: of coefficients and intercept, all causes together, shape `(p + 1, p + 1)`; None if not available.
            Not part of `to_dict`, since it has p^2 entries.
        regularization: lambda in normalised units; never on a fitted intercept.
        residual_freedom: clients less fitted coefficients.
        residual_sum_of_squares: over the cohort at the best coefficients; can be negative if noise dominates; None if
            it cannot be told.
        residual_sd: of one client; None if it cannot be told.
        r2: see `r2_note`; None if it cannot be told.
        r2_interval: for the cohort's own r2; None if no share between 0 and 1 can be ruled out.
        r2_standard_error: of the privacy noise and sketching; None where that would mislead.
        f_statistic: of all features' coefficients being 0; over `len(features)` and `f_freedom` degrees of freedom,
            where None means that it is a chi-square over the first.
        floor: the eigenvalue below which the normalised Gram matrix of the features counts as noise.
        regularised: whether an eigenvalue lay below it and was raised.
        law: what intervals and tests rest on.
        simultaneous: if it was asked for.
        warnings: in plain words, what the analyst must know before using the numbers.
        weighted: how rows of the release are weighted; None where all count alike.
        clipping: how many rows a bound changed and how far that may have moved each coefficient; None if not counted.
        scaled_columns: features and target as the release has them; not part of `to_dict`.
    """

    target: str
    features: tuple[str, ...]
    num_clients: int
    of: Of
    regularization: float
    confidence: float
    coefficients: tuple[Coefficient, ...]
    intercept: Coefficient
    intercept_fitted: bool
    bounded: bool
    undetermined: tuple[str, ...]
    penalised: Penalised | None
    covariance: FloatArray | None = field(metadata={"plain": False})
    residual_freedom: int
    residual_sum_of_squares: float | None
    residual_sd: float | None
    r2: float | None
    adjusted_r2: float | None
    r2_interval: Interval | None
    r2_standard_error: float | None
    r2_note: str
    f_statistic: float | None
    f_freedom: float | None
    f_p_value: float | None
    floor: float
    regularised: bool
    law: str
    simultaneous: Simultaneous | None
    warnings: tuple[str, ...]
    sets: Regression | None = field(metadata={"plain": False})
    clipping: Clipping | None = None
    weighted: Weighting | None = None
    scaled_columns: tuple[ScaledColumn, ...] = field(default=(), metadata={"plain": False})

    def __repr__(self) -> str:
        return f"RegressionEstimate({self.target!r} on {len(self.features)} features, {self.num_clients} clients)"

    @property
    def rows(self) -> tuple[Coefficient, ...]:
        """The coefficients with the intercept last."""
        return (*self.coefficients, self.intercept)

    @property
    def params(self) -> dict[str, float]:
        """The coefficients by name, the intercept last, as statsmodels names them."""
        return {one.name: one.value for one in self.rows}

    @property
    def raw(self) -> dict[str, float]:
        """The solution of the released matrix as it is, by name: without bias, and farther off where noise is large."""
        return {one.name: one.value if one.raw is None else one.raw for one in self.rows}

    @property
    def bse(self) -> dict[str, float | None]:
        """Their standard errors by name; None where nothing bounds the coefficient."""
        return {one.name: None if one.standard_error is None else one.standard_error.total for one in self.rows}

    @property
    def pvalues(self) -> dict[str, float | None]:
        """The p values of coefficients of 0, by name."""
        return {one.name: one.p_value for one in self.rows}

    @property
    def tvalues(self) -> dict[str, float | None]:
        """The unbiased coefficients over their standard errors, by name; None where nothing bounds the coefficient."""
        return {one.name: one.statistic for one in self.rows}

    def conf_int(self, alpha: float | None = None) -> dict[str, Interval | None]:
        """Return the intervals by name, None where nothing is told; `alpha` is 1 less the confidence.

        By default the confidence is what the regression was asked for; a narrower interval may not hold the point.

        Raises:
            InvalidAnalysisError: `alpha` does not lie strictly between 0 and 1.
        """
        if alpha is None:
            return {one.name: one.interval for one in self.rows}
        check_confidence(1 - alpha)
        if self.sets is not None:
            return dict(zip(self.params, self.sets.intervals(1 - alpha), strict=True))
        return {one.name: one.at_confidence(1 - alpha) for one in self.rows}

    def cov_params(self) -> FloatArray | None:
        """Return the covariance of the coefficients, the intercept last, shape `(p + 1, p + 1)`; None if not known."""
        return self.covariance

    @property
    def rsquared(self) -> float | None:
        """The share explained, as statsmodels names it; see `r2_note`."""
        return self.r2

    @property
    def rsquared_adj(self) -> float | None:
        """The share explained, less what the degrees of freedom took."""
        return self.adjusted_r2

    @property
    def nobs(self) -> int:
        """The number of clients whose rows were added up."""
        return self.num_clients

    @property
    def fvalue(self) -> float | None:
        """The statistic of all features' coefficients being 0."""
        return self.f_statistic

    @property
    def f_pvalue(self) -> float | None:
        """Its p value."""
        return self.f_p_value

    @property
    def resid(self) -> FloatArray:
        """Raise AttributeError, since nobody has the rows."""
        raise AttributeError(NO_ROWS)

    @property
    def coef_(self) -> FloatArray:
        """The coefficients, shape `(p,)`, as scikit-learn names them."""
        return np.array([one.value for one in self.coefficients])

    @property
    def intercept_(self) -> float:
        """The intercept in the target's unit."""
        return self.intercept.value

    @property
    def feature_names_in_(self) -> tuple[str, ...]:
        """The features in the order that `predict` expects of an array."""
        return self.features

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        return len(self.features)

    def predict(self, rows: Rows) -> FloatArray:
        """Return the target, shape `(k,)`, for rows of features, all in their own units.

        Args:
            rows: a frame or a mapping with a column for each feature, in any order and beside any others; a series
                with a value for each, which is one row; or an array of shape `(k, p)`. A category may stand in a frame
                as it is, or as its indicators.

        Raises:
            ValueError: a feature is missing, the shape does not fit, a number is not finite, or a level is unknown.
        """
        return self._by_name(rows) @ self.coef_ + self.intercept_

    def _by_name(self, rows: Rows) -> FloatArray:
        return rows_by_name(rows, self.features, self.scaled_columns)

    def prediction_errors(self, rows: Rows) -> FloatArray | None:
        """Return the standard error of the mean of the target at each row, shape `(k,)`, all causes together.

        None where nothing bounds the coefficients.

        Raises:
            ValueError: as for `predict`.
        """
        held = self._by_name(rows)
        if self.covariance is None:
            return None
        extended = np.column_stack([held, np.ones(held.shape[0])])
        variance = np.sum(extended @ self.covariance * extended, axis=1)
        errors: FloatArray = np.sqrt(np.maximum(variance, 0))
        return errors

    def prediction_intervals(self, rows: Rows) -> FloatArray | None:
        """Return intervals of the mean of the target at each row, shape `(k, 2)`, from the noise's own distance.

        None where nothing bounds the coefficients or the noise's law is not known.

        Raises:
            ValueError: as for `predict`.
        """
        held = self._by_name(rows)
        if self.sets is None or not self.bounded:
            return None
        return self.sets.at_rows(np.column_stack([held, np.ones(held.shape[0])]))

    def score(self, rows: Rows, target: FloatArray) -> float:
        """Return r2 of the predictions on rows that the analyst holds, about the mean of their `target`.

        Raises:
            ValueError: the shapes do not fit, or all targets are equal.
        """
        predicted, held = self.predict(rows), np.asarray(target, np.float64)
        if held.shape != predicted.shape:
            raise ValueError(f"target must have shape {predicted.shape}, one number for each row; got {held.shape}")
        spread = float(np.sum((held - held.mean()) ** 2))
        if not spread > 0:
            raise ValueError("r2 is not defined for targets that are all equal")
        residuals = held - predicted
        return 1 - float(residuals @ residuals) / spread

    def table(self) -> Table:
        """Return one line for each coefficient, the intercept last; the text is that of ordinary least squares."""
        adjusted = "not told" if self.r2 is None else f"{number(self.r2)} (adjusted {number(self.adjusted_r2)})"
        f_test = f"{number(self.f_statistic)} (p {number(self.f_p_value, 3)})"
        ends = "0 to 1" if self.r2_interval is None else r2_ends(self.r2_interval)
        kind = "Regression" if self.weighted is None else f"{self.weighted.name.split()[0].capitalize()} regression"
        return Table(
            title=f"{kind} of {self.target} from a private second moment",
            columns=self._header(),
            rows=map(self._line, range(len(self.rows))),
            index=("name",),
            facts=[
                ("Clients", str(self.num_clients)),
                ("R2", adjusted),
                ("Errors are of", f"the {self.of}"),
                ("R2 lies in", ends),
                ("Penalty", number(self.regularization)),
                ("F", f_test),
                ("Intercept", "fitted" if self.intercept_fitted else "through public centers"),
                ("Residual sd", "not told" if self.residual_sd is None else number(self.residual_sd)),
            ],
            shown=[(text_header(self.confidence), [one.text_cells() for one in self.rows]), *self._more_shown()],
            notes=self._notes(),
            warnings=self.warnings,
            figures={"": self._figure},
        )

    def _notes(self) -> tuple[str, ...]:
        """Return what the numbers are, the marks in the table included."""
        shrunk = any(one.raw is not None for one in self.rows)
        moved = any(one.moved for one in self.rows)
        weights = [] if self.weighted is None else [self.weighted.name, self.weighted.about]
        return (*weights, *[MOVED_NOTE] * moved, *[POINT_NOTE] * shrunk, PARTS_NOTE, self.law, self.r2_note)

    def _figure(self) -> Figure:
        """Return each coefficient with its interval, times the public scale of its feature.

        So all stand in the target's unit: how much it changes where a feature changes by its scale, which is half of
        its range unless the task says otherwise.
        """
        marks = []
        for one, column in zip(self.coefficients, self.scaled_columns, strict=False):
            shown = f"{one.name} (x {number(column.scale)})"
            marks.append(Mark(shown, one.value, one.interval).moved(0.0, column.scale))
        unit = f" in {self.scaled_columns[-1].unit}" if self.scaled_columns[-1].unit else ""
        told = f"{100 * self.confidence:g} % for the {self.of}" if self.bounded else "the noise bounds none"
        title = f"Coefficients of {self.target}: {told}"
        return intervals(marks, title, f"change of {self.target}{unit} for one scale of a feature")

    def in_words(self) -> str:
        """Return which coefficients are told apart from 0, and how much of the target is explained."""
        rows = clients(self.num_clients, self.of, self.confidence)
        head = f"Regression of {self.target} on {listed(self.features)}, {rows}."
        if self.weighted is not None:
            head += f" It is a {self.weighted.name}."
        if not self.bounded:
            head += " The noise does not bound the coefficients, so none of them can be told."
            if self.undetermined:
                head += f" The direction nothing is told about is made of {listed(self.undetermined)}."
        shown = self.coefficients
        if self.penalised is not None:
            head += f" Under a penalty of {number(self.penalised.regularization)}, fixed before looking:"
            shown = self.penalised.coefficients
        found = apart_from_zero([(one.name, one.value, one.interval) for one in shown])
        if self.r2_interval is not None and r2_ends(self.r2_interval).startswith("at least"):
            return f"{head} {found} R2 is {r2_ends(self.r2_interval)}."
        return f"{head} {found} R2 is {with_interval(self.r2, self.r2_interval)}."

    def _header(self) -> list[str]:
        header = list(CSV_HEADER)
        if self.simultaneous is not None:
            header += ["simultaneous_lower", "simultaneous_upper"]
        if self.penalised is not None:
            header += ["penalised", "penalised_lower", "penalised_upper"]
        return header

    def _line(self, position: int) -> list[Cell]:
        line = self.rows[position].csv_cells()
        if self.simultaneous is not None:
            line += self.simultaneous.intervals[position] or (None, None)
        if self.penalised is not None:
            one = (*self.penalised.coefficients, self.penalised.intercept)[position]
            line += [one.value, *(one.interval or (None, None))]
        return line

    def _more_shown(self) -> list[Shown]:
        found: list[Shown] = []
        if self.penalised is not None:
            told = self.penalised
            header = [f"penalty {number(told.regularization)}", *text_header(self.confidence)[1:7]]
            found.append((header, [one.text_cells()[:7] for one in (*told.coefficients, told.intercept)]))
        if self.simultaneous is not None:
            ends = zip([*self.features, INTERCEPT], self.simultaneous.intervals, strict=True)
            rows = [[name, *map(number, interval or (None, None))] for name, interval in ends]
            found.append(([f"all regressions at once, {100 * self.confidence:g} %", "lower", "upper"], rows))
        return found
