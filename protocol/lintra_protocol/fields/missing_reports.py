"""The default of how many of its own reports a server accepts as missing at other servers."""

from fractions import Fraction
from math import floor

from lintra_protocol.privacy.statement import Claim

USUAL_MAX_MISSING = Fraction(1, 4)
MOST_MAX_MISSING = Fraction(9, 10)


def least_max_missing(claim: Claim) -> Fraction:
    """Return the usual part of its own reports that a server lets go missing elsewhere.

    It is at least twice the part of the corrupt clients: each can leave one report at one server only, and so many
    must not be able to stop a release.
    """
    corrupt = Fraction(claim.max_corrupt_clients, claim.min_clients)
    return max(USUAL_MAX_MISSING, min(2 * corrupt, MOST_MAX_MISSING))


def organisations_max_missing(min_clients: int, max_clients: int) -> Fraction:
    """Return the same of a task of organisations: so many that the smallest cohort is left, in whole hundredths.

    Rounded up. Their reports are few: .05 of five would be none at all. Where the smallest cohort is less than a
    hundredth of the largest there are more digits, since a part of 1 is none that a task may state.
    """
    scale = 100
    while scale * min_clients < max_clients:
        scale *= 10
    return Fraction(-(-scale * (max_clients - min_clients) // max_clients), scale)


def most_reports(max_clients: int, max_missing: Fraction) -> int:
    """Return how many reports a server can hold of a batch that can be released: with more, too many are missing."""
    return floor(max_clients / (1 - max_missing))
