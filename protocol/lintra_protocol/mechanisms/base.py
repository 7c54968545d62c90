"""A mechanism: how a client encodes its row, which public matrix the servers apply, and what privacy that gives."""

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from math import isqrt, log, sqrt
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lintra_protocol.clipping import MAX_SQUARED_BOUND, clip_norms, quantise, squared_integer_bound
from lintra_protocol.documents import Real, fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.clip_count import ClipCounter
from lintra_protocol.noise import MAX_SIGMA, discrete_gaussian
from lintra_protocol.privacy.discrete import discrete_mu, row_slack
from lintra_protocol.privacy.headroom import log_wrap_probability
from lintra_protocol.privacy.statement import (
    MAX_SLACK,
    SMOOTHING,
    Claim,
    Neighbours,
    PrivacyStatement,
    additive_statement,
)
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.ring import RING_BITS, FloatArray, IntArray, RingArray, to_ring
from lintra_protocol.schema import Column
from lintra_protocol.transforms.base import PublicMatrix

MIN_SIGMA = 4
"""Below this the discrete Gaussian is too coarse for the lattice correction (docs/privacy.md#integers)."""

ON_THE_SPHERE = 2.0**-30
"""By which part a row's norm may exceed the bound without being counted as clipped: far below a step of any grid."""

LOG_MAX_WRAP = log(1e-12)
"""Largest tolerated log-probability that any released entry leaves the ring."""

MAX_SERVERS = 16
"""Most servers that a task may have; headroom is for the smoothing noise of so many."""

SEED_ATTEMPTS = 3
"""How many matrices are drawn before a cohort is given up (docs/protocol.md#rules, R8)."""


class Mechanism(ClipCounter):
    """One (encoder, public matrix, privacy statement); estimators start from the sketch it makes.

    Lengths: d columns, c noised copies of a row in a report, w ring words in a report (w/c in a row of the sketch), m
    rows of the public matrix. A row is clipped to `row_bound` (in
    normalised units), counted in steps of 2^-`fraction_bits`, and noised with deviation `sigma` in ring units.
    A positive `clip_count_weight` makes the last word count the rows that clipping changed (`mechanisms.clip_count`).
    """

    row_bound: Real
    fraction_bits: int = Field(ge=0, le=40)
    sigma: int = Field(ge=MIN_SIGMA, le=MAX_SIGMA)

    takes_levels: ClassVar[bool] = False
    """Whether a category enters the encoder as the number of its level; otherwise as indicators (`schema`)."""

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
    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        """Return the released integers, shape `(m, w/c)`, in normalised units and in the mechanism's own shape."""

    # --- what one says whose report is not the clipped row itself ----------------------------------------------

    def num_words(self, num_columns: int) -> int:
        """Return w, the ring words that one row of d columns becomes: d, and one for the clip counter."""
        return num_columns + self.clip_words

    @property
    def copies(self) -> int:
        """Return c, how many independently noised copies of a row a report holds: 1."""
        return 1

    def round_rows(self, rows: FloatArray) -> IntArray:
        """Clip normalised rows of shape `(n, d)` and count them in integer steps; same shape."""
        return quantise(rows * 2.0**self.fraction_bits, self.squared_bound)

    def encode_exactly(self, steps: IntArray) -> IntArray:
        """Turn clipped integer rows of shape `(n, d)` into noiseless reports of shape `(n, w)`: themselves."""
        return steps

    def sigmas(self, num_columns: int) -> IntArray:
        """Return the deviation of every word's noise, shape `(w,)`, none below `least_sigma`: all `sigma`."""
        return np.full(self.num_words(num_columns), self.sigma, np.int64)

    @property
    def leaves_out(self) -> bool:
        """Whether a row in which a number is missing is sent as zeros; else, as here, it has the column's centre."""
        return False

    @property
    def least_sigma(self) -> int:
        """Return the smallest deviation of any word's noise: `sigma`."""
        return self.sigma

    def squared_distance(self, claim: Claim, num_columns: int) -> Fraction:
        """Return the largest squared distance of two neighbouring noiseless reports, in multiples of `sigmas`.

        It is that of the rows (`squared_row_distance`), and the square of `clip_steps` more.
        """
        return self.squared_row_distance(claim.neighbours) + self.clip_steps**2

    def squared_row_distance(self, neighbours: Neighbours) -> Fraction:
        """Return the squared distance without the clip counter.

        It is (2B)^2 where one row is replaced, B^2 where it becomes the null row.
        """
        return Fraction(4 if neighbours == "replace-one" else 1) * self.squared_bound

    def largest_word(self) -> int:
        """Return the largest absolute value of a word of a noiseless report: the integer norm bound."""
        return max(isqrt(self.squared_bound), self.clip_steps)

    def largest_total(self, num_clients: int) -> int:
        """Return the largest absolute value of a released number without noise."""
        return self.largest_row(num_clients) * self.largest_word()

    def shrinks(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each of some normalised rows of shape `(n, d)` whether it is too large to be encoded as it is.

        A row that lies on the sphere but for the rounding of floating point is not.
        """
        bound, filled = float(fraction(self.row_bound)) * (1 + ON_THE_SPHERE), self.filled(rows)
        shorter: NDArray[np.bool_] = (clip_norms(filled, bound) != filled).any(axis=1)
        return shorter

    def clipping_rule(self) -> str:
        """Return in words what a client does to a row that is too large."""
        return f"rows are shrunk to norm {self.row_bound}"

    @property
    def sigma_bits(self) -> int:
        """Return k if `sigma` counts steps of 2^-k: f, or 2f where it is the noise of a product."""
        return self.fraction_bits

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

    @property
    def squared_bound(self) -> int:
        """Return the largest squared norm of a clipped row in integer steps."""
        return squared_integer_bound(fraction(self.row_bound), self.fraction_bits)

    def sketch_words(self, num_columns: int) -> int:
        """Return the ring words in a row of the sketch: w/c, those of one copy; a clip counter is not copied."""
        return self.num_words(num_columns) // self.copies

    def exact_reports(self, rows: FloatArray, outside: NDArray[np.bool_] | None = None) -> IntArray:
        """Turn normalised rows of shape `(n, d)` into noiseless reports of shape `(n, w)`.

        What is missing, that is not finite, stands at its column's centre, or makes the whole report 0 (`leaves_out`).

        Args:
            rows: of any norm.
            outside: for each whether a bound of a column moved it before, shape `(n,)`; none if not given. Only the
                clip counter looks at it.
        """
        filled = self.filled(rows)
        exact = self.encode_exactly(self.round_rows(filled))
        if self.clip_words:
            clipped = self.shrinks(rows) if outside is None else outside | self.shrinks(rows)
            exact = np.concatenate([exact, self.clip_words_of(clipped)], axis=1)
        if self.leaves_out:
            exact[~np.isfinite(rows).all(axis=1)] = 0
        return exact

    def filled(self, rows: FloatArray) -> FloatArray:
        """Return normalised rows of shape `(n, d)` with each missing number at its column's centre: 0.

        What is not finite is missing, as the schema has it; no infinite number reaches the integers.
        """
        missing = ~np.isfinite(rows)
        return np.where(missing, 0.0, rows) if missing.any() else rows

    def encode(self, rows: FloatArray, random_bytes: RandomBytes, outside: NDArray[np.bool_] | None = None) -> IntArray:
        """Clip, round and noise normalised rows of shape `(n, d)` into reports of shape `(n, w)`; on the client.

        Args:
            rows: of any norm.
            random_bytes: the clients' own.
            outside: see `exact_reports`.
        """
        exact = self.exact_reports(rows, outside)
        return exact + self.noise(exact.shape[0], rows.shape[1], random_bytes)

    def noise(self, num_rows: int, num_columns: int, random_bytes: RandomBytes) -> IntArray:
        """Draw the noise of `num_rows` reports, shape `(num_rows, w)`; words of equal sigma are drawn together."""
        sigmas = self.sigmas(num_columns)
        result = np.empty((num_rows, sigmas.size), np.int64)
        for sigma in np.unique(sigmas):
            where = np.flatnonzero(sigmas == sigma)
            result[:, where] = discrete_gaussian((num_rows, where.size), int(sigma), random_bytes)
        return result

    def smooth(self, sketch_share: RingArray, random_bytes: RandomBytes) -> None:
        """Add a server's smoothing noise to its sketch share of shape `(m, w/c)`, in place; once for each release.

        A server that did this twice for the same reports and gave out both results would show their difference, so
        it stores what it got in the step that computes it (docs/privacy.md#smoothing).
        """
        if self.smoothing:
            sketch_share += to_ring(discrete_gaussian(sketch_share.shape, self.smoothing, random_bytes))

    def largest_row(self, num_clients: int) -> int:
        """Return how many reports enter the fullest row of a balanced matrix."""
        return -(-num_clients // self.num_rows)

    def quota(self, claim: Claim) -> int:
        """Return how many corrupt clients one row must be assumed to hold (docs/privacy.md#coalitions)."""
        return claim.quota(self.num_rows)

    def smallest_row(self, num_clients: int, claim: Claim) -> int:
        """Return how many honest clients stand behind the emptiest row of a balanced matrix."""
        return num_clients // self.num_rows - self.quota(claim)

    def privacy(self, claim: Claim, num_columns: int, num_clients: int) -> PrivacyStatement:
        """Return what is promised, to whom, and why, when `num_clients` reports are released; before S is drawn.

        Raises:
            RowUnderfilledError: the emptiest row has no honest client beyond the tolerated coalition.
        """
        return self._additive(claim, num_columns, num_clients, self.smallest_row(num_clients, claim))

    def release_privacy(self, claim: Claim, num_columns: int, matrix: PublicMatrix) -> PrivacyStatement:
        """Return the privacy of a release under the matrix that was really drawn (Theorem 1, docs/privacy.md#sketch).

        Raises:
            RowUnderfilledError: a row has no honest client beyond the tolerated coalition.
        """
        smallest_row = int(matrix.row_counts().min()) - self.quota(claim)
        return self._additive(claim, num_columns, matrix.num_clients, smallest_row)

    def _additive(self, claim: Claim, num_columns: int, num_clients: int, smallest_row: int) -> PrivacyStatement:
        num_words = self.num_words(num_columns)
        return additive_statement(
            claim,
            distance=upper_root(self.squared_distance(claim, num_columns)),
            sigma=self.sigma,
            num_words=num_words,
            num_clients=num_clients,
            smallest_row=smallest_row,
            slack=row_slack(max(smallest_row, 1), num_words, float(self.sigma) ** 2, SMOOTHING),
        )

    def log_wrap_probability(self, num_columns: int, max_clients: int) -> float:
        """Return the natural log of a bound on the chance that any released entry leaves the ring."""
        largest_row = self.largest_row(max_clients)
        variance = largest_row * float(self.sigmas(num_columns).max()) ** 2 + MAX_SERVERS * self.smoothing**2
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
        if not 0 < self.squared_bound <= MAX_SQUARED_BOUND:
            raise InvalidTaskError(
                f"row_bound {self.row_bound} with {self.fraction_bits} fraction bits does not fit 30 bits"
            )
        if self.clip_words and not self.clip_steps:
            raise InvalidTaskError(f"clip_count_weight {self.clip_count_weight} is less than one step of the grid")
        if int(self.sigmas(num_columns).max()) > MAX_SIGMA:
            raise InvalidTaskError(f"sigma {int(self.sigmas(num_columns).max())} exceeds {MAX_SIGMA}")
        if self.largest_word() >= 2**62 or self.log_wrap_probability(num_columns, max_clients) > LOG_MAX_WRAP:
            raise InvalidTaskError(
                f"{max_clients} clients may overflow the ring of {RING_BITS} bits; use fewer fraction bits"
            )
        self.privacy(claim, num_columns, claim.min_clients).require(claim)

    def calibrated(self, claim: Claim, num_columns: int, max_clients: int) -> Self:
        """Return this mechanism with the finest grid that fits, and the smallest sigma that keeps the claim.

        Raises:
            InvalidTaskError: no grid fits the ring, or the claim needs more noise than the sampler draws.
            RowUnderfilledError: the minimum cohort leaves a row without honest clients.
        """
        if fraction(self.row_bound) <= 0:
            raise InvalidTaskError(f"row_bound {self.row_bound} is not positive")
        self.require_clip_count()
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
        """Return the smallest integer sigma that keeps the claim at the minimum cohort (docs/privacy.md#calibration).

        Raises:
            RowUnderfilledError: the minimum cohort leaves a row without honest clients.
        """
        smallest_row = self.smallest_row(claim.min_clients, claim)
        if smallest_row < 1:
            # `privacy` knows the words for this refusal.
            self.privacy(claim, num_columns, claim.min_clients)
        # MAX_SLACK stands in for the true slack, which is far below it: the price is 1e-12 of epsilon.
        mu = discrete_mu(claim.float_epsilon, claim.noise_delta, MAX_SLACK)
        variance = (float(self.squared_distance(claim, num_columns)) / mu**2 + SMOOTHING) / smallest_row * (1 + 1e-11)
        return max(MIN_SIGMA, isqrt(int(variance)) + 1)


def _exponent(value: Fraction) -> int:
    """Return the largest k with 2^k at most a positive value."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def upper_root(square: Fraction) -> float:
    """Return a float that is not below the root of an exact square."""
    return sqrt(square) * (1 + 1e-15)
