"""`osnap`: a sketch of the rows, how many rows it should have, and when it says too little."""

from typing import ClassVar, Literal

from pydantic import Field

from lintra_analysis.kinds.coalition import calibrated_sketch, most_rows
from lintra_analysis.kinds.context import MAX_SKETCH_WORDS, CalibrationContext, require_size
from lintra_analysis.kinds.kind import Kind, row_bound_warnings
from lintra_analysis.kinds.options import MechanismSpecification
from lintra_analysis.kinds.prediction import Expected
from lintra_analysis.kinds.sketches import band_of_signed_rows, predict_sketch, read_sketch, rows_of_a_report
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import RowUnderfilledError
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.osnap import Osnap
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task

MAX_ROWS = 2**20


class OsnapSpecification(MechanismSpecification):
    """A sketch of the rows; without `rows` their number follows from the claim (see `default_rows`).

    With `sparsity` above 1 a report enters as many rows. That tolerates larger coalitions, not more noise.
    """

    kind: Literal["osnap"]
    rows: int | None = Field(default=None, ge=2, le=MAX_ROWS, strict=True)
    sparsity: int = Field(default=1, ge=1, le=64, strict=True)
    is_sketch: ClassVar[bool] = True
    takes_proofs: ClassVar[bool] = True
    takes_server_noise: ClassVar[bool] = True
    takes_floor: ClassVar[bool] = True


def build(context: CalibrationContext[OsnapSpecification]) -> Measurement:
    """Return the sketch with as many rows as were asked for, or as the claim supports.

    Raises RowUnderfilledError if it has more rows than the smallest cohort has clients.
    """
    options, claim, num_columns = context.options, context.claim, context.num_columns()
    fields = context.uncalibrated("osnap")
    rows = options.rows or default_rows(claim, num_columns, context.noising_servers, options.sparsity)
    if claim.min_clients < rows:
        raise RowUnderfilledError(f"{rows} rows need at least as many clients, min_clients is {claim.min_clients}")
    plain = Osnap.model_validate({**fields, "rows": rows, "sparsity": options.sparsity})
    measured = context.measured(context.rounded(context.counting(plain)))
    require_size(measured)
    return calibrated_sketch(measured, context.max_clients)


def default_rows(claim: Claim, num_columns: int, noising_servers: int = 0, sparsity: int = 1) -> int:
    """Return how many rows a sketch should have at the minimum cohort.

    m = n r^2 mu^2 / (Delta^2 d), where sketching error and noise balance (docs/reference/analyzer-tasks.md), with r
    taken as the row bound, hence r / Delta = 1/2 where a row is replaced and 1 where it becomes the null row. Rows are
    then kept from 3 d and `sparsity` up, and before that few enough that `CLIENTS_PER_ROW` honest clients stand behind
    each. The sketch, with a column for the clip counter, stays within `MAX_SKETCH_WORDS`. Where each of N servers adds
    as much noise as is needed, m* is an N-th of that, and no coalition of clients counts.
    """
    wanted = max(round(balanced_rows(claim, num_columns, noising_servers)), 3 * num_columns, sparsity)
    return max(2, min(wanted, most_rows(claim, noising_servers), MAX_ROWS, MAX_SKETCH_WORDS // (num_columns + 1)))


def balanced_rows(claim: Claim, num_columns: int, noising_servers: int = 0) -> float:
    """Return m* of `default_rows`, before it is clamped; below 4 d a sketch says little."""
    mu = gaussian_mu(claim.float_epsilon, claim.noise_delta)
    ratio = 4 if claim.neighbours == "replace-one" else 1
    return claim.min_clients * mu**2 / (ratio * num_columns * max(noising_servers, 1))


def predict(context: CalibrationContext[OsnapSpecification], mechanism: Osnap) -> Expected:
    """Predict the error of an entry and of the Gram matrix."""
    sparsity, leverage = mechanism.sparsity, None
    if sparsity > 1:
        # Noised by a server, a row is hidden s times over by one draw in each of its rows.
        leverage = float(fraction(mechanism.leverage)) if mechanism.shares_noise(context.setting) else float(sparsity)
    return predict_sketch(context, mechanism, leverage)


def _warnings(task: Task, mechanism: Osnap) -> list[str]:
    found, rows, columns = (
        row_bound_warnings(task, mechanism),
        balanced_rows(task.claim, task.num_columns, task.setting.noising_servers),
        task.num_columns,
    )
    if rows < 4 * columns:
        found.insert(
            0,
            f"sketch uninformative: {task.claim.min_clients} clients support {rows:.0f} rows at this epsilon, less "
            f"than 4 x {columns} columns; ask for second_moment instead",
        )
    return found


KIND = Kind(
    Osnap,
    OsnapSpecification,
    build,
    predict,
    read_sketch,
    _warnings,
    rows_of_a_report=rows_of_a_report,
    band=band_of_signed_rows,
)
