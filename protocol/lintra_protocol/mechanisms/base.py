"""A mechanism: the document that says how a client encodes its row, and which public matrix the servers apply.

A kind declares the blocks of its report (`blocks`), how a clipped row fills them (`fill`), and how far one row or
person can move them (`squared_distance`). All else follows in `mechanisms.measurement`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import isqrt, log
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lintra_protocol.crypto.randomness import RandomBytes, no_randomness
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Frozen, Real, fraction, omitted
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.floor import NO_FLOOR, Floor
from lintra_protocol.mechanisms.layout import CLIPPED, ROWS, Block, Layout, Words
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA, GaussianLaw
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.clipping import (
    clip_norms,
    is_well_inside,
    quantise,
    quantise_dithered,
    squared_integer_bound,
)
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA
from lintra_protocol.privacy.statement import Claim, Neighbours, PrivacyStatement
from lintra_protocol.transforms.base import Ones, PublicMatrix

LOG_MAX_WRAP = log(1e-12)
"""Largest tolerated log-probability that any released entry leaves the ring."""

ON_THE_SPHERE = 2.0**-30
"""By which part a row's norm may exceed the bound without being counted as clipped: far below a step of any grid."""


class OtherRounds(NamedTuple):
    """The rounds that stand beside this one where the same people answer several tasks under one promise."""

    before: str | None = None  #: the task of the round before; None in a first or only round
    num_after: int = 0  #: how many more rounds there may be
    share_after: Fraction = Fraction(1)  #: the part of mu^2 that each of those has, over that of this round


class Mechanism(Frozen, ABC):
    """The parameters of a kind, and what only this kind can say about them.

    Lengths: d encoded columns, w ring words in a report, m rows of the public matrix. A row is clipped to `row_bound`
    (in normalised units), counted in steps of 2^-`fraction_bits`, and noised with deviation `sigma` in ring units. A
    positive `clip_count_weight` adds the clip counter, a word that counts the rows that clipping changed: a clipped row
    adds the weight times the distance of replaced rows (docs/proofs/clips.md#clip-counter). Where clients and
    servers add noise, `floor` is the deviation of each server's in a word of deviation `sigma`, and in proportion in
    others (#two-layers). `rounding` says how numbers become integers: to the nearest, or dithered, so that the mean of
    what a number becomes is the number (#dithered-rounding). In the canonical encoding a weight or floor of 0 and
    rounding to nearest are left out.
    """

    kind: str
    row_bound: Real
    fraction_bits: int = Field(ge=0, le=40)
    sigma: int = Field(ge=MIN_SIGMA, le=MAX_SIGMA)
    clip_count_weight: Real = omitted("0")
    floor: int = omitted(0, ge=0, le=MAX_SIGMA)
    rounding: Literal["nearest", "dithered"] = omitted("nearest")

    allows: ClassVar[frozenset[str]] = frozenset()
    """What a task of this kind may have: "contributors", "persons" (all rows of a person are clipped together),
    "clip counter", "server noise", "floor" (noise of servers beside that of clients), "stream" (windows whose noise
    hangs together), "dither" (`rounding` may be dithered), "levels" (a category enters as the number of its level, and
    not as indicators)."""

    start_bits: ClassVar[int]
    """Bits of the norm bound, in integer steps, that calibration tries first."""

    # --- what a report holds -------------------------------------------------------------------------------------

    @abstractmethod
    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return the blocks of a report of d columns, but for the clip counter and an exact count.

        It has an answer for every document that can be parsed, also for one that `check_options` refuses.
        """

    @abstractmethod
    def fill(self, steps: IntArray, setting: Setting) -> Mapping[str, Words]:
        """Return what fills each of `blocks` for clipped integer rows of shape `(n, d)`, as `clip` returns them."""

    @abstractmethod
    def decode(self, layout: Layout, sketch: IntArray) -> FloatArray:
        """Return released integers, shape `(m, num_released)`, in normalised units and the kind's own shape."""

    @abstractmethod
    def squared_distance(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> Fraction:
        """Return the largest squared distance of two noiseless reports that differ in one row, or one person's rows.

        Each word is counted in multiples of its noise's deviation over `sigma`. The clip counter is left out; a copy
        of a row counts once.
        """

    def squared_length(self, num_columns: int, setting: Setting) -> int | None:
        """Return the largest squared norm of a noiseless report of one row without the clip counter; None if unknown.

        Verified reports prove that they are not longer, noise aside (docs/explanation/verified.md).
        """
        del num_columns, setting
        return None

    def layout(self, num_columns: int, setting: Setting) -> Layout:
        """Return the layout of a report of d columns: `blocks`, the clip counter and an exact count."""
        declared = self.blocks(num_columns, setting)
        blocks, counter = declared.blocks, (declared.counter, declared.rows_per_count)
        if self.clip_count_weight != "0":
            square = fraction(self.clip_count_weight) ** 2 * self.squared_clip_scale(num_columns, setting)
            steps = isqrt(square.numerator // square.denominator)
            is_total = self.row_blocks > 0
            blocks += (Block(CLIPPED, 1, self.sigma, steps, per=max(steps, 1), is_total=is_total),)
        if setting.count == "exact":
            blocks, counter = (*blocks, Block(ROWS, 1, 0, 1)), (ROWS, 1)
        floor = Floor(self.floor, self.sigma, setting.floor_servers) if setting.floor_servers else NO_FLOOR
        return Layout(blocks, *counter, floor)

    def squared_clip_scale(self, num_columns: int, setting: Setting) -> Fraction:
        """Return the square of what the weight of a clip counter refers to: the squared distance of replaced rows.

        Also if the claim is about null rows: a client need not know.
        """
        del setting
        return self.squared_distance("replace-one", num_columns, Setting())

    @property
    def squared_bound(self) -> int:
        """Return the largest squared norm of a clipped row in integer steps."""
        return squared_integer_bound(fraction(self.row_bound), self.fraction_bits)

    def person_bound(self, setting: Setting) -> int:
        """Return the largest squared norm, in integer steps, of what is clipped together: a row, or a person's rows."""
        if "persons" not in self.allows:
            return self.squared_bound
        return setting.person_bound(self.squared_bound, self.fraction_bits)

    def dithered_entries(self, num_columns: int) -> int:
        """Return e, how many numbers of one row are dithered; 0 where none is."""
        return num_columns if self.rounding == "dithered" else 0

    @property
    def sigma_bits(self) -> int:
        """Return k if `sigma` counts steps of 2^-k: f, or 2f where it is the noise of a product."""
        return self.fraction_bits

    # --- the client's part ---------------------------------------------------------------------------------------

    def with_centre_for_missing(self, rows: FloatArray) -> FloatArray:
        """Return normalised rows of shape `(n, d)` with each missing number at its column's centre: 0.

        What is not finite is missing, as the schema has it; no infinite number reaches the integers.
        """
        missing = ~np.isfinite(rows)
        return np.where(missing, 0.0, rows) if missing.any() else rows

    def leaves_out(self, setting: Setting) -> bool:
        """Whether a row in which a number is missing is sent as zeros; else, as here, it has the column's centre."""
        del setting
        return False

    def clip(self, rows: FloatArray, setting: Setting, random_bytes: RandomBytes = no_randomness) -> IntArray:
        """Clip normalised rows, and count them in integer steps.

        `rows` have shape `(n, d)`, or `(n, r, d)` for n persons of r rows each, which are clipped together. The result
        has one row for each. Only dithered rounding reads `random_bytes`, a word for each number.
        """
        scaled = rows.reshape(len(rows), -1) * 2.0**self.fraction_bits
        return self._rounded(scaled, self.person_bound(setting), random_bytes).reshape(-1, rows.shape[-1])

    def _rounded(self, rows: FloatArray, squared_bound: int, random_bytes: RandomBytes) -> IntArray:
        """Round rows, given in integer steps, shape `(n, d)`, to integers inside a ball, as `rounding` says."""
        if self.rounding == "dithered":
            return quantise_dithered(rows, squared_bound, random_bytes)
        return quantise(rows, squared_bound)

    def is_clipped(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each of some normalised rows of shape `(n, d)` whether it is too large to be encoded as it is.

        A row that lies on the sphere but for the rounding of floating point is not.
        """
        bound, known = float(fraction(self.row_bound)) * (1 + ON_THE_SPHERE), self.with_centre_for_missing(rows)
        if is_well_inside(known, bound):
            return np.zeros(1, np.bool_)
        shorter: NDArray[np.bool_] = (clip_norms(known, bound) != known).any(axis=1)
        return shorter

    def average_weight(self, rows: FloatArray, setting: Setting) -> float | None:
        """Return how much each of some normalised rows, shape `(n, d)`, counts on average; None without row weights."""
        return None

    def clipping_rule(self, setting: Setting) -> str:
        """Return in words what happens to a row that is too large, or to all rows of a person together."""
        if setting.contributors is None or "persons" not in self.allows:
            return f"rows are shrunk to norm {self.row_bound}"
        rows, bound = setting.rows_per_person, setting.contributors.person_bound
        norm = bound or self.row_bound + f" times the root of {rows}" * (rows > 1)
        return f"all rows of a person together are shrunk to norm {norm}"

    # --- the servers' part ---------------------------------------------------------------------------------------

    @property
    def num_rows(self) -> int:
        """Return m, the rows of the public matrix: 1, a row of ones, unless this is a sketch."""
        return 1

    @property
    def row_blocks(self) -> int:
        """Return s, the entries of a client's column in a sketch, one in each of s blocks of rows; 0 for no sketch."""
        return 0

    def public_matrix(self, num_clients: int, seed: bytes) -> PublicMatrix:
        """Return the matrix of shape `(m, num_clients)` that the servers apply, drawn from a 32-byte late seed."""
        del seed
        return Ones(num_clients)

    # --- noise and privacy ---------------------------------------------------------------------------------------

    @property
    def noise_law(self) -> GaussianLaw:
        """Return how the noise hides a row or person: the Gaussian law, unless a kind has its own."""
        return GaussianLaw(self.sigma, floor=self.floor)

    def planned_for(self, claim: Claim, num_columns: int, setting: Setting) -> Self:
        """Return this mechanism, with the same noise, as it would be planned for a claim: itself.

        Raises:
            RowUnderfilledError: no plan withstands the claim's coalition.
        """
        del claim, num_columns, setting
        return self

    @property
    def other_rounds(self) -> OtherRounds:
        """Return what the same people answer before and after this task, under one promise: mostly nothing."""
        return OtherRounds()

    def remark(self, privacy: PrivacyStatement) -> str:
        """Return what has to be said beside the privacy of a task or release, in one sentence; mostly nothing."""
        del privacy
        return ""

    # --- what a task may say -------------------------------------------------------------------------------------

    @property
    def noisy_count_advice(self) -> str:
        """Return in words what is needed for a noisy count of organisations' rows; "" if it is there."""
        return f"{self.kind} like this has no word for a noisy count; use count 'exact'"

    def check_options(self, claim: Claim, num_columns: int, setting: Setting) -> None:
        """Refuse options that do not fit each other, the claim, the columns or the setting, whatever the grid is.

        Raises:
            InvalidTaskError: in words; here nothing is refused.
        """

    def check_grid(self, num_columns: int, setting: Setting) -> None:
        """Refuse a grid of `fraction_bits` that is too coarse or too fine for the options.

        Raises:
            InvalidTaskError: in words; here nothing is refused.
        """

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Refuse columns that this mechanism does not fit: none, unless a mechanism says more.

        Raises:
            InvalidTaskError: a column does not fit; the detail names it.
        """


def squared_distance_of_persons(
    squared_of_rows: Callable[[Neighbours], Fraction],
    neighbours: Neighbours,
    setting: Setting,
    squared_count: Fraction | int = 0,
) -> Fraction:
    """Return the largest squared distance where a person changes whose rows are clipped one by one.

    Lemma O0 (docs/proofs/persons.md#organisations). `squared_of_rows` is that of two rows, or of a row and the
    null row. `squared_count` is the square of what a row adds to a noisy count word of its own, in multiples of that
    word's noise; 0 where there is no such word.
    """
    if setting.contributors is None:
        return squared_of_rows(neighbours)
    alone = squared_of_rows("zero-out") + squared_count
    if neighbours == "replace-one":
        alone = max(squared_of_rows("replace-one"), alone)
    return setting.rows_per_person**2 * alone
