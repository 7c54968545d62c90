"""What a mechanism of the NDIS papers promises, how it is known, and the rows it may read.

All promises are for a trusted curator, about the continuous law of the release; a floating-point implementation
draws from it up to rounding (docs/mechanisms/random_projection.md#what-is-promised).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lintra_curator.promise.claim import CalibrationError, CentralClaim
from lintra_protocol.clipping import clip_norms
from lintra_protocol.ring import FloatArray

Status = Literal["proved", "numerical supremum", "asymptotic, heuristic"]

CLIPPED = 1 + 2.0**-40
"""A clipped row is longer than its bound by less than this factor, which calibrations allow for."""

MAX_EPSILON = 600.0
"""Largest epsilon for which noise is calibrated; far below it a promise means nothing."""


@dataclass(frozen=True)
class Promise:
    """A claim together with the delta that the release really has.

    Attributes:
        claim: epsilon, delta and the neighbours. Deleting a row and making it the null row give these mechanisms the
            same law, so that "zero-out" is the papers' add-or-remove; the number of rows counts as public here.
        delta_hi: upper bound of delta at the claim's epsilon, at most the claim's delta.
        status: "proved" if a proof covers every pair of neighbours; "numerical supremum" if the worst pair was
            searched for; "asymptotic, heuristic" if the law itself holds only in the limit.
        reason: the argument, in a few words.
    """

    claim: CentralClaim
    delta_hi: float
    status: Status
    reason: str

    def __post_init__(self) -> None:
        # Not `delta_hi > delta`: a NaN must be refused too.
        if not 0 <= self.delta_hi <= self.claim.delta:
            raise ValueError(f"delta {self.delta_hi} does not keep the claim of {self.claim.delta}")


def require_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that is negative, or so large that e^epsilon leaves the range of floating point.

    Raises:
        CalibrationError: if it is.
    """
    if not 0 <= epsilon <= MAX_EPSILON:
        raise CalibrationError(f"epsilon must lie between 0 and {MAX_EPSILON:g}, got {epsilon}")


def require_bound(row_bound: float, name: str = "row_bound") -> None:
    """Refuse a public bound that is not a positive finite number.

    Raises:
        ValueError: if it is not.
    """
    if not 0 < row_bound < math.inf:
        raise ValueError(f"{name} must be positive and finite, and public, got {row_bound}")


def require_count(count: int, name: str, least: int = 1) -> None:
    """Refuse a count that is not a whole number of at least `least`.

    Raises:
        ValueError: if it is not.
    """
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {count!r}")


def checked_rows(rows: FloatArray) -> FloatArray:
    """Return rows as floats, shape `(n, d)`.

    Raises:
        ValueError: if they are not a table of finite numbers with n and d at least 1.
    """
    table = np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"rows have shape (n, d) with n and d at least 1, got {table.shape}")
    if not np.isfinite(table).all():
        raise ValueError(
            "rows must be finite; drop or fill missing values first, by a rule that looks at one row alone"
        )
    return table


def bounded_rows(rows: FloatArray, row_bound: float, *, clip: bool = True) -> FloatArray:
    """Return the rows with Euclidean norms of at most the public bound.

    Args:
        rows: finite, shape `(n, d)` with n and d at least 1.
        row_bound: fixed without a look at the rows.
        clip: shrink longer rows onto the sphere; if False they are refused.

    Raises:
        ValueError: if the shape or a number is wrong, or a row is too long and may not be clipped.
    """
    require_bound(row_bound)
    table = checked_rows(rows)
    clipped = clip_norms(table, row_bound)
    # Clipping changes the last digits of a row exactly on the sphere; that is not a row out of bounds.
    if not clip and (np.abs(clipped - table).max() > 1e-12 * row_bound):
        raise ValueError(f"a row is longer than the bound {row_bound}; clip it, or state a larger public bound")
    return clipped
