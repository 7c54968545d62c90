"""Newton steps of a logistic regression from noisy sums: the start, a step, and whether the quadratic model holds.

Everything is in normalised units, in which a row counts less beyond the norm B. A number that depends on the unit, such
as the longest step, is that of rows of norm 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from lintra_analysis.releases.newton_sums import NewtonSums
from lintra_protocol.crypto.ring import FloatArray

LEAST_ROUNDS = 3
"""Rounds before a chain may stop."""

PASSING = 0.9
"""The quantile of chi-square up to which two successive rounds agree with a quadratic model."""

LONGEST_STEP = 8.0
"""Of a step, for rows of norm 1."""

_FLOOR = 2.0
"""Eigenvalues of the Hessian are at least this times its deviation times sqrt(p)."""

_PREVALENCE = (0.01, 0.99)
_MOST_EXPLAINED = 0.95


@dataclass(frozen=True, eq=False)
class Start:
    """What the sums at the parameter 0 say.

    Attributes:
        parameter: of the round after, shape `(p,)`.
        prevalence: pi, the share of ones among the rows, by their weights, between .01 and .99.
        average_weight: of a row.
    """

    parameter: FloatArray
    prevalence: float
    average_weight: float


def floored(matrix: FloatArray, least: float) -> FloatArray:
    """Return a symmetric matrix, shape `(p, p)`, with eigenvalues raised to `least`."""
    values, vectors = np.linalg.eigh(matrix)
    raised: FloatArray = (vectors * np.maximum(values, least)) @ vectors.T
    return raised


def floored_hessian(sums: NewtonSums) -> FloatArray:
    """Return H_+, shape `(p, p)`: the Hessian with eigenvalues of at least 2 s_H sqrt(p)."""
    return floored(sums.hessian, _FLOOR * sums.hessian_sd * len(sums.columns) ** 0.5)


def start(sums: NewtonSums) -> Start:
    """Return the parameter after the first round: the discriminant function of two normal classes (Haggstrom 1983).

    At the parameter 0 every weight is 1/4, so that four times the Hessian is the sum of the rows' products.
    """
    c0, size = sums.constant, len(sums.columns)
    least = 4 * _FLOOR * sums.hessian_sd * size**0.5
    products = floored(4 * sums.hessian, least)
    rows = products[0, 0] / c0**2
    means = products[0, 1:] / (c0 * rows)
    covariance = products[1:, 1:] / rows - np.outer(means, means)
    with_target = sums.gradient + products[0] / (2 * c0)
    share = float(np.clip(with_target[0] / (c0 * rows), *_PREVALENCE))
    spread = share * (1 - share)
    cross = with_target[1:] / rows - means * share
    linear = np.linalg.solve(floored(covariance, least / rows), cross) if size > 1 else cross
    explained = float(np.clip(linear @ cross / spread, 0.0, _MOST_EXPLAINED))
    slopes = linear / (spread * (1 - explained))
    apart = cross / spread
    middle = (means + (1 - share) * apart + means - share * apart) / 2
    first = (np.log(share / (1 - share)) - slopes @ middle) / c0
    return Start(np.append(first, slopes), share, float(rows / sums.num_clients))


def step(sums: NewtonSums) -> FloatArray:
    """Return one damped Newton step, shape `(p,)`: none is longer than `LONGEST_STEP` for rows of norm 1."""
    hessian, longest = floored_hessian(sums), LONGEST_STEP / sums.row_bound
    whole: FloatArray = np.asarray(np.linalg.solve(hessian, sums.gradient))
    if np.linalg.norm(whole) <= longest:
        return whole
    values, vectors = np.linalg.eigh(hessian)
    turned = vectors.T @ sums.gradient
    low, high = 0.0, float(np.linalg.norm(turned)) / longest
    for _ in range(100):  # the norm falls as the damping grows
        middle = (low + high) / 2
        too_long = np.linalg.norm(turned / (values + middle)) > longest
        low, high = (middle, high) if too_long else (low, middle)
    damped: FloatArray = vectors @ (turned / (values + high))
    return damped


def next_parameter(sums: NewtonSums) -> FloatArray:
    """Return the parameter of the round after these sums, shape `(p,)`."""
    return start(sums).parameter if sums.is_start else sums.parameter + step(sums)


def noise_of_score(sums: NewtonSums, moved: FloatArray) -> FloatArray:
    """Return Sigma(s), the covariance of the noise in g - H s, shape `(p, p)`, for s of shape `(p,)`."""
    squares = sums.gradient_sd**2 + sums.hessian_sd**2 * float(moved @ moved)
    return np.asarray(squares * np.eye(moved.size) + sums.hessian_sd**2 * np.outer(moved, moved))


def clipped_at_zero(hessian: FloatArray) -> FloatArray:
    """Return a Hessian, shape `(p, p)`, without negative eigenvalues."""
    return floored(hessian, 0.0)


@dataclass(frozen=True, eq=False)
class Agreement:
    """How far two successive rounds are from what a quadratic model makes of the first of them."""

    statistic: float  #: T; under a quadratic model chi-square with p degrees
    size: int  #: p

    @property
    def passes(self) -> bool:
        """Return whether T is at most the 90 % point."""
        return bool(self.statistic <= special.chdtri(self.size, 1 - PASSING))


def agreement(before: NewtonSums, after: NewtonSums, *, fresh: bool = False, differing: float = 0.0) -> Agreement:
    """Compare a round's gradient with what the round before predicted of it.

    Args:
        before: the earlier round.
        after: the round at another parameter.
        fresh: whether both are about different people; their sampling then enters.
        differing: the share of reports that may be in one of two rounds of the same people only.
    """
    moved = after.parameter - before.parameter
    gap = after.gradient - (before.gradient - before.hessian @ moved)
    covariance = noise_of_score(before, moved) + after.gradient_sd**2 * np.eye(gap.size)
    if fresh:
        covariance = covariance + clipped_at_zero(before.hessian + after.hessian)
    elif differing:
        covariance = covariance + 2 * differing * clipped_at_zero(after.hessian)
    return Agreement(float(gap @ np.linalg.solve(covariance, gap)), gap.size)


def stops(rounds: Sequence[NewtonSums], *, differing: float = 0.0) -> bool:
    """Return whether a chain of the same people ends here: T passed in its third round or later, or it has K rounds."""
    if len(rounds) >= max(rounds[0].rounds, 1):
        return True
    return len(rounds) >= LEAST_ROUNDS and agreement(rounds[-2], rounds[-1], differing=differing).passes
