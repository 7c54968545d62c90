"""Fitted coefficients: what each one is, how sure it is and why, and how both change with the units."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.estimators.estimates import Interval, diagonal_sd, quantile, two_sided
from lintra_analysis.estimators.tables import Cell, digits_beside, levels, number
from lintra_analysis.releases.columns import ScaledColumn, centers, scales
from lintra_protocol.ring import FloatArray

_VALUES = ("name", "coefficient", "standard_error", "privacy", "sketching", "sampling", "t", "p_value")
CSV_HEADER = (*_VALUES, "lower", "upper", "cohort_lower", "cohort_upper")
PARTS_NOTE = "the last three columns are the parts of std err; they add up in squares"


@dataclass(frozen=True)
class StandardError:
    """Where the uncertainty of one coefficient comes from; the parts add up in squares.

    Attributes:
        privacy: the noise that protects the clients.
        sketching: the public matrix; 0 for sums.
        sampling: the clients are a sample; homoscedastic residuals are assumed.
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
        value: the estimate.
        standard_error: None if the release does not support one; see the estimate's warnings.
        interval: for the coefficient in the population that the clients are a sample of.
        cohort_interval: for the coefficient that the cohort's own rows would give.
        statistic: the value over its standard error; None if either is missing or the error is 0.
        degrees_of_freedom: of the t law that `interval` and `p_value` use; None means that it is normal.
        p_value: of a coefficient of 0 in the population, two-sided.
    """

    name: str
    value: float
    standard_error: StandardError | None = None
    interval: Interval | None = None
    cohort_interval: Interval | None = None
    statistic: float | None = None
    degrees_of_freedom: float | None = None
    p_value: float | None = None

    def csv_cells(self) -> list[Cell]:
        """Return what stands under `CSV_HEADER`."""
        error = self.standard_error
        parts: list[Cell] = (
            [None] * 4 if error is None else [error.total, error.privacy, error.sketching, error.sampling]
        )
        ends = [end for interval in (self.interval, self.cohort_interval) for end in interval or (None, None)]
        return [self.name, self.value, *parts, self.statistic, self.p_value, *ends]

    def text_cells(self) -> list[str]:
        """Return what stands under `text_header`."""
        error = self.standard_error
        total = None if error is None else error.total
        parts = [None] * 3 if error is None else [error.privacy, error.sketching, error.sampling]
        t = "-" if self.statistic is None else f"{self.statistic:.3f}"
        p_value = "-" if self.p_value is None else f"{self.p_value:.3f}"
        ends = [number(end, digits_beside(self.value, total)) for end in self.interval or (None, None)]
        value = number(self.value, digits_beside(self.value, total, 5))
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

    def of(self, linear: FloatArray, values: FloatArray, names: Sequence[str], level: float) -> tuple[Coefficient, ...]:
        """Return the coefficients `values` at confidence `level`; their errors are those of b under `linear`."""
        cohort, privacy, sampling = (
            diagonal_sd(linear @ part @ linear.T).tolist() for part in (self.cohort, self.privacy, self.sampling)
        )
        errors = zip(cohort, privacy, sampling, strict=True)
        return tuple(
            self._one(name, value, error, level)
            for name, value, error in zip(names, values.tolist(), errors, strict=True)
        )

    def _one(self, name: str, value: float, errors: tuple[float, float, float], level: float) -> Coefficient:
        cohort, privacy, sampling = errors
        # What is measured from few rows may fall below the part that is known.
        own = max(cohort, privacy)
        total = math.hypot(own, sampling)
        error = StandardError(privacy, math.sqrt(max(own**2 - privacy**2, 0.0)), sampling, total)
        freedom = self.law_freedom
        if math.isinf(freedom) and sampling > 0:
            # Satterthwaite (1946): only the sampling part is estimated, from the residuals.
            freedom = self.residual_freedom * (total / sampling) ** 4
        reach, own_reach = quantile(level, freedom) * total, quantile(level, self.law_freedom) * own
        statistic = value / total if total > 0 else None
        return Coefficient(
            name=name,
            value=value,
            standard_error=error,
            interval=(value - reach, value + reach),
            cohort_interval=(value - own_reach, value + own_reach),
            statistic=statistic,
            degrees_of_freedom=None if math.isinf(freedom) else freedom,
            p_value=None if statistic is None else two_sided(statistic, freedom),
        )


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


def coefficients_of(
    names: Sequence[str], values: FloatArray, linear: FloatArray, parts: ErrorParts | None, level: float
) -> tuple[Coefficient, ...]:
    """Return the coefficients `values`, whose errors are those of b under the map `linear`, if there are any."""
    if parts is None:
        return tuple(Coefficient(name, float(value)) for name, value in zip(names, values, strict=True))
    return parts.of(linear, values, names, level)


def shifted(coefficient: Coefficient, offset: float) -> Coefficient:
    """Return the coefficient moved by a known number; it is tested against 0 where it is now."""

    def shift(interval: Interval | None) -> Interval | None:
        return None if interval is None else (interval[0] + offset, interval[1] + offset)

    error, freedom = coefficient.standard_error, coefficient.degrees_of_freedom
    value = coefficient.value + offset
    statistic = value / error.total if error is not None and error.total > 0 else None
    return replace(
        coefficient,
        value=value,
        interval=shift(coefficient.interval),
        cohort_interval=shift(coefficient.cohort_interval),
        statistic=statistic,
        p_value=None if statistic is None else two_sided(statistic, math.inf if freedom is None else freedom),
    )
