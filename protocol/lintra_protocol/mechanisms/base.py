"""A mechanism: how a client encodes its row, which public matrix the servers apply, and what privacy that gives."""

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from math import isqrt, log, sqrt
from typing import ClassVar, Self

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import RING_BITS, FloatArray, IntArray, RingArray, to_ring
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.contributed import Contributed
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.layout import Layout
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.clipping import MAX_SQUARED_BOUND
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA, discrete_gaussian
from lintra_protocol.privacy.discrete import discrete_mu, row_slack
from lintra_protocol.privacy.headroom import log_wrap_probability
from lintra_protocol.privacy.statement import (
    MAX_SLACK,
    SMOOTHING,
    Claim,
    PrivacyStatement,
    additive_statement,
)
from lintra_protocol.transforms.base import PublicMatrix

LOG_MAX_WRAP = log(1e-12)
"""Largest tolerated log-probability that any released entry leaves the ring."""

MAX_SERVERS = 16
"""Most servers that a task may have; headroom is for the smoothing noise of so many."""

SEED_ATTEMPTS = 3
"""How many matrices are drawn before a cohort is given up (docs/reference/protocol.md#rules, R8)."""


class Mechanism(Contributed):
    """One (encoder, public matrix, privacy statement); estimators start from the sketch it makes.

    Lengths: d columns, c noised copies of a row in a report, w ring words in a report (w/c in a row of the sketch), m
    rows of the public matrix. A row is clipped to `row_bound` (in normalised units), counted in steps of
    2^-`fraction_bits`, and noised with deviation `sigma` in ring units (`mechanisms.encoder`).
    A positive `clip_count_weight` makes the last word count the rows that clipping changed (`mechanisms.clip_count`).
    """

    start_bits: ClassVar[int]
    """Bits of the norm bound, in integer steps, that calibration tries first."""

    # --- what a mechanism must say -----------------------------------------------------------------------------

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Return m, the rows of the public matrix."""

    @abstractmethod
    def public_matrix(self, num_clients: int, seed: bytes) -> PublicMatrix:
        """Return the matrix of shape `(m, num_clients)` that the servers apply, drawn from a 32-byte late seed."""

    @abstractmethod
    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return the blocks of a report of d columns, but for the clip counter and an exact count."""

    @abstractmethod
    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        """Return the released integers, shape `(m, w/c)`, in normalised units and in the mechanism's own shape."""

    # --- what one says whose report is not the clipped row itself ----------------------------------------------

    def squared_distance(self, claim: Claim, num_columns: int) -> Fraction:
        """Return the largest squared distance of two neighbouring noiseless reports, in multiples of `sigmas`.

        It is that of the rows (`squared_row_distance`), and the square of `clip_steps` more; of contributions s times
        that of one person's rows in one organisation (`squared_person_distance`).
        """
        if self.contributors is not None:
            return self.squared_places * self.squared_person_distance(claim.neighbours)
        return self.squared_row_distance(claim.neighbours) + self.clip_steps**2

    def largest_total(self, num_clients: int) -> int:
        """Return the largest absolute value of a released number without noise."""
        return self.largest_row(num_clients) * self.largest_report_word()

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Refuse columns that this mechanism does not fit: none, unless a mechanism says more.

        Raises:
            InvalidTaskError: a column does not fit; the detail names it.
        """

    def remark(self, privacy: PrivacyStatement) -> str:
        """Return what has to be said beside the privacy of a task or release, in one sentence; mostly nothing."""
        del privacy
        return ""

    def failure_of_two_steps(self, privacy: PrivacyStatement) -> float:
        """Return the failure between two rows of which each is one step, to the null row, from the other's release.

        A coalition that crowds a row fails for all rows alike, so that two steps cost no more than one.
        """
        return privacy.delta_coalition

    def squared_shift(self, claim: Claim, num_columns: int) -> Fraction:
        """Return the squared distance of two releases of neighbouring inputs that one draw of noise has to hide.

        It is that of their reports, unless servers noise a sketch in which a report stands more than once.
        """
        return self.squared_distance(claim, num_columns)

    def shifted_words(self, num_columns: int) -> int:
        """Return how many released words one report moves: as many as it has, unless it stands in several rows."""
        return self.num_words(num_columns)

    def squared_report_bound(self) -> int | None:
        """Return B2, the largest squared norm of a noiseless report of one row in ring units; None where none is known.

        Verified reports prove that they are not longer, noise aside (docs/explanation/verified.md).
        """
        return None

    # --- what one says whose rows overlap ----------------------------------------------------------------------

    @property
    def smoothing(self) -> int:
        """Return the parameter of the noise that every server adds to every word of its sketch share; 0 for none."""
        return 0

    @property
    def min_sigma(self) -> int:
        """Return the smallest deviation of a client's noise that the lattice correction allows."""
        return MIN_SIGMA

    def planned_for(self, claim: Claim) -> Self:
        """Return this mechanism, with the same noise, as it would be planned against another coalition: itself."""
        del claim
        return self

    def without_plan(self) -> Self:
        """Return this mechanism as one that takes any matrix, whatever privacy it gives: itself."""
        return self

    # --- what follows for all of them --------------------------------------------------------------------------

    def sketch_words(self, num_columns: int) -> int:
        """Return the ring words in a row of the sketch: w/c, those of one copy; a clip counter is not copied."""
        return self.report_words(num_columns) // self.copies

    @property
    def servers_add_noise(self) -> bool:
        """Whether a sketch share must not leave its server without noise: smoothing, or all that there is."""
        return self.noising_servers > 0 or self.smoothing > 0

    def add_server_noise(self, sketch_share: RingArray, num_columns: int, random_bytes: RandomBytes) -> None:
        """Add a server's noise to its sketch share of shape `(m, w/c)`, in place; once for each release.

        It is all noise of the release, or smoothing noise where rows overlap, or none. A server that did this twice for
        the same reports and gave out both results would show their difference, so it stores what it got in the step
        that computes it (docs/explanation/privacy.md#smoothing, #noise-by-servers).
        """
        if self.noising_servers:
            sketch_share += to_ring(self.noise(len(sketch_share), num_columns, random_bytes))
        elif self.smoothing:
            sketch_share += to_ring(discrete_gaussian(sketch_share.shape, self.smoothing, random_bytes))

    def largest_row(self, num_clients: int) -> int:
        """Return how many reports enter the fullest row of a balanced matrix."""
        return -(-num_clients // self.num_rows)

    def quota(self, claim: Claim) -> int:
        """Return how many corrupt clients one row must be assumed to hold (docs/explanation/privacy.md#coalitions)."""
        return claim.max_corrupt_clients if self.noising_servers else claim.quota(self.num_rows)

    def smallest_row(self, num_clients: int, claim: Claim) -> int:
        """Return how many honest clients stand behind the emptiest row of a balanced matrix."""
        return num_clients // self.num_rows - self.quota(claim)

    def privacy(self, claim: Claim, num_columns: int, num_clients: int) -> PrivacyStatement:
        """Return what is promised, to whom, and why, when `num_clients` reports are released; before S is drawn."""
        return self._additive(claim, num_columns, num_clients, self.smallest_row(num_clients, claim))

    def release_privacy(self, claim: Claim, num_columns: int, matrix: PublicMatrix) -> PrivacyStatement:
        """Return the privacy of a release under the matrix as drawn (Theorem 1, docs/explanation/privacy.md#sketch)."""
        smallest_row = int(matrix.row_counts().min()) - self.quota(claim)
        return self._additive(claim, num_columns, matrix.num_clients, smallest_row)

    def _additive(self, claim: Claim, num_columns: int, num_clients: int, smallest_row: int) -> PrivacyStatement:
        honest = self.honest_draws(smallest_row)
        statement = additive_statement(
            claim,
            distance=upper_root(self.squared_shift(claim, num_columns)),
            sigma=self.sigma,
            num_words=self.num_words(num_columns),
            num_clients=num_clients,
            smallest_row=honest,
            slack=row_slack(max(honest, 1), self.shifted_words(num_columns), float(self.sigma) ** 2, SMOOTHING),
            persons=self.persons,
        )
        return statement.by_servers() if self.noising_servers else statement

    def log_wrap_probability(self, num_columns: int, max_clients: int) -> float:
        """Return the natural log of a bound on the chance that any released entry leaves the ring."""
        largest_row = self.largest_row(max_clients)
        draws = self.draws(largest_row)
        variance = draws * float(self.sigmas(num_columns).max()) ** 2 + MAX_SERVERS * self.smoothing**2
        entries = self.num_rows * self.sketch_words(num_columns)
        return log_wrap_probability(entries, self.largest_total(max_clients), variance, RING_BITS)

    def check(self, claim: Claim, num_columns: int, max_clients: int) -> None:
        """Refuse parameters that break the claim or may overflow the ring.

        Raises:
            InvalidTaskError: bounds or headroom do not fit the ring.
            RowUnderfilledError: the minimum cohort leaves a row without honest clients.
            FalseClaimError: the promise is better than the mathematics.
        """
        if fraction(self.row_bound) <= 0:
            raise InvalidTaskError(f"row_bound {self.row_bound} is not positive")
        self.require_clip_count()
        self.require_contributors(claim)
        if not 0 < self.squared_bound <= MAX_SQUARED_BOUND:
            raise InvalidTaskError(
                f"row_bound {self.row_bound} with {self.fraction_bits} fraction bits does not fit 30 bits"
            )
        if self.clip_words and not self.clip_steps:
            raise InvalidTaskError(f"clip_count_weight {self.clip_count_weight} is less than one step of the grid")
        if int(self.sigmas(num_columns).max()) > MAX_SIGMA:
            raise InvalidTaskError(f"sigma {int(self.sigmas(num_columns).max())} exceeds {MAX_SIGMA}")
        if self.largest_report_word() >= 2**62 or self.log_wrap_probability(num_columns, max_clients) > LOG_MAX_WRAP:
            raise InvalidTaskError(
                f"{max_clients} {self.senders} may overflow the ring of {RING_BITS} bits; use fewer fraction bits"
            )
        self.privacy(claim, num_columns, claim.min_clients).require(claim)

    def calibrated(self, claim: Claim, num_columns: int, max_clients: int) -> Self:
        """Return this mechanism with the finest grid that fits, and the smallest sigma that keeps the claim.

        Raises:
            InvalidTaskError: no grid fits the ring, or the claim needs more noise than the sampler draws.
        """
        if fraction(self.row_bound) <= 0:
            raise InvalidTaskError(f"row_bound {self.row_bound} is not positive")
        self.require_clip_count()
        self.require_contributors(claim)
        first = self.start_bits - _exponent(fraction(self.row_bound))
        for fraction_bits in range(min(max(first, 0), 40), -1, -1):
            candidate = self.model_copy(update={"fraction_bits": fraction_bits})
            if not candidate.may_fit(claim, num_columns):
                continue
            candidate = candidate.model_copy(update={"sigma": candidate.smallest_sigma(claim, num_columns)})
            try:
                candidate.check(claim, num_columns, max_clients)
            except InvalidTaskError:
                continue
            return candidate
        raise InvalidTaskError(
            f"no grid fits row_bound {self.row_bound} at epsilon {claim.epsilon} with at least {claim.min_clients} "
            f"and at most {max_clients} clients; other column scales may help, or a larger minimum"
        )

    def may_fit(self, claim: Claim, num_columns: int) -> bool:
        """Return whether calibration should look for a sigma on this mechanism's grid: the bound fits 30 bits."""
        del claim, num_columns
        return 0 < self.squared_bound <= MAX_SQUARED_BOUND

    def smallest_sigma(self, claim: Claim, num_columns: int) -> int:
        """Return the smallest integer sigma that keeps the claim (docs/explanation/privacy.md#calibration)."""
        honest = self.honest_draws(self.smallest_row(claim.min_clients, claim))
        if honest < 1:
            # `privacy` knows the words for this refusal.
            self.privacy(claim, num_columns, claim.min_clients)
        # MAX_SLACK stands in for the true slack, which is far below it: the price is 1e-12 of epsilon.
        mu = discrete_mu(claim.float_epsilon, claim.noise_delta, MAX_SLACK)
        variance = (float(self.squared_shift(claim, num_columns)) / mu**2 + SMOOTHING) / honest * (1 + 1e-11)
        return max(MIN_SIGMA, isqrt(int(variance)) + 1)


def _exponent(value: Fraction) -> int:
    """Return the largest k with 2^k at most a positive value."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def upper_root(square: Fraction) -> float:
    """Return a float that is not below the root of an exact square."""
    return sqrt(square) * (1 + 1e-15)
