"""`osnap_published`: the sketch as it was published, for comparison only (Burkhardt et al. 2025, Theorem 3.4).

A client sends s copies of its row, each with noise of its own, and entry j of its column applies to copy j. Entries are
clipped, not norms, and sigma is equation (4) of the paper, rounded up. Equation (4) does not always keep what it was
asked for (docs/explanation/privacy.md#published-calibration), so a task promises what is exactly true, and is refused
if it promises more.
"""

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import FalseClaimError, InvalidTaskError, RowUnderfilledError
from lintra_protocol.mechanisms.base import Mechanism, upper_root
from lintra_protocol.mechanisms.encoder import MIN_SIGMA, ON_THE_SPHERE
from lintra_protocol.mechanisms.row_quota import block_quota
from lintra_protocol.mechanisms.sketched import SketchedRows
from lintra_protocol.noise.clipping import quantise_entries
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA
from lintra_protocol.privacy.calibration import published_steps
from lintra_protocol.privacy.statement import SMOOTHING, Claim, PrivacyStatement, copies_statement
from lintra_protocol.transforms.base import PublicMatrix
from lintra_protocol.transforms.osnap import BalancedOsnap

_EXACT = Context(prec=80)
_TWELVE_DIGITS = Context(prec=12, rounding=ROUND_CEILING)
_SIX_DIGITS = Context(prec=6, rounding=ROUND_CEILING)


class OsnapPublished(SketchedRows):
    """The balanced sketch of s noised copies of every row, with the published noise.

    `entry_bound` bounds every entry of a normalised row; `row_bound`, its product with sqrt(d), follows from it.
    `published_epsilon` is what equation (4) was asked for, together with the claim's delta, smallest cohort and
    coalition. Calibration fills in both if they are "0": the former from the number of columns, the latter from the
    claim.
    """

    kind: Literal["osnap_published"] = "osnap_published"
    row_bound: Real = "0"
    entry_bound: Real
    published_epsilon: Real = "0"

    @property
    def copies(self) -> int:
        """Return s, one noised copy for each entry of a column."""
        return self.sparsity

    @property
    def entry_steps(self) -> int:
        """Return floor(2^f eta), the largest entry of a clipped row in integer steps."""
        scaled: Fraction = fraction(self.entry_bound) * 2**self.fraction_bits
        return scaled.numerator // scaled.denominator

    def public_matrix(self, num_clients: int, seed: bytes) -> BalancedOsnap:
        """Return the balanced sketching matrix of the cohort; entry j of a column applies to copy j."""
        return BalancedOsnap(self.rows, num_clients, seed, self.sparsity, copies=self.sparsity, totals=self.clip_words)

    def round_rows(self, rows: FloatArray) -> IntArray:
        """Round normalised rows of shape `(n, d)` to integer steps and clip every entry; same shape."""
        # Whatever is more than a step outside ends at the bound, so that the product stays finite.
        limit = (self.entry_steps + 1) * 2.0**-self.fraction_bits
        return quantise_entries(np.clip(rows, -limit, limit) * 2.0**self.fraction_bits, self.entry_steps)

    def encode_exactly(self, steps: IntArray) -> IntArray:
        """Return s copies of each clipped row, side by side, shape `(n, s d)`."""
        return np.tile(steps, (1, self.sparsity))

    def squared_copy_distance(self, claim: Claim, num_columns: int) -> Fraction:
        """Return the largest squared distance of one copy of two neighbouring rows: two corners of the box."""
        return Fraction(4 if claim.neighbours == "replace-one" else 1) * num_columns * self.entry_steps**2

    @property
    def largest_entry(self) -> int:
        """Return the largest absolute value of an entry, in integer steps."""
        return self.entry_steps

    def shrinks(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each of some normalised rows of shape `(n, d)` whether an entry is too large to be sent as it is."""
        bound = float(fraction(self.entry_bound)) * (1 + ON_THE_SPHERE)
        largest: FloatArray = np.abs(self.filled(rows)).max(axis=1, initial=0.0)
        return np.greater(largest, bound)

    def clipping_rule(self) -> str:
        """Return in words what a client does to a row that is too large."""
        return f"every entry is clipped to +-{self.entry_bound}"

    def remark(self, privacy: PrivacyStatement) -> str:
        """Return both epsilons: the one that the noise was made for, and the one that it gives, rounded up."""
        exact = _SIX_DIGITS.create_decimal_from_float(privacy.epsilon)
        counter = ", its clip counter, which was not published, included" if self.clip_words else ""
        return (
            f"published calibration, for comparison: claimed epsilon {self.published_epsilon} by Theorem 3.4, "
            f"exactly {exact:f} at delta {privacy.delta:g}{counter}"
        )

    def quota(self, claim: Claim) -> int:
        """Return how many corrupt clients one row must be assumed to hold (docs/explanation/privacy.md#coalitions)."""
        return block_quota(claim, self.rows, self.sparsity, 1)

    def privacy(self, claim: Claim, num_columns: int, num_clients: int) -> PrivacyStatement:
        """Return the promise before the matrix is drawn: the worst victim sits in the emptiest row of each block."""
        row_sizes = [self.smallest_row(num_clients, claim)] * self.sparsity
        return self._stated(claim, num_columns, num_clients, row_sizes)

    def release_privacy(self, claim: Claim, num_columns: int, matrix: PublicMatrix) -> PrivacyStatement:
        """Return the privacy of a release under the matrix that was really drawn."""
        honest = matrix.row_counts() - self.quota(claim)
        row_sizes = [int(honest.min())] * self.sparsity
        if row_sizes[0] > 0:
            row_numbers, _ = matrix.entries(np.arange(matrix.num_clients))
            shown = np.zeros(matrix.num_clients)
            for entry in row_numbers.T:
                shown += 1 / (honest[entry] * float(self.sigma) ** 2 - SMOOTHING)
            row_sizes = honest[row_numbers[int(np.argmax(shown))]].tolist()
        return self._stated(claim, num_columns, matrix.num_clients, row_sizes)

    def _stated(self, claim: Claim, num_columns: int, num_clients: int, row_sizes: list[int]) -> PrivacyStatement:
        return copies_statement(
            claim,
            distance=upper_root(self.squared_copy_distance(claim, num_columns)),
            sigma=self.sigma,
            num_words=num_columns,
            num_clients=num_clients,
            row_sizes=row_sizes,
            slack=self.counter_slack(claim, num_clients) if min(row_sizes) > 0 else 0.0,
            beside=self.counter_mu(claim, num_clients) if min(row_sizes) > 0 else 0.0,
        )

    def check(self, claim: Claim, num_columns: int, max_clients: int) -> None:
        """Refuse parameters that are not the published ones, break the claim or may overflow the ring.

        Raises:
            InvalidTaskError: bounds, rows or headroom do not fit.
            RowUnderfilledError: equation (4) is undefined, or a row may be left without honest clients.
            FalseClaimError: sigma is not that of equation (4), or the claim is better than what that exactly gives.
        """
        self._require_shape()
        expected = row_bound_of(self.entry_bound, num_columns)
        if self.row_bound != expected:
            raise InvalidTaskError(f"row_bound {self.row_bound} is not entry_bound times sqrt(d), {expected}")
        published = self.smallest_sigma(claim, num_columns)
        if self.sigma != published:
            raise FalseClaimError(
                f"sigma {self.sigma} is not what equation (4) gives for epsilon {self.published_epsilon}: {published}"
            )
        super().check(claim, num_columns, max_clients)

    def _require_shape(self) -> None:
        if self.sparsity > self.rows:
            raise InvalidTaskError(f"{self.sparsity} entries in a column need as many rows, got {self.rows}")
        if fraction(self.entry_bound) <= 0 or fraction(self.published_epsilon) <= 0:
            raise InvalidTaskError(
                f"entry_bound {self.entry_bound} and published_epsilon {self.published_epsilon} must be positive"
            )
        if self.sigma > MAX_SIGMA:
            raise InvalidTaskError(f"sigma {self.sigma} exceeds {MAX_SIGMA}")
        if self.entry_steps < 1:
            raise InvalidTaskError(f"entry_bound {self.entry_bound} is below one step of 2^-{self.fraction_bits}")

    def calibrated(self, claim: Claim, num_columns: int, max_clients: int) -> Self:
        """Return this mechanism with the finest grid that fits, and the published sigma on it.

        Raises:
            InvalidTaskError, RowUnderfilledError, FalseClaimError: as `check`.
        """
        if fraction(self.entry_bound) <= 0:
            raise InvalidTaskError(f"entry_bound {self.entry_bound} is not positive")
        update = {
            "row_bound": row_bound_of(self.entry_bound, num_columns),
            "published_epsilon": self._asked_epsilon(claim),
        }
        return Mechanism.calibrated(self.model_copy(update=update), claim, num_columns, max_clients)

    def _asked_epsilon(self, claim: Claim) -> Real:
        return self.published_epsilon if fraction(self.published_epsilon) else claim.epsilon

    def smallest_sigma(self, claim: Claim, num_columns: int) -> int:
        """Return the published sigma in integer steps: not the smallest, but the only one that is accepted.

        Raises:
            RowUnderfilledError: equation (4) is undefined, since it allows for rows that are too empty.
        """
        try:
            sigma = published_steps(
                Decimal(self._asked_epsilon(claim)),
                Decimal(claim.delta),
                claim.min_clients,
                self.rows,
                self.sparsity,
                num_columns,
                _EXACT.multiply(Decimal(self.entry_bound), 2**self.fraction_bits),
                claim.max_corrupt_clients,
            )
        except ValueError as error:
            raise RowUnderfilledError(str(error)) from None
        return max(MIN_SIGMA, sigma)


def row_bound_of(entry_bound: Real, num_columns: int) -> Real:
    """Return eta sqrt(d), the largest norm of a row with entries of at most eta, rounded up to 12 digits.

    Raises:
        InvalidTaskError: a document cannot spell it.
    """
    norm = _TWELVE_DIGITS.plus(_EXACT.multiply(Decimal(entry_bound), _EXACT.sqrt(Decimal(num_columns))))
    try:
        return real(norm)
    except ValueError as error:
        raise InvalidTaskError(f"entry_bound {entry_bound} with {num_columns} columns: {error}") from None
