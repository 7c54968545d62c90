"""`range_finder`: second moments of thousands of columns, with one side projected to a few.

A client sends x q^T: its row x times q, which holds a constant, the row's targets, and the projection of x by public
signs. Both norms are checked in integers, so that the sensitivity holds whatever rounding did and whatever the signs
are (docs/proofs/moments.md#range-finder). The sum is the range finder of Halko, Martinsson and Tropp (2011) on sum
x x^T.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, sqrt
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lintra_protocol.crypto.randomness import RandomBytes, no_randomness
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.encoding.documents import Frozen, Key, Real, fraction
from lintra_protocol.errors import InvalidMessageError, InvalidTaskError
from lintra_protocol.mechanisms.base import Mechanism, squared_distance_of_persons
from lintra_protocol.mechanisms.layout import Block, Layout, Products, Tiled, Words
from lintra_protocol.mechanisms.public_signs import omega, projections
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.clipping import MAX_SQUARED_BOUND, quantise, quantise_dithered
from lintra_protocol.privacy.statement import Claim, Neighbours

MAX_TARGETS, MAX_BITS = 8, 8

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

    allows: ClassVar[frozenset[str]] = frozenset({"contributors", "clip counter", "dither", "floor"})
    start_bits: ClassVar[int] = 14

    # --- sizes and bounds ----------------------------------------------------------------------------------------

    @property
    def has_intercept(self) -> bool:
        """Return whether q begins with a constant."""
        return self.intercept != "0"

    @property
    def width(self) -> int:
        """Return how many numbers q holds: r, one for each target, and one for an intercept."""
        return int(self.has_intercept) + len(self.targets) + self.rank

    @property
    def halvings(self) -> int:
        """Return h, the halvings of Omega^T x: the largest with 4^h < 2 r."""
        return ((2 * self.rank - 1).bit_length() - 1) // 2

    @property
    def sigma_bits(self) -> int:
        """Return 2f - h: a word counts products of x, in steps of 2^-f, and Omega^T x, in steps of 2^(h - f)."""
        return 2 * self.fraction_bits - self.halvings

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

    # --- what a report holds -------------------------------------------------------------------------------------

    def leaves_out(self, setting: Setting) -> bool:
        """Whether a row in which a number is missing counts nowhere: under a noisy count of organisations' rows."""
        return setting.count == "noisy"

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return x_i q_j, i outer and j inner; |x|^2; and what counts a row, the constant's product with itself.

        A product is at most the product of the norms of the row and of q.
        """
        longest, square = isqrt(self.squared_bound * self.factor_squared_bound), self.intercept_steps**2
        scales, counts = Tiled(self.word_scales(), num_columns), self.leaves_out(setting)
        blocks = (
            Block("products", num_columns * self.width, self.sigma, longest, scales),
            Block("trace", int(self.trace), self.sigma, self.squared_bound, 4.0**-self.fraction_bits),
            Block("count", int(counts), self.sigma, square, per=square),
        )
        return Layout(blocks, "count", square) if counts else Layout(blocks)

    def clip(self, rows: FloatArray, setting: Setting, random_bytes: RandomBytes = no_randomness) -> IntArray:
        """Clip rows of shape `(n, d)`, and count them in steps; dithered ones with their projections, `(n, d + r)`.

        A projection is exact of the dithered row, and is then shrunk and dithered itself.
        """
        steps = super().clip(rows, setting, random_bytes)
        if self.rounding != "dithered":
            return steps
        projected = steps.astype(np.float64) @ self.signs(steps.shape[1]) * 2.0**-self.halvings
        return np.hstack([steps, quantise_dithered(projected, self.projected_squared_bound, random_bytes)])

    def fill(self, steps: IntArray, setting: Setting) -> Mapping[str, Words]:
        """Return the products of clipped integer rows, shape `(n, d)` or `(n, d + r)`, as `clip` returns them."""
        if self.rounding == "dithered":
            steps, projected = steps[:, : -self.rank], steps[:, -self.rank :]
        else:
            projected = projections(steps, self.signs(steps.shape[1]), self.halvings, self.projected_squared_bound)
        words: dict[str, Words] = {"products": Products(steps, self._factors(steps, projected))}
        if self.trace:
            words["trace"] = Products(steps, steps, "dot")
        if self.leaves_out(setting):
            words["count"] = np.full((len(steps), 1), self.intercept_steps**2, np.int64)
        return words

    def signs(self, num_columns: int) -> FloatArray:
        """Return Omega of shape `(d, r)`, 1 and -1, read-only; the same for everybody who holds the task."""
        return omega(parse_base64url(self.omega_seed, 32), num_columns, self.rank)

    def _factors(self, steps: IntArray, projected: IntArray) -> IntArray:
        """Return q for each of some clipped integer rows: constant, targets, projection; shape `(n, width)`."""
        constant = np.full((len(steps), int(self.has_intercept)), self.intercept_steps, np.int64)
        own = [
            np.clip(steps[:, [target.column]] << target.bits, -bound, bound)
            for target, bound in zip(self.targets, self.anchor_bounds, strict=True)
        ]
        return np.concatenate([constant, *own, projected], axis=1)

    def is_clipped(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each normalised row of shape `(n, d)` whether it, or its projection, is too large to be encoded."""
        steps = quantise(self.with_centre_for_missing(rows) * 2.0**self.fraction_bits, self.squared_bound)
        lengths = np.square(steps @ self.signs(rows.shape[1])).sum(axis=1)
        longer: NDArray[np.bool_] = lengths > 4.0**self.halvings * self.projected_squared_bound
        return super().is_clipped(rows) | longer

    def clipping_rule(self, setting: Setting) -> str:
        """Return in words what a client does to a row that is too large."""
        return f"rows are shrunk to norm {self.row_bound}, and their projections to norm {self.projected_bound}"

    def decode(self, layout: Layout, sketch: IntArray) -> FloatArray:
        """Return the released words in normalised units, those of Omega divided by sqrt(r); shape `(w,)`.

        `unpack` parts them; the count and the clip counter are left out.
        """
        names = [name for name in ("products", "trace") if name in layout]
        return np.concatenate([layout.first_values(sketch, name) for name in names])

    def word_scales(self) -> FloatArray:
        """Return what one step of x_i q_j is worth in normalised units, for each j; shape `(width,)`."""
        step = 2.0**-self.fraction_bits
        constant = [step / max(self.intercept_steps, 1)] if self.has_intercept else []
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

    # --- what a row or a person can move -------------------------------------------------------------------------

    def squared_distance(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> Fraction:
        """Return 4 R_x R_q where one row is replaced, R_x R_q where it becomes the null row (Theorem N1).

        |x q^T - x' q'^T| is at most |x| |q| + |x'| |q'|. The trace adds nothing while R_x <= 2.77 R_q (`FREE_TRACE`).
        Of persons it is that of Lemma O0; a person of fewer rows than another lacks their traces as well, and under a
        noisy count their C0^2.
        """

        def of_rows(between: Neighbours) -> Fraction:
            lacking = setting.contributors is not None and between != "replace-one" and self.trace
            products = self.squared_bound * self.factor_squared_bound
            return Fraction((4 if between == "replace-one" else 1) * products + self.squared_bound**2 * lacking)

        counted = self.intercept_steps**4 * self.leaves_out(setting)
        return squared_distance_of_persons(of_rows, neighbours, setting, counted)

    def squared_length(self, num_columns: int, setting: Setting) -> int:
        """Return R_x R_q for the products x_i q_j, and R_x^2 for the trace."""
        return self.squared_bound * self.factor_squared_bound + self.squared_bound**2 * self.trace

    # --- what a task may say -----------------------------------------------------------------------------------

    @property
    def noisy_count_advice(self) -> str:
        """Return in words that an intercept counts rows; "" if there is one."""
        if self.has_intercept:
            return ""
        return "count 'noisy': rows are counted by an intercept; give one, a quarter of row_bound say"

    def check_options(self, claim: Claim, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError for options that do not fit each other, the claim or the columns."""
        if 2 * self.rank > num_columns:
            raise InvalidTaskError(f"rank {self.rank} is more than half of {num_columns} columns; use second_moment")
        if fraction(self.projected_bound) <= 0:
            raise InvalidTaskError(f"projected_bound {self.projected_bound} is not positive")
        if fraction(self.intercept) < 0:
            raise InvalidTaskError(f"intercept {self.intercept} is negative; use 0 for none")
        if self.trace and claim.neighbours != "replace-one":
            raise InvalidTaskError("trace needs neighbours 'replace-one': otherwise it costs noise")
        self._check_targets(num_columns)
        try:
            parse_base64url(self.omega_seed, 32)
        except InvalidMessageError as error:
            raise InvalidTaskError(f"omega_seed: {error.detail}") from None

    def _check_targets(self, num_columns: int) -> None:
        named = [target.column for target in self.targets]
        for target in self.targets:
            if target.column >= num_columns:
                raise InvalidTaskError(f"target {target.column} is not the number of one of {num_columns} columns")
            if fraction(target.bound) <= 0:
                raise InvalidTaskError(f"the bound {target.bound} of target {target.column} is not positive")
        if len(set(named)) < len(named):
            raise InvalidTaskError("a column is a target twice")

    def check_grid(self, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError for a grid that the projection does not fit, or on which a target is nothing."""
        if not 0 < self.projected_squared_bound <= MAX_SQUARED_BOUND:
            raise InvalidTaskError(
                f"projected_bound {self.projected_bound} with rank {self.rank} and {self.fraction_bits} fraction bits "
                "does not fit 30 bits"
            )
        if (self.has_intercept and not self.intercept_steps) or 0 in self.anchor_bounds:
            raise InvalidTaskError("intercept or a target's bound is less than one step of the grid; use a larger one")
        if self.trace and self.squared_bound > FREE_TRACE * self.factor_squared_bound:
            raise InvalidTaskError(
                "trace needs a row_bound whose square is at most 2.77 times the squared norm of what the row is "
                "multiplied with; use a larger projected_bound"
            )
