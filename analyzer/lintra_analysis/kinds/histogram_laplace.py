"""`histogram_laplace`: rows in cells, with pure epsilon."""

from typing import ClassVar, Literal

from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.histogram import HistogramSpecification, mechanism_of, predict, read
from lintra_analysis.kinds.kind import Kind, no_warnings
from lintra_protocol.mechanisms.histogram_laplace import HistogramLaplace
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.noise.discrete_laplace import MAX_SCALE

FINEST = 64
"""What a row adds to a cell: with more steps the scale, a whole number, is no finer than a hundredth of itself."""


class HistogramLaplaceSpecification(HistogramSpecification):
    """How many rows lie in each cell of each column, with noise that needs no delta; the options of `histogram`."""

    kind: Literal["histogram_laplace"]  # type: ignore[assignment]
    takes_server_noise: ClassVar[bool] = False
    takes_contributors: ClassVar[bool] = False
    takes_proofs: ClassVar[bool] = False
    takes_floor: ClassVar[bool] = False


def build(context: CalibrationContext[HistogramLaplaceSpecification]) -> Measurement:
    """Return the histogram of all columns, in as fine steps as the noise allows."""
    plain = mechanism_of(context)
    mechanism = HistogramLaplace.model_validate(plain.model_dump() | {"kind": "histogram_laplace", "indicator": 1})
    # The scale is the distance over epsilon: two cells of each histogram, that of a row and that of another.
    scale = 2 * len(mechanism.counted_cells) / context.claim.float_epsilon
    indicator = max(1, min(FINEST, int(MAX_SCALE / 2 / scale)))
    return context.calibrated(mechanism.model_copy(update={"indicator": indicator}))


KIND = Kind(HistogramLaplace, HistogramLaplaceSpecification, build, predict, read, no_warnings, own_units=True)
