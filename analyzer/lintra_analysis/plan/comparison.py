"""Compares mechanisms for second moments: all products, a range finder and a sketch, planned side by side."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from lintra_analysis.kinds.coalition import default_delta
from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.options import MechanismSpecification
from lintra_analysis.kinds.planned import PlannedMechanism, planned_mechanism
from lintra_analysis.kinds.prediction import Prediction, predict_moments
from lintra_analysis.kinds.range_finder import COLUMNS_OF_A_RANGE
from lintra_analysis.kinds.wording import size
from lintra_analysis.plan.baselines import Baselines, baselines, best_rows, best_sketch_error
from lintra_analysis.plan.flags import PlanFlags
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import LintraError
from lintra_protocol.privacy.limits import Ceiling
from lintra_protocol.task_terms import MAX_WORDS


def predicted_of(planned: PlannedMechanism) -> Prediction:
    """Return what is predicted of the second moments; raise ValueError if the mechanism releases none."""
    if planned.predicted is None:
        raise ValueError(f"{planned.mechanism.kind} releases no second moments")
    return planned.predicted


@dataclass(frozen=True)
class Plan:
    """Everything that the answer to one set of flags is made of."""

    flags: PlanFlags
    context: CalibrationContext[MechanismSpecification]  #: that the sketch is built for
    sketch: PlannedMechanism
    products: PlannedMechanism | None  #: all second moments; None where there is no such task
    refusal: str  #: why there is none
    range_finder: PlannedMechanism | None  #: None for few columns, or where there is no such task
    best: Prediction  #: errors of a sketch with its best number of rows
    others: Baselines  #: noise by other calibrations

    @classmethod
    def of(cls, flags: PlanFlags) -> "Plan":
        """Plan two mechanisms, and from `COLUMNS_OF_A_RANGE` columns on the third."""
        words = flags.columns * (flags.columns + 1) // 2
        products, refusal = None, f"a report of {words} words exceeds {MAX_WORDS}"
        if words <= MAX_WORDS:
            products, refusal = _planned("second_moment", flags)
        range_finder = _planned("range_finder", flags)[0] if flags.columns >= COLUMNS_OF_A_RANGE else None
        context = flags.context("osnap")
        sketch = planned_mechanism("osnap", context)
        best = predict_moments(context, best_sketch_error(context, flags.sparsity))
        others = baselines(context, sketch.mechanism.num_rows, flags.sparsity)
        return cls(flags, context, sketch, products, refusal, range_finder, best, others)


def _planned(kind: str, flags: PlanFlags) -> tuple[PlannedMechanism | None, str]:
    """Return a mechanism, or why there is none: no such task, or a report that is too large."""
    try:
        return flags.planned(kind), ""
    except LintraError as error:
        return None, str(error)


def recommend(plan: Plan) -> tuple[str, str]:
    """Return the mechanism to take, and why.

    All products wherever they fit a report, unless a sketch errs less; else the range finder, whose noise in a
    direction is a small multiple of theirs; a sketch of the rows only where neither is possible.
    """
    sketch, products, finder = plan.sketch, plan.products, plan.range_finder
    if products is None:
        if finder is None:
            return "osnap", "Second moments are not possible with these numbers."
        least = finder.deviations["projected product"] * math.sqrt(plan.flags.columns) / plan.context.expected_trace
        return "range_finder", (
            f"All second moments are too many; it takes {size(finder.report_bytes['seeded'])} a report and sees "
            f"components with more than {100 * least:.2g} % of the rows' squared length."
        )
    sizes = f"{size(products.report_bytes['seeded'])} a report against {size(sketch.report_bytes['seeded'])}"
    ratio = predicted_of(sketch).squared_error / predicted_of(products).squared_error
    if ratio <= 1:
        return "osnap", f"Its expected squared error is {1 / ratio:.3g} times smaller."
    why = f"The expected squared error is {ratio:.3g} times smaller, for {sizes}."
    if finder is not None:
        more = finder.deviations["projected product"] / products.deviations["product"]
        why += (
            f" A range finder would take {size(finder.report_bytes['seeded'])}; a direction has {more:.2g} times the "
            "noise there."
        )
    return "second_moment", why


def notes(plan: Plan) -> Iterator[str]:
    """Yield what a person should know before asking anybody for data."""
    claim, best = plan.context.claim, best_rows(plan.context)
    n, d, m = claim.min_clients, plan.flags.columns, plan.sketch.mechanism.num_rows
    if plan.others.published is None:
        yield f"the published calibration has no value here: {plan.others.undefined}"
    elif (plan.others.published_epsilon or math.inf) > float(fraction(claim.epsilon)):
        yield "the published calibration does not keep this promise"
    if plan.refusal:
        yield f"second moments are not possible here: {plan.refusal}"
    if best < 4 * d:
        yield f"a sketch says little here: its best number of rows is {best:.3g}, below 4 d = {4 * d}"
    if n < 30 * m:
        yield f"fewer than 30 clients a row ({n / m:.3g}): one client more or less costs noise; take fewer rows"
    judge = Ceiling()
    if fraction(claim.delta) > judge.max_delta or fraction(claim.delta_coalition) >= judge.delta_for(claim):
        yield f"delta {claim.delta} is more than most servers and clients accept; {default_delta(n)} is usual"
    if plan.flags.sparsity > 1:
        yield "sparsity above 1 costs smoothing noise of every server, and does not make the sketch more accurate"
