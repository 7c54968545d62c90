"""`second_moment`: the sum of the rows' products, of all columns or along the directions of a first round."""

import math
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from lintra_analysis.kinds.clip_count import clip_count_deviation, row_count_deviation
from lintra_analysis.kinds.context import CalibrationContext, FirstRound
from lintra_analysis.kinds.kind import Kind, row_bound_warnings
from lintra_analysis.kinds.options import Count, MechanismSpecification, Number
from lintra_analysis.kinds.plausibility import of_second_moment
from lintra_analysis.kinds.prediction import Expected, predict_moments
from lintra_analysis.kinds.released_parts import (
    Earlier,
    clipped_rows,
    counted_rows,
    norm_of_rows,
    number_of_rows,
    scaled_columns,
)
from lintra_analysis.kinds.two_rounds import claim_of_part
from lintra_analysis.releases.columns import INTERCEPT, ScaledColumn
from lintra_analysis.releases.directions import Directions
from lintra_analysis.releases.range_sums import RangeSums
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_analysis.releases.weighted_rows import WeightedRows
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import fraction, real, real_below
from lintra_protocol.errors import InvalidAnalysisError, InvalidTaskError
from lintra_protocol.fields.schema import Schema
from lintra_protocol.mechanisms.directions import BASIS_BITS, directions, encode_basis
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA
from lintra_protocol.mechanisms.row_weights import RowWeights, WeightedBy
from lintra_protocol.mechanisms.second_moment import SecondMoment
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task


class SecondMomentSpecification(MechanismSpecification):
    """The sum of the rows' outer products.

    A positive `intercept` puts this constant, in normalised units, before every row: the release then holds means.
    `trace` makes the trace less noisy, at no cost; only where a row is replaced. With `count` noisy, which is usual
    where a column may be missing, rows in which a number is missing are left out; that takes an intercept, half of the
    row bound if none is given.

    `row_weights` shrinks a row together with its constant and target, so that a row that is far out counts less:
    "features" says that its features alone decide, and takes a `target`, an encoded column's name, and `target_bound`,
    Y, to which the normalised target is moved; "all" says that the target decides too, which is multiplied by
    `target_factor`. `row_bound` is that of the constant, the features and the target together. `features_basis` turns
    the features first: a matrix T in rows of decimals, and T z stands for the features z. `turned` leaves that matrix
    open: `lintra plan --propose` takes it from a public sample.
    """

    kind: Literal["second_moment"]
    intercept: Number = "0"
    trace: bool = Field(default=False, strict=True)
    count: Count | None = None
    row_weights: WeightedBy | None = None
    target: str | None = None
    target_bound: Number = "0"
    target_factor: Number = "1"
    features_basis: tuple[tuple[Number, ...], ...] | None = None
    turned: bool = Field(default=False, strict=True)
    takes_missing: ClassVar[bool] = True
    takes_contributors: ClassVar[bool] = True
    takes_proofs: ClassVar[bool] = True
    takes_server_noise: ClassVar[bool] = True
    takes_floor: ClassVar[bool] = True


def build(context: CalibrationContext[SecondMomentSpecification]) -> Measurement:
    """Return the sum of products with the given row bound and options, or the second round of a range finder."""
    if context.first is not None:
        return context.measurement(_along_directions(context.first, context.claim), claim_of_part(context.claim, 0.5))
    given, intercept = context.uncalibrated("second_moment"), context.options.intercept
    count, who = context.count(context.options.count), context.contributors
    counts = count == "noisy" or (who is not None and who.count == "noisy") or context.options.row_weights is not None
    if counts and fraction(intercept) == 0 and context.row_bound is not None:
        intercept = real_below(fraction(context.row_bound) / 2)
    options = {"intercept": intercept, "trace": context.options.trace, "count": count} | _weights(context)
    return context.measurement(SecondMoment.model_validate(given | options))


def _weights(context: CalibrationContext[SecondMomentSpecification]) -> dict[str, object]:
    """Return the fields of row weights, the target as the number of its column."""
    options = context.options
    if options.turned and options.features_basis is None:
        raise InvalidTaskError("mechanism.turned: `lintra plan --propose --public-sample` writes its features_basis")
    target = None
    if options.target is not None:
        names = [column.name for column in Schema(tuple(context.columns), indicators=True).encoded]
        if options.target not in names:
            raise InvalidTaskError(f"mechanism.target: {options.target!r} is none of {', '.join(names)}")
        target = names.index(options.target)
    fields: dict[str, object] = {
        "row_weights": options.row_weights,
        "target": target,
        "target_bound": options.target_bound,
        "target_factor": options.target_factor,
        "features_basis": options.features_basis,
    }
    return fields if options.row_weights is None else fields | {"rounding": "dithered"}


def _along_directions(first: FirstRound, total: Claim) -> SecondMoment:
    """Return products along all directions of a range finder, and its targets.

    All r left singular vectors are taken and not only those above the noise: what the others hold is not noise alone
    (docs/reference/mechanisms/range_finder.md#second-round). The norm is that of the first round: no row is longer
    along orthonormal directions.
    """
    mechanism, bound = first.mechanism, first.row_bound
    if first.release is None or mechanism.kind != "range_finder":
        raise InvalidTaskError(f"a second_moment follows a released range_finder, not {mechanism.kind}")
    if bound is not None and bound <= 0:
        raise InvalidTaskError(f"row_bound: must be positive, got {bound}")
    try:
        sums = first.release.need("range_sums")
    except InvalidAnalysisError as error:
        raise InvalidTaskError(error.detail) from None
    return SecondMoment(
        row_bound=mechanism.row_bound if bound is None else real(f"{float(bound):.15g}"),
        fraction_bits=0,
        sigma=MIN_SIGMA,
        intercept=mechanism.intercept,
        trace=total.neighbours == "replace-one",
        basis=encode_basis(direction_steps(sums)),
        after=first.task_id,
        targets=tuple(target.column for target in mechanism.targets),
    )


def direction_steps(release: RangeSums) -> IntArray:
    """Return orthonormal directions in steps of 2^-14, shape `(d, r)`, from the products about the means, if known.

    Targets have no part in them: a regression on directions would else explain a target by itself.
    """
    values = release.about_means()[0] if release.sums is not None else release.values
    vectors = np.linalg.svd(values, full_matrices=False)[0]
    vectors[[target.column for target in release.targets]] = 0.0
    steps: IntArray = np.rint(np.linalg.qr(vectors)[0] * 2**BASIS_BITS).astype(np.int64)
    return steps


def predict(context: CalibrationContext[SecondMomentSpecification], mechanism: SecondMoment) -> Expected:
    """Predict the error of the sum of the rows' products.

    With a trace the diagonal's deviation falls by sqrt(d / (d + 1)); with an intercept, whose size the promise pays
    for, means are released as well. The prediction is that of the products of the columns.
    """
    clients, d = context.claim.min_clients, context.num_columns()
    layout = context.measured(mechanism).layout
    sigma = mechanism.sigma * 4.0**-mechanism.fraction_bits
    variance = layout.product_deviations("products", context.setting.draws(clients))[0] ** 2
    # Least squares over k noisy squares and their noisy sum: each keeps k / (k + 1) of its variance.
    factors = mechanism.num_factors(d)
    square = 2 * variance * (factors / (factors + 1) if mechanism.trace else 1)
    deviations = {"product": math.sqrt(variance), "square": math.sqrt(square)}
    if mechanism.intercept_steps:
        constant = mechanism.intercept_steps * 2.0**-mechanism.fraction_bits
        deviations["sum"] = math.sqrt(variance) / constant
        deviations["mean"] = deviations["sum"] / clients
    deviations |= row_count_deviation(context.measured(mechanism), clients)
    deviations |= clip_count_deviation(context.measured(mechanism), clients)
    return Expected(sigma, deviations, predict_moments(context, variance * d * (d - 1) + square * d))


def read(task: Task, mechanism: SecondMoment, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    """Return the sum of products from a sketch of shape `(1, w)`; an intercept becomes its first column, always 1."""
    del earlier
    columns, num_reports = scaled_columns(task), int(row_counts.sum())
    num_rows, counted = number_of_rows(task, sketch, row_counts), counted_rows(task, sketch, row_counts)
    values = task.measurement.decode(sketch)
    row_bound, exact, straightening = norm_of_rows(task), "", None
    along = _directions(mechanism, columns)
    if along is not None:
        names = [ScaledColumn(name, 0.0, 1.0, -row_bound, row_bound) for name in along.names]
        columns = (*names, *(columns[place] for place in mechanism.targets))
    trace_columns = len(columns) if mechanism.trace else 0
    # Products are counted in squared steps. The diagonal's noise is sqrt(2) times this, rounded up to an integer.
    noise_sd = task.measurement.layout.product_deviations("products", task.setting.draws(num_reports))[0]
    weighted = None
    if mechanism.row_weights is not None:
        constant = float(fraction(mechanism.intercept))
        weights, trace_columns = mechanism.weights(len(columns)), (len(columns) + 1) * mechanism.trace
        rows = num_rows if counted is None else counted.rows
        weighted = _weighted_rows(weights, columns, float(values[0, 0]) / rows, noise_sd / rows)
        straightening = weights.straightening(len(columns))
        if straightening is not None:
            values = straightening.T @ values @ straightening
            values = (values + values.T) / 2
        if weights.target is not None:
            scaled = replace(columns[weights.target], scale=columns[weights.target].scale / weights.target_factor)
            columns = (*columns[: weights.target], scaled, *columns[weights.target + 1 :])
        columns = (ScaledColumn(INTERCEPT, 0.0, 1 / constant, 1.0, 1.0), *columns)
    elif mechanism.intercept_steps:
        constant = mechanism.intercept_steps * 2.0**-mechanism.fraction_bits
        row_bound = math.hypot(row_bound, constant)
        if "count" not in task.measurement.layout:
            values[0, 0], exact = mechanism.intercept_square(num_rows), INTERCEPT
        columns = (ScaledColumn(INTERCEPT, 0.0, 1 / constant, 1.0, 1.0), *columns)
    moments = SecondMomentSum(
        columns=columns,
        values=values,
        noise_sd=noise_sd,
        num_clients=num_rows,
        row_bound=row_bound,
        trace_columns=trace_columns,
        exact=exact,
        clipped=clipped_rows(task, sketch, row_counts, shrunk_only=mechanism.row_weights is None),
        counted=counted,
        weighted=weighted,
        straightening=straightening,
    )
    return Release(moments=moments, directions=along)


def _weighted_rows(
    weights: RowWeights, columns: tuple[ScaledColumn, ...], square: float, noise_sd: float
) -> WeightedRows:
    """Return what the constant's product with itself says of the weights, divided by the number of rows.

    `square` is that product and `noise_sd` the deviation of one off the diagonal, both in squared normalised units.
    """
    lower, upper, name = -math.inf, math.inf, ""
    if weights.target is not None:
        target = columns[weights.target]
        name, reach = target.name, weights.target_bound * target.scale
        lower, upper = target.center - reach, target.center + reach
    unit = weights.constant**2
    deviation = math.sqrt(2) * noise_sd / unit
    return WeightedRows(weights.by, name, lower, upper, square / unit, deviation, weights.basis)


def _directions(mechanism: SecondMoment, columns: tuple[ScaledColumn, ...]) -> Directions | None:
    """Return what the products of a second round are about; None for products of columns."""
    if mechanism.basis is None:
        return None
    basis = directions(mechanism.basis, len(columns)).astype(np.float64) * 2.0**-BASIS_BITS
    return Directions(columns, basis, tuple(f"(direction {i})" for i in range(1, basis.shape[1] + 1)))


def _warnings(task: Task, mechanism: SecondMoment) -> list[str]:
    """Warn of a bound that no row can reach; with row weights it is that of the constant and the target, too."""
    return row_bound_warnings(task, mechanism) if mechanism.row_weights is None else []


KIND = Kind(
    SecondMoment,
    SecondMomentSpecification,
    build,
    predict,
    read,
    _warnings,
    follows="range_finder",
    totals=of_second_moment,
)
