"""A number with its error by cause, and how linear functionals of a Gram matrix get theirs."""

import math
from dataclasses import dataclass

from lintra_analysis.estimators.centred import Centred, sampling_functional_sd
from lintra_analysis.estimators.coefficients import StandardError
from lintra_analysis.estimators.estimates import Interval, Of, quantile
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_protocol.crypto.ring import FloatArray


@dataclass(frozen=True)
class Quantity:
    """One estimated number.

    `standard_error` is by cause; None if the release does not support one. `interval` is for the number of whom the
    estimate is about.
    """

    value: float
    standard_error: StandardError | None = None
    interval: Interval | None = None

    @classmethod
    def normal(cls, value: float, error: StandardError, confidence: float, lowest: float, highest: float) -> "Quantity":
        """Return a normally distributed number that lies between `lowest` and `highest`."""
        reach = quantile(confidence) * error.total

        def inside(number: float) -> float:
            return min(max(number, lowest), highest)

        return cls(inside(value), error, (inside(value - reach), inside(value + reach)))


def error_of(moments: Centred, weights: FloatArray, clipped: FloatArray, of: Of, scale: float = 1.0) -> StandardError:
    """Return the standard error of `scale` times <weights, M>.

    `moments` are M and the law of its error; `weights` are symmetric, shape `(d, d)`. `clipped` is M without its
    negative eigenvalues, which would be the rows' own; shape `(d, d)`. `of` says whom the error is about; `scale` is
    positive.
    """
    gram = moments.gram
    measured = gram.errors.functional_sd(weights)
    privacy = gram.errors.privacy_functional_sd(weights, gram.matrix)
    sampling = sampling_functional_sd(weights, clipped, gram.num_rows)
    return standard_error(measured, privacy, sampling, gram.errors.measured, of, scale)


def with_count(error: StandardError, value: float, gram: GramEstimate) -> StandardError:
    """Return the error of a sum divided by the number of rows, if that carries noise too; to first order.

    `error` is that of the quotient, the number of rows taken as known.
    """
    if not gram.count_error:
        return error
    more = abs(value) * gram.count_error
    privacy, total = math.hypot(error.privacy, more), math.hypot(error.total, more)
    return StandardError(privacy, error.sketching, error.sampling, total)


def standard_error(
    measured: float, privacy: float, sampling: float, holds_sampling: bool, of: Of, scale: float = 1.0
) -> StandardError:
    """Put the parts of an error together.

    The error of a sketch is measured over rows that hold different clients, so it holds the sampling as well.
    """
    own = math.sqrt(max(measured**2 - sampling**2, 0.0)) if holds_sampling else measured
    # What is measured from few rows may fall below the part that is known.
    own = max(own, privacy)
    sketching = math.sqrt(max(own**2 - privacy**2, 0.0))
    added = sampling if of == "population" else 0.0
    return StandardError(scale * privacy, scale * sketching, scale * added, scale * math.hypot(own, added))
