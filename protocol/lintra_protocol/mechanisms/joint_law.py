"""The noise law of `ron_gauss`: Gaussian noise dealt to the parts of one vector, whose joint privacy is exact."""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.base import squared_distance_of_persons
from lintra_protocol.mechanisms.layout import CLIPPED
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA, GaussianLaw, NoisyMeasurement, upper_root
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA
from lintra_protocol.noise.joint_noise import JointNoise
from lintra_protocol.privacy.bisection import smallest_whole
from lintra_protocol.privacy.discrete import discrete_mu, row_slack
from lintra_protocol.privacy.statement import MAX_SLACK, SMOOTHING, Neighbours, PrivacyStatement, additive_statement


@dataclass(frozen=True)
class JointLaw(GaussianLaw):
    """Gaussian noise of different deviations in the parts of the vector, with its exact joint privacy."""

    noise_shares: JointNoise

    def check(self, measured: NoisyMeasurement) -> None:
        """Raise InvalidTaskError for deviations that the sampler does not draw, or too small for the lattice."""
        super().check(measured)
        least, largest = measured.layout.least_sigma, measured.layout.largest_sigma
        if least and not MIN_SIGMA <= least <= largest <= MAX_SIGMA:
            raise InvalidTaskError(f"deviations lie between {MIN_SIGMA} and {MAX_SIGMA}, got {least}..{largest}")

    def squared_mu(
        self, neighbours: Neighbours, setting: Setting, honest: int, given_up: Fraction, sigma: int | None = None
    ) -> Fraction:
        """Return mu^2 of Theorem J3 for one row, or one person's rows in one organisation, without a clip counter.

        `honest` draws of noise hide it; the lattice takes `given_up` of the variance of every word.
        """

        def of_rows(which: Neighbours) -> Fraction:
            return self.noise_shares.squared_mu(sigma or self.sigma, which, honest, given_up)

        return squared_distance_of_persons(of_rows, neighbours, setting)

    def _squared_mu(self, measured: NoisyMeasurement, sigma: int, honest: int, given_up: Fraction) -> Fraction:
        """Return mu^2 of all that neighbours change, and of a clip counter (proofs/clips.md#clip-counter)."""
        setting, layout = measured.setting, measured.layout
        one = self.squared_mu(measured.claim.neighbours, setting, honest, given_up, sigma)
        counter = layout[CLIPPED].bound ** 2 if CLIPPED in layout else 0
        return setting.squared_places * one + Fraction(counter) / (honest * sigma**2 - given_up)

    def statement(self, measured: NoisyMeasurement, num_clients: int, smallest_row: int) -> PrivacyStatement:
        """State the privacy: Theorem J3 with every variance reduced for the lattice, word by word (Theorem D1)."""
        given_up, honest = Fraction(SMOOTHING), max(smallest_row, 1)
        squared_mu = self._squared_mu(measured, self.sigma, honest, given_up)
        num_words = measured.layout.num_noised
        return additive_statement(
            measured.claim,
            # The statement divides by the variance of a product; the other words' is in mu already.
            distance=upper_root(squared_mu * (honest * self.sigma**2 - given_up)),
            sigma=self.sigma,
            num_clients=num_clients,
            smallest_row=smallest_row,
            slack=row_slack(honest, num_words, float(measured.layout.least_sigma) ** 2, SMOOTHING),
            persons=measured.setting.persons,
        )

    def smallest_sigma(self, measured: NoisyMeasurement) -> int:
        """Return the smallest sigma that keeps the claim at the minimum cohort (see `GaussianLaw.smallest_sigma`)."""
        claim, noise, setting = measured.claim, self.noise_shares, measured.setting
        honest = measured.emptiest_row(claim.min_clients)
        if honest < 1:
            self.privacy(measured, claim.min_clients)  # which has the words for this refusal
        mu = discrete_mu(claim.float_epsilon, claim.noise_delta, MAX_SLACK)
        target = Fraction(mu * (1 - 1e-11)) ** 2
        counter = CLIPPED in measured.layout

        def keeps(sigma: int) -> bool:
            present = noise.present(sigma) + [sigma] * counter
            return (
                min(present) >= MIN_SIGMA and self._squared_mu(measured, sigma, honest, Fraction(SMOOTHING)) <= target
            )

        # mu^2 falls nearly as 1/sigma^2: from where nothing is rounded up to an integer, one step of that law. What is
        # left comes from the smallest deviation being whole.
        distance = squared_distance_of_persons(noise.squared_row_distance, claim.neighbours, setting)
        first = max(MIN_SIGMA, isqrt(int(setting.squared_places * distance / (target * honest))))
        there = self._squared_mu(measured, first, honest, Fraction(SMOOTHING))
        return smallest_whole(MIN_SIGMA, keeps, guess=isqrt(int(first**2 * there / target)) + 1)
