"""What verified reports of a mechanism would take, give and cost (docs/explanation/verified.md)."""

import math
from dataclasses import dataclass
from fractions import Fraction

from lintra_analysis.kinds.wording import size
from lintra_protocol.crypto.sealing import HYBRID
from lintra_protocol.crypto.sharing import SEED_BYTES
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.privacy.shares_seen import SharesSeen
from lintra_protocol.report.upload import frame_bytes
from lintra_protocol.verification.parameters import Parameters, noised_bound

_EACH, _FOR_A_WORD = 12e-6, 0.05e-6
"""Seconds of a server for a seeded report, and for each of its words (benchmarks/bench_verified.py)."""


@dataclass(frozen=True)
class VerifiedOption:
    """What it takes to have every report of a mechanism verified."""

    report_bytes: dict[str, int]  #: what one client sends to all servers together, for each form of shares
    check_bytes: int  #: what each server says of a report to all others, through the analyzer
    #: how far one hostile client may move a sum, in lengths of the longest honest report without noise
    influence: float
    price: float  #: what its shares cost of delta
    server_seconds: float  #: of a server, for a seeded report and its check, on one core; opening the seal not counted


def verified_option(measurement: Measurement, num_servers: int, max_clients: int) -> VerifiedOption | None:
    """Return what verified reports take; None where they are not offered, or shares would cost too much of delta."""
    if measurement.squared_length is None or measurement.setting.contributors is not None:
        return None
    try:
        sizes, seen = proof_of(measurement, num_servers, max_clients)
    except InvalidTaskError:
        return None
    fixed, others = num_servers * frame_bytes(num_servers, HYBRID, 1), num_servers - 1
    return VerifiedOption(
        report_bytes={
            "uniform": fixed + num_servers * sizes.payload_bytes,
            "seeded": fixed + others * SEED_BYTES + sizes.payload_bytes,
        },
        check_bytes=sizes.check_bytes,
        influence=influence(sizes, measurement.squared_length),
        price=float(seen.price(fraction(measurement.claim.epsilon))),
        server_seconds=server_seconds(sizes),
    )


def proof_of(measurement: Measurement, num_servers: int, max_clients: int) -> tuple[Parameters, SharesSeen]:
    """Return the sizes of verified reports of a measurement, and what their shares show beside its claim.

    Raises:
        InvalidTaskError: nothing bounds a report, it is too long to be proven, or shares cost too much of delta.
    """
    longest, setting, claim = measurement.squared_length, measurement.setting, measurement.claim
    if longest is None:
        raise InvalidTaskError(
            f"verification: reports of {measurement.mechanism.kind} with these options have no proven bound; use 'none'"
        )
    clients_noise = not setting.noising_servers
    variances = [int(sigma) ** 2 * clients_noise for sigma in measurement.layout.sigmas]
    try:
        sizes = Parameters(measurement.layout.num_words, num_servers, noised_bound(longest, variances))
    except ValueError as error:
        raise InvalidTaskError(f"verification: {error}") from None
    seen = SharesSeen.of(sizes.padded, sizes.squared_bound, sizes.word_bits, max_clients, clients_noise=clients_noise)
    seen = seen.of_reports(1 if setting.stream is None else setting.stream.reports)
    seen.require_room(claim)
    return sizes, seen


def influence(sizes: Parameters, longest: int) -> float:
    """Return R over the length of the longest noiseless report."""
    return math.sqrt(sizes.squared_bound / longest)


def server_seconds(sizes: Parameters) -> float:
    """Return about how long a server takes for one seeded report and its check, on one core."""
    return _EACH + _FOR_A_WORD * sizes.padded


def in_words(sizes: Parameters, measurement: Measurement, price: Fraction) -> str:
    """Return what an author should know of verified reports, in one sentence."""
    moved = influence(sizes, measurement.squared_length or sizes.squared_bound)
    return (
        f"reports are verified: one hostile client can move a sum by {moved:.3g} times the longest honest report, not "
        f"more; a server stores at most {size(sizes.payload_bytes)} a report and says {size(sizes.check_bytes)} of it, "
        f"about {1e6 * server_seconds(sizes):.0f} microseconds of one core; shares cost {float(price):.2g} of delta"
    )
