"""The noise law of `ron_gauss`: Gaussian noise dealt to the parts of one vector, whose joint privacy is exact."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt

import numpy as np

from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.base import squared_distance_of_persons
from lintra_protocol.mechanisms.floor import MIN_FLOOR
from lintra_protocol.mechanisms.layout import CLIPPED
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA, GaussianLaw, NoisyMeasurement, upper_root
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA
from lintra_protocol.noise.joint_noise import JointNoise
from lintra_protocol.privacy.bisection import smallest_whole
from lintra_protocol.privacy.discrete import discrete_mu
from lintra_protocol.privacy.statement import (
    MAX_SLACK,
    SMOOTHING,
    Claim,
    Neighbours,
    PrivacyStatement,
    additive_statement,
    alone_statement,
)
from lintra_protocol.privacy.two_layers import alone_slack, split_variance, together_slack


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
        self,
        neighbours: Neighbours,
        setting: Setting,
        honest: int | Fraction,
        given_up: Fraction,
        sigma: int | None = None,
    ) -> Fraction:
        """Return mu^2 of Theorem J3 for one row, or one person's rows in one organisation, without a clip counter.

        `honest` draws of noise hide it; the lattice takes `given_up` of the variance of every word.
        """

        def of_rows(which: Neighbours) -> Fraction:
            return self.noise_shares.squared_mu(sigma or self.sigma, which, honest, given_up)

        return squared_distance_of_persons(of_rows, neighbours, setting)

    def _squared_mu(self, measured: NoisyMeasurement, sigma: int, floor: int, honest: int) -> Fraction:
        """Return mu^2 of all that neighbours change, and of a clip counter (proofs/clips.md#clip-counter).

        A floor has at least (floor / sigma)^2 of the variance of a client's noise in every word.
        """
        setting, layout, given_up = measured.setting, measured.layout, Fraction(SMOOTHING)
        draws = honest + Fraction(floor**2, sigma**2)
        if min(self.noise_shares.present(sigma)) ** 2 * draws <= given_up:
            return Fraction(10**30)
        one = self.squared_mu(measured.claim.neighbours, setting, draws, given_up, sigma)
        counter = layout[CLIPPED].bound ** 2 if CLIPPED in layout else 0
        return setting.squared_places * one + Fraction(counter) / (draws * sigma**2 - given_up)

    def statement(self, measured: NoisyMeasurement, num_clients: int, smallest_row: int) -> PrivacyStatement:
        """State the privacy: Theorem J3 with every variance reduced for the lattice, word by word (D1, T1)."""
        honest, layout = max(smallest_row, 1), measured.layout
        squared_mu = self._squared_mu(measured, self.sigma, self.floor, honest)
        least, floor = float(layout.least_sigma) ** 2, float(layout.floor.of(np.array(layout.least_sigma))) ** 2
        statement = additive_statement(
            measured.claim,
            # The statement divides by the variance of a product; the other words' is in mu already.
            distance=upper_root(squared_mu * (honest * self.sigma**2 + self.floor**2 - Fraction(SMOOTHING))),
            sigma=self.sigma,
            num_clients=num_clients,
            smallest_row=smallest_row,
            slack=together_slack(honest, layout.num_noised, least, SMOOTHING, floor),
            persons=measured.setting.persons,
            floor=self.floor,
        )
        return replace(statement, noise=measured.setting.noise)

    def alone(self, measured: NoisyMeasurement) -> PrivacyStatement | None:
        """Return the privacy of a client of whom all others are corrupt: J3 behind its own noise and a floor (T2)."""
        layout, merged = measured.layout, measured.setting.merges and self.floor > 0
        squared_mu = self._squared_mu(measured, self.sigma, self.floor, 0 if merged else 1)
        least, floor = float(layout.least_sigma) ** 2, float(layout.floor.of(np.array(layout.least_sigma))) ** 2
        statement = alone_statement(
            measured.claim.alone,
            mu=upper_root(squared_mu),
            entries=1,
            slack=alone_slack(layout.num_noised, least, SMOOTHING, floor),
            persons=measured.setting.persons,
        )
        return replace(statement, noise=measured.setting.noise)

    def smallest_sigma(self, measured: NoisyMeasurement) -> int:
        """Return the smallest sigma that keeps the claim at the minimum cohort (see `GaussianLaw.smallest_sigma`)."""
        together, honest = self._variance(measured, measured.claim), self._honest(measured)
        return self._smallest(measured, lambda _: 0, together / honest)

    def smallest_noise(self, measured: NoisyMeasurement) -> tuple[int, int]:
        """Return the smallest (sigma, floor) that keep the claim, alone too (see `GaussianLaw.smallest_noise`)."""
        claim, merges = measured.claim, measured.setting.merges
        if not measured.setting.floor_servers or claim.epsilon_alone is None:
            return self.smallest_sigma(measured), 0
        target, own = _target(claim.alone), 0 if merges else 1
        together, alone = (self._variance(measured, each) for each in (claim, claim.alone))

        def floor_of(sigma: int) -> int:
            if self._squared_mu(measured, sigma, 0, 1) <= target:
                return 0
            # In the word of the least noise, too, a floor is at least MIN_FLOOR.
            least = -(-MIN_FLOOR * sigma // min(self.noise_shares.present(sigma)))
            floor = max(least, isqrt(max(int(alone) - own * sigma**2, 0)))
            # All variances together are in nearly inverse proportion to mu^2, so that one step from there is enough.
            mu = self._squared_mu(measured, sigma, floor, own)
            guess = isqrt(max(int((own * sigma**2 + floor**2) * mu / target) - own * sigma**2, 0)) + 1
            return smallest_whole(
                least, lambda floor: self._squared_mu(measured, sigma, floor, own) <= target, None, guess
            )

        variance, _ = split_variance(together, alone, self._honest(measured), merged=merges)
        sigma = self._smallest(measured, floor_of, variance)
        return sigma, floor_of(sigma)

    def _honest(self, measured: NoisyMeasurement) -> int:
        honest = measured.emptiest_row(measured.claim.min_clients)
        if honest < 1:
            self.privacy(measured, measured.claim.min_clients)  # which has the words for this refusal
        return honest

    def _variance(self, measured: NoisyMeasurement, claim: Claim) -> float:
        """Return which variance of a product a claim takes, nearly, from where nothing is rounded up to an integer."""
        setting, honest, target = measured.setting, self._honest(measured), _target(claim)
        one = squared_distance_of_persons(self.noise_shares.squared_row_distance, claim.neighbours, setting)
        first = max(MIN_SIGMA, isqrt(int(setting.squared_places * one / (target * honest))))
        return float(self._squared_mu(measured, first, 0, honest) * honest * first**2 / target)

    def _smallest(self, measured: NoisyMeasurement, floor_of: Callable[[int], int], variance: float) -> int:
        """Return the smallest sigma with a floor that keeps the claim; `variance` is about what it takes."""
        noise, honest, target = self.noise_shares, self._honest(measured), _target(measured.claim)
        counter = CLIPPED in measured.layout

        def keeps(sigma: int) -> bool:
            present = noise.present(sigma) + [sigma] * counter
            return min(present) >= MIN_SIGMA and self._squared_mu(measured, sigma, floor_of(sigma), honest) <= target

        # mu^2 falls nearly as 1/sigma^2; what is left comes from the smallest deviation being whole.
        return smallest_whole(MIN_SIGMA, keeps, guess=isqrt(int(variance)) + 1)


def _target(claim: Claim) -> Fraction:
    """Return mu^2 that a claim allows, with what integers cost."""
    return Fraction(discrete_mu(claim.float_epsilon, claim.noise_delta, MAX_SLACK) * (1 - 1e-11)) ** 2
