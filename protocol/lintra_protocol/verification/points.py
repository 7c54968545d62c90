"""The points at which all servers evaluate a cohort's proofs: drawn once, after the cohort was frozen."""

import hashlib

from lintra_protocol.encoding.canonical import framed
from lintra_protocol.verification.fields import PRIMES

Points = tuple[int, int, int, int]
"""One element of each field, for a whole cohort."""

_KEPT = (1 << 60) - 1


def check_points(check_seed: bytes) -> Points:
    """Return the points of a 32-byte check seed; of each field's own, those whose fourth power is 0 or 1 are skipped.

    At a point of fourth power 1 the blinds of a column do not hide it (docs/explanation/verified.md).
    """
    count = 8 * len(PRIMES)
    while True:
        # The stream of SHAKE-128 only grows, so that reading on changes nothing that was read.
        found = first_usable(hashlib.shake_128(framed("check points", check_seed)).digest(count))
        if found is not None:
            return found
        count *= 2


def usable(point: int, prime: int) -> bool:
    """Return whether a number is an element at which blinds hide a column."""
    return 0 < point < prime and pow(point, 4, prime) != 1


def require_usable(points: Points) -> None:
    """Refuse points at which blinds do not hide a column; no server ever computes a check share there.

    Raises ValueError if one is such a point.
    """
    if not all(usable(point, prime) for point, prime in zip(points, PRIMES, strict=True)):
        raise ValueError("a check point has a fourth power of 0 or 1: the check shares would show the rows")


def first_usable(stream: bytes) -> Points | None:
    """Return the first usable element for each prime in turn, or None where the stream is too short."""
    words = iter(int.from_bytes(stream[at : at + 8], "little") & _KEPT for at in range(0, len(stream), 8))
    found: list[int] = []
    for prime in PRIMES:
        point = next((word for word in words if usable(word, prime)), None)
        if point is None:
            return None
        found.append(point)
    return found[0], found[1], found[2], found[3]
