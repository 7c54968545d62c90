"""`osnap`: a sparse signed sketch of the rows themselves, the paper's main mechanism (Burkhardt et al. 2025).

A client sends one noisy row, not the paper's s noisy copies; the columns are dealt to the rows after the cohort is
frozen, and balanced. With one entry per column the release costs exactly what the central Gaussian mechanism would.
With more, rows share clients: privacy follows from the leverage scores of the matrix that was really drawn, and
every server adds a little smoothing noise (docs/privacy.md#leverage, #smoothing).
"""

from decimal import ROUND_CEILING, Context
from math import isqrt, sqrt
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from lintra_protocol.documents import Real, fraction, real
from lintra_protocol.errors import InvalidTaskError, RowUnderfilledError
from lintra_protocol.mechanisms.base import MIN_SIGMA, SEED_ATTEMPTS, Mechanism, upper_root
from lintra_protocol.mechanisms.planning import block_quota, planned_leverage
from lintra_protocol.privacy.discrete import discrete_mu, smoothed_slack
from lintra_protocol.privacy.statement import MAX_SLACK, Claim, PrivacyStatement, smoothed_statement
from lintra_protocol.ring import FloatArray, IntArray
from lintra_protocol.transforms.base import PublicMatrix
from lintra_protocol.transforms.osnap import BalancedOsnap

MIN_OVERLAPPING_SIGMA = 8
"""The smallest sigma where rows overlap: sigma^2 is at least 64 (docs/privacy.md#smoothing)."""

MAX_OVERLAPPING_ROWS = 4096
"""Leverage scores need a matrix of rows times rows; beyond this it takes minutes."""


class Osnap(Mechanism):
    """The balanced sketch with `sparsity` nonzero entries in every column.

    `leverage` is the planned bound of any honest client's leverage, for `sparsity` above 1 only: sigma is calibrated
    to it, and a matrix that exceeds it is not used. Calibration fills it in.
    """

    kind: Literal["osnap"] = "osnap"
    rows: int = Field(ge=1, le=2**20)
    sparsity: int = Field(default=1, ge=1, le=64)
    leverage: Real = "0"

    start_bits: ClassVar[int] = 20

    @property
    def num_rows(self) -> int:
        """Return m."""
        return self.rows

    @property
    def smoothing(self) -> int:
        """Return the smallest integer of at least 2 sqrt(s), or 0 where rows do not overlap."""
        return 0 if self.sparsity == 1 else isqrt(4 * self.sparsity - 1) + 1

    @property
    def min_sigma(self) -> int:
        """Return the smallest deviation of a client's noise that the lattice correction allows."""
        return MIN_SIGMA if self.sparsity == 1 else MIN_OVERLAPPING_SIGMA

    def public_matrix(self, num_clients: int, seed: bytes) -> BalancedOsnap:
        """Return the balanced sketching matrix of the cohort."""
        return BalancedOsnap(self.rows, num_clients, seed, self.sparsity)

    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        """Return the sketch of shape `(m, d)` in normalised units, divided by sqrt(s)."""
        values: FloatArray = sketch * np.float64(2.0**-self.fraction_bits / sqrt(self.sparsity))
        return values

    def largest_row(self, num_clients: int) -> int:
        """Return how many reports enter the fullest row: one of the smallest of the s blocks."""
        return -(-num_clients // max(1, self.rows // self.sparsity))

    def quota(self, claim: Claim) -> int:
        """Return how many corrupt clients one row must be assumed to hold (docs/privacy.md#coalitions)."""
        return block_quota(claim, self.rows, self.sparsity, SEED_ATTEMPTS)

    def smallest_row(self, num_clients: int, claim: Claim) -> int:
        """Return how many honest clients stand behind the emptiest row: one of the largest of the s blocks."""
        return num_clients // -(-self.rows // self.sparsity) - self.quota(claim)

    def privacy(self, claim: Claim, num_columns: int, num_clients: int) -> PrivacyStatement:
        """Return what is promised before the matrix is drawn: exact where rows do not overlap, else as planned.

        Raises:
            RowUnderfilledError: the emptiest row has no honest client beyond the tolerated coalition.
        """
        if self.sparsity == 1:
            return super().privacy(claim, num_columns, num_clients)
        smallest_row = self.smallest_row(num_clients, claim)
        return self._smoothed(claim, num_columns, num_clients, smallest_row, float(fraction(self.leverage)))

    def release_privacy(self, claim: Claim, num_columns: int, matrix: PublicMatrix) -> PrivacyStatement:
        """Return the privacy of a release, from the leverage scores of the matrix that was really drawn.

        Raises:
            RowUnderfilledError: a client's leverage is, or may be, above the planned bound.
        """
        if self.sparsity == 1:
            return super().release_privacy(claim, num_columns, matrix)
        quota = self.quota(claim)
        leverage = matrix.leverage_bounds.against(claim.max_corrupt_clients, quota)
        if leverage > fraction(self.leverage):
            raise RowUnderfilledError(f"a report has leverage {leverage:.6g}, the claim needs {self.leverage} or less")
        smallest_row = int(matrix.row_counts().min()) - quota
        return self._smoothed(claim, num_columns, matrix.num_clients, smallest_row, leverage)

    def _smoothed(
        self, claim: Claim, num_columns: int, num_clients: int, smallest_row: int, leverage: float
    ) -> PrivacyStatement:
        words, variance = self.num_words(num_columns), float(self.sigma) ** 2
        return smoothed_statement(
            claim,
            distance=upper_root(self.squared_distance(claim, num_columns)),
            sigma=self.sigma,
            leverage=leverage,
            num_clients=num_clients,
            smallest_row=smallest_row,
            slack=smoothed_slack(num_clients, self.rows, words, variance, self.smoothing**2, self.sparsity),
        )

    def check(self, claim: Claim, num_columns: int, max_clients: int) -> None:
        """Refuse parameters that break the claim or may overflow the ring (see `Mechanism.check`).

        Raises:
            InvalidTaskError: also where sparsity, rows and leverage do not fit together.
        """
        self._require_shape()
        if (self.sparsity > 1) != (0 < fraction(self.leverage) <= 1):
            raise InvalidTaskError(f"leverage {self.leverage} does not fit sparsity {self.sparsity}")
        if self.sigma < self.min_sigma:
            raise InvalidTaskError(f"sigma {self.sigma} is below {self.min_sigma}, the least where rows overlap")
        super().check(claim, num_columns, max_clients)

    def _require_shape(self) -> None:
        if self.sparsity > self.rows:
            raise InvalidTaskError(f"{self.sparsity} entries in a column need as many rows, got {self.rows}")
        if self.sparsity > 1 and self.rows > MAX_OVERLAPPING_ROWS:
            raise InvalidTaskError(f"more than {MAX_OVERLAPPING_ROWS} rows need sparsity 1, got {self.rows}")

    def calibrated(self, claim: Claim, num_columns: int, max_clients: int) -> Self:
        """Return this mechanism with planned leverage, the finest grid that fits, and the smallest sigma for both.

        Raises:
            InvalidTaskError, RowUnderfilledError: as `Mechanism.calibrated`.
        """
        self._require_shape()
        if self.sparsity == 1:
            return super().calibrated(claim, num_columns, max_clients)
        if self.smallest_row(claim.min_clients, claim) < 1:
            self.privacy(claim, num_columns, claim.min_clients)  # which knows the words for this refusal
        return Mechanism.calibrated(self.planned_for(claim), claim, num_columns, max_clients)

    def planned_for(self, claim: Claim) -> Self:
        """Return this mechanism, with the same noise, and the leverage that is planned against a coalition.

        Raises:
            RowUnderfilledError: too many matrices do not withstand it.
        """
        if self.sparsity == 1:
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
        if self.sparsity == 1:
            return super().smallest_sigma(claim, num_columns)
        mu = discrete_mu(claim.float_epsilon, claim.noise_delta, MAX_SLACK)
        squared = float(self.squared_distance(claim, num_columns))
        variance = squared * float(fraction(self.leverage)) / mu**2 * (1 + 1e-11)
        return max(self.min_sigma, isqrt(int(variance)) + 1)
