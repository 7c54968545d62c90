"""What a curator's release claims, and what no calibration here can promise."""

import math

from lintra_protocol.encoding.documents import real
from lintra_protocol.privacy.statement import Claim, Neighbours, PrivacyStatement, Status

SMALLEST_DELTA = 1e-15
"""Below this the curves of this package are not computed to enough digits to calibrate from."""


class CalibrationError(ValueError):
    """The promise lies outside the domain in which noise can be calibrated to it.

    >>> curator_claim(epsilon=-1.0, delta=1e-6)
    Traceback (most recent call last):
    ...
    lintra_curator.claims.claim.CalibrationError: epsilon must be positive and finite, got -1.0
    """


def curator_claim(epsilon: float, delta: float, neighbours: Neighbours = "replace-one") -> Claim:
    """Return the claim of one release by a trusted curator: (epsilon, delta) for neighbouring tables.

    A curator adds noise once, like a single honest client; so the cohort of the claim is the smallest there is with one
    client who adds noise, two with one of them silent. The number of rows is public under both neighbour notions.

    Args:
        epsilon: positive and finite, spelled without loss.
        delta: from 1e-15 up to, but not including, 1.
        neighbours: "replace-one" if one row changes; "zero-out" if one row becomes the null row.

    Raises:
        CalibrationError: epsilon or delta is out of range.
        ValueError: neighbours are neither.

    >>> print(curator_claim(epsilon=1.0, delta=1e-6))
    epsilon 1 at delta 0.000001 (replace-one)
    """
    if not 0 < epsilon < math.inf:
        raise CalibrationError(f"epsilon must be positive and finite, got {epsilon}")
    if not SMALLEST_DELTA <= delta < 1:
        raise CalibrationError(f"delta must lie in [{SMALLEST_DELTA}, 1), got {delta}")
    if neighbours not in ("replace-one", "zero-out"):
        raise ValueError(f"neighbours are 'replace-one' or 'zero-out', got {neighbours!r}")
    return Claim(epsilon=real(epsilon), delta=real(delta), neighbours=neighbours, min_clients=2, max_corrupt_clients=1)


def point_statement(claim: Claim, delta: float, status: Status, note: str) -> PrivacyStatement:
    """Return the statement of a release whose curve was computed at the claim's epsilon only.

    "zero-out" is the papers' add-or-remove: deleting a row and making it the null row give these mechanisms the same
    law; the number of rows counts as public here. `delta` is the upper bound of the delta at the claim's epsilon.
    `note` is the argument, in a few words. Raises ValueError if delta does not keep the claim.
    """
    # Not `delta > claim`: a NaN must be refused too.
    if not 0 <= delta <= claim.float_delta:
        raise ValueError(f"delta {delta} does not keep the claim of {claim}")
    return PrivacyStatement(claim.neighbours, claim.float_epsilon, delta, status=status, note=note)
