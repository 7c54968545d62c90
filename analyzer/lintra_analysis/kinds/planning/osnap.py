"""Planning `osnap`: its noise, the error of the Gram matrix, and what others need for the same promise."""

import math
from dataclasses import dataclass

import numpy as np

from lintra_analysis.kinds.clip_count import clip_count_deviation, with_clip_count
from lintra_analysis.kinds.coalition import calibrated_sketch
from lintra_analysis.kinds.plan_request import Question
from lintra_analysis.kinds.planned import KindPlan, Option, option_of, predict
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.osnap import Osnap
from lintra_protocol.privacy.calibration import central_sigma, local_sigma, published_mu, published_sigma
from lintra_protocol.privacy.gaussian import gaussian_epsilon


@dataclass(frozen=True)
class Yardsticks:
    """One client's noise per entry that others would need for the same promise on the same sketch.

    Attributes:
        published: of Burkhardt et al. 2025, equation (4), for each of s copies; None where it is undefined.
        published_epsilon: what it really gives if all rows are filled alike; None where a coalition isolates somebody.
        undefined: why it is undefined, or nothing.
        central: of clients whose noise adds up to a trusted curator's; where servers add it, of that curator.
        local: of clients that trust nobody.
    """

    published: float | None
    published_epsilon: float | None
    undefined: str
    central: float
    local: float


def plan_sketch(question: Question) -> Option:
    """Calibrate the sketch and predict its error."""
    claim, m, s = question.claim, question.sketch_rows, question.sparsity
    plain = Osnap(row_bound=question.row_bound, fraction_bits=0, sigma=MIN_SIGMA, rows=m, sparsity=s)
    plain = plain.noised_by(question.noising_servers)
    asked = with_clip_count(plain, claim.neighbours, question.clip_count_weight)
    mechanism = calibrated_sketch(asked, claim, question.columns, question.max_clients)
    step = 2.0**-mechanism.fraction_bits
    sigma = mechanism.sigma * step
    smoothing = question.num_servers * (mechanism.smoothing * step) ** 2 / s
    return option_of(
        question,
        mechanism,
        sigma=sigma,
        deviations={"entry": math.sqrt(entry_variance(question, m, sigma) + smoothing)}
        | clip_count_deviation(mechanism, claim.min_clients, question.num_servers),
        # Noised by a server, a row is hidden s times over by one draw in each of its rows.
        leverage=None if s == 1 else float(fraction(mechanism.leverage)) if mechanism.shares_noise else float(s),
        predicted=predict(question, sketch_error(question, m, sigma)),
    )


def yardsticks(question: Question) -> Yardsticks:
    """Return the noise that others would need for the same promise, sketch and row bound."""
    claim, m, s, d = question.claim, question.sketch_rows, question.sparsity, question.columns
    epsilon, delta = claim.float_epsilon, claim.float_delta
    entry_bound, corrupt = float(fraction(question.row_bound)) / math.sqrt(d), claim.max_corrupt_clients
    published, real_epsilon, undefined = None, math.inf, ""
    try:
        published = published_sigma(epsilon, delta, claim.min_clients, m, s, d, entry_bound, corrupt)
        filled = np.full(m, claim.min_clients * s // m)
        real_epsilon = gaussian_epsilon(published_mu(published, filled, s, d, entry_bound, corrupt), delta)
    except ValueError as error:
        undefined = str(error)
    total = central_sigma(question.sensitivity, epsilon, delta)
    return Yardsticks(
        published=published,
        published_epsilon=real_epsilon if real_epsilon < math.inf else None,
        undefined=undefined,
        # Every row of the sketch holds n s/m clients, and a column has the norm sqrt(s).
        central=total * math.sqrt(s if question.noising_servers else m / claim.min_clients),
        local=local_sigma(question.sensitivity, epsilon, delta),
    )


def sketch_error(question: Question, rows: float, sigma: float) -> float:
    """Return the expected squared Frobenius error of the Gram matrix from a sketch without its bias.

    ((tr M)^2 + |M|_F^2 - 2 sum |x|^4)/m + 2 v (d+1) tr M + m v^2 d (d+1), v the noise in an entry (`entry_variance`),
    with rows of equal norm that fill all directions alike. The first term is the matrix's own, the others are the
    noise's. `rows` are m. `sigma` is the deviation of one client's noise in an entry, or of one server's, in normalised
    units.
    """
    d, trace = question.columns, question.expected_trace
    v = entry_variance(question, rows, sigma)
    sampling = (trace**2 * (1 + 1 / d) - 2 * trace * question.row_norm**2) / rows
    return max(sampling, 0.0) + 2 * v * (d + 1) * trace + rows * v**2 * d * (d + 1)


def entry_variance(question: Question, rows: float, sigma: float) -> float:
    """Return v, the variance of the noise in an entry of the sketch: n sigma^2/m, or N sigma^2/s of that of servers."""
    if question.noising_servers:
        return question.noising_servers * sigma**2 / question.sparsity
    return question.claim.min_clients * sigma**2 / rows


def best_sketch_error(question: Question) -> float:
    """Return the predicted error at m* rows, with a trusted curator's noise, once or from every server."""
    rows = question.best_rows
    shown = question.sparsity if question.noising_servers else rows / question.claim.min_clients
    sigma = question.sensitivity / question.mu * math.sqrt(shown)
    return sketch_error(question, rows, sigma)


PLAN = KindPlan(plan_sketch, crowds=True, by_servers=True)
