"""One mechanism, calibrated, with everything that follows from it: errors, bytes and limits."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from lintra_analysis.kinds.by_kind import ByKind
from lintra_analysis.kinds.plan_request import MOST_CLIENTS, Question
from lintra_analysis.kinds.verified import VerifiedOption, verified_option
from lintra_protocol.crypto.ring import RING_BITS
from lintra_protocol.crypto.sealing import HYBRID
from lintra_protocol.crypto.sharing import SEED_BYTES
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.base import LOG_MAX_WRAP, Mechanism
from lintra_protocol.mechanisms.collusion import epsilons_if_colluding
from lintra_protocol.privacy.bisection import bisect_whole
from lintra_protocol.report.upload import frame_bytes

Calibrated = TypeVar("Calibrated", bound=Mechanism)


@dataclass(frozen=True)
class Prediction:
    """How wrong an estimate of the Gram matrix, and what follows from it, is expected to be.

    Attributes:
        squared_error: expected squared Frobenius error of the Gram matrix, in normalised units.
        relative_error: its root over the trace of the matrix.
        low_rank: largest part of the rows' squared length that the best directions of this rank lose to the error.
        ridge: part of the target's squared length that a ridge regression loses to the error, in first order.
    """

    squared_error: float
    relative_error: float
    low_rank: float
    ridge: float


@dataclass(frozen=True)
class Option:
    """One mechanism, calibrated.

    Attributes:
        mechanism: as it would stand in the task.
        sigma: deviation of one client's noise, or of one server's, in a word (off the diagonal for second moments), in
            normalised units.
        leverage: bound of an honest client's leverage.
        epsilon: recomputed for the smallest cohort; not above the claim's.
        if_colluding: what epsilon becomes if so many per cent of the smallest cohort collude; infinite for no privacy.
        deviations: of the noise in a released number of the smallest cohort, by what the number is, as it is decoded.
        predicted: errors of second moments to expect from the smallest cohort; None where a release holds none.
        report_bytes: what one client sends to all servers together, for each form of shares.
        headroom_bits: how many times the largest total, as a power of two, fits into the ring.
        max_clients: the largest cohort for which the ring has room on this grid.
        verified: what verified reports would take and cost; None where they are not offered.
    """

    mechanism: Mechanism
    sigma: float
    leverage: float
    epsilon: float
    if_colluding: dict[int, float]
    deviations: dict[str, float]
    predicted: Prediction | None
    report_bytes: dict[str, int]
    headroom_bits: float
    max_clients: int
    verified: VerifiedOption | None


@dataclass(frozen=True)
class KindPlan:
    """What a mechanism brings to planning.

    Attributes:
        option: the mechanism, calibrated for a question. Raises InvalidTaskError, RowUnderfilledError or
            FalseClaimError where no such task is possible.
        predicts: whether its options have a prediction of second moments.
        crowds: whether a coalition may crowd one of several rows, so that a part of delta is kept for that.
        by_servers: whether servers may add the noise in the place of clients.
    """

    option: Callable[[Question], Option]
    predicts: bool = True
    crowds: bool = False
    by_servers: bool = False


PLANS = ByKind("lintra_analysis.kinds.planning", "PLAN", KindPlan)
"""By kind: the module of that name in this package."""


def plan_option(kind: str, question: Question) -> Option:
    """Calibrate a mechanism for a question, and predict what it releases.

    Raises:
        InvalidTaskError, RowUnderfilledError, FalseClaimError: no such task is possible.
    """
    plan = PLANS[kind]
    if question.noise == "servers" and not plan.by_servers:
        raise InvalidTaskError(f"noise: servers add it to sum, osnap or second_moment, not to {kind}; use clients")
    return plan.option(question if plan.crowds else question.of_a_sum())


def option_of(
    question: Question,
    mechanism: Mechanism,
    *,
    sigma: float,
    deviations: dict[str, float],
    columns: int | None = None,
    leverage: float | None = None,
    predicted: Prediction | None = None,
) -> Option:
    """Return an option with what follows from the mechanism alone.

    `mechanism` is calibrated; `columns` are those of the task, if not those of the question. `leverage` is one over the
    honest draws of noise in the emptiest row if not given.
    """
    claim, columns = question.claim, columns or question.columns
    fits = _largest(lambda clients: mechanism.log_wrap_probability(columns, clients) <= LOG_MAX_WRAP)
    return Option(
        mechanism=mechanism,
        sigma=sigma,
        leverage=leverage or 1 / mechanism.honest_draws(mechanism.smallest_row(claim.min_clients, claim)),
        epsilon=mechanism.privacy(claim, columns, claim.min_clients).epsilon,
        if_colluding=epsilons_if_colluding(mechanism, claim, columns),
        deviations=deviations,
        predicted=predicted,
        report_bytes=report_bytes(mechanism.num_words(columns), question.num_servers),
        headroom_bits=RING_BITS - 1 - math.log2(mechanism.largest_total(question.max_clients)),
        max_clients=fits,
        verified=verified_option(mechanism, columns, question.num_servers, claim, question.max_clients),
    )


def predict(
    question: Question, squared_error: float, *, trace: float | None = None, columns: int | None = None
) -> Prediction:
    """Turn the error of a Gram matrix into what an analyst notices (docs/how-to/planning.md).

    With E the error: directions of rank k lose at most sqrt(2k) |E|_F, since tr((P - P')E) <= |P - P'|_F |E|_F for
    projections of rank k. A regression on p features of equal variance with coefficients of norm at most 1 loses
    about 2 p d/(d+1) |E|_F^2 / (tr M)^2 of the target's squared length. `squared_error` is E|E|_F^2; `trace` is tr M, n
    r^2 if not given. `columns` are d, those of the question if not given.
    """
    relative = math.sqrt(squared_error) / (trace or question.expected_trace)
    d = columns or question.columns
    return Prediction(
        squared_error=squared_error,
        relative_error=relative,
        low_rank=min(1.0, math.sqrt(2 * min(question.rank, d)) * relative),
        ridge=min(1.0, 2 * min(question.features, d) * d / (d + 1) * relative**2),
    )


def report_bytes(num_words: int, num_servers: int) -> dict[str, int]:
    """Return what one client uploads to all servers together, for both forms of shares, with hybrid sealing."""
    fixed = frame_bytes(num_servers, HYBRID, 1)
    return {
        "uniform": num_servers * (fixed + 8 * num_words),
        "seeded": num_servers * fixed + (num_servers - 1) * SEED_BYTES + 8 * num_words,
    }


def _largest(holds: Callable[[int], bool]) -> int:
    """Return the largest cohort up to `MOST_CLIENTS` for which the monotone `holds` is true; 0 if none."""
    if holds(MOST_CLIENTS):
        return MOST_CLIENTS
    return bisect_whole(0, MOST_CLIENTS, holds)
