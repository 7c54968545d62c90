"""`osnap`: a sparse signed sketch of the rows themselves, the paper's main mechanism (Burkhardt et al. 2025).

A client sends one noisy row, not the paper's s noisy copies; the columns are dealt to the rows after the cohort is
frozen, and balanced. With one entry per column the release costs exactly what the central Gaussian mechanism would.
With more, rows share clients: privacy follows from the leverage scores of the matrix that was really drawn, and
every server adds a little smoothing noise (docs/proofs/sketch.md, integers.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from math import isqrt
from typing import ClassVar, Literal, Self

from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidTaskError, RowUnderfilledError
from lintra_protocol.mechanisms.layout import CLIPPED
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA, NoisyMeasurement, hiding_variance, least_floor, upper_root
from lintra_protocol.mechanisms.row_quota import block_quota, planned_leverage
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.mechanisms.sketched import SketchedRows, SketchLaw
from lintra_protocol.privacy.bisection import smallest_whole
from lintra_protocol.privacy.discrete import discrete_mu, kappa, smoothed_slack
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

SEED_ATTEMPTS = 3
"""How many matrices are drawn before a cohort is given up (docs/reference/protocol-rules.md#rules, R8)."""

MIN_OVERLAPPING_SIGMA = 8
"""The smallest sigma where rows overlap: sigma^2 is at least 64 (docs/proofs/integers.md#smoothing)."""

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

    allows: ClassVar[frozenset[str]] = frozenset({"clip counter", "dither", "server noise", "floor"})

    @property
    def noise_law(self) -> "OsnapLaw":
        """Return the law of rows that may share the noise of clients."""
        return OsnapLaw(self.sigma, self, floor=self.floor)

    def shares_noise(self, setting: Setting) -> bool:
        """Whether rows of a release share the noise of clients, so that the matrix decides who is hidden how well."""
        return self.sparsity > 1 and not setting.noising_servers

    def public_matrix(self, num_clients: int, seed: bytes) -> BalancedOsnap:
        """Return the balanced sketching matrix of the cohort."""
        return BalancedOsnap(self.rows, num_clients, seed, self.sparsity, totals=int(self.clip_count_weight != "0"))

    def squared_length(self, num_columns: int, setting: Setting) -> int:
        """Return the squared bound of a row."""
        return self.squared_bound

    def check_options(self, claim: Claim, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError for rows and sparsity that do not fit each other."""
        if self.sparsity > self.rows:
            raise InvalidTaskError(f"{self.sparsity} entries in a column need as many rows, got {self.rows}")
        if self.sparsity > 1 and self.rows > MAX_OVERLAPPING_ROWS:
            raise InvalidTaskError(f"more than {MAX_OVERLAPPING_ROWS} rows need sparsity 1, got {self.rows}")

    def planned_for(self, claim: Claim, num_columns: int, setting: Setting) -> Self:
        """Return this mechanism, with the same noise, and the leverage that is planned against a coalition.

        Raises:
            RowUnderfilledError: too many matrices do not withstand it.
        """
        if not self.shares_noise(setting):
            return self.model_copy(update={"leverage": "0"}) if setting.noising_servers else self
        corrupt, quota = claim.max_corrupt_clients, block_quota(claim, self.rows, self.sparsity, SEED_ATTEMPTS)
        honest = claim.min_clients // -(-self.rows // self.sparsity) - quota
        if honest < 1:
            raise RowUnderfilledError(f"a row holds {honest} honest clients beyond the tolerated coalition")
        leverage = planned_leverage(self.rows, self.sparsity, claim.min_clients, corrupt, quota)
        spelled = real(Context(prec=6, rounding=ROUND_CEILING).create_decimal_from_float(leverage))
        return self.model_copy(update={"leverage": spelled})


@dataclass(frozen=True)
class OsnapLaw(SketchLaw):
    """Gaussian noise of one copy of a row; where rows overlap its leverage counts, and servers add smoothing noise."""

    mechanism: Osnap

    matrices: ClassVar[int] = SEED_ATTEMPTS

    def smoothing(self, setting: Setting) -> int:
        """Return `least_smoothing`, or 0 where rows do not overlap, or servers add all noise or a floor."""
        return self.least_smoothing if self.matrices_differ(setting) and not setting.floor_servers else 0

    @property
    def least_smoothing(self) -> int:
        """Return the smallest integer of at least 2 sqrt(s): the least that servers add where rows overlap."""
        return isqrt(4 * self.mechanism.sparsity - 1) + 1

    def matrices_differ(self, setting: Setting) -> bool:
        """Return whether rows share the noise of clients."""
        return self.mechanism.shares_noise(setting)

    def min_sigma(self, setting: Setting) -> int:
        """Return the smallest deviation of a client's noise that the lattice correction allows."""
        return MIN_OVERLAPPING_SIGMA if self.mechanism.shares_noise(setting) else MIN_SIGMA

    def check(self, measured: NoisyMeasurement) -> None:
        """Raise InvalidTaskError or UnsupportedFeatureError for noise that does not fit the sparsity."""
        super().check(measured)
        setting, leverage = measured.setting, self.mechanism.leverage
        if setting.floor_servers and self.mechanism.sparsity > 1 and self.floor < self.least_smoothing:
            raise InvalidTaskError(f"floor {self.floor} is below {self.least_smoothing}, the least where rows overlap")
        if self.mechanism.shares_noise(setting) != (0 < fraction(leverage) <= 1):
            who = ", where servers add the noise" * bool(setting.noising_servers)
            raise InvalidTaskError(f"leverage {leverage} does not fit sparsity {self.mechanism.sparsity}{who}")
        least = self.min_sigma(setting)
        if self.sigma < least:
            raise InvalidTaskError(f"sigma {self.sigma} is below {least}, the least where rows overlap")

    def privacy(self, measured: NoisyMeasurement, num_clients: int) -> PrivacyStatement:
        """Return what is promised before the matrix is drawn: exact where rows do not overlap, else as planned."""
        if not self.mechanism.shares_noise(measured.setting):
            return super().privacy(measured, num_clients)
        smallest_row = measured.emptiest_row(num_clients)
        return self._smoothed(measured, num_clients, smallest_row, float(fraction(self.mechanism.leverage)))

    def release_privacy(
        self, measured: NoisyMeasurement, matrix: PublicMatrix, *, as_planned: bool
    ) -> PrivacyStatement:
        """Return the privacy of a release, from the leverage scores of the matrix that was really drawn.

        Raises:
            RowUnderfilledError: a client's leverage is, or may be, above the planned bound.
        """
        if not self.mechanism.shares_noise(measured.setting):
            return super().release_privacy(measured, matrix, as_planned=as_planned)
        corrupt, quota = measured.claim.max_corrupt_clients, measured.quota
        bounds = matrix.leverage_bounds if corrupt else matrix.leverage_alone
        leverage, planned = bounds.against(corrupt, quota), self.mechanism.leverage if as_planned else "1"
        if leverage > fraction(planned):
            raise RowUnderfilledError(f"a report has leverage {leverage:.6g}, the claim needs {planned} or less")
        smallest_row = int(matrix.row_counts().min()) - quota
        return self._smoothed(measured, matrix.num_clients, smallest_row, leverage)

    def statement(self, measured: NoisyMeasurement, num_clients: int, smallest_row: int) -> PrivacyStatement:
        """State the privacy where rows do not overlap, or servers add the noise."""
        if measured.setting.noising_servers:
            return super().statement(measured, num_clients, smallest_row)
        words = measured.num_columns
        own = self.slack(max(smallest_row, 1), words)
        statement = additive_statement(
            measured.claim,
            distance=upper_root(self._squared_rows(measured)),
            sigma=self.sigma,
            num_clients=num_clients,
            smallest_row=smallest_row,
            slack=own + (self.counter_slack(measured, num_clients) if smallest_row > 0 else 0.0),
            beside=self.counter_mu(measured, num_clients) if smallest_row > 0 else 0.0,
            floor=self.floor,
        )
        return replace(statement, noise=measured.setting.noise)

    def _squared_rows(self, measured: NoisyMeasurement) -> Fraction:
        return self.mechanism.squared_distance(measured.claim.neighbours, measured.num_columns, measured.setting)

    def _smoothed(
        self, measured: NoisyMeasurement, num_clients: int, smallest_row: int, leverage: float
    ) -> PrivacyStatement:
        """State the privacy behind a leverage L: of a floor v it leaves L / (1 + (v - 4) L / (s sigma^2)).

        That bounds s_i^T (G + r I)^-1 s_i, r = (v - 4) / sigma^2, whatever the eigenvalues of G are (#two-layers).
        """
        variance, rows, sparsity = float(self.sigma) ** 2, self.mechanism.rows, self.mechanism.sparsity
        smoothing = self.smoothing(measured.setting) ** 2
        if self.floor:
            step = kappa(1 / (1 / variance + sparsity / self.floor**2))
            own = measured.num_columns * (num_clients * step + rows * kappa(SMOOTHING))
            leverage /= 1 + (self.floor**2 - SMOOTHING) / variance * leverage / sparsity * (1 - 1e-15)
        else:
            own = smoothed_slack(num_clients, rows, measured.num_columns, variance, smoothing, sparsity)
        statement = smoothed_statement(
            measured.claim,
            distance=upper_root(self._squared_rows(measured)),
            sigma=self.sigma,
            leverage=leverage,
            num_clients=num_clients,
            smallest_row=smallest_row,
            slack=own + (self.counter_slack(measured, num_clients) if smallest_row > 0 else 0.0),
            beside=self.counter_mu(measured, num_clients) if smallest_row > 0 else 0.0,
        )
        return replace(statement, noise=measured.setting.noise)

    def alone(self, measured: NoisyMeasurement) -> PrivacyStatement | None:
        """Return the privacy of a client of whom all others are corrupt; None where only it hides an overlapping row.

        Its row has s entries in the matrix, and its clip counter one in the total (Theorem T2).
        """
        if self.mechanism.sparsity == 1 or not self.floor:
            return super().alone(measured) if self.mechanism.sparsity == 1 else None
        counter = float(measured.layout[CLIPPED].bound) if CLIPPED in measured.layout else 0.0
        return self._alone(measured, self._squared_rows(measured), self.mechanism.sparsity, beside=counter)

    def smallest_sigma(self, measured: NoisyMeasurement) -> int:
        """Return the smallest integer sigma that keeps the claim as planned (see `GaussianLaw.smallest_sigma`)."""
        claim, setting, counter = measured.claim, measured.setting, CLIPPED in measured.layout
        smallest_row = measured.emptiest_row(claim.min_clients)
        if setting.noising_servers or (self.mechanism.sparsity == 1 and (not counter or smallest_row < 1)):
            return super().smallest_sigma(measured)
        mu = discrete_mu(claim.float_epsilon, claim.noise_delta, MAX_SLACK)
        if counter:
            return smallest_whole(self.min_sigma(setting), self._keeping(measured, mu, smallest_row))
        leverage = float(fraction(self.mechanism.leverage))
        variance = float(measured.squared_distance) * leverage / mu**2 * (1 + 1e-11)
        return max(self.min_sigma(setting), isqrt(int(variance)) + 1)

    def smallest_noise(self, measured: NoisyMeasurement) -> tuple[int, int]:
        """Return the smallest (sigma, floor) that keep the claim, alone too (see `GaussianLaw.smallest_noise`)."""
        claim, sparsity = measured.claim, self.mechanism.sparsity
        smallest_row, counts = measured.emptiest_row(claim.min_clients), CLIPPED in measured.layout
        if not measured.setting.floor_servers or smallest_row < 1 or not (counts or sparsity > 1):
            return super().smallest_noise(measured)
        mu = discrete_mu(claim.float_epsilon, claim.noise_delta, MAX_SLACK)
        floor_of = self._least_floor(measured)
        keeps = self._keeping(measured, mu, smallest_row, floor_of)
        sigma = smallest_whole(self.min_sigma(measured.setting), keeps)
        return sigma, floor_of(sigma)

    def _least_floor(self, measured: NoisyMeasurement) -> Callable[[int], int]:
        """Return the smallest floor for a sigma that hides a client of whom all others are corrupt."""
        claim, merges, sparsity = measured.claim, measured.setting.merges, self.mechanism.sparsity
        if sparsity == 1:
            alone = hiding_variance(claim.alone, measured.squared_distance)
            return lambda sigma: least_floor(alone, sigma, merges=merges)
        mu = discrete_mu(claim.alone.float_epsilon, claim.alone.noise_delta, MAX_SLACK)
        target, squared, counter = Fraction(mu * (1 - 1e-11)) ** 2, self._squared_rows(measured), self._squared_counter

        def floor_of(sigma: int) -> int:
            own = 0 if merges else sigma**2

            def hides(floor: int) -> bool:
                left = floor**2 - Fraction(SMOOTHING)
                return squared / (left / sparsity + own) + counter(measured) / (left + own) <= target

            return smallest_whole(self.least_smoothing, hides)

        return floor_of

    def _squared_counter(self, measured: NoisyMeasurement) -> int:
        return measured.layout[CLIPPED].bound ** 2 if CLIPPED in measured.layout else 0

    def _keeping(
        self, measured: NoisyMeasurement, mu: float, smallest_row: int, floor_of: Callable[[int], int] = lambda _: 0
    ) -> Callable[[int], bool]:
        """Return whether a sigma, with its floor, keeps mu as planned, with what the clip counter adds to it."""
        target, lattice = Fraction(mu * (1 - 1e-11)) ** 2, Fraction(SMOOTHING)
        squared, counter = self._squared_rows(measured), self._squared_counter(measured)
        honest = measured.claim.min_clients - measured.claim.max_corrupt_clients
        # What a number shows of a client, and what the lattice takes off its noise: of smoothing noise nothing counts.
        shown, smoothed = Fraction(1, max(smallest_row, 1)), self.smoothing(measured.setting) > 0
        if self.mechanism.sparsity > 1:
            shown = fraction(self.mechanism.leverage)

        def keeps(sigma: int) -> bool:
            left = floor_of(sigma) ** 2 - lattice
            behind = 0 if smoothed else left * shown / self.mechanism.sparsity
            own = squared * shown / (sigma**2 + behind)
            return own + counter / (honest * sigma**2 + left) <= target

        return keeps
