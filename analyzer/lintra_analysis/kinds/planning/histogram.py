"""Planning `histogram`: the error of a cell, of a share, and of the part of the rows below an edge."""

import math

from lintra_analysis.kinds.plan_request import Question
from lintra_analysis.kinds.planned import KindPlan, Option, option_of
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.histogram import Histogram


def plan_histogram(question: Question) -> Option:
    """Calibrate the histogram of columns with so many cells each; a release holds no second moments.

    The error of a part of the rows is that in the middle of a column, where it is largest, if no value is missing: with
    all cells brought into line with the number of rows its variance is
    v (i (m + 1 - i) - 2 F i + F^2 m) / (m + 1) after i of m cells, F = i / m, v a cell's.

    Raises:
        InvalidTaskError, RowUnderfilledError: no such task is possible.
    """
    if question.bins < 1:
        raise InvalidTaskError("bins: a histogram has at least 1 cell a column")
    edges = tuple(str(edge) for edge in range(question.bins + 1))
    plain = Histogram(sigma=MIN_SIGMA, edges=(edges,) * question.columns, levels=(0,) * question.columns)
    mechanism = plain.calibrated(question.claim, question.columns, question.max_clients)
    sigma, clients = mechanism.sigma / mechanism.indicator, question.claim.min_clients
    cell = math.sqrt(clients) * sigma
    cells, half = question.bins, question.bins // 2
    middle = (half * (cells + 1 - half) - 2 * half**2 / cells + half**2 / cells) / (cells + 1)
    deviations = {"cell": cell, "share of a cell": cell / clients}
    if middle:
        deviations["share below an edge"] = cell * math.sqrt(middle) / clients
    return option_of(question, mechanism, sigma=sigma, deviations=deviations)


PLAN = KindPlan(plan_histogram, predicts=False)
