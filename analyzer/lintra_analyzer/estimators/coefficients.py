"""Fitted coefficients: what each one is, how sure it is and why, and how both change with the units."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analyzer.columns import Column, centers, scales
from lintra_analyzer.estimators.estimates import Interval, diagonal_sd
from lintra_protocol.ring import FloatArray


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
    """

    name: str
    value: float
    standard_error: StandardError | None = None
    interval: Interval | None = None
    cohort_interval: Interval | None = None


def unit_map(features: Sequence[Column], target: Column) -> FloatArray:
    """Return the map, shape `(p + 1, p)`, from a normalised b to b in units, followed by -b . centers."""
    slopes = np.diag(target.scale / scales(features))
    return np.vstack([slopes, -centers(features) @ slopes])


def coefficients_of(
    names: Sequence[str],
    values: FloatArray,
    linear: FloatArray,
    parts: dict[str, FloatArray] | None,
    quantiles: float,
) -> tuple[Coefficient, ...]:
    """Return the coefficients `values`, whose errors are those of the solution under the map `linear`."""
    if parts is None:
        return tuple(Coefficient(name, float(value)) for name, value in zip(names, values, strict=True))
    cohort, privacy, sampling = (
        diagonal_sd(linear @ parts[cause] @ linear.T).tolist() for cause in ("cohort", "privacy", "sampling")
    )
    found = []
    for name, value, measured, noise, sample in zip(names, values.tolist(), cohort, privacy, sampling, strict=True):
        # What is measured from few rows may fall below the part that is known.
        own = max(measured, noise)
        total = math.hypot(own, sample)
        error = StandardError(noise, math.sqrt(max(own**2 - noise**2, 0.0)), sample, total)
        reach, own_reach = quantiles * total, quantiles * own
        found.append(
            Coefficient(name, value, error, (value - reach, value + reach), (value - own_reach, value + own_reach))
        )
    return tuple(found)


def shifted(coefficient: Coefficient, offset: float) -> Coefficient:
    """Return the coefficient moved by a known number."""

    def shift(interval: Interval | None) -> Interval | None:
        return None if interval is None else (interval[0] + offset, interval[1] + offset)

    return Coefficient(
        coefficient.name,
        coefficient.value + offset,
        coefficient.standard_error,
        shift(coefficient.interval),
        shift(coefficient.cohort_interval),
    )
