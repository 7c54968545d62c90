"""Profiles in closed form: equal covariances and Gaussian random projection, and the calibration of the latter."""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammaincc

from lintra_curator.ndis.gaussian_pair import ULP, GaussianPair
from lintra_curator.ndis.profile_evaluation import delta
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.bisection import bisect, retreat

Direction = Literal["remove", "add"]

FEW_COLUMNS = 6
"""Columns below which, save for a single one, `rp_ceiling` takes the place of the certified sum, slow there."""

_GAMMA_ERROR = 1e-13
_CALIBRATION_RTOL = 1e-11
_SLOW_RTOL = 1e-6


def rp_pair(leverage: float, columns: float) -> GaussianPair:
    """Return the pair of a Gaussian random projection D^T G of data with and without a row of this leverage.

    The whitened columns have variance 1 with the row and 1 - p without it (Wei et al. 2023). The pair at p*
    dominates that of every smaller leverage, since noise on both sides only lowers the leverage.

    Args:
        leverage: p = v^T (D^T D)^-1 v of the row in the larger data, between 0 and 1; at 1 the laws are disjoint.
        columns: r, of G; above 0.

    Raises:
        ValueError: the leverage is out of range, or there is no column.
    """
    if not 0 <= leverage <= 1:
        raise ValueError(f"a leverage lies between 0 and 1, got {leverage}")
    if not 0 < columns < math.inf:
        raise ValueError(f"a projection needs at least one column, got {columns}")
    if leverage == 1:
        return GaussianPair([], [], [], disjoint=True)
    return GaussianPair([leverage / (1 - leverage)], [columns], [0.0])


def delta_rp(
    epsilon: ArrayLike, leverage: ArrayLike, columns: ArrayLike, direction: Direction = "remove"
) -> FloatArray:
    """Return delta(epsilon) of a Gaussian random projection by two incomplete gamma functions.

    Wei et al. 2023, both versions; never forming (1 - p)^(r/2), which underflows from r of about 2050 on. Increasing in
    the leverage; `remove` is the larger direction for epsilon >= 0. Not certified: accurate to about 1e-13 (1e-12 from
    a thousand columns on) times the probability of a loss above epsilon. A promise quotes `delta(rp_pair(...)).hi`.

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
    result = np.where(p == 0, np.abs(np.expm1(np.minimum(eps, 0.0))), np.where(p == 1, 1.0, result))
    clipped: FloatArray = np.clip(result, 0.0, 1.0)
    return clipped


def rp_ceiling(epsilon: float, leverage: float, columns: float) -> float:
    """Return an upper bound of `delta_rp` in its larger direction: the closed form and all that rounding may take away.

    For fewer than `FEW_COLUMNS` columns, where the incomplete gamma function was compared with 40 digits (largest
    relative error 3e-14; 1e-13 is allowed for). `epsilon` is at least 0; `leverage` is p, between 0 and 1. `columns` is
    r, above 0 and below `FEW_COLUMNS`. Raises ValueError if an argument is out of range.
    """
    if not (epsilon >= 0 and columns < FEW_COLUMNS):
        raise ValueError(f"the ceiling is for epsilon >= 0 and few columns, got {epsilon} and {columns}")
    value = float(delta_rp(epsilon, leverage, columns))
    if leverage in (0, 1):
        return value
    with np.errstate(all="ignore"):
        reach = (2 * epsilon - columns * math.log1p(-leverage)) / leverage
        above = float(gammaincc(columns / 2, (1 - leverage) * reach / 2))
    # A relative error of the argument counts by its size; the second term is at most the first.
    rounding = 2 * above * (_GAMMA_ERROR + 16 * ULP * (4 + reach + epsilon))
    # Below the smallest normal double relative errors mean nothing.
    return min(1.0, value + rounding + 1e-305) if math.isfinite(rounding) else 1.0


def rp_pstar(epsilon: float, target: float, columns: float) -> float:
    """Return p*, the largest leverage at which a projection to r columns is (epsilon, delta)-private; see `delta_rp`.

    The feasible end of a bisection, checked with the certified profile (for two to five columns with `rp_ceiling`
    where that has the digits, which is much quicker).

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

    low, _ = bisect(0.0, 1.0, lambda p: bool(delta_rp(epsilon, p, columns) <= target))
    ceiling = 1 < columns < FEW_COLUMNS and rp_ceiling(epsilon, low * (1 - 1e-4), columns) <= target
    rtol = _SLOW_RTOL if 1 < columns < FEW_COLUMNS else _CALIBRATION_RTOL

    def certified(p: float) -> bool:
        return (rp_ceiling(epsilon, p, columns) if ceiling else delta(rp_pair(p, columns), epsilon, rtol).hi) <= target

    margin = (1e-10 if ceiling else _SLOW_RTOL) if rtol == _SLOW_RTOL else 1e-13
    found = retreat(low * (1 - margin), -margin * low, lambda p: p <= 0 or certified(p))
    if found <= 0:
        raise ValueError(f"no leverage is private at epsilon={epsilon}, delta={target} with {columns} columns")
    return found
