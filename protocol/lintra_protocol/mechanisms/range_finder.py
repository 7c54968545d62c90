"""`range_finder`: second moments of thousands of columns, with one side projected to a few.

A client sends x q^T: its row x times q, which holds a constant, the row's targets, and the projection of x by public
signs. Both norms are checked in integers, so that the sensitivity holds whatever rounding did and whatever the signs
are (docs/explanation/privacy.md#range-finder). The sum is the range finder of Halko, Martinsson and Tropp (2011) on sum
x x^T.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt, sqrt
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.encoding.documents import Frozen, Key, Real, fraction
from lintra_protocol.errors import InvalidMessageError, InvalidTaskError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.layout import Block, Layout, Tiled
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.clipping import MAX_SQUARED_BOUND, quantise
from lintra_protocol.privacy.statement import Claim, Neighbours
from lintra_protocol.transforms.ones import Ones

MAX_TARGETS, MAX_BITS = 8, 8

_NUMBERS_AT_ONCE, _EXACT_IN_FLOATS = 1 << 22, 1 << 53
"""Numbers of an organisation's rows that are multiplied at once, and integers up to which floating point has all."""

FREE_TRACE = Fraction(2_772_542, 1_000_000)
"""The word |x|^2 is free while R_x is at most this times R_q: just below (11 + 5 sqrt 5) / 8."""


class Target(Frozen):
    """A column whose products with all columns are released as they are, not projected.

    Attributes:
        column: its number among the encoded columns.
        bound: its largest absolute normalised value M; larger ones count as M in these products.
        bits: g: it counts 2^g times, so that these products have 2^-g of the others' noise in its own units.
    """

    column: int = Field(ge=0, lt=2**20)
    bound: Real
    bits: int = Field(default=0, ge=0, le=MAX_BITS)


@dataclass(frozen=True, eq=False)
class RangeWords:
    """The released numbers of all blocks, in normalised units.

    Attributes:
        projected: sum of x (Omega^T x)^T / sqrt(r), shape `(d, r)`.
        sums: of the columns, shape `(d,)`; None without an intercept.
        targets: sum of x a^T, a the targets, shape `(d, k)`.
        trace: sum of |x|^2; None where it is not released.
    """

    projected: FloatArray
    sums: FloatArray | None
    targets: FloatArray
    trace: float | None


class RangeFinder(Mechanism):
    """The noisy sum of x q^T; a report holds x_i q_j, i outer, j inner, then |x|^2, then the clip counter.

    Attributes:
        rank: r, the columns of Omega.
        omega_seed: 32 public bytes that Omega's signs are made of (see `signs`).
        projected_bound: C, which |Omega^T x| / sqrt(r) is clipped to, in normalised units.
        intercept: a constant in normalised units; "0" for none.
        targets: columns whose products are not projected.
        trace: whether |x|^2 is sent as well; only where a row is replaced.
    """

    kind: Literal["range_finder"] = "range_finder"
    rank: int = Field(ge=1, le=256)
    omega_seed: Key
    projected_bound: Real
    intercept: Real = "0"
    targets: tuple[Target, ...] = Field(default=(), max_length=MAX_TARGETS)
    trace: bool = False

    counts_clipped: ClassVar[bool] = True
    takes_contributors: ClassVar[bool] = True
    start_bits: ClassVar[int] = 14

    # --- sizes -------------------------------------------------------------------------------------------------

    @property
    def num_rows(self) -> int:
        """Return 1: the servers' matrix is one row of ones."""
        return 1

    @property
    def has_intercept(self) -> bool:
        """Return whether q begins with a constant."""
        return self.intercept != "0"

    @property
    def width(self) -> int:
        """Return how many numbers q holds: r, one for each target, and one for an intercept."""
        return int(self.has_intercept) + len(self.targets) + self.rank

    def num_words(self, num_columns: int) -> int:
        """Return d times the width, and one more for the trace, for a noisy count and for the clip counter."""
        return num_columns * self.width + int(self.trace) + int(self.counts_noisily) + self.clip_words

    @property
    def halvings(self) -> int:
        """Return h, the halvings of Omega^T x: the largest with 4^h < 2 r."""
        return ((2 * self.rank - 1).bit_length() - 1) // 2

    @property
    def sigma_bits(self) -> int:
        """Return 2f - h: a word counts products of x, in steps of 2^-f, and Omega^T x, in steps of 2^(h - f)."""
        return 2 * self.fraction_bits - self.halvings

    # --- bounds ------------------------------------------------------------------------------------------------

    @property
    def projected_squared_bound(self) -> int:
        """Return R_p, the largest squared norm of a projected row in integer steps: floor(4^(f-h) r C^2)."""
        squared = Fraction(4) ** (self.fraction_bits - self.halvings) * self.rank * fraction(self.projected_bound) ** 2
        return squared.numerator // squared.denominator

    @property
    def intercept_steps(self) -> int:
        """Return C0, the constant in integer steps, rounded down; 0 for none."""
        return max(int(fraction(self.intercept) * 2**self.fraction_bits), 0)

    @property
    def anchor_bounds(self) -> tuple[int, ...]:
        """Return A_j, the largest absolute value of each target in q."""
        longest = isqrt(self.squared_bound)
        widest = (int(fraction(target.bound) * 2**self.fraction_bits) for target in self.targets)
        return tuple(min(longest, wide) << target.bits for wide, target in zip(widest, self.targets, strict=True))

    @property
    def factor_squared_bound(self) -> int:
        """Return R_q, the largest squared norm of q: C0^2, that of the targets, and R_p."""
        return self.intercept_steps**2 + sum(bound**2 for bound in self.anchor_bounds) + self.projected_squared_bound

    def squared_row_distance(self, neighbours: Neighbours) -> Fraction:
        """Return 4 R_x R_q where one row is replaced, R_x R_q where it becomes the null row (Theorem N1).

        |x q^T - x' q'^T| is at most |x| |q| + |x'| |q'|. The trace adds nothing while R_x <= 2.77 R_q (`FREE_TRACE`).
        """
        return Fraction(4 if neighbours == "replace-one" else 1) * self.squared_bound * self.factor_squared_bound

    def squared_report_bound(self) -> int:
        """Return R_x R_q for the products x_i q_j, R_x^2 for the trace, and the square of the clip counter."""
        traced = self.squared_bound**2 if self.trace else 0
        return self.squared_bound * self.factor_squared_bound + traced + self.clip_steps**2

    def largest_word(self) -> int:
        """Return the largest product of a row's norm with that of q; the squared norm or g if they are larger."""
        longest = isqrt(self.squared_bound * self.factor_squared_bound)
        counted = self.intercept_steps**2 * self.counts_noisily
        return max(longest, self.squared_bound * self.trace, counted, self.clip_steps)

    # --- contributions of organisations ------------------------------------------------------------------------

    @property
    def squared_count_step(self) -> Fraction:
        """Return C0^4 under a noisy count: a row counts C0^2, with the noise of any word."""
        return Fraction(self.intercept_steps**4 * self.counts_noisily)

    def squared_person_distance(self, neighbours: Neighbours) -> Fraction:
        """Return Lemma O0's distance; a person of fewer rows than another lacks their traces as well."""

        def of_rows(between: Neighbours) -> Fraction:
            lacking = self.squared_bound**2 * self.trace if between == "zero-out" else 0
            return self.squared_row_distance(between) + lacking

        return self._of_persons(of_rows, neighbours)

    @property
    def leaves_out(self) -> bool:
        """Whether a row in which a number is missing counts nowhere: under a noisy count of organisations' rows."""
        return self.counts_noisily

    @property
    def has_noisy_count(self) -> bool:
        """Whether there is an intercept, which counts rows."""
        return self.has_intercept

    def noisy_count_advice(self) -> str:
        """Return in words what is needed for a noisy count."""
        return "count 'noisy': rows are counted by an intercept; give one, a quarter of row_bound say"

    @property
    def count_deviation(self) -> float:
        """Return sigma / C0^2."""
        return self.sigma / self.intercept_steps**2

    def noisy_rows(self, sketch: IntArray) -> float:
        """Return the last word of a sum of shape `(1, w)` over C0^2."""
        return float(sketch[0, -1]) / self.intercept_steps**2

    def exact_sum(self, rows: FloatArray, persons: IntArray) -> IntArray:
        """Return the sum of the noiseless reports of rows, shape `(w,)`, by products of whole blocks of rows.

        No sum over b rows exceeds b sqrt(R_x R_q), by Cauchy and Schwarz: below 2^53 floating point has all integers.
        """
        del persons
        size = rows.shape[1]
        products, squares = np.zeros((size, self.width), np.int64), 0
        block = min(
            max(1, _NUMBERS_AT_ONCE // size),
            _EXACT_IN_FLOATS // max(1, isqrt(self.squared_bound * self.factor_squared_bound)),
        )
        for start in range(0, len(rows), max(block, 1)):
            steps = self.round_rows(self.filled(rows[start : start + max(block, 1)]))
            factors = self._factors(steps)
            if block:
                products += (steps.T.astype(np.float64) @ factors.astype(np.float64)).astype(np.int64)
            else:
                products += np.matmul(steps.T, factors)
            squares += int(np.square(steps).sum())
        beside = [squares] * self.trace + [self.intercept_steps**2 * len(rows)] * self.counts_noisily
        return np.append(products, beside).astype(np.int64)

    # --- the roles' parts --------------------------------------------------------------------------------------

    def signs(self, num_columns: int) -> FloatArray:
        """Return Omega of shape `(d, r)`, 1 and -1, read-only; the same for everybody who holds the task."""
        return omega(parse_base64url(self.omega_seed, 32), num_columns, self.rank)

    def encode_exactly(self, steps: IntArray) -> IntArray:
        """Return the integer products x_i q_j of clipped integer rows, and the squared norm; shape `(n, w)`."""
        words = outer_words(steps, self._factors(steps))
        beside = [np.square(steps).sum(axis=1, keepdims=True)] * self.trace
        beside += [np.full((len(steps), 1), self.intercept_steps**2, np.int64)] * self.counts_noisily
        return np.concatenate([words, *beside], axis=1)

    def _factors(self, steps: IntArray) -> IntArray:
        """Return q for each of some clipped integer rows: constant, targets, projection; shape `(n, width)`."""
        constant = np.full((len(steps), int(self.has_intercept)), self.intercept_steps, np.int64)
        own = [
            np.clip(steps[:, [target.column]] << target.bits, -bound, bound)
            for target, bound in zip(self.targets, self.anchor_bounds, strict=True)
        ]
        projected = projections(steps, self.signs(steps.shape[1]), self.halvings, self.projected_squared_bound)
        return np.concatenate([constant, *own, projected], axis=1)

    def shrinks(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each normalised row of shape `(n, d)` whether it, or its projection, is too large to be encoded."""
        lengths = np.square(self.round_rows(self.filled(rows)) @ self.signs(rows.shape[1])).sum(axis=1)
        longer: NDArray[np.bool_] = lengths > 4.0**self.halvings * self.projected_squared_bound
        return super().shrinks(rows) | longer

    def clipping_rule(self) -> str:
        """Return in words what a client does to a row that is too large."""
        return f"rows are shrunk to norm {self.row_bound}, and their projections to norm {self.projected_bound}"

    def public_matrix(self, num_clients: int, seed: bytes) -> Ones:
        """Return the row of ones."""
        return Ones(num_clients)

    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        """Return the released words in normalised units, those of Omega divided by sqrt(r); shape `(w,)`.

        `unpack` parts them; the clip counter is left out.
        """
        words = sketch[0][: num_columns * self.width + int(self.trace)].astype(np.float64)
        scales = np.tile(self.word_scales(), num_columns)
        values: FloatArray = words * np.append(scales, [4.0**-self.fraction_bits] * self.trace)
        return values

    def word_scales(self) -> FloatArray:
        """Return what one step of x_i q_j is worth in normalised units, for each j; shape `(width,)`."""
        step = 2.0**-self.fraction_bits
        constant = [step / self.intercept_steps] if self.has_intercept else []
        own = [step**2 * 2.0**-target.bits for target in self.targets]
        return np.array([*constant, *own, *[step**2 * 2.0**self.halvings / sqrt(self.rank)] * self.rank])

    def unpack(self, values: FloatArray) -> RangeWords:
        """Part decoded words, shape `(w,)`, into their blocks."""
        leading, targets = int(self.has_intercept), len(self.targets)
        table = values[: values.size - int(self.trace)].reshape(-1, self.width)
        return RangeWords(
            projected=table[:, leading + targets :],
            sums=table[:, 0] if leading else None,
            targets=table[:, leading : leading + targets],
            trace=float(values[-1]) if self.trace else None,
        )

    # --- what a task may say -----------------------------------------------------------------------------------

    def check(self, claim: Claim, num_columns: int, max_clients: int) -> None:
        """Refuse parameters that break the claim or may overflow the ring (see `Mechanism.check`).

        Raises:
            InvalidTaskError: also where rank, bounds, targets or trace do not fit.
        """
        self._require_options(claim, num_columns)
        self._require_grid()
        super().check(claim, num_columns, max_clients)

    def calibrated(self, claim: Claim, num_columns: int, max_clients: int) -> Self:
        """Return this mechanism with the finest grid that fits and the smallest sigma (`Mechanism.calibrated`)."""
        self._require_options(claim, num_columns)
        return super().calibrated(claim, num_columns, max_clients)

    def may_fit(self, claim: Claim, num_columns: int) -> bool:
        """Return whether both bounds fit 30 bits on this grid."""
        return super().may_fit(claim, num_columns) and 0 < self.projected_squared_bound <= MAX_SQUARED_BOUND

    def _require_options(self, claim: Claim, num_columns: int) -> None:
        """Refuse what is wrong on any grid."""
        if 2 * self.rank > num_columns:
            raise InvalidTaskError(f"rank {self.rank} is more than half of {num_columns} columns; use second_moment")
        if fraction(self.projected_bound) <= 0:
            raise InvalidTaskError(f"projected_bound {self.projected_bound} is not positive")
        if fraction(self.intercept) < 0:
            raise InvalidTaskError(f"intercept {self.intercept} is negative; use 0 for none")
        if self.trace and claim.neighbours != "replace-one":
            raise InvalidTaskError(
                "the trace is free where one row is replaced; against the null row, or where rows are added, it would "
                "cost noise: use neighbours 'replace-one', or leave the trace out"
            )
        self._require_targets(num_columns)
        try:
            parse_base64url(self.omega_seed, 32)
        except InvalidMessageError as error:
            raise InvalidTaskError(f"omega_seed: {error.detail}") from None

    def _require_targets(self, num_columns: int) -> None:
        named = [target.column for target in self.targets]
        for target in self.targets:
            if target.column >= num_columns:
                raise InvalidTaskError(f"target {target.column} is not the number of one of {num_columns} columns")
            if fraction(target.bound) <= 0:
                raise InvalidTaskError(f"the bound {target.bound} of target {target.column} is not positive")
        if len(set(named)) < len(named):
            raise InvalidTaskError("a column is a target twice")

    def _require_grid(self) -> None:
        if not 0 < self.projected_squared_bound <= MAX_SQUARED_BOUND:
            raise InvalidTaskError(
                f"projected_bound {self.projected_bound} with rank {self.rank} and {self.fraction_bits} fraction bits "
                "does not fit 30 bits"
            )
        if (self.has_intercept and not self.intercept_steps) or 0 in self.anchor_bounds:
            raise InvalidTaskError("intercept or a target's bound is less than one step of the grid; use a larger one")
        if self.trace and self.squared_bound > FREE_TRACE * self.factor_squared_bound:
            raise InvalidTaskError(
                "the trace is free only while row_bound squared is at most 2.77 times the squared norm of what the row "
                "is multiplied with: use a larger projected_bound, or leave the trace out"
            )

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return x_i q_j, i outer, j inner; |x|^2; and what counts a row."""
        longest, constant = isqrt(self.squared_bound * self.factor_squared_bound), self.intercept_steps**2
        scales, counts = Tiled(self.word_scales(), num_columns), int(setting.count == "noisy")
        blocks = (
            Block("products", num_columns * self.width, self.sigma, longest, scales),
            Block("trace", int(self.trace), self.sigma, self.squared_bound, 4.0**-self.fraction_bits),
            Block("count", counts, self.sigma, constant, per=constant),
        )
        return Layout(blocks, "count" * counts, constant)


@lru_cache(maxsize=4)
def omega(seed: bytes, num_columns: int, rank: int) -> FloatArray:
    """Return the public signs, shape `(d, r)`, read-only: 1, or -1 where bit i r + j of the seed's stream is 1.

    `seed` is 32 bytes; `num_columns` is d. `rank` is r.
    """
    count = num_columns * rank
    stream = np.frombuffer(expand(seed, "range finder")(-(-count // 8)), np.uint8)
    bits = np.unpackbits(stream, count=count, bitorder="little")
    found: FloatArray = (1 - 2 * bits.astype(np.int64)).astype(np.float64).reshape(num_columns, rank)
    found.flags.writeable = False
    return found


def projections(steps: IntArray, signs: FloatArray, halvings: int, squared_bound: int) -> IntArray:
    """Return p, the rows' projections in steps, rounded and clipped; shape `(n, r)`.

    Omega^T x is exact: |x_1| + .. + |x_d| stays far below 2^53, so no partial sum is rounded in whatever order. `steps`
    are clipped integer rows, shape `(n, d)`, squared norms at most 2^60 and d at most 2^20. `signs` are Omega, shape
    `(d, r)`. `halvings` is h; p counts 2^h steps of Omega^T x. `squared_bound` is R_p.
    """
    return quantise(steps.astype(np.float64) @ signs * 2.0**-halvings, squared_bound)


def outer_words(steps: IntArray, factors: IntArray) -> IntArray:
    """Return x_i q_j, i outer and j inner, of rows of shape `(n, d)` and factors of shape `(n, k)`; `(n, d k)`."""
    products: IntArray = steps[:, :, np.newaxis] * factors[:, np.newaxis, :]
    return products.reshape(len(steps), -1)
