"""The law of a mapped row's norm, from its encoding alone, and the bound to which `ron_gauss` clips rows by default.

A category of K > 2 levels has K features of -1 or 1 and adds exactly K to every row's squared norm; two levels and
booleans add 1. Only numbers differ from row to row. Nothing here is part of a guarantee, and no row is looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp, lgamma, log, log1p, sqrt

import numpy as np

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.joint_rows import feature_width
from lintra_protocol.privacy.bisection import bisect

CLIPPED_SHARE = 0.05
"""The chance, over the frame, that a row of the planned norm is clipped where it is projected."""

_REACH = 2
"""Deviations of the squared norm of a uniform row that the default radius leaves room for."""

_MIDDLE = Fraction(1, 2)
"""The mean square of a number that the default radius has room for, at least: a third is uniform, 1 is at a bound."""

_CELLS = 1 << 14
_QUANTILES = 200


@dataclass(frozen=True)
class NormLaw:
    """The law of the squared norm of a mapped row whose numbers are uniform between their bounds.

    `certain` is what categories and booleans add to every row. `values` says for each number how many values it has, at
    least 3; 0 for a real one.
    """

    certain: int
    values: tuple[int, ...]

    @classmethod
    def of_columns(cls, features: Sequence[Column]) -> "NormLaw":
        """Return the law of a row of these columns, of which none is the label."""
        return cls.of_shapes(
            [
                (
                    len(column.levels),
                    0 if column.kind == "real" else int(fraction(column.upper) - fraction(column.lower)) + 1,
                )
                for column in features
            ]
        )

    @classmethod
    def of_shapes(cls, shapes: Sequence[tuple[int, int]]) -> "NormLaw":
        """Return the law of columns, each given by its levels (0 for a number) and its values (0 for a real one)."""
        certain = sum(feature_width(levels) for levels, values in shapes if levels or values == 2)
        return cls(certain, tuple(values for levels, values in shapes if not levels and values != 2))

    @property
    def mean(self) -> Fraction:
        """Return the mean: `certain`, 1/3 for a real number, (V+1) / (3 (V-1)) for one of V values."""
        return sum((_mean_square(values) for values in self.values), Fraction(self.certain))

    @property
    def variance(self) -> Fraction:
        """Return the variance, which numbers have alone: E z^4 = (V+1)(3 V^2 - 7) / (15 (V-1)^3), or 1/5."""
        return sum((_mean_fourth(v) - _mean_square(v) ** 2 for v in self.values), Fraction(0))

    @property
    def largest(self) -> int:
        """Return the squared norm of a row with all its numbers at a bound: as many as it has features."""
        return self.certain + len(self.values)

    @property
    def planned(self) -> float:
        """Return the squared radius that is planned.

        Room for `certain`, and for numbers the larger of two things: two deviations above the mean of a uniform row,
        and a mean square of 1/2, between a uniform number's and that of one at its bounds. Never more than `largest`.
        """
        uniform = float(self.mean) + _REACH * sqrt(self.variance)
        spread = self.certain + float(_MIDDLE) * len(self.values)
        return min(max(uniform, spread), float(self.largest))

    def clipped_share(self, bound: float, dimension: int) -> float:
        """Return the expected share of uniform rows that are longer than `bound` where they are projected.

        To about .001: the laws of the squares are added on a grid; the frame keeps a beta-distributed part
        (Theorem J5, docs/proofs/joint.md#joint). `bound` is tau, in feature units. `dimension` is p; as many as
        features for no projection.
        """
        squares, shares = self._grid()
        if dimension >= self.largest:
            return float(shares[squares > bound**2 * (1 + 1e-9)].sum())
        ends = np.cumsum(shares)
        levels = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
        found = squares[np.minimum(np.searchsorted(ends, levels * ends[-1]), squares.size - 1)]
        first, second = dimension / 2, (self.largest - dimension) / 2
        longer = [
            1 - beta_probability(bound**2 / square, first, second) if square > bound**2 else 0.0
            for square in found.tolist()
        ]
        return float(np.mean(longer))

    def _grid(self) -> tuple[FloatArray, FloatArray]:
        """Return squared norms on a grid and the share of uniform rows at each."""
        numbers = len(self.values)
        if not numbers:
            return np.array([float(self.certain)]), np.ones(1)
        per_unit = max(1, _CELLS // numbers)
        length = per_unit * numbers + 1
        total = np.ones(length // 2 + 1, np.complex128)
        for values, times in zip(*np.unique(self.values, return_counts=True), strict=True):
            cells = np.zeros(length)
            if values:
                places = 2 * np.arange(values) / (values - 1) - 1
                np.add.at(cells, np.rint(places**2 * per_unit).astype(np.int64), 1 / values)
            else:
                edges = np.clip((np.arange(per_unit + 2) - 0.5) / per_unit, 0, 1)
                cells[: per_unit + 1] = np.diff(np.sqrt(edges))
            total *= np.fft.rfft(cells) ** times
        shares: FloatArray = np.maximum(np.fft.irfft(total, length), 0.0)
        return self.certain + np.arange(length) / per_unit, shares / shares.sum()


def projected_bound(radius: float, num_features: int, dimension: int) -> float:
    """Return tau: a row of norm `radius` is longer where it is projected with probability `CLIPPED_SHARE` at most.

    Theorem J5 (docs/proofs/joint.md#joint): the kept share of its squared norm has a beta law, whatever the row.
    """
    if dimension == num_features:
        return radius
    return radius * sqrt(beta_quantile(1 - CLIPPED_SHARE, dimension / 2, (num_features - dimension) / 2))


def beta_quantile(probability: float, first: float, second: float) -> float:
    """Return the quantile of a beta law by bisection of its distribution function, to rounding.

    `probability` is strictly between 0 and 1; `first` is the first parameter, positive. `second` is the second
    parameter, positive. Raises ValueError if an argument is out of range.
    """
    if not (0 < probability < 1 and first > 0 and second > 0):
        raise ValueError(f"no beta quantile of {probability} with parameters {first} and {second}")
    return bisect(1.0, 0.0, lambda x: beta_probability(x, first, second) >= probability)[0]


def beta_probability(x: float, first: float, second: float) -> float:
    """Return the distribution function of a beta law at 0 < x < 1 by Lentz's continued fraction (DLMF 8.17.22)."""
    if x > (first + 1) / (first + second + 2):
        return 1 - beta_probability(1 - x, second, first)
    tiny, fraction_value, c, d = 1e-300, 1.0, 1.0, 0.0
    for step in range(100_000):
        k = step // 2
        if step == 0:
            term = 1.0
        elif step % 2:
            term = -(first + k) * (first + second + k) * x / ((first + 2 * k) * (first + 2 * k + 1))
        else:
            term = k * (second - k) * x / ((first + 2 * k - 1) * (first + 2 * k))
        d = 1 / ((1 + term * d) or tiny)
        c = (1 + term / c) or tiny
        fraction_value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    log_beta = lgamma(first) + lgamma(second) - lgamma(first + second)
    return exp(first * log(x) + second * log1p(-x) - log_beta) * (fraction_value - 1) / first


def _mean_square(values: int) -> Fraction:
    return Fraction(values + 1, 3 * (values - 1)) if values else Fraction(1, 3)


def _mean_fourth(values: int) -> Fraction:
    return Fraction((values + 1) * (3 * values**2 - 7), 15 * (values - 1) ** 3) if values else Fraction(1, 5)
