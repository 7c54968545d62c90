"""Planning backwards: the smallest epsilon or cohort that is good enough.

Noise is calibrated by the mechanisms themselves, so a plan is what a task will do. Errors are predicted from public
numbers only: the size of the cohort and the norm of a typical row (docs/how-to/planning.md).
"""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context

from lintra_analysis.kinds.plan_request import MOST_CLIENTS, Question
from lintra_analysis.kinds.planning.osnap import plan_sketch
from lintra_protocol.encoding.documents import Real, real
from lintra_protocol.errors import InvalidTaskError, LintraError
from lintra_protocol.privacy.bisection import NoBoundaryError, smallest_whole
from lintra_protocol.privacy.gaussian import gaussian_epsilon


def smallest_epsilon(question: Question, sigma: float) -> Question:
    """Return the question with the smallest epsilon, in six digits, whose sketch needs no more noise than `sigma`.

    Raises:
        InvalidTaskError: there is no such epsilon up to 10^4, or no such task.
    """
    if not 0 < sigma < math.inf:
        raise InvalidTaskError(f"sigma must be positive, got {sigma}")
    option = plan_sketch(question)
    honest = option.mechanism.honest_draws(question.claim.min_clients - question.claim.max_corrupt_clients)
    counter = option.mechanism.clip_steps * 2.0**-option.mechanism.fraction_bits / math.sqrt(honest)
    mu = math.hypot(question.sensitivity * math.sqrt(option.leverage), counter) / sigma
    # What the lattice and the rounding of sigma cost is found by trying: a few steps of a millionth.
    for step in range(100):
        epsilon = max(gaussian_epsilon(mu, question.claim.noise_delta), 1e-6) * (1 + step * 1e-6)
        if epsilon > 1e4:
            break
        answer = question.with_claim(epsilon=_six_digits_up(epsilon))
        if plan_sketch(answer).sigma <= sigma:
            return answer
    raise InvalidTaskError(f"no epsilon up to 10000 has a sketch with sigma {sigma} or less")


def smallest_cohort(question: Question, good_enough: Callable[[Question], bool]) -> Question:
    """Return the question with the smallest cohort that is good enough; what is good enough stays so for more clients.

    Raises:
        InvalidTaskError: no cohort is that good.
    """

    def holds(clients: int) -> bool:
        try:
            return good_enough(question.with_claim(min_clients=clients))
        except LintraError:
            return False  # too few clients for any such task

    try:
        corrupt = 0 if question.usual_coalition else question.claim.max_corrupt_clients
        clients = smallest_whole(max(1, corrupt) + 1, holds, MOST_CLIENTS)
    except NoBoundaryError as error:
        raise InvalidTaskError(f"no cohort of up to {MOST_CLIENTS} clients is enough; fix other numbers") from error
    return question.with_claim(min_clients=clients)


def _six_digits_up(number: float) -> Real:
    """Spell a positive number with six digits, rounded up."""
    return real(Context(prec=6, rounding=ROUND_CEILING).create_decimal_from_float(number))
