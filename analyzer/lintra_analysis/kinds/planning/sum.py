"""Planning `sum`: the error of a sum and of a mean, whatever the number of columns."""

import math

from lintra_analysis.kinds.clip_count import clip_count_deviation, row_count_deviation, with_clip_count
from lintra_analysis.kinds.plan_request import Question
from lintra_analysis.kinds.planned import KindPlan, Option, option_of
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.sum import Sum


def plan_sum(question: Question) -> Option:
    """Calibrate the sum of the rows; a release holds no second moments, so that nothing else is predicted."""
    plain = Sum(row_bound=question.row_bound, fraction_bits=0, sigma=MIN_SIGMA, count=question.count)
    asked = with_clip_count(plain, question.claim.neighbours, question.clip_count_weight)
    mechanism = asked.noised_by(question.noising_servers).calibrated(
        question.claim, question.columns, question.max_clients
    )
    sigma, clients = mechanism.sigma * 2.0**-mechanism.fraction_bits, question.claim.min_clients
    total = math.sqrt(mechanism.draws(clients)) * sigma
    deviations = {"sum": total, "mean": total / clients}
    deviations |= row_count_deviation(mechanism, clients)
    deviations |= clip_count_deviation(mechanism, clients)
    return option_of(question, mechanism, sigma=sigma, deviations=deviations)


PLAN = KindPlan(plan_sum, predicts=False, by_servers=True)
