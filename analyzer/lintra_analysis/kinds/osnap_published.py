"""`osnap_published`: the sketch with the published noise; refused where it does not keep the promise."""

from functools import partial
from typing import ClassVar, Literal

from pydantic import Field

from lintra_analysis.kinds.clip_count import calibrated_counting
from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.kind import Kind, no_warnings
from lintra_analysis.kinds.options import MechanismSpecification, Number
from lintra_analysis.kinds.osnap import MAX_ROWS, default_rows
from lintra_analysis.kinds.prediction import Expected
from lintra_analysis.kinds.sketches import band_of_signed_rows, predict_sketch, read_sketch, rows_of_a_report
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA
from lintra_protocol.mechanisms.osnap_published import OsnapPublished, row_bound_of


class OsnapPublishedSpecification(MechanismSpecification):
    """The sketch with the published noise, for comparison: s noisy copies, entries clipped to +-`entry_bound`.

    `published_epsilon` is what equation (4) is asked for: the claim's epsilon if not given. Where that gives less
    privacy than claimed, the task is refused. `row_bound` follows from `entry_bound` and is left out. A clip counter
    cannot raise the published noise: without a weight there is one where the claim is kept with it.
    """

    kind: Literal["osnap_published"]
    rows: int | None = Field(default=None, ge=2, le=MAX_ROWS, strict=True)
    sparsity: int = Field(default=1, ge=1, le=64, strict=True)
    entry_bound: Number
    published_epsilon: Number | None = None
    is_sketch: ClassVar[bool] = True
    takes_norm: ClassVar[bool] = False


def build(context: CalibrationContext[OsnapPublishedSpecification]) -> Measurement:
    """Return the sketch as it was published.

    Raises InvalidTaskError if a row bound was asked for, or a number is not positive.
    """
    options, claim = context.options, context.claim
    if context.row_bound is not None:
        raise InvalidTaskError("row_bound: it follows from entry_bound and the number of columns; leave it out")
    for name, value in (("entry_bound", options.entry_bound), ("published_epsilon", options.published_epsilon)):
        if value is not None and fraction(value) <= 0:
            raise InvalidTaskError(f"mechanism.{name}: must be positive, got {value}")
    mechanism = OsnapPublished(
        row_bound=row_bound_of(options.entry_bound, context.num_columns()),
        fraction_bits=0,
        sigma=MIN_SIGMA,
        rows=options.rows or default_rows(claim, context.num_columns(), sparsity=options.sparsity),
        sparsity=options.sparsity,
        entry_bound=options.entry_bound,
        published_epsilon=options.published_epsilon or claim.epsilon,
    )
    weight = options.clip_count_weight
    return calibrated_counting(mechanism, claim, weight, context.calibrated)


def predict(context: CalibrationContext[OsnapPublishedSpecification], mechanism: OsnapPublished) -> Expected:
    """Predict the error of an entry and of the Gram matrix."""
    statement = context.measured(mechanism).privacy(context.claim.min_clients)
    return predict_sketch(context, mechanism, statement.leverage)


KIND = Kind(
    OsnapPublished,
    OsnapPublishedSpecification,
    build,
    predict,
    partial(read_sketch, shrunk_only=False),
    no_warnings,
    rows_of_a_report=rows_of_a_report,
    band=band_of_signed_rows,
)
