"""`first_column`: the noisy total of the first column."""

from typing import Literal

from lintra_protocol.mechanisms.first_column import FirstColumn

from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.kind import Kind
from lintra_analysis.kinds.options import MechanismSpecification
from lintra_analysis.kinds.prediction import Expected
from lintra_analysis.kinds.released_parts import Earlier, scaled_columns
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.task import Task


class FirstColumnSpecification(MechanismSpecification):
    """The sum of the first column."""

    kind: Literal["first_column"]


def build(context: CalibrationContext[FirstColumnSpecification]) -> Measurement:
    """Return the sum with the row bound that was given."""
    return context.measurement(FirstColumn.model_validate(context.uncalibrated("first_column")))


def predict(context: CalibrationContext[FirstColumnSpecification], mechanism: FirstColumn) -> Expected:
    """Predict the error of the total."""
    layout = context.measured(mechanism).layout
    total = layout.deviation("total", context.claim.min_clients)
    return Expected(float(layout.deviation("total", 1)), {"sum": float(total)})


def read(task: Task, mechanism: FirstColumn, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    """Return the total."""
    num_clients = int(row_counts.sum())
    noise_sd = float(task.measurement.layout.deviation("total", num_clients))
    values = task.measurement.decode(sketch)
    row_bound = float(fraction(mechanism.row_bound))
    return Release(totals=Totals(scaled_columns(task)[:1], values, noise_sd, num_clients, row_bound))


KIND = Kind(FirstColumn, FirstColumnSpecification, build, predict, read)
