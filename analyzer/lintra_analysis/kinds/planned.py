"""One mechanism, calibrated, with everything that follows from it: errors, bytes and limits."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lintra_analysis.kinds.context import CalibrationContext, FirstRound
from lintra_analysis.kinds.kind import KINDS
from lintra_analysis.kinds.prediction import Prediction
from lintra_analysis.kinds.verified import VerifiedOption, verified_option
from lintra_analysis.kinds.wording import size
from lintra_protocol.crypto.ring import RING_BITS
from lintra_protocol.crypto.sealing import HYBRID
from lintra_protocol.crypto.sharing import SEED_BYTES
from lintra_protocol.errors import LintraError
from lintra_protocol.mechanisms.base import LOG_MAX_WRAP, Mechanism
from lintra_protocol.mechanisms.collusion import epsilons_if_colluding
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.privacy.bisection import bisect_whole
from lintra_protocol.privacy.discrete import discrete_epsilon
from lintra_protocol.privacy.statement import MAX_SLACK, Claim, PrivacyStatement
from lintra_protocol.report.upload import frame_bytes
from lintra_protocol.trust import MOST_BYTES

MOST_CLIENTS = 2**32
"""A task may have no more (docs/reference/protocol.md)."""


@dataclass(frozen=True)
class PlannedMechanism:
    """One mechanism, calibrated."""

    mechanism: Mechanism  #: as it would stand in the task
    #: deviation of one client's noise, or of one server's, in a word (off the diagonal for second moments), in
    #: normalised units
    sigma: float
    leverage: float  #: bound of an honest client's leverage
    epsilon: float  #: recomputed for the smallest cohort; not above the claim's; of two rounds that of both
    alone: PrivacyStatement | None  #: if all other clients are invented; None where nothing bounds that
    #: what epsilon becomes if so many per cent of the smallest cohort collude; infinite for no privacy
    if_colluding: dict[int, float]
    #: of the noise in a released number of the smallest cohort, by what the number is, as it is decoded
    deviations: dict[str, float]
    #: errors of second moments to expect from the smallest cohort; None where a release holds none
    predicted: Prediction | None
    #: what one client sends to all servers together, for each form of shares; of two rounds in both
    report_bytes: dict[str, int]
    headroom_bits: float  #: how many times the largest total, as a power of two, fits into the ring
    max_clients: int  #: the largest cohort for which the ring has room on this grid
    verified: VerifiedOption | None  #: what verified reports would take and cost; None where they are not offered
    not_verified: str  #: why they are not, or only if the author asks for them; "" where they are the default


def planned_mechanism(kind: str, context: CalibrationContext[Any]) -> PlannedMechanism:
    """Build a mechanism as a task would have it, and predict what it releases.

    Where the context has the options of the kind that this one follows, both rounds are planned.
    """
    described = KINDS[kind]
    if described.follows == context.options.kind:
        first = KINDS[described.follows].build(context)
        mu, lone = first.privacy(context.claim.min_clients).mu, first.alone()
        mu_alone = lone.mu if lone is not None and first.claim.epsilon_alone is not None else 0.0
        context = replace(context, first=FirstRound(first.claim, first.mechanism, mu, mu_alone))
    measured = described.build(context)
    claim, mechanism = measured.claim, measured.mechanism
    expected = described.predict(context, mechanism)
    statement, alone = measured.privacy(claim.min_clients), measured.alone()
    epsilon, sizes = statement.epsilon, report_bytes(measured.layout.num_words, context.num_servers)
    if context.first is not None:
        mu = math.hypot(context.first.mu, statement.mu)
        epsilon = discrete_epsilon(mu, context.claim.noise_delta, 2 * MAX_SLACK)
        before = report_bytes(context.measured(context.first.mechanism).layout.num_words, context.num_servers)
        sizes = {form: size + before[form] for form, size in sizes.items()}
        alone = _of_both_rounds(alone, context.first.mu_alone, context.claim)
    verified, not_verified = _verified(described.build, context, measured)
    return PlannedMechanism(
        mechanism=mechanism,
        sigma=expected.sigma,
        leverage=expected.leverage or 1 / measured.setting.honest_draws(measured.emptiest_row(claim.min_clients)),
        epsilon=epsilon,
        alone=alone,
        if_colluding=epsilons_if_colluding(measured, claim),
        deviations=expected.deviations,
        predicted=expected.moments,
        report_bytes=sizes,
        headroom_bits=RING_BITS - 1 - math.log2(_largest_total(measured, context.max_clients)),
        max_clients=_largest(lambda clients: measured.log_wrap_probability(clients) <= LOG_MAX_WRAP),
        verified=verified,
        not_verified=not_verified,
    )


def _of_both_rounds(second: PrivacyStatement | None, first_mu: float, total: Claim) -> PrivacyStatement | None:
    """Return what both rounds show of a client of whom all others are invented; None where that is not promised."""
    if second is None or total.epsilon_alone is None:
        return None
    mu = math.hypot(first_mu, second.mu)
    return replace(second, mu=mu, epsilon=discrete_epsilon(mu, total.alone.noise_delta, 2 * MAX_SLACK))


def _verified(
    build: Callable[[CalibrationContext[Any]], Measurement], context: CalibrationContext[Any], measured: Measurement
) -> tuple[VerifiedOption | None, str]:
    """Return what verified reports would take, and why they are not the default, "" if they are.

    Their grid is coarser where the proof asks for that.
    """
    if context.contributors is not None:
        return None, "the reports of organisations are not verified so far"
    if context.first is not None or context.options.num_rounds > 1:
        return None, "a task of a study, or one of two rounds, is not verified so far"
    if measured.squared_length is None:
        return None, f"reports of {measured.mechanism.kind} with these options have no proven bound"
    option = verified_option(measured, context.num_servers, context.max_clients)
    if option is None:
        try:
            proven = replace(build(context.verified()), claim=context.claim)
        except LintraError as error:
            return None, error.detail.removeprefix("verification: ")
        option = verified_option(proven, context.num_servers, context.max_clients)
    if option is not None and option.report_bytes["uniform"] > MOST_BYTES:
        return option, (
            "with proofs a report takes more than a megabyte, so that they are for the author to ask for; "
            f"'seeded' shares take {size(option.report_bytes['seeded'])}"
        )
    return option, ""


def _largest_total(measurement: Measurement, num_clients: int) -> int:
    """Return the largest absolute value of a released number without noise."""
    behind = {False: measurement.fullest_row(num_clients), True: num_clients}
    rows = measurement.setting.rows_per_report
    return max(behind[block.is_total] * rows * block.bound for block in measurement.layout.blocks)


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
