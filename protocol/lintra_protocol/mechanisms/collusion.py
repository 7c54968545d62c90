"""What a promise becomes if another part of the clients colludes than it was made for.

How many clients collude nobody can check, so every claim is shown for several answers. The noise stays what it is; of
delta, a sketch's coalition gets nothing or half, whichever gives the smaller epsilon
(docs/proofs/sketch.md#coalitions).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import inf

from lintra_protocol.encoding.documents import fraction, real_below
from lintra_protocol.errors import LintraError
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.shares_seen import SharesSeen
from lintra_protocol.privacy.statement import Claim, PrivacyStatement
from lintra_protocol.transforms.base import PublicMatrix

PERCENTAGES = (0, 1, 5, 20)
"""The parts of all clients for which every claim is shown."""

HALF = 50
"""Shown beside them where servers add a floor, which still hides a client then."""

_FEW_ORGANISATIONS = 6

DEFAULT_PART = Fraction(1, 20)
"""The part of the smallest cohort that may be corrupt if the author says nothing."""


def default_corrupt_clients(min_clients: int) -> int:
    """Return t if the author says nothing: 5 % of the smallest cohort, rounded down."""
    return int(DEFAULT_PART * min_clients)


def percentages(setting: Setting, claim: Claim, num_clients: int) -> tuple[int, ...]:
    """Return the parts of a cohort for which a claim is shown.

    Of organisations there are few, and each is named: none, one, and so on up to all but one, as the smallest whole
    percentages that stand for so many.
    """
    if setting.contributors is None:
        return (*PERCENTAGES, HALF) if setting.floor_servers else PERCENTAGES
    some: set[int] = {0, 1, num_clients // 2, claim.max_corrupt_clients, num_clients - 1}
    numbers = range(num_clients) if num_clients <= _FEW_ORGANISATIONS else sorted(some & set(range(num_clients)))
    return tuple(sorted({-(-100 * number // num_clients) for number in numbers}))


def half_of(delta: str) -> str:
    """Return half of a delta, for coalitions that crowd into a row."""
    return real_below(fraction(delta) / 2)


def epsilons_if_colluding(measurement: Measurement, claim: Claim, seen: SharesSeen | None = None) -> dict[int, float]:
    """Return epsilon at a claim's delta for each of `percentages` of the smallest cohort; infinite for no privacy.

    Where rows overlap this is for a matrix as it is expected to turn out, not for one that was drawn. `seen` is what
    shares of a verified task show.
    """
    shown = percentages(measurement.setting, claim, claim.min_clients)
    return dict(zip(shown, _promised(measurement, claim, seen), strict=True))


@lru_cache(maxsize=64)
def _promised(measurement: Measurement, claim: Claim, seen: SharesSeen | None) -> tuple[float, ...]:
    def promised(claim: Claim) -> PrivacyStatement:
        return replace(measurement, claim=claim).planned().privacy(claim.min_clients)

    shown = percentages(measurement.setting, claim, claim.min_clients)
    return tuple(_smallest(claim, claim.min_clients, percent, promised, seen) for percent in shown)


def released_epsilons_if_colluding(
    measurement: Measurement, claim: Claim, matrix: PublicMatrix, seen: SharesSeen | None = None
) -> dict[int, float]:
    """Return the same of a release, for each of `percentages` of its cohort and under the matrix that was drawn."""

    def released(claim: Claim) -> PrivacyStatement:
        return replace(measurement, claim=claim).release_privacy(matrix, as_planned=False)

    shown = percentages(measurement.setting, claim, matrix.num_clients)
    return {percent: _smallest(claim, matrix.num_clients, percent, released, seen) for percent in shown}


def in_words(epsilons: Mapping[int, float], organisations: int | None = None) -> str:
    """Return what is shown beside every claim: "epsilon 0.97 if 0 % of the clients collude, 1 if 5 % do, ...".

    `epsilons` are by per cent. `organisations` says how many send reports; they are counted then: "epsilon 0.4 if none
    of 3 organisations colludes".
    """
    (first, epsilon), *others = epsilons.items()
    if organisations is not None:
        counted = [(organisations * percent // 100, found) for percent, found in others]
        told = ", ".join(f"{_shown(found)} if {number} do{'es' * (number == 1)}" for number, found in counted)
        return f"epsilon {_shown(epsilon)} if none of {organisations} organisations colludes, {told}"
    told = ", ".join(f"{_shown(found)} if {percent} % do" for percent, found in others)
    return f"epsilon {_shown(epsilon)} if {first} % of the clients collude, {told}"


def _shown(epsilon: float) -> str:
    return f"{epsilon:.4g}" if epsilon < inf else "no privacy"


def _smallest(
    claim: Claim, num_clients: int, percent: int, state: Callable[[Claim], PrivacyStatement], seen: SharesSeen | None
) -> float:
    """Return the smallest epsilon over the ways to divide delta."""
    corrupt = num_clients * percent // 100 + (0 if seen is None else seen.given_away)
    divisions = (
        {"0"} if claim.threat == "adaptive" or not corrupt else {"0", half_of(claim.delta), claim.delta_coalition}
    )
    found = inf
    for delta_coalition in divisions:
        changes = {"max_corrupt_clients": corrupt, "delta_coalition": delta_coalition, "min_clients": num_clients}
        try:
            statement = state(claim.model_copy(update=changes))
        except LintraError:
            continue  # a row has no honest client left
        found = min(found, (statement if seen is None else seen.beside(statement, claim.float_delta)).epsilon)
    return found
