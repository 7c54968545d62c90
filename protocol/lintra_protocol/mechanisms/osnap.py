"""`osnap`: a sparse signed sketch of the rows themselves, the paper's main mechanism (Burkhardt et al. 2025).

A client sends one noisy row, not the paper's s noisy copies; the columns are dealt to the rows after the cohort is
frozen, and balanced. With one entry per column the release costs exactly what the central Gaussian mechanism would.
With more, rows share clients: privacy follows from the leverage scores of the matrix that was really drawn, and
every server adds a little smoothing noise (docs/explanation/privacy.md#leverage, #smoothing).
"""

from collections.abc import Callable
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from math import isqrt
from typing import Literal, Self

from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidTaskError, RowUnderfilledError
from lintra_protocol.mechanisms.base import SEED_ATTEMPTS, Mechanism, upper_root
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.row_quota import block_quota, planned_leverage
from lintra_protocol.mechanisms.sketched import SketchedRows
from lintra_protocol.privacy.bisection import smallest_whole
from lintra_protocol.privacy.discrete import discrete_mu, row_slack, smoothed_slack
from lintra_protocol.privacy.statement import (
    MAX_SLACK,
    SMOOTHING,
    Claim,
    PrivacyStatement,
    additive_statement,
    smoothed_statement,
)
from lintra_protocol.transforms.base import PublicMatrix
from lintra_protocol.transforms.osnap import BalancedOsnap

MIN_OVERLAPPING_SIGMA = 8
"""The smallest sigma where rows overlap: sigma^2 is at least 64 (docs/explanation/privacy.md#smoothing)."""

MAX_OVERLAPPING_ROWS = 4096
"""Leverage scores need a matrix of rows times rows; beyond this it takes minutes."""


class Osnap(SketchedRows):
    """The balanced sketch with `sparsity` nonzero entries in every column.

    `leverage` is the planned bound of any honest client's leverage, for `sparsity` above 1 only: sigma is calibrated
    to it, and a matrix that exceeds it is not used. Calibration fills it in. Where servers add the noise no leverage
    counts, and it is 0.
    """

    kind: Literal["osnap"] = "osnap"
    leverage: Real = "0"

    @property
    def servers_may_noise(self) -> bool:
        """Whether a task with this mechanism may leave the noise to its servers: yes."""
        return True

    @property
    def smoothing(self) -> int:
        """Return the smallest integer of at least 2 sqrt(s); 0 where rows do not overlap, or servers add all noise."""
        return isqrt(4 * self.sparsity - 1) + 1 if self.shares_noise else 0

    @property
    def shares_noise(self) -> bool:
        """Whether rows of a release share the noise of clients, so that the matrix decides who is hidden how well."""
        return self.sparsity > 1 and not self.noising_servers

    @property
    def min_sigma(self) -> int:
        """Return the smallest deviation of a client's noise that the lattice correction allows."""
        return MIN_OVERLAPPING_SIGMA if self.shares_noise else MIN_SIGMA

    def public_matrix(self, num_clients: int, seed: bytes) -> BalancedOsnap:
        """Return the balanced sketching matrix of the cohort."""
        return BalancedOsnap(self.rows, num_clients, seed, self.sparsity, totals=self.clip_words)

    def squared_report_bound(self) -> int:
        """Return the squared bound of a row, and the square of the clip counter."""
        return self.squared_bound + self.clip_steps**2

    def squared_shift(self, claim: Claim, num_columns: int) -> Fraction:
        """Return s times the squared distance of rows, and g^2: a row stands in s rows, where servers noise them all.

        It is the same for every matrix (docs/explanation/privacy.md#noise-by-servers).
        """
        if not self.noising_servers:
            return super().squared_shift(claim, num_columns)
        return self.sparsity * self.squared_copy_distance(claim, num_columns) + self.clip_steps**2

    def shifted_words(self, num_columns: int) -> int:
        """Return s d, and one for the clip counter."""
        return self.sparsity * num_columns + self.clip_words

    def quota(self, claim: Claim) -> int:
        """Return how many corrupt clients one row must be assumed to hold (docs/explanation/privacy.md#coalitions)."""
        if self.noising_servers:
            return super().quota(claim)
        return block_quota(claim, self.rows, self.sparsity, SEED_ATTEMPTS)

    def privacy(self, claim: Claim, num_columns: int, num_clients: int) -> PrivacyStatement:
        """Return what is promised before the matrix is drawn: exact where rows do not overlap, else as planned."""
        if not self.shares_noise:
            return super().privacy(claim, num_columns, num_clients)
        smallest_row = self.smallest_row(num_clients, claim)
        return self._smoothed(claim, num_columns, num_clients, smallest_row, float(fraction(self.leverage)))

    def release_privacy(self, claim: Claim, num_columns: int, matrix: PublicMatrix) -> PrivacyStatement:
        """Return the privacy of a release, from the leverage scores of the matrix that was really drawn.

        Raises:
            RowUnderfilledError: a client's leverage is, or may be, above the planned bound.
        """
        if not self.shares_noise:
            return super().release_privacy(claim, num_columns, matrix)
        quota = self.quota(claim)
        bounds = matrix.leverage_bounds if claim.max_corrupt_clients else matrix.leverage_alone
        leverage = bounds.against(claim.max_corrupt_clients, quota)
        if leverage > fraction(self.leverage):
            raise RowUnderfilledError(f"a report has leverage {leverage:.6g}, the claim needs {self.leverage} or less")
        smallest_row = int(matrix.row_counts().min()) - quota
        return self._smoothed(claim, num_columns, matrix.num_clients, smallest_row, leverage)

    def _additive(self, claim: Claim, num_columns: int, num_clients: int, smallest_row: int) -> PrivacyStatement:
        if self.noising_servers:
            return super()._additive(claim, num_columns, num_clients, smallest_row)
        own = row_slack(max(smallest_row, 1), num_columns, float(self.sigma) ** 2, SMOOTHING)
        return additive_statement(
            claim,
            distance=upper_root(self.squared_row_distance(claim.neighbours)),
            sigma=self.sigma,
            num_words=num_columns,
            num_clients=num_clients,
            smallest_row=smallest_row,
            slack=own + (self.counter_slack(claim, num_clients) if smallest_row > 0 else 0.0),
            beside=self.counter_mu(claim, num_clients) if smallest_row > 0 else 0.0,
        )

    def _smoothed(
        self, claim: Claim, num_columns: int, num_clients: int, smallest_row: int, leverage: float
    ) -> PrivacyStatement:
        variance = float(self.sigma) ** 2
        own = smoothed_slack(num_clients, self.rows, num_columns, variance, self.smoothing**2, self.sparsity)
        return smoothed_statement(
            claim,
            distance=upper_root(self.squared_row_distance(claim.neighbours)),
            sigma=self.sigma,
            leverage=leverage,
            num_clients=num_clients,
            smallest_row=smallest_row,
            slack=own + (self.counter_slack(claim, num_clients) if smallest_row > 0 else 0.0),
            beside=self.counter_mu(claim, num_clients) if smallest_row > 0 else 0.0,
        )

    def check(self, claim: Claim, num_columns: int, max_clients: int) -> None:
        """Refuse parameters that break the claim or may overflow the ring (see `Mechanism.check`).

        Raises:
            InvalidTaskError: also where sparsity, rows and leverage do not fit together.
        """
        self._require_shape()
        if self.shares_noise != (0 < fraction(self.leverage) <= 1):
            who = ", where servers add the noise" * bool(self.noising_servers)
            raise InvalidTaskError(f"leverage {self.leverage} does not fit sparsity {self.sparsity}{who}")
        if self.sigma < self.min_sigma:
            raise InvalidTaskError(f"sigma {self.sigma} is below {self.min_sigma}, the least where rows overlap")
        super().check(claim, num_columns, max_clients)

    def _require_shape(self) -> None:
        if self.sparsity > self.rows:
            raise InvalidTaskError(f"{self.sparsity} entries in a column need as many rows, got {self.rows}")
        if self.sparsity > 1 and self.rows > MAX_OVERLAPPING_ROWS:
            raise InvalidTaskError(f"more than {MAX_OVERLAPPING_ROWS} rows need sparsity 1, got {self.rows}")

    def calibrated(self, claim: Claim, num_columns: int, max_clients: int) -> Self:
        """Return this mechanism with planned leverage, the finest grid that fits, and the smallest sigma for both."""
        self._require_shape()
        if not self.shares_noise:
            unplanned = self.model_copy(update={"leverage": "0"}) if self.noising_servers else self
            return Mechanism.calibrated(unplanned, claim, num_columns, max_clients)
        if self.smallest_row(claim.min_clients, claim) < 1:
            self.privacy(claim, num_columns, claim.min_clients)  # which knows the words for this refusal
        return Mechanism.calibrated(self.planned_for(claim), claim, num_columns, max_clients)

    def planned_for(self, claim: Claim) -> Self:
        """Return this mechanism, with the same noise, and the leverage that is planned against a coalition."""
        if not self.shares_noise:
            return self
        corrupt, quota = claim.max_corrupt_clients, self.quota(claim)
        leverage = planned_leverage(self.rows, self.sparsity, claim.min_clients, corrupt, quota)
        spelled = real(Context(prec=6, rounding=ROUND_CEILING).create_decimal_from_float(leverage))
        return self.model_copy(update={"leverage": spelled})

    def without_plan(self) -> Self:
        """Return this mechanism as one that takes any matrix: of leverage 1."""
        return self.model_copy(update={"leverage": "1"})

    def smallest_sigma(self, claim: Claim, num_columns: int) -> int:
        """Return the smallest integer sigma that keeps the claim as planned (see `Mechanism.smallest_sigma`)."""
        smallest_row = self.smallest_row(claim.min_clients, claim)
        if self.noising_servers or (self.sparsity == 1 and (not self.clip_words or smallest_row < 1)):
            return super().smallest_sigma(claim, num_columns)
        mu = discrete_mu(claim.float_epsilon, claim.noise_delta, MAX_SLACK)
        if self.clip_words:
            return smallest_whole(self.min_sigma, self._keeping(claim, mu, smallest_row))
        squared = float(self.squared_distance(claim, num_columns))
        variance = squared * float(fraction(self.leverage)) / mu**2 * (1 + 1e-11)
        return max(self.min_sigma, isqrt(int(variance)) + 1)

    def _keeping(self, claim: Claim, mu: float, smallest_row: int) -> Callable[[int], bool]:
        """Return whether a sigma keeps mu as planned, with what the clip counter adds to it."""
        target, lattice = Fraction(mu * (1 - 1e-11)) ** 2, Fraction(SMOOTHING)
        squared, counter = self.squared_row_distance(claim.neighbours), self.clip_steps**2
        honest = claim.min_clients - claim.max_corrupt_clients
        # What a number shows of a client, and what the lattice takes off its noise where rows do not overlap.
        shown, taken = Fraction(1, max(smallest_row, 1)), lattice
        if self.sparsity > 1:
            shown, taken = fraction(self.leverage), Fraction(0)

        def keeps(sigma: int) -> bool:
            own = squared * shown / (sigma**2 - taken * shown)
            return own + counter / (honest * sigma**2 - lattice) <= target

        return keeps
