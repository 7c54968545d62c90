"""Planning `osnap_published`: the published noise on the same sketch; refused where it does not keep the promise."""

import math
from decimal import ROUND_FLOOR, Context, Decimal

from lintra_analysis.kinds.clip_count import calibrated_counting, clip_count_deviation
from lintra_analysis.kinds.plan_request import Question
from lintra_analysis.kinds.planned import KindPlan, Option, option_of, predict
from lintra_analysis.kinds.planning.osnap import sketch_error
from lintra_protocol.encoding.documents import real
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.osnap_published import OsnapPublished, row_bound_of

_TWELVE_DIGITS = Context(prec=12, rounding=ROUND_FLOOR)


def plan_published(question: Question) -> Option:
    """Calibrate the published sketch, entries clipped so that no row is longer than B, and predict its error."""
    claim, m = question.claim, question.sketch_rows
    root = Context(prec=40).sqrt(Decimal(question.columns))
    entry_bound = real(_TWELVE_DIGITS.divide(Decimal(question.row_bound), root))
    asked = OsnapPublished(
        entry_bound=entry_bound,
        row_bound=row_bound_of(entry_bound, question.columns),
        fraction_bits=0,
        sigma=MIN_SIGMA,
        rows=m,
        sparsity=question.sparsity,
    )
    mechanism = calibrated_counting(
        asked,
        claim,
        question.clip_count_weight,
        lambda one: one.calibrated(claim, question.columns, question.max_clients),
    )
    sigma = mechanism.sigma * 2.0**-mechanism.fraction_bits
    return option_of(
        question,
        mechanism,
        sigma=sigma,
        deviations={"entry": math.sqrt(claim.min_clients / m) * sigma}
        | clip_count_deviation(mechanism, claim.min_clients),
        leverage=mechanism.privacy(claim, question.columns, claim.min_clients).leverage,
        predicted=predict(question, sketch_error(question, m, sigma)),
    )


PLAN = KindPlan(plan_published, crowds=True)
