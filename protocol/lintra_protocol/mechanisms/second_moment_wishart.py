"""`second_moment_wishart`: the sum of the rows' outer products, every client adding one random example of its own.

What the honest clients' examples add up to is Wishart noise, Algorithm 3 of Sheffet 2019 without a curator. The
examples are drawn on a grid 2^18 times finer than the rows', their products are rounded at random and a little discrete
Gaussian noise is added, so that the integers on the wire are covered by a proof (docs/proofs/wishart.md#wishart).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import erfc, hypot, inf, isqrt, log, sqrt
from typing import ClassVar, Literal

import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import RING_BITS, FloatArray, IntArray, ring_from_bytes
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError, RowUnderfilledError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.layout import CLIPPED, Block, Layout, Products, Triangle, Words, triangle_matrix
from lintra_protocol.mechanisms.noise_law import GaussianLaw, NoisyMeasurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA, discrete_gaussian
from lintra_protocol.privacy.bisection import bisect_whole
from lintra_protocol.privacy.discrete import discrete_epsilon, discrete_mu, kappa, row_slack
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.headroom import log_wrap_probability
from lintra_protocol.privacy.statement import MAX_SLACK, SMOOTHING, Claim, Neighbours, PrivacyStatement
from lintra_protocol.privacy.wishart import MIN_FREEDOM, dominating_mu, failure_of, failure_of_two_steps, passed_on

_FINE_BITS = 18
"""The examples' grid is this much finer than the rows'; more bits and a product leaves 63 bits."""

_FINE_VARIANCE = 4
"""Of an example's fine part, in squared row steps; and of its rounding, in squared fine steps."""

_FAILURES = 16
"""One part in so many of delta may go to the events that no mu covers."""

_TAIL = 1e-40
"""Probability that the grid errs by more than its bound."""


_MIN_SIGMA = 64**2 + _FINE_VARIANCE


class WishartSecondMoment(Mechanism):
    """The matrix sum of x x^T + g g^T - v I; a report is its upper triangle, as for `second_moment`.

    The random example g has independent entries of variance v, the largest a^2 + 4 that is at most `sigma`; a product
    of two of them has deviation v, so that `sigma` says what it says for other mechanisms.
    """

    kind: Literal["second_moment_wishart"] = "second_moment_wishart"

    allows: ClassVar[frozenset[str]] = frozenset({"clip counter", "dither"})
    start_bits: ClassVar[int] = 40

    @property
    def coarse(self) -> int:
        """Return a, the deviation of the coarse part of an example's entry, in row steps."""
        return isqrt(max(self.sigma - _FINE_VARIANCE, 1))

    @property
    def variance(self) -> int:
        """Return v, the variance of an example's entry, in squared row steps."""
        return self.coarse**2 + _FINE_VARIANCE

    @property
    def grid_noise(self) -> int:
        """Return the deviation of the noise that hides the examples' grid: a 64th of a product's, rounded up."""
        return -(-self.sigma // 64)

    @property
    def sigma_bits(self) -> int:
        """Return 2f."""
        return 2 * self.fraction_bits

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return the products of the upper triangle."""
        triangle = Triangle.of_products(num_columns, self.sigma)
        return Layout((Block("products", triangle.size, triangle, self.squared_bound, 4.0**-self.fraction_bits),))

    def fill(self, steps: IntArray, setting: Setting) -> Mapping[str, Words]:
        """Return the products of clipped integer rows, shape `(n, d)`."""
        return {"products": Products(steps, steps, "upper")}

    def decode(self, layout: Layout, sketch: IntArray) -> FloatArray:
        """Return the symmetric matrix of shape `(d, d)` in squared normalised units."""
        return triangle_matrix(layout.first_values(sketch, "products"))

    def squared_distance(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> Fraction:
        """Return the largest squared distance of neighbouring products, as `SecondMoment` without options: R^2, R^2/2.

        The promise does not rest on it, since Wishart noise has a curve of its own; it says what rows can do.
        """
        whole = Fraction(self.squared_bound) ** 2
        return whole if neighbours == "replace-one" else whole / 2

    @property
    def noise_law(self) -> "WishartLaw":
        """Return the law of what the honest clients' examples add up to."""
        return WishartLaw(self.sigma, self)


@dataclass(frozen=True)
class WishartLaw(GaussianLaw):
    """The noise of random examples: Wishart, and a little discrete Gaussian noise that hides their grid."""

    mechanism: WishartSecondMoment

    def min_sigma(self, setting: Setting) -> int:
        """Return the smallest sigma at which the proof's constants hold: a = 64."""
        return _MIN_SIGMA

    def check(self, measured: NoisyMeasurement) -> None:
        """Raise InvalidTaskError for a sigma that is too small for the examples' grid."""
        if self.sigma < _MIN_SIGMA:
            raise InvalidTaskError(f"sigma {self.sigma} is below {_MIN_SIGMA}, the least for random examples")

    def grid_fits(self, measured: NoisyMeasurement) -> bool:
        """Return whether the examples' products, of the deviation that the claim needs, fit this grid."""
        sigma = self._scale(measured) * self.mechanism.squared_bound * 1.01
        return _MIN_SIGMA <= sigma * sqrt(2) <= MAX_SIGMA

    def noise(self, layout: Layout, count: int, random_bytes: RandomBytes) -> IntArray:
        """Draw one example for each report; return its products about their mean, shape `(count, w)`."""
        num_columns = (isqrt(8 * layout["products"].size + 1) - 1) // 2
        first, second = np.triu_indices(num_columns)
        shape, bits = (count, first.size), 2 * _FINE_BITS
        coarse = discrete_gaussian((count, num_columns), self.mechanism.coarse, random_bytes)
        fine = discrete_gaussian((count, num_columns), 2 << _FINE_BITS, random_bytes)
        # The example is coarse + fine / 2^18; what its products have behind the point is rounded up or down at random.
        mixed = coarse[:, first] * fine[:, second] + fine[:, first] * coarse[:, second]
        uniform = ring_from_bytes(random_bytes(8 * count * first.size)).reshape(shape) >> np.uint64(64 - bits)
        behind = (mixed << _FINE_BITS) + fine[:, first] * fine[:, second] + uniform.astype(np.int64)
        products = coarse[:, first] * coarse[:, second] + (behind >> bits)
        products -= np.where(first == second, self.mechanism.variance, 0)
        products += discrete_gaussian(shape, self.mechanism.grid_noise, random_bytes)
        if CLIPPED not in layout:
            return products
        # The counter is no product: its noise is that of any other mechanism's.
        return np.hstack([products, discrete_gaussian((count, 1), self.sigma, random_bytes)])

    def log_wrap_probability(self, measured: NoisyMeasurement, max_clients: int) -> float:
        """Return the natural log of a bound on the chance that any released entry leaves the ring.

        A sum of products is at most the larger sum of squares; h squares of variance v exceed v (1.4 h + 2 z^2) with
        probability exp(-z^2 / 2). Half of the room is for them, half for the rounding noise
        (docs/proofs/integers.md#headroom).
        """
        mechanism, layout, num_columns = self.mechanism, measured.layout, measured.num_columns
        total = max_clients * (mechanism.squared_bound + mechanism.variance)
        room = (1 << RING_BITS - 1) - total
        if room <= 0:
            return inf
        squares = log(num_columns) - max(room / 2 / mechanism.variance - 1.4 * max_clients, 0.0) / 4
        entries, variance = num_columns * (num_columns + 1) // 2, max_clients * float(mechanism.grid_noise) ** 2
        parts = [squares, log_wrap_probability(entries, total + room // 2, variance, RING_BITS)]
        if CLIPPED in layout:
            counter = max_clients * layout[CLIPPED].bound, max_clients * float(self.sigma) ** 2
            parts.append(log_wrap_probability(1, *counter, RING_BITS))
        return max(parts) + log(len(parts))

    def statement(self, measured: NoisyMeasurement, num_clients: int, smallest_row: int) -> PrivacyStatement:
        """State the privacy of the sum: Gaussian of parameter mu but for a failure that joins `delta_coalition`.

        Raises:
            RowUnderfilledError: too few clients are honest.
        """
        mechanism, claim, num_columns = self.mechanism, measured.claim, measured.num_columns
        freedom = smallest_row - num_columns + 1
        if freedom < MIN_FREEDOM:
            raise RowUnderfilledError(
                f"{max(smallest_row, 0)} honest clients give no Wishart noise for {num_columns} columns, which takes "
                f"{num_columns + MIN_FREEDOM - 1} beyond the tolerated coalition"
            )
        weight = mechanism.squared_bound / (mechanism.variance - _FINE_VARIANCE * 4.0**-_FINE_BITS)
        allowed = failure_allowed(claim)
        grid = self._grid(smallest_row, num_columns)
        inner = dominating_mu(freedom, weight * (1 + 1e-12), claim.neighbours, allowed)
        mu = (inner + 2 * grid) * (1 + 1e-9)
        failure = _joined_failure(allowed, grid, mu)
        words = num_columns * (num_columns + 1) // 2
        slack = row_slack(smallest_row, words, float(mechanism.grid_noise) ** 2, SMOOTHING)
        slack += 2 * smallest_row * num_columns * kappa(_FINE_VARIANCE * 0.999)
        if CLIPPED in measured.layout:
            # A Gaussian word beside what is dominated by mu and the failure: squares of mu add up, failures do not.
            variance = float(self.sigma) ** 2
            slack += row_slack(smallest_row, 1, variance, SMOOTHING)
            mu = hypot(mu, measured.layout[CLIPPED].bound / sqrt(smallest_row * variance - SMOOTHING)) * (1 + 1e-12)
        left = claim.noise_delta - failure
        return PrivacyStatement(
            neighbours=claim.neighbours,
            epsilon=discrete_epsilon(mu, left, slack) if left > 0 and mu < inf else inf,
            delta=claim.float_delta,
            mu=mu,
            slack=slack,
            delta_coalition=min(1.0, float(fraction(claim.delta_coalition)) + failure),
            num_clients=num_clients,
            honest_clients=smallest_row,
            leverage=1 / smallest_row,
            max_corrupt_clients=claim.max_corrupt_clients,
            threat=claim.threat,
        )

    def _grid(self, honest: int, num_columns: int) -> float:
        """Return rho: how far, in deviations of the rounding noise, the examples' grid can move the sum."""
        words, fine = num_columns * (num_columns + 1) // 2, 2.0**-_FINE_BITS
        z = sqrt(2 * log(20 * words / _TAIL))
        rounded = z * sqrt(honest) / 2
        crossed = 2 * z * 2 * fine * sqrt(self.mechanism.variance) * (sqrt(honest) + z)
        squared = _FINE_VARIANCE * fine**2 * (1.4 * honest + 2 * z**2)
        return sqrt(words) * (rounded + crossed + squared) / sqrt(honest * self.mechanism.grid_noise**2 - SMOOTHING)

    def failure_of_two_steps(self, privacy: PrivacyStatement) -> float:
        """Return the failure between two rows, which depends on the data, unlike that of a crowded row."""
        return failure_of_two_steps(privacy.delta_coalition, privacy.mu)

    def smallest_sigma(self, measured: NoisyMeasurement) -> int:
        """Return the smallest sigma that keeps the claim at the minimum cohort, among those that are a^2 + 4."""
        claim = measured.claim
        epsilon, delta = claim.float_epsilon, claim.float_delta

        def keeps(coarse: int) -> bool:
            candidate = self.mechanism.model_copy(update={"sigma": coarse**2 + _FINE_VARIANCE})
            statement = candidate.noise_law.privacy(measured, claim.min_clients)
            # A millionth of epsilon is left over, so that no other machine's last digit can break the claim.
            return statement.delta_at(epsilon * (1 - 1e-6)) <= delta

        low = isqrt(_MIN_SIGMA)
        if keeps(low):
            return low**2 + _FINE_VARIANCE
        high, step = max(isqrt(int(self._scale(measured) * self.mechanism.squared_bound)), low + 1), 1
        while not keeps(high):
            low, high, step = high, high + step, 2 * step
        step = 1
        while high - step > low and keeps(high - step):
            high, step = high - step, 2 * step
        low = max(low, high - step)
        return bisect_whole(high, low, keeps) ** 2 + _FINE_VARIANCE

    def _scale(self, measured: NoisyMeasurement) -> float:
        """Return c = v / B^2 that keeps the claim, up to the price of the grid; with a counter nearly."""
        claim, num_columns = measured.claim, measured.num_columns
        honest = measured.emptiest_row(claim.min_clients)
        if honest - num_columns + 1 < MIN_FREEDOM:
            self.privacy(measured, claim.min_clients)  # which knows the words for this refusal
        noise_delta = claim.noise_delta * (1 - 1 / _FAILURES)
        mu = discrete_mu(claim.float_epsilon, noise_delta, MAX_SLACK)
        # A counter of weight w has about w^2 of the rows' mu^2, twice that against the null row.
        part = float(fraction(self.mechanism.clip_count_weight)) ** 2 * (2 if claim.neighbours == "zero-out" else 1)
        return _scale_for(mu / sqrt(1 + part), honest - num_columns + 1, claim.neighbours, failure_allowed(claim))


def failure_allowed(claim: Claim) -> float:
    """Return the planned probability of failure; with all that joins it, about a 16th of delta is used."""
    largest_mu = min(gaussian_mu(claim.float_epsilon, claim.noise_delta), 3.0)
    return claim.noise_delta / _FAILURES * erfc(largest_mu / sqrt(8)) * 0.99


def _joined_failure(allowed: float, grid: float, mu: float) -> float:
    """Return f for which the whole is dominated by mu and the failure f (docs/proofs/wishart.md#wishart).

    The chain actual, continuous, continuous neighbour, actual neighbour loses `_TAIL` and rho, the failure and mu, and
    `_TAIL` and rho again.
    """
    if not mu < inf:
        return 1.0
    return failure_of(_TAIL + passed_on(allowed, grid) + passed_on(_TAIL, mu), mu)


@lru_cache(maxsize=256)
def _scale_for(mu: float, freedom: int, neighbours: Neighbours, failure: float) -> float:
    """Return c whose noise is dominated by about mu; mu falls almost like 1 / c, so a few steps give six digits."""
    scale = 1 / (mu * sqrt(freedom if neighbours == "replace-one" else 2 * freedom))
    for _ in range(12):
        found = dominating_mu(freedom, 1 / scale, neighbours, failure)
        scale *= min(found / mu, 2.0)
        if abs(found / mu - 1) < 1e-6:
            break
    return scale
