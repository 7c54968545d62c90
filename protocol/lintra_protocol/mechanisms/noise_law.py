"""How the noise of a release hides one row or person: the Gaussian law, from which other laws depart.

A law states the privacy of a measurement, finds the smallest noise that keeps a claim, and draws the noise. Most kinds
have the Gaussian law: each word of each report carries independent noise, and the released sums are exactly Gaussian
but for the lattice (docs/explanation/privacy.md#sketch).
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, sqrt
from typing import ClassVar, Protocol

import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.mechanisms.layout import Layout
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.discrete_gaussian import discrete_gaussian
from lintra_protocol.privacy.discrete import discrete_mu, row_slack
from lintra_protocol.privacy.statement import MAX_SLACK, SMOOTHING, Claim, PrivacyStatement, additive_statement
from lintra_protocol.transforms.base import PublicMatrix

MAX_SERVERS = 16
"""Most servers that a task may have; headroom is for the smoothing noise of so many."""

MIN_SIGMA = 4
"""Below this the discrete Gaussian is too coarse for the lattice correction (docs/explanation/privacy.md#integers)."""


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
    """Independent discrete Gaussian noise of deviation `sigma` in every word, or in proportion to it."""

    sigma: int

    matrices: ClassVar[int] = 1
    """How many public matrices may be drawn until one passes."""

    def smoothing(self, setting: Setting) -> int:
        """Return the parameter of the noise that every server adds to its sketch share beside that of clients; 0."""
        del setting
        return 0

    def min_sigma(self, setting: Setting) -> int:
        """Return the smallest deviation of a client's noise that the lattice correction allows."""
        del setting
        return MIN_SIGMA

    def check(self, measured: NoisyMeasurement) -> None:
        """Refuse parameters of the noise that no proof covers.

        Raises:
            InvalidTaskError: in words; here nothing is refused.
        """

    def grid_fits(self, measured: NoisyMeasurement) -> bool:
        """Return whether calibration should look for a sigma on the mechanism's grid."""
        del measured
        return True

    def noise(self, layout: Layout, count: int, random_bytes: RandomBytes) -> IntArray:
        """Draw the noise of so many reports, shape `(count, w)`; words of equal sigma are drawn together."""
        runs = layout.words_by_sigma
        if len(runs) == 1 and runs[0][1].size == layout.num_words:
            return discrete_gaussian((count, layout.num_words), runs[0][0], random_bytes)
        result = np.zeros((count, layout.num_words), np.int64)
        for sigma, places in runs:
            result[:, places] = discrete_gaussian((count, places.size), sigma, random_bytes)
        return result

    def privacy(self, measured: NoisyMeasurement, num_clients: int) -> PrivacyStatement:
        """Return what is promised when `num_clients` reports are released, before the public matrix is drawn.

        Raises:
            RowUnderfilledError: the emptiest row has no honest client beyond the tolerated coalition.
        """
        return self.statement(measured, num_clients, measured.emptiest_row(num_clients))

    def release_privacy(
        self, measured: NoisyMeasurement, matrix: PublicMatrix, *, as_planned: bool
    ) -> PrivacyStatement:
        """Return the privacy of a release under the matrix as drawn (Theorem 1, docs/explanation/privacy.md#sketch).

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
            num_words=measured.layout.num_noised,
            num_clients=num_clients,
            smallest_row=honest,
            slack=row_slack(max(honest, 1), measured.shifted_words, float(self.sigma) ** 2, SMOOTHING),
            persons=measured.setting.persons,
        )
        return statement.by_servers() if measured.setting.noising_servers else statement

    def smallest_sigma(self, measured: NoisyMeasurement) -> int:
        """Return the smallest integer sigma that keeps the claim (docs/explanation/privacy.md#calibration).

        Raises:
            RowUnderfilledError: the minimum cohort leaves a row without honest clients.
        """
        claim = measured.claim
        honest = measured.setting.honest_draws(measured.emptiest_row(claim.min_clients))
        if honest < 1:
            # `privacy` has the words for this refusal.
            self.privacy(measured, claim.min_clients)
        # MAX_SLACK stands in for the true slack, which is far below it: the price is 1e-12 of epsilon.
        mu = discrete_mu(claim.float_epsilon, claim.noise_delta, MAX_SLACK)
        variance = (float(measured.squared_shift) / mu**2 + SMOOTHING) / honest * (1 + 1e-11)
        return max(MIN_SIGMA, isqrt(int(variance)) + 1)

    def failure_of_two_steps(self, privacy: PrivacyStatement) -> float:
        """Return the failure between two rows of which each is one step, to the null row, from the other's release.

        A coalition that crowds a row fails for all rows alike, so that two steps cost no more than one.
        """
        return privacy.delta_coalition

    def log_wrap_probability(self, measured: NoisyMeasurement, max_clients: int) -> float:
        """Return the natural logarithm of a bound on the chance that any released entry leaves the ring."""
        return measured.layout.log_wrap_probability(
            measured.setting,
            measured.num_rows,
            measured.fullest_row(max_clients),
            max_clients,
            MAX_SERVERS * self.smoothing(measured.setting) ** 2,
        )


def summed_deviation(sigma: int, draws: int, servers_variance: int = 0, rows: int = 1) -> float:
    """Return the deviation, in ring units, of a word to which so many draws of deviation `sigma` are added.

    `servers_variance` is that of `Layout.deviation`; a release is divided by the root of `rows`, those of a report.
    """
    return sqrt((draws * sigma**2 + servers_variance) / rows)


def upper_root(square: Fraction) -> float:
    """Return a float that is not below the root of an exact square."""
    return sqrt(square) * (1 + 1e-15)
