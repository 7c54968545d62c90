"""Which mechanism to take for second moments: all products, a range finder or a sketch, planned side by side."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from lintra_analysis.kinds.coalition import default_delta
from lintra_analysis.kinds.plan_request import Question
from lintra_analysis.kinds.planned import Option, Prediction, plan_option, predict
from lintra_analysis.kinds.planning.osnap import Yardsticks, best_sketch_error, plan_sketch, yardsticks
from lintra_analysis.kinds.wording import size
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError, LintraError
from lintra_protocol.privacy.limits import Ceiling
from lintra_protocol.task_terms import MAX_WORDS

COLUMNS_OF_A_RANGE = 500
"""From here on a range finder is planned beside all products, whose reports take more than a megabyte."""


def predicted_of(option: Option) -> Prediction:
    """Return what is predicted of the second moments.

    Raises:
        ValueError: the mechanism releases none.
    """
    if option.predicted is None:
        raise ValueError(f"{option.mechanism.kind} releases no second moments")
    return option.predicted


@dataclass(frozen=True)
class Plan:
    """Everything that one question's answer is made of.

    Attributes:
        products: all second moments; None where there is no such task.
        refusal: why there is none.
        range_finder: None for few columns, or where there is no such task.
        best: errors of a sketch with its best number of rows.
        others: noise by other calibrations.
    """

    question: Question
    sketch: Option
    products: Option | None
    refusal: str
    range_finder: Option | None
    best: Prediction
    others: Yardsticks

    @classmethod
    def of(cls, question: Question) -> "Plan":
        """Plan two mechanisms, and from `COLUMNS_OF_A_RANGE` columns on the third."""
        words = question.columns * (question.columns + 1) // 2
        products, refusal = None, f"a report of {words} words exceeds {MAX_WORDS}"
        if words <= MAX_WORDS:
            products, refusal = _planned("second_moment", question)
        wide = question.columns >= COLUMNS_OF_A_RANGE
        range_finder = _planned("range_finder", question)[0] if wide else None
        best = predict(question, best_sketch_error(question))
        return cls(question, plan_sketch(question), products, refusal, range_finder, best, yardsticks(question))


def _planned(kind: str, question: Question) -> tuple[Option | None, str]:
    """Return an option, or why there is none: no such task, or a report that is too large."""
    try:
        option = plan_option(kind, question)
        words = option.mechanism.num_words(question.columns)
        if words > MAX_WORDS:
            raise InvalidTaskError(f"a report of {words} words exceeds {MAX_WORDS}")
    except LintraError as error:
        return None, str(error)
    return option, ""


def recommend(plan: Plan) -> tuple[str, str]:
    """Return the mechanism to take, and why.

    All products wherever they fit a report, unless a sketch errs less; else the range finder, whose noise in a
    direction is a small multiple of theirs; a sketch of the rows only where neither is possible.
    """
    sketch, products, finder = plan.sketch, plan.products, plan.range_finder
    if products is None:
        if finder is None:
            return "osnap", "Second moments are not possible with these numbers."
        least = finder.deviations["projected product"] * math.sqrt(plan.question.columns) / plan.question.expected_trace
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
    question = plan.question
    n, d, m = question.claim.min_clients, question.columns, question.sketch_rows
    if plan.others.published is None:
        yield f"the published calibration has no value here: {plan.others.undefined}"
    elif (plan.others.published_epsilon or math.inf) > float(fraction(question.claim.epsilon)):
        yield "the published calibration does not keep this promise"
    if plan.refusal:
        yield f"second moments are not possible here: {plan.refusal}"
    if question.best_rows < 4 * d:
        yield f"a sketch says little here: its best number of rows is {question.best_rows:.3g}, below 4 d = {4 * d}"
    if n < 30 * m:
        yield f"fewer than 30 clients a row ({n / m:.3g}): one client more or less costs noise; take fewer rows"
    claim, judge = question.claim, Ceiling()
    if fraction(claim.delta) > judge.max_delta or fraction(claim.delta_coalition) >= judge.delta_for(claim):
        yield f"delta {claim.delta} is more than most servers and clients accept; {default_delta(n)} is usual"
    if question.sparsity > 1:
        yield "sparsity above 1 costs smoothing noise of every server, and does not make the sketch more accurate"
