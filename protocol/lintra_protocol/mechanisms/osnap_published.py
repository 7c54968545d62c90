"""`osnap_published`: the sketch as it was published, for comparison only (Burkhardt et al. 2025, Theorem 3.4).

A client sends s copies of its row, each with noise of its own, and entry j of its column applies to copy j. Entries are
clipped, not norms, and sigma is equation (4) of the paper, rounded up. Equation (4) does not always keep what it was
asked for (docs/proofs/sketch.md#published-calibration), so a task promises what is exactly true, and is refused
if it promises more.
"""

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.randomness import RandomBytes, no_randomness
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import FalseClaimError, InvalidTaskError, RowUnderfilledError
from lintra_protocol.mechanisms.base import ON_THE_SPHERE
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA, NoisyMeasurement, upper_root
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.mechanisms.sketched import SketchedRows, SketchLaw
from lintra_protocol.noise.clipping import dither, quantise_entries
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA
from lintra_protocol.privacy.calibration import published_steps
from lintra_protocol.privacy.statement import SMOOTHING, Claim, Neighbours, PrivacyStatement, copies_statement
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

    noises_copies: ClassVar[bool] = True

    @property
    def noise_law(self) -> "CopiesLaw":
        """Return the law of rows whose copies are noised one by one."""
        return CopiesLaw(self.sigma, self)

    @property
    def entry_steps(self) -> int:
        """Return floor(2^f eta), the largest entry of a clipped row in integer steps."""
        scaled: Fraction = fraction(self.entry_bound) * 2**self.fraction_bits
        return scaled.numerator // scaled.denominator

    @property
    def largest_entry(self) -> int:
        """Return the largest absolute value of an entry, in integer steps."""
        return self.entry_steps

    def public_matrix(self, num_clients: int, seed: bytes) -> BalancedOsnap:
        """Return the balanced sketching matrix of the cohort; entry j of a column applies to copy j."""
        totals = int(self.clip_count_weight != "0")
        return BalancedOsnap(self.rows, num_clients, seed, self.sparsity, copies=self.sparsity, totals=totals)

    def clip(self, rows: FloatArray, setting: Setting, random_bytes: RandomBytes = no_randomness) -> IntArray:
        """Round normalised rows of shape `(n, d)` to integer steps and clip every entry; same shape."""
        # Whatever is more than a step outside ends at the bound, so that the product stays finite.
        limit = (self.entry_steps + 1) * 2.0**-self.fraction_bits
        steps = np.clip(rows, -limit, limit) * 2.0**self.fraction_bits
        if self.rounding == "dithered":
            # The bound is a whole number, so that nothing below it is rounded beyond it.
            return dither(np.clip(steps, -self.entry_steps, self.entry_steps), random_bytes)
        return quantise_entries(steps, self.entry_steps)

    def is_clipped(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each of some normalised rows of shape `(n, d)` whether an entry is too large to be sent as it is."""
        bound = float(fraction(self.entry_bound)) * (1 + ON_THE_SPHERE)
        largest: FloatArray = np.abs(self.with_centre_for_missing(rows)).max(axis=1, initial=0.0)
        return np.greater(largest, bound)

    def clipping_rule(self, setting: Setting) -> str:
        """Return in words what a client does to a row that is too large."""
        return f"every entry is clipped to +-{self.entry_bound}"

    def squared_distance(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> Fraction:
        """Return the largest squared distance of one copy of two neighbouring rows: two corners of the box."""
        return Fraction(4 if neighbours == "replace-one" else 1) * num_columns * self.entry_steps**2

    def remark(self, privacy: PrivacyStatement) -> str:
        """Return both epsilons: the one that the noise was made for, and the one that it gives, rounded up."""
        exact = _SIX_DIGITS.create_decimal_from_float(privacy.epsilon)
        counter = ", its clip counter, which was not published, included" if self.clip_count_weight != "0" else ""
        return (
            f"published calibration, for comparison: claimed epsilon {self.published_epsilon} by Theorem 3.4, "
            f"exactly {exact:f} at delta {privacy.delta:g}{counter}"
        )

    def planned_for(self, claim: Claim, num_columns: int, setting: Setting) -> Self:
        """Return this mechanism with the row bound that follows from its entries', and the epsilon it was asked for.

        Raises:
            InvalidTaskError: the bound of an entry is not positive.
        """
        if fraction(self.entry_bound) <= 0:
            raise InvalidTaskError(f"entry_bound {self.entry_bound} is not positive")
        epsilon = self.published_epsilon if fraction(self.published_epsilon) else claim.epsilon
        update = {"row_bound": row_bound_of(self.entry_bound, num_columns), "published_epsilon": epsilon}
        return self.model_copy(update=update)

    def check_options(self, claim: Claim, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError for more entries in a column than there are rows."""
        if self.sparsity > self.rows:
            raise InvalidTaskError(f"{self.sparsity} entries in a column need as many rows, got {self.rows}")

    def check_grid(self, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError for bounds that are not the published ones, or less than a step."""
        if fraction(self.entry_bound) <= 0 or fraction(self.published_epsilon) <= 0:
            raise InvalidTaskError(
                f"entry_bound {self.entry_bound} and published_epsilon {self.published_epsilon} must be positive"
            )
        if self.sigma > MAX_SIGMA:
            raise InvalidTaskError(f"sigma {self.sigma} exceeds {MAX_SIGMA}")
        if self.entry_steps < 1:
            raise InvalidTaskError(f"entry_bound {self.entry_bound} is below one step of 2^-{self.fraction_bits}")
        expected = row_bound_of(self.entry_bound, num_columns)
        if self.row_bound != expected:
            raise InvalidTaskError(f"row_bound {self.row_bound} is not entry_bound times sqrt(d), {expected}")


@dataclass(frozen=True)
class CopiesLaw(SketchLaw):
    """Gaussian noise of every copy of a row, of the deviation that equation (4) of the paper gives."""

    mechanism: OsnapPublished

    def check(self, measured: NoisyMeasurement) -> None:
        """Refuse another deviation than that of equation (4).

        Raises:
            FalseClaimError: sigma is not that of equation (4).
            RowUnderfilledError: equation (4) is undefined.
        """
        published = self.smallest_sigma(measured)
        if self.sigma != published:
            epsilon = self.mechanism.published_epsilon
            raise FalseClaimError(
                f"sigma {self.sigma} is not what equation (4) gives for epsilon {epsilon}: {published}"
            )

    def privacy(self, measured: NoisyMeasurement, num_clients: int) -> PrivacyStatement:
        """Return what is promised before the matrix is drawn: the worst victim sits in the emptiest row of each block.

        Raises:
            RowUnderfilledError: the emptiest row has no honest client beyond the tolerated coalition.
        """
        return self._copies(measured, num_clients, [measured.emptiest_row(num_clients)] * self.mechanism.sparsity)

    def release_privacy(
        self, measured: NoisyMeasurement, matrix: PublicMatrix, *, as_planned: bool
    ) -> PrivacyStatement:
        """Return the privacy of a release under the matrix that was really drawn.

        Raises:
            RowUnderfilledError: a row has no honest client beyond the tolerated coalition.
        """
        honest = matrix.row_counts() - measured.quota
        row_sizes = [int(honest.min())] * self.mechanism.sparsity
        if row_sizes[0] > 0:
            row_numbers, _ = matrix.entries(np.arange(matrix.num_clients))
            shown = np.zeros(matrix.num_clients)
            for entry in row_numbers.T:
                shown += 1 / (honest[entry] * float(self.sigma) ** 2 - SMOOTHING)
            row_sizes = honest[row_numbers[int(np.argmax(shown))]].tolist()
        return self._copies(measured, matrix.num_clients, row_sizes)

    def _copies(self, measured: NoisyMeasurement, num_clients: int, row_sizes: list[int]) -> PrivacyStatement:
        claim, num_columns = measured.claim, measured.num_columns
        return copies_statement(
            claim,
            distance=upper_root(self.mechanism.squared_distance(claim.neighbours, num_columns, measured.setting)),
            sigma=self.sigma,
            num_words=num_columns,
            num_clients=num_clients,
            row_sizes=row_sizes,
            slack=self.counter_slack(measured, num_clients) if min(row_sizes) > 0 else 0.0,
            beside=self.counter_mu(measured, num_clients) if min(row_sizes) > 0 else 0.0,
        )

    def smallest_sigma(self, measured: NoisyMeasurement) -> int:
        """Return the published sigma in integer steps: not the smallest, but the only one that is accepted.

        Raises:
            RowUnderfilledError: equation (4) is undefined, since it allows for rows that are too empty.
        """
        mechanism, claim = self.mechanism, measured.claim
        epsilon = mechanism.published_epsilon if fraction(mechanism.published_epsilon) else claim.epsilon
        try:
            sigma = published_steps(
                Decimal(epsilon),
                Decimal(claim.delta),
                claim.min_clients,
                mechanism.rows,
                mechanism.sparsity,
                measured.num_columns,
                _EXACT.multiply(Decimal(mechanism.entry_bound), 2**mechanism.fraction_bits),
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
