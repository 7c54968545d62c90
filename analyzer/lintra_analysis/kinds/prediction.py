"""What is expected of a release before there is any data: deviations of its noise, and errors of second moments."""

import math
from dataclasses import dataclass
from typing import Any

from lintra_analysis.kinds.context import CalibrationContext


@dataclass(frozen=True)
class Prediction:
    """How wrong an estimate of the Gram matrix, and what follows from it, is expected to be."""

    squared_error: float  #: expected squared Frobenius error of the Gram matrix, in normalised units
    relative_error: float  #: its root over the trace of the matrix
    low_rank: float  #: largest part of the rows' squared length that the best directions of this rank lose to the error
    ridge: float  #: part of the target's squared length that a ridge regression loses to the error, in first order


@dataclass(frozen=True)
class Expected:
    """What a kind predicts for the smallest cohort."""

    #: deviation of one client's noise, or of one server's, in a word (off the diagonal for second moments), in
    #: normalised units
    sigma: float
    deviations: dict[str, float]  #: of the noise in a released number, by what the number is, as it is decoded
    moments: Prediction | None = None  #: errors of second moments; None where a release holds none
    #: bound of an honest client's leverage; one over the honest draws in the emptiest row if not given
    leverage: float | None = None


def predict_moments(
    context: CalibrationContext[Any], squared_error: float, *, trace: float | None = None, columns: int | None = None
) -> Prediction:
    """Turn the error of a Gram matrix into what an analyst notices (docs/how-to/planning.md).

    With E the error: directions of rank k lose at most sqrt(2k) |E|_F, since tr((P - P')E) <= |P - P'|_F |E|_F for
    projections of rank k. A regression on p features of equal variance with coefficients of norm at most 1 loses
    about 2 p d/(d+1) |E|_F^2 / (tr M)^2 of the target's squared length. `squared_error` is E|E|_F^2; `trace` is tr M, n
    r^2 if not given. `columns` are d, those of the context if not given.
    """
    relative = math.sqrt(squared_error) / (trace or context.expected_trace)
    d = columns or context.num_columns()
    return Prediction(
        squared_error=squared_error,
        relative_error=relative,
        low_rank=min(1.0, math.sqrt(2 * min(context.rank, d)) * relative),
        ridge=min(1.0, 2 * min(context.features, d) * d / (d + 1) * relative**2),
    )
