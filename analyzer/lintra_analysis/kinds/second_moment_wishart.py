"""`second_moment_wishart`: the sum of products, with the noise that random examples make."""

import math
from typing import Literal

from lintra_analysis.kinds.clip_count import clip_count_deviation
from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.kind import Kind
from lintra_analysis.kinds.options import MechanismSpecification
from lintra_analysis.kinds.prediction import Expected, predict_moments
from lintra_analysis.kinds.released_parts import Earlier, clipped_rows, scaled_columns
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.second_moment_wishart import WishartSecondMoment
from lintra_protocol.task import Task


class WishartSecondMomentSpecification(MechanismSpecification):
    """The sum of the rows' outer products and of one random example of every client."""

    kind: Literal["second_moment_wishart"]


def build(context: CalibrationContext[WishartSecondMomentSpecification]) -> Measurement:
    """Return the sum of products with the row bound that was given."""
    return context.measurement(WishartSecondMoment.model_validate(context.uncalibrated("second_moment_wishart")))


def predict(context: CalibrationContext[WishartSecondMomentSpecification], mechanism: WishartSecondMoment) -> Expected:
    """Predict the error of the sum of products with one random example of every client."""
    clients, d = context.claim.min_clients, context.num_columns()
    step = 4.0**-mechanism.fraction_bits
    variance = clients * (mechanism.variance**2 + mechanism.grid_noise**2) * step**2
    deviations = {"product": math.sqrt(variance), "square": math.sqrt(2 * variance)}
    deviations |= clip_count_deviation(context.measured(mechanism), clients)
    return Expected(mechanism.sigma * step, deviations, predict_moments(context, variance * d * (d + 1)))


def read(
    task: Task, mechanism: WishartSecondMoment, sketch: IntArray, row_counts: IntArray, earlier: Earlier
) -> Release:
    """Return a sum of products whose noise is not Gaussian, from a sketch of shape `(1, w)`."""
    del earlier
    num_clients, step = int(row_counts.sum()), 2.0**-mechanism.fraction_bits
    # The clients have taken the mean off their examples' products, so that nothing is left to debias.
    noise_sd = math.sqrt(num_clients) * math.hypot(mechanism.variance, mechanism.grid_noise) * step**2
    values = task.measurement.decode(sketch)
    row_bound = float(fraction(mechanism.row_bound))
    clipped = clipped_rows(task, sketch, row_counts)
    columns = scaled_columns(task)
    moments = SecondMomentSum(columns, values, noise_sd, num_clients, row_bound, gaussian=False, clipped=clipped)
    return Release(moments=moments)


KIND = Kind(WishartSecondMoment, WishartSecondMomentSpecification, build, predict, read)
