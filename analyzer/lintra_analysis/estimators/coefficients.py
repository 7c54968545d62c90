"""Fitted coefficients: what each one is, how sure it is and why, and how both change with the units."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.estimators.estimates import Interval, Of, diagonal_sd, quantile, two_sided
from lintra_analysis.estimators.tabular import Cell, digits_beside, levels, number
from lintra_analysis.releases.columns import ScaledColumn, centers, scales
from lintra_protocol.crypto.ring import FloatArray

_VALUES = ("name", "coefficient", "standard_error", "privacy", "sketching", "sampling", "t", "p_value")
CSV_HEADER = (*_VALUES, "lower", "upper", "raw", "moved")
PARTS_NOTE = "the last three columns are the parts of std err; they add up in squares"
POINT_NOTE = (
    "coef is drawn towards 0 as far as the noise is large; t, p and interval are those of the unbiased solution, the "
    "field raw"
)
MOVED = "*"
MOVED_NOTE = f"{MOVED} this point lay outside its interval and was moved to the nearer end"


@dataclass(frozen=True)
class StandardError:
    """Where the uncertainty of one number comes from; the parts add up in squares.

    Attributes:
        privacy: the noise that protects the clients.
        sketching: the public matrix; 0 for sums.
        sampling: the clients are a sample; 0 for the cohort. A regression assumes one residual variance.
        total: all three.
    """

    privacy: float
    sketching: float
    sampling: float
    total: float


@dataclass(frozen=True)
class Coefficient:
    """One fitted number.

    Attributes:
        name: the feature, or "(intercept)".
        value: the point, drawn towards 0 as far as the noise is large.
        standard_error: None if the release does not support one; see the estimate's warnings.
        interval: for the coefficient of whom the estimate is about; None where nothing can be told.
        statistic: the raw value over its standard error; None if either is missing or the error is 0.
        degrees_of_freedom: of the t law that `interval` and `p_value` use; None means that it is normal.
        p_value: of a coefficient of 0, two-sided.
        raw: the value before it was drawn towards 0: without bias, and farther off where the noise is large. None where
            `value` is that.
        moved: whether the point lay outside the interval and `value` is the nearer end of it.
    """

    name: str
    value: float
    standard_error: StandardError | None = None
    interval: Interval | None = None
    statistic: float | None = None
    degrees_of_freedom: float | None = None
    p_value: float | None = None
    raw: float | None = None
    moved: bool = False

    def at_confidence(self, confidence: float) -> Interval | None:
        """Return the interval about the raw value that its standard error gives; None without one."""
        if self.standard_error is None:
            return None
        freedom = math.inf if self.degrees_of_freedom is None else self.degrees_of_freedom
        middle, reach = self.value if self.raw is None else self.raw, self.standard_error.total
        reach *= quantile(confidence, freedom)
        return middle - reach, middle + reach

    def csv_cells(self) -> list[Cell]:
        """Return what stands under `CSV_HEADER`."""
        error = self.standard_error
        parts: list[Cell] = (
            [None] * 4 if error is None else [error.total, error.privacy, error.sketching, error.sampling]
        )
        ends = self.interval or (None, None)
        return [self.name, self.value, *parts, self.statistic, self.p_value, *ends, self.raw, self.moved]

    def text_cells(self) -> list[str]:
        """Return what stands under `text_header`."""
        error = self.standard_error
        total = None if error is None else error.total
        parts = [None] * 3 if error is None else [error.privacy, error.sketching, error.sampling]
        t = "-" if self.statistic is None else f"{self.statistic:.3f}"
        p_value = "-" if self.p_value is None else f"{self.p_value:.3f}"
        ends = [number(end, digits_beside(self.value, total)) for end in self.interval or (None, None)]
        value = number(self.value, digits_beside(self.value, total, 5)) + (MOVED if self.moved else "")
        return [self.name, value, number(total), t, p_value, *ends, *map(number, parts)]


def text_header(confidence: float) -> list[str]:
    """Return the headings of a table of coefficients for people."""
    return ["", "coef", "std err", "t", "P>|t|", *levels(confidence), "privacy", "sketching", "sampling"]


@dataclass(frozen=True, eq=False)
class ErrorParts:
    """The covariance of fitted coefficients by cause, each of shape `(p, p)`, and how well it is known.

    Attributes:
        cohort: privacy and sketching together.
        privacy: known from the noise level.
        sampling: the clients are a sample.
        law_freedom: degrees of freedom of `cohort`; infinity if it is known.
        residual_freedom: degrees of freedom of `sampling`.
    """

    cohort: FloatArray
    privacy: FloatArray
    sampling: FloatArray
    law_freedom: float
    residual_freedom: float

    def total(self, linear: FloatArray, of: Of) -> FloatArray:
        """Return the covariance, shape `(k, k)`, of `linear`, shape `(k, d)`, times the coefficients."""
        whole = self.cohort + self.sampling if of == "population" else self.cohort
        return np.asarray(linear @ whole @ linear.T)


@dataclass(frozen=True, eq=False)
class LinearErrors:
    """The errors of linear functions of fitted coefficients.

    `linear` is the functions, shape `(k, p)`; `of` says whom the errors are about.
    """

    parts: ErrorParts
    linear: FloatArray
    confidence: float
    of: Of

    def around(self, names: Sequence[str], values: FloatArray) -> tuple[Coefficient, ...]:
        """Return the functions, whose values are `values`, shape `(k,)`, with their errors and intervals."""
        parts = self.parts
        causes = (parts.cohort, parts.privacy, parts.sampling if self.of == "population" else 0 * parts.sampling)
        cohort, privacy, sampling = (diagonal_sd(self.linear @ part @ self.linear.T).tolist() for part in causes)
        errors = zip(cohort, privacy, sampling, strict=True)
        return tuple(
            self._one(name, value, error) for name, value, error in zip(names, values.tolist(), errors, strict=True)
        )

    def _one(self, name: str, value: float, errors: tuple[float, float, float]) -> Coefficient:
        cohort, privacy, sampling = errors
        # What is measured from few rows may fall below the part that is known.
        own = max(cohort, privacy)
        total = math.hypot(own, sampling)
        error = StandardError(privacy, math.sqrt(max(own**2 - privacy**2, 0.0)), sampling, total)
        freedom = self.parts.law_freedom
        if math.isinf(freedom) and sampling > 0:
            # Satterthwaite (1946): only the sampling part is estimated, from the residuals.
            freedom = self.parts.residual_freedom * (total / sampling) ** 4
        statistic = value / total if total > 0 else None
        found = Coefficient(
            name=name,
            value=value,
            standard_error=error,
            statistic=statistic,
            degrees_of_freedom=None if math.isinf(freedom) else freedom,
            p_value=None if statistic is None else two_sided(statistic, freedom),
        )
        return replace(found, interval=found.at_confidence(self.confidence))


def unit_map(features: Sequence[ScaledColumn], target: ScaledColumn) -> FloatArray:
    """Return the map from a normalised b, shape `(p,)`, to b in units, followed by the intercept less the center.

    A column that is the same for everybody is no feature: its coefficient goes into the intercept.

    Returns:
        Shape `(f + 1, p)` for the f features that are not constant.
    """
    slopes = np.diag(target.scale / scales(features))
    shifts = centers(features) - np.array([column.lower if column.constant else 0.0 for column in features])
    varying = [i for i, column in enumerate(features) if not column.constant]
    return np.vstack([slopes[varying], -shifts @ slopes])


def coefficients_of(names: Sequence[str], values: FloatArray, errors: LinearErrors | None) -> tuple[Coefficient, ...]:
    """Return the coefficients `values`, shape `(d,)`, with errors if there are any."""
    if errors is None:
        return tuple(Coefficient(name, float(value)) for name, value in zip(names, values, strict=True))
    return errors.around(names, values)
