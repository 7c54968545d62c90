"""Profiles in closed form: equal covariances and Gaussian random projection, and the calibration of the latter."""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammaincc

from lintra_analyzer.ndis.pair import Pair
from lintra_analyzer.ndis.profile import delta
from lintra_protocol.ring import FloatArray

Direction = Literal["remove", "add"]

_FEW_COLUMNS = 6
_CLOSED_GUARD = 1e-8
_CALIBRATION_RTOL = 1e-11


def rp_pair(leverage: float, columns: float) -> Pair:
    """Return the pair of a Gaussian random projection D^T G of data with and without a row of this leverage.

    The whitened columns have variance 1 with the row and 1 - p without it (Wei et al. 2023). The pair at p*
    dominates that of every smaller leverage, since noise on both sides only lowers the leverage.

    Args:
        leverage: p = v^T (D^T D)^-1 v of the row in the larger data, between 0 and 1; at 1 the laws are disjoint.
        columns: r, of G; above 0.
    """
    if not 0 <= leverage <= 1:
        raise ValueError(f"a leverage lies between 0 and 1, got {leverage}")
    if not 0 < columns < math.inf:
        raise ValueError(f"a projection needs at least one column, got {columns}")
    if leverage == 1:
        return Pair([], [], [], disjoint=True)
    return Pair([leverage / (1 - leverage)], [columns], [0.0])


def delta_rp(
    epsilon: ArrayLike, leverage: ArrayLike, columns: ArrayLike, direction: Direction = "remove"
) -> FloatArray:
    """Return delta(epsilon) of a Gaussian random projection by two incomplete gamma functions.

    Wei et al. 2023, both versions; never forming (1 - p)^(r/2), which underflows from r of about 2050 on. Increasing in
    the leverage; `remove` is the larger direction for epsilon >= 0. Accurate to about 1e-13 times the probability of
    a loss above epsilon: where delta is far below that use `delta(rp_pair(...))`.

    Args:
        epsilon: any real numbers.
        leverage: p, between 0 and 1, broadcast against the others.
        columns: r, above 0.
        direction: `remove` compares the data with the row to those without it, `add` the reverse.

    Returns:
        The broadcast shape; a zero-dimensional array for numbers.

    Raises:
        ValueError: if an argument is out of range or not a number.
    """
    eps, p, r = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (epsilon, leverage, columns)))
    if np.isnan(eps).any() or not ((p >= 0) & (p <= 1)).all() or not ((r > 0) & np.isfinite(r)).all():
        raise ValueError("a projection needs epsilon a number, 0 <= leverage <= 1 and columns > 0")
    sign = 1.0 if direction == "remove" else -1.0
    with np.errstate(all="ignore"):
        inner = np.clip((1 - p) * (sign * 2 * eps - r * np.log1p(-p)) / p, 0.0, np.inf)
        outer = inner / (1 - p)
        if direction == "remove":
            larger, smaller = gammaincc(r / 2, inner / 2), gammaincc(r / 2, outer / 2)
        else:
            larger, smaller = gammainc(r / 2, outer / 2), gammainc(r / 2, inner / 2)
        result = larger - np.exp(eps + np.log(smaller))
    # What cannot be computed counts as no privacy, never as privacy.
    result = np.where(np.isnan(result), np.where(eps == np.inf, 0.0, 1.0), result)
    result = np.where(p == 0, np.maximum(0.0, -np.expm1(eps)), np.where(p == 1, 1.0, result))
    clipped: FloatArray = np.clip(result, 0.0, 1.0)
    return clipped


def rp_pstar(epsilon: float, target: float, columns: float) -> float:
    """Return p*, the largest leverage at which a projection to r columns is (epsilon, delta)-private; see `delta_rp`.

    The feasible end of a bisection, checked with the certified profile (for fewer than six columns, where that is
    slow, with the closed form and a margin of 1e-8).

    Args:
        epsilon: finite, at least 0.
        target: delta, strictly between 0 and 1.
        columns: r, above 0.

    Raises:
        ValueError: if an argument is out of range.
    """
    if not 0 <= epsilon < math.inf:
        raise ValueError(f"epsilon must be finite and at least 0, got {epsilon}")
    if not 0 < target < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {target}")

    def certified(p: float) -> bool:
        if 1 < columns < _FEW_COLUMNS:
            return float(delta_rp(epsilon, p, columns)) <= target * (1 - _CLOSED_GUARD)
        return delta(rp_pair(p, columns), epsilon, _CALIBRATION_RTOL).hi <= target

    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        if delta_rp(epsilon, middle, columns) <= target:
            low = middle
        else:
            high = middle
    margin = 1e-13
    while not certified(low * (1 - margin)):
        margin *= 2
        if margin >= 1:
            raise ValueError(f"no leverage is private at epsilon={epsilon}, delta={target} with {columns} columns")
    return low * (1 - margin)
