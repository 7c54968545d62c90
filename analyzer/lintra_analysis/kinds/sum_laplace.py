"""`sum_laplace`: the totals of the columns, with pure epsilon."""

from typing import ClassVar, Literal

from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.kind import Kind
from lintra_analysis.kinds.options import Count, MechanismSpecification
from lintra_analysis.kinds.sum import predict, read
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.sum_laplace import SumLaplace


class SumLaplaceSpecification(MechanismSpecification):
    """The sum of the rows, with noise that needs no delta; for few columns.

    With `count` noisy, which is usual where a column may be missing, rows in which a number is missing are left out.
    """

    kind: Literal["sum_laplace"]
    count: Count | None = None
    takes_missing: ClassVar[bool] = True


def build(context: CalibrationContext[SumLaplaceSpecification]) -> Measurement:
    """Return the sum with the row bound that was given."""
    count = {"count": context.count(context.options.count)}
    return context.calibrated(SumLaplace.model_validate(context.uncalibrated("sum_laplace") | count))


KIND = Kind(SumLaplace, SumLaplaceSpecification, build, predict, read)
