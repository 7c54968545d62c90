"""How the noise of a release hides one row or person: the Gaussian law, from which other laws depart.

A law states the privacy of a measurement, finds the smallest noise that keeps a claim, and draws the noise. Most kinds
have the Gaussian law: each word of each report carries independent noise, and the released sums are exactly Gaussian
but for the lattice (docs/proofs/sketch.md#sketch).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import hypot, inf, isqrt, sqrt
from typing import ClassVar, Protocol

import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import RING_BITS, IntArray
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.floor import MAX_SERVERS, MIN_FLOOR
from lintra_protocol.mechanisms.layout import Layout
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA, discrete_gaussian
from lintra_protocol.privacy.discrete import discrete_mu
from lintra_protocol.privacy.headroom import log_wrap_probability
from lintra_protocol.privacy.statement import (
    MAX_SLACK,
    SMOOTHING,
    Claim,
    PrivacyStatement,
    additive_statement,
    alone_statement,
)
from lintra_protocol.privacy.two_layers import (
    alone_slack,
    alone_variance,
    ceil_root,
    split_variance,
    together_slack,
)
from lintra_protocol.transforms.base import PublicMatrix

MIN_SIGMA = 4
"""Below this the discrete Gaussian is too coarse for the lattice correction (docs/proofs/integers.md#integers)."""


class NoisyMeasurement(Protocol):
    """What a noise law asks of a measurement (`mechanisms.measurement.Measurement` says what the members mean)."""

    @property
    def num_columns(self) -> int:
        """Return d."""
        ...

    @property
    def num_rows(self) -> int:
        """Return m."""
        ...

    @property
    def setting(self) -> Setting:
        """Return who sends reports, and who adds noise."""
        ...

    @property
    def claim(self) -> Claim:
        """Return what the noise has to keep."""
        ...

    @property
    def layout(self) -> Layout:
        """Return the blocks of a report."""
        ...

    @property
    def squared_distance(self) -> Fraction:
        """Return the squared distance of neighbouring reports."""
        ...

    @property
    def squared_shift(self) -> Fraction:
        """Return the squared distance of neighbouring releases."""
        ...

    @property
    def shifted_words(self) -> int:
        """Return how many released words one report moves."""
        ...

    @property
    def quota(self) -> int:
        """Return how many corrupt clients one row must be assumed to hold."""
        ...

    def fullest_row(self, num_clients: int) -> int:
        """Return how many reports enter the fullest row."""
        ...

    def emptiest_row(self, num_clients: int) -> int:
        """Return how many honest clients stand behind the emptiest row."""
        ...


@dataclass(frozen=True)
class GaussianLaw:
    """Independent discrete Gaussian noise of deviation `sigma` in every word, or in proportion to it.

    `floor` is the deviation of the noise that every server adds to it, likewise; 0 for one layer.
    """

    sigma: int
    floor: int = field(default=0, kw_only=True)

    matrices: ClassVar[int] = 1
    """How many public matrices may be drawn until one passes."""

    def smoothing(self, setting: Setting) -> int:
        """Return the parameter of the noise that every server adds to its sketch share beside that of clients; 0."""
        del setting
        return 0

    def matrices_differ(self, setting: Setting) -> bool:
        """Return whether one public matrix may hide a client better than another."""
        del setting
        return False

    def min_sigma(self, setting: Setting) -> int:
        """Return the smallest deviation of a client's noise that the lattice correction allows."""
        del setting
        return MIN_SIGMA

    def check(self, measured: NoisyMeasurement) -> None:
        """Refuse parameters of the noise that no proof covers.

        Raises:
            InvalidTaskError: in words.
        """
        if self.floor and not measured.setting.floor_servers:
            raise InvalidTaskError(f"floor {self.floor}: servers add none where noise is not 'both'; leave it out")
        # Of merged reports only what the floor has beyond SMOOTHING counts, and a floor of MIN_FLOOR has nothing.
        least = MIN_FLOOR + measured.setting.merges
        if 0 < self.floor < least:
            raise InvalidTaskError(f"floor {self.floor} is below {least}, the least that integers allow; use 0")
        # In whole numbers of Python: on a grid that is far too fine they do not fit 64 bits.
        largest = -(-self.floor * measured.layout.largest_sigma // self.sigma)
        if largest > MAX_SIGMA:
            raise InvalidTaskError(f"servers would add noise of deviation {largest}, above {MAX_SIGMA}; use fewer bits")

    def grid_fits(self, measured: NoisyMeasurement) -> bool:
        """Return whether calibration should look for a sigma on the mechanism's grid."""
        del measured
        return True

    def noise(self, layout: Layout, count: int, random_bytes: RandomBytes) -> IntArray:
        """Draw the noise of so many reports, shape `(count, w)`; words of equal sigma are drawn together."""
        return drawn_together(layout.words_by_sigma, (count, layout.num_words), random_bytes)

    def privacy(self, measured: NoisyMeasurement, num_clients: int) -> PrivacyStatement:
        """Return what is promised when `num_clients` reports are released, before the public matrix is drawn.

        Raises:
            RowUnderfilledError: the emptiest row has no honest client beyond the tolerated coalition.
        """
        return self.statement(measured, num_clients, measured.emptiest_row(num_clients))

    def release_privacy(
        self, measured: NoisyMeasurement, matrix: PublicMatrix, *, as_planned: bool
    ) -> PrivacyStatement:
        """Return the privacy of a release under the matrix as drawn (Theorem 1, docs/proofs/sketch.md#sketch).

        Raises:
            RowUnderfilledError: a row has no honest client beyond the tolerated coalition.
        """
        del as_planned
        return self.statement(measured, matrix.num_clients, int(matrix.row_counts().min()) - measured.quota)

    def statement(self, measured: NoisyMeasurement, num_clients: int, smallest_row: int) -> PrivacyStatement:
        """Return the privacy of sums whose emptiest row has so many honest clients."""
        honest = measured.setting.honest_draws(smallest_row)
        statement = additive_statement(
            measured.claim,
            distance=upper_root(measured.squared_shift),
            sigma=self.sigma,
            num_clients=num_clients,
            smallest_row=honest,
            slack=self.slack(max(honest, 1), measured.shifted_words),
            persons=measured.setting.persons,
            floor=self.floor,
        )
        if measured.setting.noising_servers:
            return statement.by_servers()
        return replace(statement, noise=measured.setting.noise)

    def slack(self, honest: int, num_words: int) -> float:
        """Return K of Theorems D1 and T1 for so many honest clients behind so many words."""
        return together_slack(honest, num_words, float(self.sigma) ** 2, SMOOTHING, float(self.floor) ** 2)

    def alone(self, measured: NoisyMeasurement) -> PrivacyStatement | None:
        """Return the privacy of a client of whom all others are invented or corrupt (Theorem T2); None if unknown."""
        return self._alone(measured, measured.squared_distance)

    def _alone(
        self, measured: NoisyMeasurement, squared: Fraction, entries: int = 1, *, beside: float = 0.0
    ) -> PrivacyStatement:
        """Return the same for a column of so many `entries`, with a total `beside` that moves by so much.

        No number of clients and no matrix enters.
        """
        variance, floor = float(self.sigma) ** 2, float(self.floor) ** 2
        rows, total = (
            alone_variance(variance, SMOOTHING, floor, each, merged=measured.setting.merges) * (1 - 1e-15)
            for each in (entries, 1)
        )
        statement = alone_statement(
            measured.claim.alone,
            mu=hypot(upper_root(squared) / rows**0.5, beside / total**0.5),
            entries=entries,
            slack=alone_slack(measured.layout.num_noised, variance, SMOOTHING, floor, entries),
            persons=measured.setting.persons,
        )
        return replace(statement, noise=measured.setting.noise)

    def smallest_sigma(self, measured: NoisyMeasurement) -> int:
        """Return the smallest integer sigma that keeps the claim (docs/proofs/sketch.md#calibration).

        Raises:
            RowUnderfilledError: the minimum cohort leaves a row without honest clients.
        """
        claim = measured.claim
        honest = measured.setting.honest_draws(measured.emptiest_row(claim.min_clients))
        if honest < 1:
            # `privacy` has the words for this refusal.
            self.privacy(measured, claim.min_clients)
        return max(MIN_SIGMA, isqrt(int(hiding_variance(claim, measured.squared_shift) / honest)) + 1)

    def smallest_noise(self, measured: NoisyMeasurement) -> tuple[int, int]:
        """Return the smallest (sigma, floor) that keep the claim, alone too if it says so (proofs/servers.md).

        Raises:
            RowUnderfilledError: the minimum cohort leaves a row without honest clients.
        """
        claim, setting = measured.claim, measured.setting
        honest = measured.emptiest_row(claim.min_clients)
        if not setting.floor_servers or claim.epsilon_alone is None or honest < 1:
            return self.smallest_sigma(measured), 0
        shift = measured.squared_distance
        together, alone = hiding_variance(claim, shift), hiding_variance(claim.alone, shift)
        variance, _ = split_variance(together, alone, honest, merged=setting.merges)
        sigma = max(self.min_sigma(setting), isqrt(int(variance)) + 1)
        return sigma, least_floor(alone, sigma, merges=setting.merges)

    def failure_of_two_steps(self, privacy: PrivacyStatement) -> float:
        """Return the failure between two rows of which each is one step, to the null row, from the other's release.

        A coalition that crowds a row fails for all rows alike, so that two steps cost no more than one.
        """
        return privacy.delta_coalition

    def log_wrap_probability(self, measured: NoisyMeasurement, max_clients: int) -> float:
        """Return the natural logarithm of a bound on the chance that any released entry leaves the ring."""
        setting, log_chance = measured.setting, -inf
        for is_total, behind in ((False, measured.fullest_row(max_clients)), (True, max_clients)):
            blocks = [block for block in measured.layout.blocks if block.is_total == is_total]
            if not blocks:
                continue
            total = behind * setting.rows_per_report * max(block.bound for block in blocks)
            sigma = max(block.largest_sigma for block in blocks)
            of_servers = MAX_SERVERS * self.smoothing(setting) ** 2 + measured.layout.floor.largest_variance(sigma)
            draws = setting.draws(behind)
            if setting.stream is not None:
                draws = setting.noising_servers * setting.stream.headroom_variance
            variance = draws * float(sigma) ** 2 + of_servers
            entries = measured.num_rows * sum(block.size for block in blocks)
            found = log_wrap_probability(entries, total, variance, RING_BITS)
            log_chance = float(np.logaddexp(log_chance, found))
        return log_chance


def hiding_variance(claim: Claim, squared_distance: Fraction) -> float:
    """Return the variance that hides a distance as a claim asks, what integers cost included: V1, or V2 of its `alone`.

    MAX_SLACK stands in for the true slack, which is far below it: the price is 1e-12 of epsilon.
    """
    mu = discrete_mu(claim.float_epsilon, claim.noise_delta, MAX_SLACK)
    return (float(squared_distance) / mu**2 + SMOOTHING) * (1 + 1e-11)


def least_floor(alone: float, sigma: int, *, merges: bool) -> int:
    """Return the smallest floor that hides a client together with its own noise: 0 where that is enough by itself.

    `alone` is V2 of `hiding_variance`; where a release `merges` reports of a source their noise is not counted.
    """
    if sigma**2 >= alone:
        return 0
    return max(MIN_FLOOR, ceil_root(int(alone if merges else alone - sigma**2) + 1))


def drawn_together(runs: Sequence[tuple[int, IntArray]], shape: tuple[int, int], random_bytes: RandomBytes) -> IntArray:
    """Draw noise of this shape, one deviation after the other; `runs` say which words have which, all others none."""
    if len(runs) == 1 and runs[0][1].size == shape[1]:
        return discrete_gaussian(shape, runs[0][0], random_bytes)
    result = np.zeros(shape, np.int64)
    for deviation, places in runs:
        result[:, places] = discrete_gaussian((shape[0], places.size), deviation, random_bytes)
    return result


def summed_deviation(sigma: int, draws: float, servers_variance: int = 0, rows: int = 1) -> float:
    """Return the deviation, in ring units, of a word to which so many draws of deviation `sigma` are added.

    `servers_variance` is that of `Layout.deviation`; a release is divided by the root of `rows`, those of a report.
    """
    return sqrt((draws * sigma**2 + servers_variance) / rows)


def upper_root(square: Fraction) -> float:
    """Return a float that is not below the root of an exact square."""
    return sqrt(square) * (1 + 1e-15)
