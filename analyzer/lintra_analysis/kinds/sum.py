"""`sum`: the totals of the columns."""

from typing import ClassVar, Literal

from lintra_analysis.kinds.clip_count import clip_count_deviation, row_count_deviation
from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.kind import Kind
from lintra_analysis.kinds.options import Count, MechanismSpecification
from lintra_analysis.kinds.plausibility import of_sum
from lintra_analysis.kinds.prediction import Expected
from lintra_analysis.kinds.released_parts import (
    Earlier,
    clipped_rows,
    counted_rows,
    norm_of_rows,
    number_of_rows,
    scaled_columns,
)
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.sum import Sum
from lintra_protocol.task import Task


class SumSpecification(MechanismSpecification):
    """The sum of the rows.

    With `count` noisy, which is usual where a column may be missing, rows in which a number is missing are left out.
    """

    kind: Literal["sum"]
    count: Count | None = None
    takes_missing: ClassVar[bool] = True
    takes_contributors: ClassVar[bool] = True
    takes_proofs: ClassVar[bool] = True
    takes_server_noise: ClassVar[bool] = True
    takes_floor: ClassVar[bool] = True


def build(context: CalibrationContext[SumSpecification]) -> Measurement:
    """Return the sum with the row bound that was given."""
    count = {"count": context.count(context.options.count)}
    return context.measurement(Sum.model_validate(context.uncalibrated("sum") | count))


def predict(context: CalibrationContext[SumSpecification], mechanism: Sum) -> Expected:
    """Predict the error of a sum and of a mean, whatever the number of columns."""
    clients, layout = context.claim.min_clients, context.measured(mechanism).layout
    sigma = float(layout.own_deviation("row"))
    total = float(layout.deviation("row", context.setting.draws(clients)))
    deviations = {"sum": total, "mean": total / clients}
    deviations |= row_count_deviation(context.measured(mechanism), clients)
    deviations |= clip_count_deviation(context.measured(mechanism), clients)
    return Expected(sigma, deviations)


def read(task: Task, mechanism: Sum, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    """Return the totals of the columns, from a sketch of shape `(1, w)`."""
    del earlier
    num_rows = number_of_rows(task, sketch, row_counts)
    noise_sd = float(task.measurement.layout.deviation("row", task.setting.draws(int(row_counts.sum()))))
    values = task.measurement.decode(sketch)
    clipped, row_bound = clipped_rows(task, sketch, row_counts), norm_of_rows(task)
    counted = counted_rows(task, sketch, row_counts)
    return Release(totals=Totals(scaled_columns(task), values, noise_sd, num_rows, row_bound, clipped, counted))


KIND = Kind(Sum, SumSpecification, build, predict, read, totals=of_sum)
