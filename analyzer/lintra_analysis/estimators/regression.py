"""Linear regression of any column on any others: least squares or ridge, with the table that statisticians expect.

Every regression on a release is post-processing of it. Standard errors hold the privacy noise beside the sampling of
the clients, and say how much of each there is. The solver is the one of `ridge` (solve.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from lintra_analysis.estimators.coefficients import (
    CSV_HEADER,
    PARTS_NOTE,
    Coefficient,
    coefficients_of,
    shifted,
    text_header,
    unit_map,
)
from lintra_analysis.estimators.design import INTERCEPT, Design, check_regularization, design
from lintra_analysis.estimators.estimates import Interval, check_confidence, checked_rows
from lintra_analysis.estimators.ridge import R2_ABOUT_MEAN_NOTE, R2_NOTE, warnings_of
from lintra_analysis.estimators.simultaneous import simultaneous_intervals
from lintra_analysis.estimators.solve import Fit, solve
from lintra_analysis.estimators.tables import Cell, Tabular, closing, csv_text, facts, number, table, title
from lintra_analysis.releases.gram import HasSecondMoment
from lintra_protocol.ring import FloatArray

SHRUNK_NOTE = "a penalty shrinks the coefficients; intervals and tests are about the shrunk ones"


@dataclass(frozen=True)
class Simultaneous:
    """Intervals that hold together with those of every other regression on the same release.

    Attributes:
        noise_norm: the bound on the spectral norm of the noise that they rest on, in normalised units.
        intervals: for the cohort's own coefficients, the intercept last; None where there is no finite one.
    """

    noise_norm: float
    intervals: tuple[Interval | None, ...]


@dataclass(frozen=True, eq=False, repr=False)
class RegressionEstimate(Tabular):
    """The regression of one column on others, in the columns' own units.

    >>> from lintra_analysis import open_release, regression
    >>> estimate = regression(open_release("flights.npz"), "delay")
    >>> estimate.predict([[12.0, 800.0], [20.0, 800.0]]).shape  # hour and distance
    (2,)
    >>> print(estimate.summary())  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
    Regression of delay from a private second moment
    ...

    Attributes:
        coefficients: one for each feature.
        intercept: fitted if `intercept_fitted`, else what the public centers imply.
        covariance: of coefficients and intercept, all causes together, shape `(p + 1, p + 1)`; None if not available.
            Not part of `to_dict`, since it has p^2 entries.
        regularization: lambda in normalised units; never on a fitted intercept.
        residual_freedom: clients less fitted coefficients.
        residual_sum_of_squares: over the cohort at the best coefficients; can be negative if noise dominates.
        residual_sd: of one client.
        r2: see `r2_note`; None if what it is a share of is lost in noise.
        r2_standard_error: of the privacy noise and sketching, for the cohort's own r2; sampling comes on top.
        f_statistic: of all features' coefficients being 0, over `len(features)` and `f_freedom` degrees of freedom.
        floor: the eigenvalue below which the normalised Gram matrix counts as noise.
        regularised: whether an eigenvalue lay below it and was raised.
        simultaneous: if it was asked for.
        warnings: in plain words, what the analyst must know before using the numbers.
    """

    target: str
    features: tuple[str, ...]
    num_clients: int
    regularization: float
    confidence: float
    coefficients: tuple[Coefficient, ...]
    intercept: Coefficient
    intercept_fitted: bool
    covariance: FloatArray | None = field(metadata={"plain": False})
    residual_freedom: int
    residual_sum_of_squares: float
    residual_sd: float
    r2: float | None
    adjusted_r2: float | None
    r2_standard_error: float | None
    r2_note: str
    f_statistic: float | None
    f_freedom: float | None
    f_p_value: float | None
    floor: float
    regularised: bool
    simultaneous: Simultaneous | None
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        return f"RegressionEstimate({self.target!r} on {len(self.features)} features, {self.num_clients} clients)"

    @property
    def coef_(self) -> FloatArray:
        """The coefficients, shape `(p,)`, as scikit-learn names them."""
        return np.array([coefficient.value for coefficient in self.coefficients])

    @property
    def intercept_(self) -> float:
        """The intercept in the target's unit."""
        return self.intercept.value

    @property
    def feature_names_in_(self) -> tuple[str, ...]:
        """The features in the order that `predict` expects."""
        return self.features

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        return len(self.features)

    @property
    def r2_(self) -> float | None:
        """The share explained in the release; see `r2_note`."""
        return self.r2

    def predict(self, rows: FloatArray) -> FloatArray:
        """Return the target, shape `(k,)`, for rows of features, shape `(k, p)`, all in their own units.

        Raises:
            ValueError: the rows do not have one column for each feature, or are not finite.
        """
        return checked_rows(rows, self.features) @ self.coef_ + self.intercept_

    def prediction_errors(self, rows: FloatArray) -> FloatArray | None:
        """Return the standard error of the mean of the target at each row, shape `(k,)`, all causes together.

        Raises:
            ValueError: as for `predict`.
        """
        table = checked_rows(rows, self.features)
        if self.covariance is None:
            return None
        extended = np.column_stack([table, np.ones(table.shape[0])])
        variance = np.sum(extended @ self.covariance * extended, axis=1)
        errors: FloatArray = np.sqrt(np.maximum(variance, 0))
        return errors

    def score(self, rows: FloatArray, target: FloatArray) -> float:
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

    def to_csv(self) -> str:
        """Return one line for each coefficient, the intercept last."""
        header = list(CSV_HEADER)
        if self.simultaneous is not None:
            header += ["simultaneous_lower", "simultaneous_upper"]
        return csv_text(header, (self._csv_row(i, one) for i, one in enumerate([*self.coefficients, self.intercept])))

    def _csv_row(self, position: int, one: Coefficient) -> list[Cell]:
        bounds = () if self.simultaneous is None else self.simultaneous.intervals[position] or (None, None)
        return [*one.csv_cells(), *bounds]

    def summary(self, privacy: str | None = None) -> str:
        """Return a text for people, in the manner of a table of ordinary least squares."""
        adjusted = f"{number(self.r2)} (adjusted {number(self.adjusted_r2)})"
        f_test = f"{number(self.f_statistic)} (p {number(self.f_p_value, 3)})"
        lines = title(f"Regression of {self.target} from a private second moment")
        lines += facts(
            [
                ("Clients", str(self.num_clients)),
                ("R2", adjusted),
                ("Residual freedom", str(self.residual_freedom)),
                ("R2 noise error", number(self.r2_standard_error)),
                ("Penalty", number(self.regularization)),
                ("F", f_test),
                ("Intercept", "fitted" if self.intercept_fitted else "through public centers"),
                ("Residual sd", number(self.residual_sd)),
            ]
        )
        rows = [one.text_cells() for one in (*self.coefficients, self.intercept)]
        lines += table(text_header(self.confidence), rows)
        if self.simultaneous is not None:
            lines += self._simultaneous_lines(self.simultaneous)
        return "\n".join([*lines, *closing(privacy, self.warnings, [PARTS_NOTE, self.r2_note])]) + "\n"

    def _simultaneous_lines(self, bounds: Simultaneous) -> list[str]:
        names = [*self.features, INTERCEPT]
        rows = [
            [name, *(number(end) for end in interval or (None, None))]
            for name, interval in zip(names, bounds.intervals, strict=True)
        ]
        return table([f"all regressions at once, {100 * self.confidence:g} %", "lower", "upper"], rows)


def regression(
    release: HasSecondMoment,
    target: str,
    features: Sequence[str] | None = None,
    regularization: float = 0.0,
    *,
    intercept: bool | None = None,
    simultaneous: bool = False,
    confidence: float = 0.95,
) -> RegressionEstimate:
    """Minimise |Z b - y|^2 + lambda |b|^2 over the cohort's normalised rows, and test the coefficients.

    >>> from lintra_analysis import open_release, regression
    >>> estimate = regression(open_release("flights.npz"), target="delay", features=["hour", "distance"])
    >>> estimate.features, estimate.num_clients
    (('hour', 'distance'), 240)
    >>> estimate.coefficients[0].value > 0  # later flights are later
    True

    Args:
        release: a sketch or a second moment.
        target: the column to explain.
        features: the columns that explain it; all others by default.
        regularization: lambda, at least 0, in normalised units: it stands beside a sum over all clients.
        intercept: whether to fit one; by default if the release holds a constant column.
        simultaneous: whether to add bounds that hold for all regressions on this release at once.
        confidence: of the intervals.

    Raises:
        InvalidAnalysisError: the release holds no second moments, or an argument does not fit it.
    """
    check_confidence(confidence)
    check_regularization(regularization)
    chosen = design(release, target, features, intercept)
    fit = solve(chosen, regularization)
    to_units = unit_map(chosen.gram.columns[:-1], chosen.target)
    bounds = None
    if simultaneous:
        offsets = np.append(np.zeros(len(chosen.features)), chosen.target.center)
        bounds = Simultaneous(*simultaneous_intervals(chosen, fit, to_units, offsets, confidence))
    return _report(chosen, fit, to_units, bounds, regularization=regularization, confidence=confidence)


def _report(
    chosen: Design,
    fit: Fit,
    to_units: FloatArray,
    bounds: Simultaneous | None,
    *,
    regularization: float,
    confidence: float,
) -> RegressionEstimate:
    """Put the fit into the columns' own units and into words."""
    names, target = chosen.names, chosen.target
    own = coefficients_of((*names, INTERCEPT), to_units @ fit.solution, to_units, fit.parts, confidence)
    covariance = None if fit.parts is None else to_units @ (fit.parts.cohort + fit.parts.sampling) @ to_units.T
    freedom = chosen.gram.num_clients - chosen.fitted
    f_statistic, f_freedom, f_p_value = _f_test(np.array([c.value for c in own[:-1]]), covariance, fit)
    warnings = list(warnings_of(chosen.gram, fit))
    if regularization > 0:
        warnings.append(SHRUNK_NOTE)
    if bounds is not None and None in bounds.intervals:
        warnings.append(
            f"no simultaneous bounds: noise of norm {bounds.noise_norm:.4g} may swallow a direction of the features"
        )
    return RegressionEstimate(
        target=target.name,
        features=names,
        num_clients=chosen.gram.num_clients,
        regularization=float(regularization),
        confidence=float(confidence),
        coefficients=own[:-1],
        intercept=shifted(own[-1], target.center),
        intercept_fitted=chosen.constant is not None,
        covariance=covariance,
        residual_freedom=freedom,
        residual_sum_of_squares=fit.residual * target.scale**2,
        residual_sd=math.sqrt(fit.variance) * target.scale,
        r2=fit.r2,
        adjusted_r2=None if fit.r2 is None else _adjusted(fit.r2, chosen, freedom),
        r2_standard_error=fit.r2_sd,
        r2_note=R2_NOTE if chosen.constant is None else R2_ABOUT_MEAN_NOTE,
        f_statistic=f_statistic,
        f_freedom=f_freedom,
        f_p_value=f_p_value,
        floor=fit.floor,
        regularised=fit.regularised,
        simultaneous=bounds,
        warnings=tuple(warnings),
    )


def _adjusted(r2: float, chosen: Design, freedom: int) -> float:
    """Return r2 with the degrees of freedom that the coefficients took."""
    whole = chosen.gram.num_clients - (0 if chosen.constant is None else 1)
    return 1 - (1 - r2) * whole / freedom


def _f_test(
    slopes: FloatArray, covariance: FloatArray | None, fit: Fit
) -> tuple[float | None, float | None, float | None]:
    """Return Wald's statistic of all slopes over their number, its second degrees of freedom, and p."""
    if covariance is None or fit.parts is None:
        return None, None, None
    block = covariance[:-1, :-1]
    if np.linalg.matrix_rank(block, hermitian=True) < slopes.size or np.linalg.eigvalsh(block)[0] <= 0:
        return None, None, None
    statistic = float(slopes @ np.linalg.solve(block, slopes)) / slopes.size
    freedom = min(fit.parts.law_freedom, fit.parts.residual_freedom)
    return statistic, freedom, float(special.fdtrc(slopes.size, freedom, statistic))
