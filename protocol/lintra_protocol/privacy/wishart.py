"""The privacy of Wishart noise: its exact curve, and a Gaussian curve above all of it.

Noise W_d(c B^2 I, k) on a sum of x x^T gives the pair of laws of docs/proofs/wishart.md#wishart with m = k - d + 1
degrees of freedom and weight s = 1/c (Sheffet 2019, Algorithm 3, made exact). Its loss is infinite with positive
probability, so no mu describes it; but for every small enough failure probability there is a mu that lies above the
rest.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.bisection import bisect
from lintra_protocol.privacy.gaussian import gaussian_delta
from lintra_protocol.privacy.statement import Neighbours

MIN_FREEDOM = 20
"""Fewer degrees of freedom have curves too rough for the fixed nodes below."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_NORMAL_NODES, _NORMAL_WEIGHTS = np.polynomial.legendre.leggauss(24)
_PANELS, _REACH, _NORMAL_REACH = 4096, 11.5, 9.5
_STEPS = 10
# What the computation of a delta may be off by, relative to the larger of its two terms.
_ERROR = 1e-9


@dataclass(frozen=True)
class ChiSquare:
    """The chi-square law of m degrees of freedom, tabulated in y = x^(1/3), where it is nearly normal."""

    freedom: int  #: m
    start: float  #: the smallest y
    step: float  #: between two entries
    #: the distribution function in y, its first and its second derivative times step and step^2; `(3, n)`
    below: FloatArray

    @classmethod
    def of(cls, freedom: int) -> "ChiSquare":
        """Tabulate the law; both tails that are left out are below 1e-25."""
        start, end = _range(freedom)
        edges = np.linspace(start, end, _PANELS + 1)
        step = (end - start) / _PANELS
        nodes, weights = np.polynomial.legendre.leggauss(8)
        inner = edges[:-1, np.newaxis] + step * (nodes + 1) / 2
        masses = _density(freedom, inner) @ weights * step / 2
        total = masses.sum()
        density = _density(freedom, edges) / total
        # With p = exp(q): p' = q' p, and q' = 3 (m/2 - 1/3 - x/2) / y, x = y^3.
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(edges > 0, density * (1.5 * freedom - 1 - 1.5 * edges**3) / edges, 0.0)
        values = np.concatenate([[0.0], np.cumsum(masses)]) / total
        return cls(freedom, start, step, np.stack([values, density * step, slope * step**2]))

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return P(chi-square <= x) in the shape of x, by quintic interpolation.

        It has 14 right digits, also far out in the lower tail.
        """
        place = (np.cbrt(np.maximum(x, 0.0)) - self.start) / self.step
        index = np.clip(place.astype(np.int64), 0, _PANELS - 1)
        u = np.clip(place - index, 0.0, 1.0)
        v = 1 - u
        (f0, d0, s0), (f1, d1, s1) = self.below[:, index], self.below[:, index + 1]
        left = v**3 * (f0 * (1 + u * (3 + 6 * u)) + d0 * u * (1 + 3 * u) + s0 * u**2 / 2)
        right = u**3 * (f1 * (1 + v * (3 + 6 * v)) - d1 * v * (1 + 3 * v) + s1 * v**2 / 2)
        result: FloatArray = left + right
        return result

    def rule(self) -> tuple[FloatArray, FloatArray]:
        """Return nodes x and probability weights for expectations over the law, both of one shape `(k,)`."""
        start, end = _range(self.freedom)
        y = start + (end - start) * (_NODES + 1) / 2
        weights = _density(self.freedom, y) * _WEIGHTS
        return y**3, weights / weights.sum()


def _range(freedom: int) -> tuple[float, float]:
    """Return the ends in y = x^(1/3), which is nearly normal (Wilson, Hilferty 1931)."""
    center, deviation = 1 - 2 / (9 * freedom), math.sqrt(2 / (9 * freedom))
    ends = max(center - _REACH * deviation, 0.0), center + _REACH * deviation
    return ends[0] * freedom ** (1 / 3), ends[1] * freedom ** (1 / 3)


def _density(freedom: int, y: FloatArray) -> FloatArray:
    """Return the density in y up to a factor; written so that a million degrees of freedom lose no digits."""
    ratio = y / freedom ** (1 / 3)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = ratio**3 - 1
        exponent = freedom / 2 * (np.log1p(excess) - excess) - np.log(ratio)
    return np.where(ratio > 0, np.exp(np.maximum(exponent, -740.0)), 0.0)


@lru_cache(maxsize=64)
def _laws(freedom: int) -> tuple[ChiSquare, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return chi-square_m, nodes and weights of chi-square_{m+1}, and those of Z^2 for a standard normal Z."""
    c, weights = ChiSquare.of(freedom + 1).rule()
    z = _NORMAL_REACH * (_NORMAL_NODES + 1) / 2
    normal = np.exp(-(z**2) / 2) * _NORMAL_WEIGHTS
    return ChiSquare.of(freedom), c[:, np.newaxis], weights, z**2, normal / normal.sum()


def wishart_delta(epsilon: float, freedom: int, weight: float, neighbours: Neighbours) -> float:
    """Return delta(epsilon) of Wishart noise, an upper bound of its computation.

    For "zero-out" this is the exact curve. For "replace-one" it is the largest of the corners of the set of pairs,
    where the maximum stands (docs/proofs/wishart.md#wishart, by Prékopa 1973, Theorem 6): exact too with two
    columns or more.

    Args:
        epsilon: at least 0.
        freedom: m = k - d + 1, at least `MIN_FREEDOM`.
        weight: s = 1/c, positive.
        neighbours: which cohorts are neighbours.

    Raises:
        ValueError: if an argument is out of range.
    """
    if not (epsilon >= 0 and 0 < weight < math.inf and freedom >= MIN_FREEDOM):
        raise ValueError(f"no curve for epsilon={epsilon}, m={freedom} (at least {MIN_FREEDOM}), s={weight}")
    found = max(_without_row(epsilon, freedom, weight), _with_row(epsilon, freedom, weight))
    if neighbours == "replace-one":
        found = max(found, _orthogonal(epsilon, freedom, weight))
    return min(1.0, found)


def _without_row(epsilon: float, freedom: int, weight: float) -> float:
    """Return delta of chi-square_m against itself moved up by s."""
    law = _laws(freedom)[0]
    bar = weight / -math.expm1(-(2 * epsilon + weight) / (freedom - 2))
    both = law.cdf(np.array([bar, bar - weight]))
    return _excess(float(both[0]), epsilon, float(both[1]))


def _with_row(epsilon: float, freedom: int, weight: float) -> float:
    """Return delta of chi-square_m moved up by s against itself; survival as 1 - F, so to 14 places only."""
    if weight <= 2 * epsilon:
        return 0.0
    bar = weight / -math.expm1(-(weight - 2 * epsilon) / (freedom - 2))
    both = 1 - _laws(freedom)[0].cdf(np.array([bar - weight, bar]))
    return _excess(float(both[0]), epsilon, float(both[1])) + 1e-14


def _orthogonal(epsilon: float, freedom: int, weight: float) -> float:
    """Return delta for two orthogonal rows of full length, whose products differ by the eigenvalues s and -s.

    The 2 x 2 Schur complement of W is W_2(I, m + 1); C and Z are its Bartlett variables, what is left is chi-square_m.
    """
    law, c, weights, squares, normal = _laws(freedom)
    power = min(2 * epsilon / (freedom - 2), 700.0)
    present = law.cdf(weight * (weight + c - squares) / (weight - c * math.expm1(-power))) @ normal
    absent = law.cdf(weight * (c - weight - squares) / (weight + c * math.expm1(power))) @ normal
    return _excess(float(weights @ present), epsilon, float(weights @ absent))


def _excess(first: float, epsilon: float, second: float) -> float:
    """Return first - e^epsilon second, raised by the error of the computation."""
    scaled = math.exp(min(epsilon, 700.0)) * second
    return max(first - scaled, 0.0) + _ERROR * max(first, scaled)


@lru_cache(maxsize=4096)
def dominating_mu(freedom: int, weight: float, neighbours: Neighbours, failure: float) -> float:
    """Return a mu with delta(epsilon) <= f + (1 - f) delta_G(epsilon, mu) for every epsilon, f the failure probability.

    So the noise is at least as private as a Gaussian release that fails altogether with probability f, also in
    composition (docs/proofs/wishart.md#wishart). Between the nodes: as a function of e^epsilon a curve is convex,
    so a chord lies above it and a tangent below.

    Args:
        freedom: m, at least `MIN_FREEDOM`.
        weight: s = 1/c, positive.
        neighbours: which cohorts are neighbours.
        failure: f, between 0 and 1.

    Returns:
        mu; infinite if none is found, as where the loss is infinite with a probability above f.

    Raises:
        ValueError: if an argument is out of range.
    """
    if not 0 < failure < 1:
        raise ValueError(f"a probability of failure lies strictly between 0 and 1, got {failure}")
    rough = weight / math.sqrt(freedom if neighbours == "replace-one" else 2 * freedom)
    epsilons, deltas = [0.0], [wishart_delta(0.0, freedom, weight, neighbours)]
    while deltas[-1] > failure:
        if len(epsilons) > 400 or not deltas[-1] <= 1:
            return math.inf
        epsilons.append(epsilons[-1] + rough / _STEPS)
        deltas.append(wishart_delta(epsilons[-1], freedom, weight, neighbours))
    low, high = rough / 2, rough
    while not _dominates(high, epsilons, deltas, failure):
        low, high = high, high * 1.25
        if high > 1e3:
            return math.inf
    return bisect(high, low, lambda mu: _dominates(mu, epsilons, deltas, failure), width=1e-7)[0]


def _dominates(mu: float, epsilons: list[float], deltas: list[float], failure: float) -> bool:
    """Return whether tangents of f + (1 - f) delta_G(., mu) lie above all chords of a curve given at some epsilons."""
    for left in range(len(epsilons) - 1):
        middle = (epsilons[left] + epsilons[left + 1]) / 2
        above, under = _normal_cdf(mu / 2 - middle / mu), _normal_cdf(-mu / 2 - middle / mu)
        for end in (left, left + 1):
            tangent = above - math.exp(epsilons[end]) * under
            if not deltas[end] <= failure + (1 - failure) * (tangent - 1e-13 * above):
                return False
    return True


def passed_on(probability: float, size: float) -> float:
    """Return an upper bound of Phi(Phi^-1(x) + r): what a probability x may become at a Gaussian distance r.

    Any epsilon gives one, e^epsilon x + delta_G(epsilon, r); the least of a few.
    """
    epsilons = [k * size + size**2 / 2 for k in range(1, 13)]
    return min(math.exp(min(epsilon, 700.0)) * probability + gaussian_delta(epsilon, size) for epsilon in epsilons)


def failure_of(probability: float, mu: float) -> float:
    """Return f for which delta(epsilon) <= F + delta_G(epsilon, mu) implies domination by mu and the failure f.

    That is F / (2 Phi(-mu/2)), since 1 - delta_G(epsilon, mu) is never less (docs/proofs/wishart.md#wishart).
    """
    return min(1.0, probability / max(math.erfc(mu / math.sqrt(8)), 1e-300) * (1 + 1e-9)) if mu < math.inf else 1.0


def failure_of_two_steps(failure: float, mu: float) -> float:
    """Return the failure that goes with 2 mu for inputs two steps apart, each step with mu and a failure."""
    return failure_of(failure + passed_on(failure, mu), 2 * mu) if mu < math.inf else 1.0


def _normal_cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2
