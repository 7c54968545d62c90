"""Shared by all estimates: plain values for JSON, a number with its error, and checks of arguments."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Literal, cast

import numpy as np
from scipy import special

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
Interval = tuple[float, float]
Of = Literal["cohort", "population"]
"""Whom an error or an interval is about: the cohort's own rows, or the population that they are a sample of."""

Residuals = Literal["alike", "any"]
"""What is assumed of residuals for the population: one variance, or none at all but the norm that no row exceeds."""

_SMALLEST_DOUBT = 1e-12


def to_plain(value: object) -> Plain:
    """Return plain Python for JSON: arrays become lists, and a number that is not finite becomes None.

    A field whose metadata say `"plain": False` is left out. Raises TypeError if a field is of a type that no estimate
    has.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return to_plain(value.tolist())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value):
        shown = (field for field in fields(value) if field.metadata.get("plain", True))
        return {field.name: to_plain(getattr(value, field.name)) for field in shown}
    if isinstance(value, Sequence):
        return [to_plain(item) for item in value]
    raise TypeError(f"an estimate cannot hold a {type(value).__name__}")


class Answer:
    """Numbers that an analysis gave; each answer is a frozen dataclass."""

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python, ready for JSON: no NaN; None where something is not available."""
        return cast("dict[str, Plain]", to_plain(self))


@dataclass(frozen=True)
class ClipLimit:
    """How far one number may be from that of the rows before they were shrunk.

    `name` is that of the number, such as a column's. `limit` is in its own units; None if there is none.
    """

    name: str
    limit: float | None


@dataclass(frozen=True)
class Clipping:
    """How many rows a bound changed, and how far it may move an answer.

    docs/explanation/estimators-intervals.md#clipped-rows has the limits.

    The limits hold for the upper end of the count and if all of these rows lay within their columns' bounds; noise is
    left out of them.
    """

    estimate: float  #: of the rows that a bound changed, noise included
    sd: float  #: deviation of that noise, in rows
    upper_rows: float  #: the upper end, at 95 %
    upper_share: float  #: the same as a part of all rows
    #: one for each number of the answer; none where no row within the columns' bounds would be shrunk
    limits: tuple[ClipLimit, ...]


@dataclass(frozen=True)
class IntervalEstimate:
    """One number with its standard error and interval; each is None where the release supports none."""

    value: float
    standard_error: float | None = None
    interval: Interval | None = None

    @classmethod
    def normal(cls, value: float, standard_error: float, confidence: float) -> "IntervalEstimate":
        """Return a normally distributed number."""
        reach = quantile(confidence) * standard_error
        return cls(value, standard_error, (value - reach, value + reach))


def quantile(confidence: float, degrees_of_freedom: float = math.inf) -> float:
    """Return the half-width of a two-sided interval in standard errors: normal, or Student's t."""
    level = (1 + confidence) / 2
    return float(special.ndtri(level) if math.isinf(degrees_of_freedom) else special.stdtrit(degrees_of_freedom, level))


def two_sided(statistic: float, degrees_of_freedom: float = math.inf) -> float:
    """Return the probability of a value at least as far from 0: normal, or Student's t."""
    if math.isinf(degrees_of_freedom):
        return float(2 * special.ndtr(-abs(statistic)))
    return float(2 * special.stdtr(degrees_of_freedom, -abs(statistic)))


def check_confidence(confidence: float) -> None:
    """Refuse a confidence level that is none.

    Raises InvalidAnalysisError if it does not lie strictly between 0 and 1, or is 1 as far as quantiles can tell.
    """
    if not 0 < confidence < 1:
        raise InvalidAnalysisError(f"confidence must lie strictly between 0 and 1, such as 0.95; got {confidence}")
    if 1 - confidence < _SMALLEST_DOUBT:
        raise InvalidAnalysisError(f"confidence must leave a doubt of at least {_SMALLEST_DOUBT:g}, got {confidence}")


def check_of(of: str) -> None:
    """Refuse a word for whom an error is about that is none.

    Raises InvalidAnalysisError if it is neither "cohort" nor "population".
    """
    if of not in ("cohort", "population"):
        raise InvalidAnalysisError(f'errors are of the "cohort" or of the "population", got {of!r}')


def sampling_bound(lower: float, upper: float, num_clients: int) -> float:
    """Return the largest possible standard error of a mean of independent draws from [lower, upper].

    A variable on an interval has at most half its length as its sd (Popoviciu 1935).
    """
    return (upper - lower) / (2 * math.sqrt(num_clients))


def diagonal_sd(covariance: FloatArray) -> FloatArray:
    """Return the roots of the diagonal of a covariance, shape `(d, d)`; a debiased part below zero means zero."""
    root: FloatArray = np.sqrt(np.maximum(np.diagonal(covariance), 0))
    return root


def checked_rows(rows: FloatArray, names: Sequence[str]) -> FloatArray:
    """Return rows of shape `(k, p)` as they are.

    Raises ValueError if they do not have one column for each name, or hold what is not finite.
    """
    table = np.asarray(rows, np.float64)
    if table.ndim != 2 or table.shape[1] != len(names):
        raise ValueError(
            f"rows must have shape (k, {len(names)}), one column for each of {', '.join(names)}; got {table.shape}"
        )
    if not np.isfinite(table).all():
        raise ValueError("rows must hold finite numbers only")
    return table


def check_residuals(residuals: str) -> None:
    """Refuse a word for what is assumed of residuals that is none.

    Raises InvalidAnalysisError if it is neither "alike" nor "any".
    """
    if residuals not in ("alike", "any"):
        raise InvalidAnalysisError(f'variances of residuals are "alike" or "any", got {residuals!r}')
