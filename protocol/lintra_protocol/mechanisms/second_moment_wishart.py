"""`second_moment_wishart`: the sum of the rows' outer products, every client adding one random example of its own.

What the honest clients' examples add up to is Wishart noise, Algorithm 3 of Sheffet 2019 without a curator. The
examples are drawn on a grid 2^18 times finer than the rows', their products are rounded at random and a little discrete
Gaussian noise is added, so that the integers on the wire are covered by a proof (docs/explanation/privacy.md#wishart).
"""

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
from lintra_protocol.mechanisms.layout import Block, Layout, Triangle
from lintra_protocol.mechanisms.second_moment import triangle_matrix, triangle_products, triangle_sigmas
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA, discrete_gaussian
from lintra_protocol.privacy.bisection import bisect_whole
from lintra_protocol.privacy.discrete import discrete_epsilon, discrete_mu, kappa, row_slack
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.headroom import log_wrap_probability
from lintra_protocol.privacy.statement import MAX_SLACK, SMOOTHING, Claim, Neighbours, PrivacyStatement
from lintra_protocol.privacy.wishart import MIN_FREEDOM, dominating_mu, failure_of, failure_of_two_steps, passed_on
from lintra_protocol.transforms.ones import Ones

_FINE_BITS = 18
"""The examples' grid is this much finer than the rows'; more bits and a product leaves 63 bits."""

_FINE_VARIANCE = 4
"""Of an example's fine part, in squared row steps; and of its rounding, in squared fine steps."""

_FAILURES = 16
"""One part in so many of delta may go to the events that no mu covers."""

_TAIL = 1e-40
"""Probability that the grid errs by more than its bound."""


class WishartSecondMoment(Mechanism):
    """The matrix sum of x x^T + g g^T - v I; a report is its upper triangle, as for `second_moment`.

    The random example g has independent entries of variance v, the largest a^2 + 4 that is at most `sigma`; a product
    of two of them has deviation v, so that `sigma` says what it says for other mechanisms.
    """

    kind: Literal["second_moment_wishart"] = "second_moment_wishart"

    counts_clipped: ClassVar[bool] = True
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
    def rounding(self) -> int:
        """Return the deviation of the noise that hides the examples' grid: a 64th of a product's, rounded up."""
        return -(-self.sigma // 64)

    @property
    def min_sigma(self) -> int:
        """Return the smallest sigma at which the proof's constants hold: a = 64."""
        return 64**2 + _FINE_VARIANCE

    def num_words(self, num_columns: int) -> int:
        """Return d (d + 1) / 2, and one for the clip counter."""
        return num_columns * (num_columns + 1) // 2 + self.clip_words

    @property
    def num_rows(self) -> int:
        """Return 1: the servers' matrix is one row of ones."""
        return 1

    def encode_exactly(self, steps: IntArray) -> IntArray:
        """Return the integer products of the upper triangle, shape `(n, d (d + 1) / 2)`, of steps of shape `(n, d)`."""
        return triangle_products(steps)

    @property
    def sigma_bits(self) -> int:
        """Return 2f."""
        return 2 * self.fraction_bits

    def sigmas(self, num_columns: int) -> IntArray:
        """Return the deviation of every word's noise, shape `(w,)`.

        It is `sigma` off the diagonal and the next integer above sqrt(2) `sigma` on it; the counter has `sigma`.
        """
        return np.pad(triangle_sigmas(num_columns, self.sigma), (0, self.clip_words), constant_values=self.sigma)

    def squared_row_distance(self, neighbours: Neighbours) -> Fraction:
        """Return the largest squared distance of neighbouring products, as `SecondMoment` without options: R^2, R^2/2.

        The promise does not rest on it, since Wishart noise has a curve of its own; it says what rows can do.
        """
        whole = Fraction(self.squared_bound) ** 2
        return whole / 2 if neighbours == "zero-out" else whole

    def largest_word(self) -> int:
        """Return the squared integer norm bound, or the clip counter's g."""
        return max(self.squared_bound, self.clip_steps)

    def public_matrix(self, num_clients: int, seed: bytes) -> Ones:
        """Return the row of ones."""
        return Ones(num_clients)

    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        """Return the symmetric matrix of shape `(d, d)` in squared normalised units."""
        words = sketch[0, : num_columns * (num_columns + 1) // 2]
        return triangle_matrix(words, num_columns, 4.0**-self.fraction_bits)

    def noise(self, num_rows: int, num_columns: int, random_bytes: RandomBytes) -> IntArray:
        """Draw one example for each report; return its products about their mean, shape `(num_rows, w)`."""
        first, second = np.triu_indices(num_columns)
        shape, bits = (num_rows, first.size), 2 * _FINE_BITS
        coarse = discrete_gaussian((num_rows, num_columns), self.coarse, random_bytes)
        fine = discrete_gaussian((num_rows, num_columns), 2 << _FINE_BITS, random_bytes)
        # The example is coarse + fine / 2^18; what its products have behind the point is rounded up or down at random.
        mixed = coarse[:, first] * fine[:, second] + fine[:, first] * coarse[:, second]
        uniform = ring_from_bytes(random_bytes(8 * num_rows * first.size)).reshape(shape) >> np.uint64(64 - bits)
        behind = (mixed << _FINE_BITS) + fine[:, first] * fine[:, second] + uniform.astype(np.int64)
        products = coarse[:, first] * coarse[:, second] + (behind >> bits)
        products -= np.where(first == second, self.variance, 0)
        products += discrete_gaussian(shape, self.rounding, random_bytes)
        if not self.clip_words:
            return products
        # The counter is no product: its noise is that of any other mechanism's.
        return np.hstack([products, discrete_gaussian((num_rows, 1), self.sigma, random_bytes)])

    def log_wrap_probability(self, num_columns: int, max_clients: int) -> float:
        """Return the natural log of a bound on the chance that any released entry leaves the ring.

        A sum of products is at most the larger sum of squares; h squares of variance v exceed v (1.4 h + 2 z^2) with
        probability exp(-z^2 / 2). Half of the room is for them, half for the rounding noise
        (docs/explanation/privacy.md#headroom).
        """
        total = max_clients * (self.squared_bound + self.variance)
        room = (1 << RING_BITS - 1) - total
        if room <= 0:
            return inf
        squares = log(num_columns) - max(room / 2 / self.variance - 1.4 * max_clients, 0.0) / 4
        entries, variance = num_columns * (num_columns + 1) // 2, max_clients * float(self.rounding) ** 2
        parts = [squares, log_wrap_probability(entries, total + room // 2, variance, RING_BITS)]
        if self.clip_words:
            counter = max_clients * self.clip_steps, max_clients * float(self.sigma) ** 2
            parts.append(log_wrap_probability(1, *counter, RING_BITS))
        return max(parts) + log(len(parts))

    def _additive(self, claim: Claim, num_columns: int, num_clients: int, smallest_row: int) -> PrivacyStatement:
        """State the privacy of the sum: Gaussian of parameter mu but for a failure that joins `delta_coalition`."""
        freedom = smallest_row - num_columns + 1
        if freedom < MIN_FREEDOM:
            raise RowUnderfilledError(
                f"{max(smallest_row, 0)} honest clients give no Wishart noise for {num_columns} columns, which takes "
                f"{num_columns + MIN_FREEDOM - 1} beyond the tolerated coalition"
            )
        weight = self.squared_bound / (self.variance - _FINE_VARIANCE * 4.0**-_FINE_BITS)
        allowed = failure_allowed(claim)
        grid = self._grid(smallest_row, num_columns)
        inner = dominating_mu(freedom, weight * (1 + 1e-12), claim.neighbours, allowed)
        mu = (inner + 2 * grid) * (1 + 1e-9)
        failure = _joined_failure(allowed, grid, mu)
        words = num_columns * (num_columns + 1) // 2
        slack = row_slack(smallest_row, words, float(self.rounding) ** 2, SMOOTHING)
        slack += 2 * smallest_row * num_columns * kappa(_FINE_VARIANCE * 0.999)
        if self.clip_words:
            # A Gaussian word beside what is dominated by mu and the failure: squares of mu add up, failures do not.
            variance = float(self.sigma) ** 2
            slack += row_slack(smallest_row, 1, variance, SMOOTHING)
            mu = hypot(mu, self.clip_steps / sqrt(smallest_row * variance - SMOOTHING)) * (1 + 1e-12)
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
        crossed = 2 * z * 2 * fine * sqrt(self.variance) * (sqrt(honest) + z)
        squared = _FINE_VARIANCE * fine**2 * (1.4 * honest + 2 * z**2)
        return sqrt(words) * (rounded + crossed + squared) / sqrt(honest * self.rounding**2 - SMOOTHING)

    def failure_of_two_steps(self, privacy: PrivacyStatement) -> float:
        """Return the failure between two rows, which depends on the data, unlike that of a crowded row."""
        return failure_of_two_steps(privacy.delta_coalition, privacy.mu)

    def check(self, claim: Claim, num_columns: int, max_clients: int) -> None:
        """Refuse parameters that break the claim or may overflow the ring (see `Mechanism.check`).

        Raises:
            InvalidTaskError: also where sigma is too small for the examples' grid.
        """
        if self.sigma < self.min_sigma:
            raise InvalidTaskError(f"sigma {self.sigma} is below {self.min_sigma}, the least for random examples")
        super().check(claim, num_columns, max_clients)

    def may_fit(self, claim: Claim, num_columns: int) -> bool:
        """Return whether the examples' products, of the deviation that the claim needs, fit this grid."""
        sigma = self._scale(claim, num_columns) * self.squared_bound * 1.01
        return self.min_sigma <= sigma * sqrt(2) <= MAX_SIGMA

    def smallest_sigma(self, claim: Claim, num_columns: int) -> int:
        """Return the smallest sigma that keeps the claim at the minimum cohort, among those that are a^2 + 4."""
        epsilon, delta = claim.float_epsilon, claim.float_delta

        def keeps(coarse: int) -> bool:
            candidate = self.model_copy(update={"sigma": coarse**2 + _FINE_VARIANCE})
            statement = candidate.privacy(claim, num_columns, claim.min_clients)
            # A millionth of epsilon is left over, so that no other machine's last digit can break the claim.
            return statement.delta_at(epsilon * (1 - 1e-6)) <= delta

        low = isqrt(self.min_sigma)
        if keeps(low):
            return low**2 + _FINE_VARIANCE
        high, step = max(isqrt(int(self._scale(claim, num_columns) * self.squared_bound)), low + 1), 1
        while not keeps(high):
            low, high, step = high, high + step, 2 * step
        step = 1
        while high - step > low and keeps(high - step):
            high, step = high - step, 2 * step
        low = max(low, high - step)
        return bisect_whole(high, low, keeps) ** 2 + _FINE_VARIANCE

    def _scale(self, claim: Claim, num_columns: int) -> float:
        """Return c = v / B^2 that keeps the claim, up to the price of the grid; with a counter nearly."""
        honest = self.smallest_row(claim.min_clients, claim)
        if honest - num_columns + 1 < MIN_FREEDOM:
            self.privacy(claim, num_columns, claim.min_clients)  # which knows the words for this refusal
        noise_delta = claim.noise_delta * (1 - 1 / _FAILURES)
        mu = discrete_mu(claim.float_epsilon, noise_delta, MAX_SLACK)
        # A counter of weight w has about w^2 of the rows' mu^2, twice that against the null row.
        part = float(fraction(self.clip_count_weight)) ** 2 * (2 if claim.neighbours == "zero-out" else 1)
        return _scale_for(mu / sqrt(1 + part), honest - num_columns + 1, claim.neighbours, failure_allowed(claim))

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return the products of the upper triangle."""
        triangle = Triangle(num_columns, self.sigma, isqrt(2 * self.sigma**2 - 1) + 1)
        return Layout((Block("products", triangle.size, triangle, self.squared_bound, 4.0**-self.fraction_bits),))


def failure_allowed(claim: Claim) -> float:
    """Return the planned probability of failure; with all that joins it, about a 16th of delta is used."""
    largest_mu = min(gaussian_mu(claim.float_epsilon, claim.noise_delta), 3.0)
    return claim.noise_delta / _FAILURES * erfc(largest_mu / sqrt(8)) * 0.99


def _joined_failure(allowed: float, grid: float, mu: float) -> float:
    """Return f for which the whole is dominated by mu and the failure f (docs/explanation/privacy.md#wishart).

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
