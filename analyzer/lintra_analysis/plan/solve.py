"""Searches for the smallest epsilon or cohort with which the errors are small enough.

The mechanisms calibrate the noise themselves, so a plan has the noise of the task. Errors are predicted from public
numbers only: the size of the cohort and the norm of a typical row (docs/how-to/planning.md).
"""

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_CEILING, Context

from lintra_analysis.kinds.planned import MOST_CLIENTS, planned_mechanism
from lintra_analysis.plan.baselines import sensitivity
from lintra_analysis.plan.flags import PlanFlags
from lintra_protocol.encoding.documents import Real, real
from lintra_protocol.errors import InvalidTaskError, LintraError
from lintra_protocol.mechanisms.layout import CLIPPED
from lintra_protocol.privacy.bisection import NoBoundaryError, smallest_whole
from lintra_protocol.privacy.gaussian import gaussian_epsilon

_ROUNDS = 12


def smallest_epsilon(flags: PlanFlags, sigma: float) -> PlanFlags:
    """Return the flags with the smallest epsilon, in six digits, whose sketch needs no more noise than `sigma`.

    Raises:
        InvalidTaskError: there is no such epsilon up to 10^4, or no such task.
    """
    if not 0 < sigma < math.inf:
        raise InvalidTaskError(f"sigma must be positive, got {sigma}")
    context = flags.context("osnap")
    claim, planned = context.claim, planned_mechanism("osnap", context)
    measured = context.measured(planned.mechanism)
    honest = measured.setting.honest_draws(claim.min_clients - claim.max_corrupt_clients)
    steps = measured.layout[CLIPPED].bound if CLIPPED in measured.layout else 0
    counter = steps * 2.0**-planned.mechanism.fraction_bits / math.sqrt(honest)
    mu = math.hypot(sensitivity(context) * math.sqrt(planned.leverage), counter) / sigma
    for _ in range(_ROUNDS * (context.noise == "both")):
        # With a floor a client's noise is less, in a proportion that changes slowly with epsilon.
        epsilon = min(max(gaussian_epsilon(mu, claim.noise_delta), 1e-6), 1e4)
        mu *= replace(flags, epsilon=_six_digits_up(epsilon)).planned("osnap").sigma / sigma
        if epsilon == 1e4:
            break
    # What the lattice and the rounding of sigma cost is found by trying: sigma is a whole number from 1,000 on.
    for step in range(100):
        epsilon = max(gaussian_epsilon(mu, claim.noise_delta), 1e-6) * (1 + step * 2e-5)
        if epsilon > 1e4:
            break
        answer = replace(flags, epsilon=_six_digits_up(epsilon))
        if answer.planned("osnap").sigma <= sigma:
            return answer
    raise InvalidTaskError(f"no epsilon up to 10000 has a sketch with sigma {sigma} or less")


def smallest_cohort(flags: PlanFlags, good_enough: Callable[[PlanFlags], bool]) -> PlanFlags:
    """Return the flags with the smallest cohort that is good enough; what is good enough stays so for more clients.

    Raises:
        InvalidTaskError: no cohort is that good.
    """

    def holds(clients: int) -> bool:
        try:
            return good_enough(flags.of_cohort(clients))
        except LintraError:
            return False  # too few clients for any such task

    try:
        clients = smallest_whole(max(1, flags.corrupt or 0) + 1, holds, MOST_CLIENTS)
    except NoBoundaryError as error:
        raise InvalidTaskError(f"no cohort of up to {MOST_CLIENTS} clients is enough; fix other numbers") from error
    return flags.of_cohort(clients)


def _six_digits_up(number: float) -> Real:
    """Spell a positive number with six digits, rounded up."""
    return real(Context(prec=6, rounding=ROUND_CEILING).create_decimal_from_float(number))
