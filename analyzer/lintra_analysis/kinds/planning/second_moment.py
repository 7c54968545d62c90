"""Planning `second_moment`, with its intercept and its trace."""

import math

from lintra_analysis.kinds.clip_count import clip_count_deviation, row_count_deviation, with_clip_count
from lintra_analysis.kinds.plan_request import Question
from lintra_analysis.kinds.planned import KindPlan, Option, option_of, predict
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.second_moment import SecondMoment


def plan_second_moment(question: Question) -> Option:
    """Calibrate the sum of the rows' products and predict its error.

    With a trace the diagonal's deviation falls by sqrt(d / (d + 1)); with an intercept, whose size the promise pays
    for, means are released as well. The prediction is that of the products of the columns.
    """
    claim, d = question.claim, question.columns
    plain = SecondMoment(
        row_bound=question.row_bound,
        fraction_bits=0,
        sigma=MIN_SIGMA,
        intercept=question.intercept,
        trace=question.trace,
        count=question.count,
    )
    asked = with_clip_count(plain, claim.neighbours, question.clip_count_weight)
    mechanism = asked.noised_by(question.noising_servers).calibrated(claim, d, question.max_clients)
    sigma = mechanism.sigma * 4.0**-mechanism.fraction_bits
    variance = mechanism.draws(claim.min_clients) * sigma**2
    # Least squares over d noisy squares and their noisy sum: each keeps d / (d + 1) of its variance.
    square = 2 * variance * (d / (d + 1) if mechanism.trace else 1)
    deviations = {"product": math.sqrt(variance), "square": math.sqrt(square)}
    if mechanism.intercept_steps:
        constant = mechanism.intercept_steps * 2.0**-mechanism.fraction_bits
        deviations["sum"] = math.sqrt(variance) / constant
        deviations["mean"] = deviations["sum"] / claim.min_clients
    deviations |= row_count_deviation(mechanism, claim.min_clients, math.sqrt(2))
    deviations |= clip_count_deviation(mechanism, claim.min_clients)
    error = variance * d * (d - 1) + square * d
    return option_of(question, mechanism, sigma=sigma, deviations=deviations, predicted=predict(question, error))


PLAN = KindPlan(plan_second_moment, by_servers=True)
