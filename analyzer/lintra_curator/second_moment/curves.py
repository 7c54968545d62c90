"""The exact privacy curves delta(epsilon) of projection, inverse Wishart and Wishart releases of a second moment.

Worst cases over all tables with rows of norm at most B, after Sheffet (2019), Algorithms 1 to 5, computed anew:
docs/reference/mechanisms/central_second_moment.md states and derives them. q = B^2 / w2 is what one row weighs against
the ridge w2, l = q / (1 + q) its leverage; s = 1 / c is what it weighs against the scale c B^2 of Wishart noise.
"""

import math
from itertools import product

import numpy as np
from scipy import special

from lintra_curator.claims.quadrature import NORMAL_REACH, chi_square_rule, panels
from lintra_curator.projection.random_projection import projection_delta as leverage_delta
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.statement import Neighbours

LARGEST_EPSILON = 500.0
"""Beyond it exp(epsilon) leaves the floating-point range; curves fall, so their value here is an upper bound."""

_EDGE_POINTS = (0.25, 0.5, 0.75)
_UNIT_NODES, _UNIT_WEIGHTS = panels(np.linspace(0, 1, 4))


def projection_delta(epsilon: float, weight: float, rows: int, neighbours: Neighbours) -> float:
    """Return delta(epsilon) of a secret Gaussian projection of the table with an added ridge, certified.

    Also of an inverse Wishart draw with `rows` degrees of freedom: there the two laws of every pair change places.
    `epsilon` is at least 0; `weight` is q = B^2 / w2, at least 0. `rows` is r of the projection, at least 1. For the
    `neighbours` "zero-out" it is the larger of the two directions, the one with the row.

    Source:
        Sheffet 2019, Theorem 3.1; the exact pair is (I + v v^T) against (I + u u^T), |u|^2 = |v|^2 = q, u orthogonal
        to v, or against I.
    """
    _require(epsilon >= 0 and weight >= 0 and rows >= 1, f"epsilon={epsilon}, weight={weight}, rows={rows}")
    if weight == 0:
        return 0.0
    return leverage_delta(min(epsilon, LARGEST_EPSILON), weight / (1 + weight), rows, neighbours)


def projection_deltas(epsilons: FloatArray, weight: float, rows: int) -> FloatArray:
    """Return delta at many epsilons of any sign, shape as given, for "replace-one" neighbours.

    The log ratio is (l / 2) (X1 / (1 - l) - X2) with X1, X2 chi-square of r degrees of freedom. That pair is symmetric,
    so that delta(-e) = 1 - exp(-e) + exp(-e) delta(e).
    """
    leverage = weight / (1 + weight)
    sizes = np.minimum(np.abs(epsilons), LARGEST_EPSILON)[..., np.newaxis]
    nodes, weights = chi_square_rule(float(rows))
    first = special.gammaincc(rows / 2, (1 - leverage) * (2 * sizes / leverage + nodes) / 2) @ weights
    second = special.gammaincc(rows / 2, (2 * sizes / leverage + nodes / (1 - leverage)) / 2) @ weights
    found = np.clip(first - np.exp(sizes[..., 0]) * second + _rounding(rows) * first, 0, 1)
    # At a negative epsilon the curve continues by symmetry.
    below = np.maximum(np.minimum(epsilons, 0), -LARGEST_EPSILON)
    reflected = -np.expm1(below) + np.exp(below) * found
    return np.asarray(np.where(epsilons >= 0, found, reflected), np.float64)


def wishart_zero_out_deltas(epsilon: float, freedom: float, weight: float) -> tuple[float, float]:
    """Return both directions of "zero-out" for Wishart noise: without the row against with it, and back.

    The pair is chi-square of m degrees of freedom against itself moved by s (for Algorithm 3 of Sheffet 2019).
    `epsilon` is at least 0; `freedom` is m = k - d + 1, above 2. `weight` is s = 1 / c, positive.
    """
    _require_wishart(epsilon, freedom, weight)
    epsilon = min(epsilon, LARGEST_EPSILON)
    # 1 - exp(-(2 epsilon + s) / (m - 2)), without losing digits where it is small.
    bar = weight / -math.expm1(-(2 * epsilon + weight) / (freedom - 2))
    without = _difference(_below(freedom, bar), math.exp(epsilon) * _below(freedom, bar - weight), freedom)
    if weight <= 2 * epsilon:
        return without, 0.0
    bar = weight / -math.expm1(-(weight - 2 * epsilon) / (freedom - 2))
    back = _difference(_above(freedom, bar - weight), math.exp(epsilon) * _above(freedom, bar), freedom)
    return without, back


def wishart_pair_delta(epsilon: float, freedom: float, up: float, down: float) -> float:
    """Return delta(epsilon) of Wishart noise for two rows whose difference has the eigenvalues `up` and -`down`.

    `epsilon` is at least 0; `freedom` is m = k - d + 1, above 2. `up` is the eigenvalue of u u^T - v v^T above 0, in
    units of c B^2. `down` is the size of the one below 0.

    With W of two columns and m + 1 degrees of freedom, C = W_11, Z a normal variable and Y = chi-square_m independent,
    |W| = C Y and |W + D| = (C + up)(Y - down) + up Z^2; the log ratio is a multiple of ln(|W| / |W + D|).
    """
    _require_wishart(epsilon, freedom, up + down)
    epsilon = min(epsilon, LARGEST_EPSILON)
    # Beyond 700 the exponential overflows, and the events it decides are impossible anyway.
    power = min(max((2 * epsilon - up + down) / (freedom - 2), -700.0), 700.0)
    breaks = (up,) if power >= 0 else (up, -up / math.expm1(power), up / math.expm1(-power))
    c, weights = chi_square_rule(freedom + 1, 240, breaks)
    present = _over_z(freedom, down * (c + up), up, up - c * math.expm1(-power))
    absent = _over_z(freedom, down * (c - up), up, up + c * math.expm1(power))
    # Where C < up, W - D is not positive: the other law never gives it.
    absent[c < up] = 0.0
    return _difference(float(weights @ present), math.exp(epsilon) * float(weights @ absent), freedom)


def wishart_delta(
    epsilon: float, freedom: float, weight: float, neighbours: Neighbours, thorough: bool = True
) -> float:
    """Return delta(epsilon) of Wishart noise W_d(c B^2 I, k).

    For "replace-one" the maximum over all pairs of rows stands in a corner (docs/proofs/wishart.md#wishart, by
    Prékopa 1973, Theorem 6); points between the corners are a check of the numbers. `epsilon` is at least 0; `freedom`
    is m = k - d + 1, above 2. `weight` is s = 1 / c, positive. `thorough` says to look at points between the corners as
    well; six times slower.
    """
    corners = wishart_zero_out_deltas(epsilon, freedom, weight)
    if neighbours == "zero-out":
        return max(corners)
    found = [*corners, wishart_pair_delta(epsilon, freedom, weight, weight)]
    if thorough:
        for share, first in product(_EDGE_POINTS, (True, False)):
            pair = (weight, share * weight) if first else (share * weight, weight)
            found.append(wishart_pair_delta(epsilon, freedom, *pair))
    return max(found)


def _over_z(freedom: float, numerator: FloatArray, lift: float, denominator: FloatArray) -> FloatArray:
    """Return P(Y denominator < numerator - lift Z^2), shape `(k,)`, where a denominator may have any sign.

    The range of Z is cut where the right side changes its sign, since the probability is not smooth there.
    """
    split = np.full(numerator.shape, NORMAL_REACH)
    if lift > 0:
        split = np.minimum(np.sqrt(np.maximum(numerator, 0) / lift), NORMAL_REACH)
    found = np.zeros(numerator.shape)
    for sign in (1.0, -1.0):
        lanes = np.flatnonzero(denominator * sign > 0)
        low, high = (
            (0.0 * split[lanes], split[lanes]) if sign > 0 else (split[lanes], 0.0 * split[lanes] + NORMAL_REACH)
        )
        z = low[:, np.newaxis] + np.outer(high - low, _UNIT_NODES)
        ratio = (numerator[lanes, np.newaxis] - lift * z**2) / denominator[lanes, np.newaxis]
        tail = special.gammainc if sign > 0 else special.gammaincc
        density = math.sqrt(2 / math.pi) * np.exp(-(z**2) / 2) * _UNIT_WEIGHTS
        found[lanes] = (high - low) * np.sum(tail(freedom / 2, np.maximum(ratio, 0) / 2) * density, axis=1)
    # With a negative denominator the event is certain below the cut.
    falling = denominator < 0
    found[falling] += special.erf(split[falling] / math.sqrt(2))
    return found


def _difference(first: float, second: float, freedom: float) -> float:
    """Return a difference of probabilities, raised by what rounding may have taken away."""
    return min(max(first - second + _rounding(freedom) * first, 0.0), 1.0)


def _rounding(freedom: float) -> float:
    """Return what chi-square tails may be off by, relatively: their own digits, and those of their arguments."""
    return 1e-13 + 1e-14 * math.sqrt(freedom)


def _below(freedom: float, value: float) -> float:
    return float(special.gammainc(freedom / 2, max(value, 0.0) / 2))


def _above(freedom: float, value: float) -> float:
    return float(special.gammaincc(freedom / 2, max(value, 0.0) / 2))


def _require_wishart(epsilon: float, freedom: float, weight: float) -> None:
    _require(epsilon >= 0 and freedom > 2 and 0 < weight < math.inf, f"{epsilon=}, {freedom=}, {weight=}")


def _require(holds: bool, given: str) -> None:
    """Refuse parameters outside the domain of a curve; a number that is not one is outside."""
    if not holds:
        raise ValueError(f"these parameters have no privacy curve: {given}")
