"""Coalitions of clients in a plan: how large a one is tolerated by default, and what a sketch's rows allow."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from lintra_protocol.encoding.documents import Real, fraction, real, real_below
from lintra_protocol.errors import RowUnderfilledError
from lintra_protocol.mechanisms.collusion import default_corrupt_clients, half_of
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.privacy.bisection import bisect_whole
from lintra_protocol.privacy.limits import usual_delta
from lintra_protocol.privacy.statement import ALONE, Claim, Neighbours, NoiseBy, Threat

CLIENTS_PER_ROW = 30
"""Fewer honest clients than this behind a row of a sketch are not planned for (docs/reference/analyzer-tasks.md)."""


def usual_claim(
    *,
    epsilon: Real,
    min_clients: int,
    is_sketch: bool,
    delta: Real | None = None,
    neighbours: Neighbours = "replace-one",
    max_corrupt_clients: int | None = None,
    threat: Threat = "static",
    delta_coalition: Real | None = None,
    reports_per_source: int = 1,
    max_merge: int = 1,
    noise: NoiseBy = "clients",
    epsilon_alone: Real | None = None,
) -> Claim:
    """Return a promise with what was left open filled in.

    5 % of the smallest cohort may be corrupt. In a sketch half of delta then goes to the case that too many of them
    share a row: with nothing for it, one row would have to bear all of them (docs/proofs/sketch.md#coalitions).
    These parts of all that a source is asked for add up, and must stay below its ledger's delta: `reports_per_source`
    share them. Where up to `max_merge` windows are released together a corrupt client may have as many reports in a
    release, and these are what a claim counts. Where servers add the noise no coalition weakens it: the number says
    only how many reports may be missing, and nothing of delta is kept for it. Where both add noise, three times epsilon
    is promised to a client of whom all others are invented.
    """
    delta = default_delta(min_clients) if delta is None else delta
    corrupt = default_corrupt_clients(min_clients) if max_corrupt_clients is None else max_corrupt_clients
    corrupt *= max_merge if noise != "servers" else 1
    if delta_coalition is None:
        shared = is_sketch and corrupt > 0 and threat == "static" and noise != "servers"
        delta_coalition = real_below(fraction(half_of(delta)) / reports_per_source) if shared else "0"
    if noise == "both" and epsilon_alone is None:
        epsilon_alone = real(ALONE * Decimal(epsilon))
    return Claim(
        epsilon=epsilon,
        delta=delta,
        epsilon_alone=epsilon_alone,
        neighbours=neighbours,
        min_clients=min_clients,
        max_corrupt_clients=corrupt,
        threat=threat,
        delta_coalition=delta_coalition,
    )


def default_delta(min_clients: int) -> Real:
    """Return the delta that is promised if the author says nothing, rounded down to twelve digits behind the point."""
    digits = (usual_delta(min_clients) * 10**12).__floor__()
    return real_below(Fraction(digits, 10**12))


def most_rows(claim: Claim, noising_servers: int = 0) -> int:
    """Return how many rows a sketch may have so that `CLIENTS_PER_ROW` honest clients stand behind each, at least 2.

    Where servers add the noise, so that so many clients stand behind each.
    """
    most = max(2, claim.min_clients // CLIENTS_PER_ROW)
    while not noising_servers and most > 2 and claim.min_clients // most - claim.quota(most) < CLIENTS_PER_ROW:
        most = most * 15 // 16 if most > 16 else most - 1
    return most


def calibrated_sketch(measurement: Measurement, max_clients: int) -> Measurement:
    """Return a calibrated sketch; where the coalition is too large, the largest is named.

    Raises RowUnderfilledError if the coalition is too large for these rows.
    """
    try:
        return measurement.calibrated(max_clients)
    except RowUnderfilledError as error:
        largest, claim = largest_coalition(measurement), measurement.claim
        if claim.max_corrupt_clients <= largest:
            raise
        raise RowUnderfilledError(
            f"{error.detail}; the largest max_corrupt_clients that {measurement.num_rows} rows tolerate is {largest} "
            f"({claim.threat}), fewer rows tolerate more"
        ) from None


def largest_coalition(measurement: Measurement) -> int:
    """Return the largest t that a sketch tolerates: some honest client is left behind every row."""

    def holds(corrupt: int) -> bool:
        changed = measurement.claim.model_copy(update={"max_corrupt_clients": corrupt})
        try:
            replace(measurement, claim=changed).planned().privacy(measurement.claim.min_clients)
        except RowUnderfilledError:
            return False
        return True

    return bisect_whole(0, measurement.claim.min_clients, holds)
