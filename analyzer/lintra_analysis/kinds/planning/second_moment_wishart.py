"""Planning `second_moment_wishart`: as `second_moment`, with the noise that random examples make."""

import math

from lintra_analysis.kinds.clip_count import clip_count_deviation, with_clip_count
from lintra_analysis.kinds.plan_request import Question
from lintra_analysis.kinds.planned import KindPlan, Option, option_of, predict
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.second_moment_wishart import WishartSecondMoment


def plan_wishart(question: Question) -> Option:
    """Calibrate the sum of products with one random example of every client, and predict its error."""
    claim, d = question.claim, question.columns
    plain = WishartSecondMoment(row_bound=question.row_bound, fraction_bits=0, sigma=MIN_SIGMA)
    asked = with_clip_count(plain, claim.neighbours, question.clip_count_weight)
    mechanism = asked.calibrated(claim, d, question.max_clients)
    step = 4.0**-mechanism.fraction_bits
    variance = claim.min_clients * (mechanism.variance**2 + mechanism.rounding**2) * step**2
    return option_of(
        question,
        mechanism,
        sigma=mechanism.sigma * step,
        deviations={"product": math.sqrt(variance), "square": math.sqrt(2 * variance)}
        | clip_count_deviation(mechanism, claim.min_clients),
        predicted=predict(question, variance * d * (d + 1)),
    )


PLAN = KindPlan(plan_wishart)
