"""Pure epsilon: noise of clients that adds up to discrete Laplace noise (docs/proofs/laplace.md)."""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isqrt, log, log1p, sqrt
from typing import Self

from pydantic import Field

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import RING_BITS, IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError, RowUnderfilledError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.layout import Layout
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA, GaussianLaw, NoisyMeasurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.discrete_laplace import MAX_SCALE, MAX_SHARES, laplace_shares
from lintra_protocol.privacy.pure import PureStatement, mu_of_pure
from lintra_protocol.privacy.statement import Claim, Neighbours, PrivacyStatement

_UP = 1 + 1e-12
"""By how much a promise is rounded up: no machine's last digit can break it."""


class LaplaceNoise(Mechanism):
    """What mechanisms with Laplace noise share; a kind adds what its rows are.

    `sigma` is here the scale b of the whole noise, that of `shares` honest clients: a word of it is x with probability
    proportional to (b / (b + 1))^|x|.
    """

    shares: int = Field(default=1, ge=1, le=MAX_SHARES)

    @abstractmethod
    def moved_words(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> int:
        """Return how many words of the sum a neighbour moves at most."""

    @property
    def spread(self) -> float:
        """Return the deviation of one client's noise over sigma: sqrt(2 b (b + 1) / h) / b."""
        return sqrt(2 * (1 + 1 / self.sigma) / self.shares)

    def planned_for(self, claim: Claim, num_columns: int, setting: Setting) -> Self:
        """Return the same for as many honest clients as a claim leaves."""
        del num_columns, setting
        return self.model_copy(update={"shares": claim.min_clients - claim.max_corrupt_clients})

    @property
    def noise_law(self) -> "LaplaceLaw":
        """Return the law of what the honest clients' noise adds up to."""
        return LaplaceLaw(self.sigma, self, floor=self.floor)

    def remark(self, privacy: PrivacyStatement) -> str:
        """Return that no delta is needed."""
        del privacy
        return "this epsilon holds with a delta of 0; the delta of the claim is for what is added up with other tasks"


@dataclass(frozen=True)
class LaplaceLaw(GaussianLaw):
    """Noise of `shares` honest clients, which add up to P(x) proportional to (sigma / (sigma + 1))^|x| in a word."""

    mechanism: LaplaceNoise

    def check(self, measured: NoisyMeasurement) -> None:
        """Refuse a scale that no table holds, an allowance for coalitions, and too few clients for a whole noise.

        Raises:
            InvalidTaskError: in words.
        """
        super().check(measured)
        if self.sigma > MAX_SCALE:
            raise InvalidTaskError(f"sigma {self.sigma} exceeds {MAX_SCALE}, the largest scale of Laplace noise")
        if fraction(measured.claim.delta_coalition):
            raise InvalidTaskError("delta_coalition: pure epsilon has no part of delta that could go to it; use 0")

    def grid_fits(self, measured: NoisyMeasurement) -> bool:
        """Return whether the scale that the claim needs is not too large on this grid."""
        return self.smallest_sigma(measured) <= MAX_SCALE

    def noise(self, layout: Layout, count: int, random_bytes: RandomBytes) -> IntArray:
        """Draw a share of the noise for each report, shape `(count, w)`."""
        return laplace_shares((count, layout.num_words), self.sigma, self.mechanism.shares, random_bytes)

    def statement(self, measured: NoisyMeasurement, num_clients: int, smallest_row: int) -> PrivacyStatement:
        """State the pure epsilon of sums in which so many honest clients' noise stands, and the mu that it implies.

        Raises:
            RowUnderfilledError: fewer honest clients than make a whole noise.
        """
        claim, shares = measured.claim, self.mechanism.shares
        if smallest_row < shares:
            raise RowUnderfilledError(
                f"{max(smallest_row, 0)} honest clients beyond the tolerated coalition are fewer than the {shares} "
                "whose noise together is Laplace noise"
            )
        epsilon = self._distance(measured) * log1p(1 / self.sigma) * _UP
        return PureStatement(
            neighbours=claim.neighbours,
            epsilon=epsilon,
            delta=claim.float_delta,
            mu=mu_of_pure(epsilon),
            num_clients=num_clients,
            honest_clients=smallest_row,
            leverage=1 / smallest_row,
            max_corrupt_clients=claim.max_corrupt_clients,
            threat=claim.threat,
        )

    def smallest_sigma(self, measured: NoisyMeasurement) -> int:
        """Return the smallest scale b with D ln(1 + 1/b) at most epsilon, D the L1 distance of neighbours."""
        distance, epsilon = self._distance(measured), measured.claim.float_epsilon

        def keeps(scale: int) -> bool:
            return distance * log1p(1 / scale) * _UP <= epsilon

        # Since 1/(b + 1/2) < ln(1 + 1/b) < 1/b the answer is within one of D / epsilon.
        scale = max(MIN_SIGMA, int(distance / epsilon) - 2)
        while not keeps(scale):
            scale += max(1, scale // 10**12)
        return scale

    def log_wrap_probability(self, measured: NoisyMeasurement, max_clients: int) -> float:
        """Return the natural logarithm of a bound on the chance that any released entry leaves the ring.

        With p = b / (b + 1), either part of n shares exceeds x with a chance below (1 + sqrt p)^(n/h) p^(x/2): Markov's
        bound at p^(-1/2) (docs/proofs/laplace.md).
        """
        layout = measured.layout
        room = (1 << RING_BITS - 1) - measured.fullest_row(max_clients) * max(block.bound for block in layout.blocks)
        if room <= 0:
            return inf
        whole = max_clients / self.mechanism.shares
        return log(2 * layout.num_words) + whole * log(2) - room / 2 * log1p(1 / self.sigma)

    def _distance(self, measured: NoisyMeasurement) -> int:
        """Return D: by Cauchy and Schwarz at most the root of the words that move times their squared distance."""
        neighbours = measured.claim.neighbours
        words = self.mechanism.moved_words(neighbours, measured.num_columns, measured.setting)
        square: Fraction = words * measured.squared_distance
        return isqrt(square.numerator // square.denominator)
