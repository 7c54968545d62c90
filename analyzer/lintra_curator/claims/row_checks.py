"""What mechanisms ask of public parameters, and the rows that they may read."""

import math

import numpy as np

from lintra_curator.claims.claim import CalibrationError
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.noise.clipping import clip_norms

CLIPPED = 1 + 2.0**-40
"""A clipped row is longer than its bound by less than this factor, which calibrations allow for."""

MAX_EPSILON = 600.0
"""Largest epsilon for which noise is calibrated; far below it a promise means nothing."""


def require_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that is negative, or so large that e^epsilon leaves the range of floating point.

    Raises:
        CalibrationError: if it is.
    """
    if not 0 <= epsilon <= MAX_EPSILON:
        raise CalibrationError(f"epsilon must lie between 0 and {MAX_EPSILON:g}, got {epsilon}")


def require_bound(row_bound: float, name: str = "row_bound") -> None:
    """Refuse, with ValueError, a public bound that is not a positive finite number."""
    if not 0 < row_bound < math.inf:
        raise ValueError(f"{name} must be positive and finite, and public, got {row_bound}")


def require_count(count: int, name: str, least: int = 1) -> None:
    """Refuse, with ValueError, a count that is not a whole number of at least `least`."""
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {count!r}")


def checked_rows(rows: FloatArray) -> FloatArray:
    """Return rows as floats, shape `(n, d)`.

    Raises ValueError if they are not a table of finite numbers with n and d at least 1.
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

    `rows` are finite, shape `(n, d)` with n and d at least 1. `row_bound` is fixed without a look at the rows. `clip`
    says to shrink longer rows onto the sphere; if False they are refused. Raises ValueError if the shape or a number is
    wrong, or a row is too long and may not be clipped.
    """
    require_bound(row_bound)
    table = checked_rows(rows)
    clipped = clip_norms(table, row_bound)
    # Clipping changes the last digits of a row exactly on the sphere; that is not a row out of bounds.
    if not clip and (np.abs(clipped - table).max() > 1e-12 * row_bound):
        raise ValueError(f"a row is longer than the bound {row_bound}; clip it, or state a larger public bound")
    return clipped
