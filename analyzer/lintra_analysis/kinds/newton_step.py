"""`newton_step`: gradient and Hessian of a logistic regression at a public parameter, and the round after a round."""

import math
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from lintra_analysis.estimators.newton import LEAST_ROUNDS, next_parameter
from lintra_analysis.kinds.clip_count import clip_count_deviation, row_count_deviation
from lintra_analysis.kinds.context import CalibrationContext, FirstRound
from lintra_analysis.kinds.kind import Kind, no_warnings
from lintra_analysis.kinds.options import MechanismSpecification, Number
from lintra_analysis.kinds.plausibility import DEVIATIONS, of_count
from lintra_analysis.kinds.prediction import Expected
from lintra_analysis.kinds.released_parts import Earlier, clipped_rows, counted_rows, number_of_rows, scaled_columns
from lintra_analysis.kinds.two_rounds import claim_of_part, mu_of_rounds
from lintra_analysis.releases.columns import INTERCEPT, ScaledColumn
from lintra_analysis.releases.newton_sums import NewtonSums
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Real, fraction, real, real_below
from lintra_protocol.errors import InvalidAnalysisError, InvalidTaskError
from lintra_protocol.fields.schema import Schema
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.newton_step import MAX_PARAMETER, MAX_ROUNDS, START_DISTANCE, STEP_DISTANCE, NewtonStep
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task

_SPARE = 1 - 1e-6
"""Of mu of a chain: what rounding one round's claim may take from another's part."""

_DIGITS = 15

MANY_ROUNDS_FROM = 1000.0
"""n mu^2 above which five rounds are reserved."""


class NewtonStepSpecification(MechanismSpecification):
    """A logistic regression in rounds: each is a task, and its release gives the next one's parameter.

    `target` is an encoded column's name, the last column if not given; a number counts as 1 above its centre.
    `rounds` says how many rounds the same people answer at most: the promise is of all together. With one round the
    promise is of each task, as where every window has people of its own. `intercept` is the model's constant, half of
    the row bound if not given.
    """

    kind: Literal["newton_step"]
    family: Literal["logistic"] = "logistic"
    target: str | None = None
    intercept: Number = "0"
    rounds: int = Field(default=1, ge=1, le=5, strict=True)
    takes_missing: ClassVar[bool] = True
    takes_contributors: ClassVar[bool] = True
    takes_proofs: ClassVar[bool] = True
    takes_server_noise: ClassVar[bool] = True
    takes_floor: ClassVar[bool] = True

    @property
    def num_rounds(self) -> int:
        """Return K."""
        return self.rounds


def build(context: CalibrationContext[NewtonStepSpecification]) -> Measurement:
    """Return the first round, at the parameter 0, or the round after one that was released."""
    options, first = context.options, context.first
    names = [column.name for column in Schema(tuple(context.columns), indicators=True).encoded]
    if first is None:
        mechanism = NewtonStep.model_validate(
            context.uncalibrated("newton_step") | _fields(context, names) | {"parameter": ("0",) * len(names)}
        )
        return context.measurement(mechanism, claim_of_round(context.claim, options.rounds, is_start=True))
    number, rounds = first.mechanism.round_number, first.mechanism.rounds
    if 1 < rounds <= number:
        raise InvalidTaskError(f"this was round {number} of {rounds}, the last that its people were asked for")
    mechanism = first.mechanism.model_copy(
        update={
            "parameter": _parameter_after(first),
            "after": first.task_id,
            "round_number": min(number + 1, rounds),
        }
    )
    claim = claim_of_round(context.claim, mechanism.rounds, is_start=False)
    return context.calibrated(mechanism, claim)


def _fields(context: CalibrationContext[NewtonStepSpecification], names: list[str]) -> dict[str, object]:
    options, bound = context.options, context.row_bound
    target = names[-1] if options.target is None else options.target
    if target not in names:
        raise InvalidTaskError(f"mechanism.target: {target!r} is none of {', '.join(names)}")
    intercept = options.intercept
    if fraction(intercept) == 0 and bound is not None:
        intercept = real_below(fraction(bound) / 2)
    rows = context.max_clients * context.setting.rows_per_report
    return {
        "target": names.index(target),
        "intercept": intercept,
        "residual_bits": residual_bits(rows, mu_of_rounds(context.claim)),
        "neighbours": "replace-one" if context.claim.neighbours == "replace-one" else "zero-out",
        "rounds": options.rounds,
    }


def residual_bits(rows: int, mu: float) -> int:
    """Return h: the smallest of 8 to 12 with n mu^2 <= .16 4^h, so that roundings add at most 1 % to a deviation."""
    return next((h for h in range(8, 12) if rows * mu**2 <= 0.16 * 4**h), 12)


def usual_rounds(rows: int, mu: float) -> int:
    """Return K, how many rounds are reserved for the same people: five where n mu^2 exceeds 1000, else three."""
    return MAX_ROUNDS if rows * mu**2 > MANY_ROUNDS_FROM else LEAST_ROUNDS


def claim_of_round(total: Claim, rounds: int, *, is_start: bool) -> Claim:
    """Return what one of so many rounds promises, so that all have the same noise and together keep the total.

    mu^2 is shared as the squared distances: 1.5625 for the first round and 4 for each later one. A chain of one round
    promises the whole, whatever its parameter is.
    """
    if rounds == 1:
        return total
    own = START_DISTANCE if is_start else STEP_DISTANCE
    share = own / (START_DISTANCE + (rounds - 1) * STEP_DISTANCE)
    return claim_of_part(total, float(share), spare=_SPARE)


def _parameter_after(first: FirstRound) -> tuple[Real, ...]:
    """Return the parameter that the release of a round gives for the next one."""
    if first.release is None:
        raise InvalidTaskError("a newton_step follows a released newton_step; release it first")
    try:
        sums = first.release.need("newton")
    except InvalidAnalysisError as error:
        raise InvalidTaskError(error.detail) from None
    return spelled(next_parameter(sums))


def spelled(parameter: FloatArray) -> tuple[Real, ...]:
    """Return a parameter, shape `(p,)`, as a task has it: at most 10^6 in absolute value, in fifteen digits."""
    inside = np.clip(parameter, -MAX_PARAMETER, MAX_PARAMETER)
    return tuple(real(f"{number:.{_DIGITS}f}") for number in inside.tolist())


def predict(context: CalibrationContext[NewtonStepSpecification], mechanism: NewtonStep) -> Expected:
    """Predict the error of the gradient and of the Hessian, in normalised units."""
    clients, layout = context.claim.min_clients, context.measured(mechanism).layout
    draws = context.setting.draws(clients)
    deviations = {
        "gradient": float(layout.deviation("gradient", draws)),
        "hessian": layout.product_deviations("hessian", draws)[0],
    }
    deviations |= row_count_deviation(context.measured(mechanism), clients)
    deviations |= clip_count_deviation(context.measured(mechanism), clients)
    return Expected(float(layout.own_deviation("gradient")), deviations)


def read(task: Task, mechanism: NewtonStep, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    """Return gradient and Hessian from a sketch of shape `(1, w)`, with the rounds before that are at hand."""
    before = None if mechanism.after is None else earlier(mechanism.after)
    columns, draws = list(scaled_columns(task)), task.setting.draws(int(row_counts.sum()))
    target, layout = columns.pop(mechanism.target), task.measurement.layout
    constant = mechanism.intercept_steps * 2.0**-mechanism.fraction_bits
    decoded = task.measurement.decode(sketch)
    sums = NewtonSums(
        columns=(ScaledColumn(INTERCEPT, 0.0, 1 / constant, 1.0, 1.0), *columns),
        target=target,
        parameter=np.array([float(number) for number in mechanism.parameter]),
        gradient=decoded[0],
        hessian=decoded[1:],
        gradient_sd=float(layout.deviation("gradient", draws)),
        hessian_sd=layout.product_deviations("hessian", draws)[0],
        num_clients=number_of_rows(task, sketch, row_counts),
        row_bound=float(fraction(mechanism.row_bound)),
        constant=constant,
        rounds=mechanism.rounds,
        persons=task.setting.rows_per_person > 1,
        clipped=clipped_rows(task, sketch, row_counts, shrunk_only=False),
        counted=counted_rows(task, sketch, row_counts),
        before=None if before is None else before.newton,
    )
    return Release(newton=sums)


def _impossible(task: Task, mechanism: NewtonStep, sketch: IntArray, row_counts: IntArray) -> list[str]:
    """Return what is impossible about sums of organisations, shape `(1, w)`, in words."""
    found, draws = of_count(task, sketch, row_counts), task.setting.draws(int(row_counts.sum()))
    noise = task.measurement.layout.product_deviations("hessian", draws)[0]
    least = float(np.linalg.eigvalsh(task.measurement.decode(sketch)[1:])[0])
    if least < -(2 * math.sqrt(task.num_columns) + DEVIATIONS) * noise:
        found.append(f"the Hessian's least eigenvalue, {least:.3g}, is further below 0 than noise carries it")
    return found


KIND = Kind(
    NewtonStep,
    NewtonStepSpecification,
    build,
    predict,
    read,
    no_warnings,
    chains=True,
    totals=_impossible,
)
