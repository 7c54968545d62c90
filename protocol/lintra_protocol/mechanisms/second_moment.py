"""`second_moment`: the sum of the rows' outer products with Gaussian noise, distributed Analyze Gauss.

A client rounds and clips its row in integers and sends the exact integer products, so the sensitivity holds without
rounding slack. Off-diagonal noise has half the diagonal's variance, which makes the noise isotropic in the Frobenius
norm and the mechanism exactly Gaussian (Dwork et al. 2014; Sheffet 2019; docs/proofs/moments.md#second-moments).
"""

from collections.abc import Mapping
from fractions import Fraction
from math import isqrt
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StringConstraints

from lintra_protocol.crypto.randomness import RandomBytes, no_randomness
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Identifier, Real, fraction, omitted
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.directions import (
    MAX_BASIS_BYTES,
    SECOND_OF_TWO,
    along,
    check_room,
    check_second_round,
    directions,
    num_directions,
)
from lintra_protocol.mechanisms.layout import Block, Layout, Products, Triangle, Words, triangle_matrix
from lintra_protocol.mechanisms.row_weights import RowWeights, WeightedBy, WeightOptions, weighted_distance
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.mechanisms.setting_check import check_count
from lintra_protocol.noise.clipping import clip_exactly, quantise
from lintra_protocol.privacy.statement import Claim, Neighbours, PrivacyStatement


class SecondMoment(Mechanism):
    """The noisy matrix sum of x x^T; a report is its upper triangle in the order (1,1), (1,2), .., (1,d), (2,2), ..

    Three options. `trace` adds a last word, the squared norm of the row: it makes the trace less noisy and costs
    nothing. A positive `intercept`, in normalised units, puts this constant before every row, after it was shrunk;
    the constant's products with the row are the first d words, its product with itself is public and not sent.
    With `count` noisy it is sent, after the trace, with noise like that of any square: a row in which a number is
    missing is then left out, its constant too. A clip counter comes last of all.

    With `row_weights` the triangle is that of d + 1 numbers, a row and its constant, which are shrunk together
    (`mechanisms.row_weights`). A trace is their squared norm, and a noisy count has a word for itself.

    In a second round, after that of a `range_finder`, a row is not its columns but what it is along the directions of
    a `basis`, joined by `targets`, columns that are taken as they are, and clipped again; d is then the number of both.
    """

    kind: Literal["second_moment"] = "second_moment"
    count: Literal["exact", "noisy"] = omitted("exact")
    intercept: Real = "0"
    trace: bool = False
    basis: Annotated[str, StringConstraints(min_length=1, max_length=MAX_BASIS_BYTES)] | None = omitted(None)
    after: Identifier | None = omitted(None)
    targets: tuple[Annotated[int, Field(ge=0, lt=2**20)], ...] = omitted((), max_length=8)
    row_weights: WeightedBy | None = omitted(None)
    target: Annotated[int, Field(ge=0, lt=2**20)] | None = omitted(None)
    target_bound: Real = omitted("0")
    target_factor: Real = omitted("1")
    features_basis: tuple[tuple[Real, ...], ...] | None = omitted(None, max_length=512)

    allows: ClassVar[frozenset[str]] = frozenset(
        {"contributors", "persons", "clip counter", "dither", "server noise", "floor", "stream"}
    )
    start_bits: ClassVar[int] = 12

    # --- what a report holds -------------------------------------------------------------------------------------

    @property
    def intercept_steps(self) -> int:
        """Return c, the constant in integer steps, rounded down; 0 for none."""
        scaled: Fraction = fraction(self.intercept) * 2**self.fraction_bits
        return max(scaled.numerator // scaled.denominator, 0)

    @property
    def sigma_bits(self) -> int:
        """Return 2f."""
        return 2 * self.fraction_bits

    def num_factors(self, num_columns: int) -> int:
        """Return how many numbers are multiplied: columns, with weights the constant too, or directions and targets."""
        if self.row_weights is not None:
            return num_columns + 1
        return num_columns if self.basis is None else num_directions(self.basis, num_columns) + len(self.targets)

    def dithered_entries(self, num_columns: int) -> int:
        """Return e: the columns, and with row weights the constant."""
        return super().dithered_entries(num_columns + (self.row_weights is not None))

    def counts_rows(self, setting: Setting) -> bool:
        """Whether a word counts rows with noise."""
        return "noisy" in (self.count, setting.count)

    def leaves_out(self, setting: Setting) -> bool:
        """Whether a row in which a number is missing counts nowhere: where rows are counted with noise, or weighted.

        The exact count of an organisation's rows counts it all the same; with weights its products are 0.
        """
        return self.counts_rows(setting) or (self.row_weights is not None and setting.count is None)

    def row_count_steps(self, setting: Setting) -> int:
        """Return g, what a row adds to a noisy count beside row weights: a fifth of the bound of a row's products."""
        return self.person_bound(setting) // (5 * setting.rows_per_person)

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return products with the intercept, those of the upper triangle, the trace and a count.

        With row weights the intercept is the first factor of the triangle. Noise is `sigma` off the diagonal, and
        the next integer above sqrt(2) `sigma` for whatever is a square.
        """
        size, bound, step = self.num_factors(num_columns), self.person_bound(setting), 4.0**-self.fraction_bits
        constant, counts = self.intercept_steps, self.counts_rows(setting)
        triangle = Triangle.of_products(size, self.sigma)
        if self.row_weights is not None:
            one = self.row_count_steps(setting)
            weighted = (
                Block("products", triangle.size, triangle, bound, step),
                Block("trace", int(self.trace), triangle.square, bound, step),
                Block("count", int(counts), self.sigma, one, per=max(one, 1)),
            )
            return Layout(weighted, "count", one) if counts else Layout(weighted)
        blocks = (
            Block("intercept", size * (self.intercept != "0"), self.sigma, constant * isqrt(bound), step),
            Block("products", triangle.size, triangle, bound, step),
            Block("trace", int(self.trace), triangle.square, bound, step),
            Block("count", int(counts), triangle.square, constant**2, step),
        )
        return Layout(blocks, "count", constant**2) if counts else Layout(blocks)

    def fill(self, steps: IntArray, setting: Setting) -> Mapping[str, Words]:
        """Return the products of clipped integer rows, shape `(n, d)`, or `(n, d + 1)` with row weights."""
        words: dict[str, Words] = {"products": Products(steps, steps, "upper")}
        weighted = self.row_weights is not None
        if self.intercept != "0" and not weighted:
            words["intercept"] = Products(np.full((len(steps), 1), self.intercept_steps, np.int64), steps)
        if self.trace:
            words["trace"] = Products(steps, steps, "dot")
        if self.counts_rows(setting):
            one = self.row_count_steps(setting) if weighted else self.intercept_steps**2
            words["count"] = np.full((len(steps), 1), one, np.int64)
        return words

    def decode(self, layout: Layout, sketch: IntArray) -> FloatArray:
        """Return the symmetric matrix in squared normalised units, shape `(d, d)`.

        With an intercept it has shape `(d + 1, d + 1)`; the constant comes first. Its product with itself stands there
        under a noisy count; else it is public, and 0 here (`intercept_square`). With row weights it is one of the
        products, and d + 1 stands for d below. With a trace the d noisy diagonal words and the noisy trace are combined
        by least squares: every diagonal word moves by (trace - their sum) / (d + 1).
        """
        words = layout.integers(sketch, "products")[0]
        matrix = triangle_matrix(words)
        if "trace" in layout:
            size = len(matrix)
            squares = words[np.equal(*np.triu_indices(size))]
            # A difference of integers, so that the ring keeps it exact.
            matrix += (layout.integers(sketch, "trace")[0, 0] - squares.sum()) / (size + 1) * np.eye(size)
        if "intercept" in layout:
            matrix = np.pad(matrix, (1, 0))
            matrix[0, 1:] = matrix[1:, 0] = layout.integers(sketch, "intercept")[0]
            if "count" in layout:
                matrix[0, 0] = layout.integers(sketch, "count")[0, 0]
        return matrix * 4.0**-self.fraction_bits

    def intercept_square(self, num_clients: int) -> float:
        """Return n c^2, the sum of the constant's products with itself, in squared normalised units."""
        return float(Fraction(num_clients * self.intercept_steps**2, 4**self.fraction_bits))

    # --- clipping ------------------------------------------------------------------------------------------------

    def average_weight(self, rows: FloatArray, setting: Setting) -> float | None:
        """Return the mean weight of normalised rows, shape `(n, d)`, each of another person."""
        bound = self.person_bound(setting)
        return None if self.row_weights is None else self.weights(rows.shape[1]).average_weight(rows, bound)

    @property
    def weighting(self) -> WeightOptions:
        """Return what this document says about weights of rows."""
        bound, factor = fraction(self.target_bound), fraction(self.target_factor)
        return WeightOptions(
            self.row_weights, fraction(self.intercept), self.target, bound, factor, self.features_basis
        )

    def weights(self, num_columns: int) -> RowWeights:
        """Return how rows of d columns are shrunk together with their constant and target."""
        return self.weighting.of_rows(num_columns, self.squared_bound, self.fraction_bits)

    def with_centre_for_missing(self, rows: FloatArray) -> FloatArray:
        """Return rows of shape `(n, d)` with centres for missing numbers; with row weights as they are."""
        return super().with_centre_for_missing(rows) if self.row_weights is None else rows

    def clip(self, rows: FloatArray, setting: Setting, random_bytes: RandomBytes = no_randomness) -> IntArray:
        """Clip rows, shape `(n, d)`, or those of n persons, `(n, r, d)`; with a basis also what they are along it."""
        if self.row_weights is not None:
            return self.weights(rows.shape[-1]).clip(rows, self.person_bound(setting), random_bytes)
        steps = super().clip(rows, setting, random_bytes)
        if self.basis is None:
            return steps
        mapped = along(steps, directions(self.basis, rows.shape[-1]), self.targets)
        together = clip_exactly(mapped.reshape(len(rows), -1), isqrt(self.person_bound(setting)))
        return together.reshape(mapped.shape)

    def is_clipped(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say of normalised rows, shape `(n, d)`, which are too large to be encoded, shape `(n,)`.

        With a basis a row is, too, that is too long along the directions. With row weights only the target's bound
        clips a row: that it counts less is no clipping.
        """
        if self.row_weights is not None:
            return self.weights(rows.shape[1]).moves_target(rows)
        too_long = super().is_clipped(rows)
        if self.basis is None:
            return too_long
        unit = 2.0**self.fraction_bits
        steps = quantise(self.with_centre_for_missing(rows) * unit, self.squared_bound)
        mapped = along(steps, directions(self.basis, rows.shape[1]), self.targets)
        longer: NDArray[np.bool_] = np.square(mapped).sum(axis=1) > isqrt(self.squared_bound) ** 2
        return too_long | longer

    def clipping_rule(self, setting: Setting) -> str:
        """Return in words what happens to a row that is too large, and what is made of it."""
        if self.row_weights is not None:
            return self.weighting.rule(self.row_bound, self.target_bound)
        rule = super().clipping_rule(setting)
        return rule if self.basis is None else f"{rule}, taken along public directions, and shrunk to it again"

    def squared_distance(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> Fraction:
        """Return the largest squared distance of neighbouring sums (docs/proofs/moments.md#second-moments).

        T is the bound of a person's r rows (of one row, r = 1), and C = r c^2. Where they become null rows it is
        T^2 / 2 + C T, and T^2 / 2 more for the trace; under a noisy count the null row has no constant, which adds
        C^2 / 2. Where they are replaced it is (T + C)^2, or 4 C T under an exact count if C is above T; the same with
        and without the trace. Under a noisy count of single rows the null row is one of those that may replace another
        (#missing-numbers); persons of different numbers of rows differ by (T + C)^2 at most (O1 of #organisations).
        That of rows with weights is `weighted_distance`.
        """
        bound, counts = Fraction(self.person_bound(setting)), self.counts_rows(setting)
        if self.row_weights is not None:
            one = self.row_count_steps(setting) * counts
            return weighted_distance(neighbours, bound, one, setting.rows_per_person, self.trace)
        constant = Fraction(setting.rows_per_person * self.intercept_steps**2)
        to_null = (bound**2 * (1 + self.trace) + 2 * constant * bound + constant**2 * counts) / 2
        if neighbours != "replace-one":
            return to_null
        if counts and setting.contributors is not None:
            return (bound + constant) ** 2
        between = (bound + constant) ** 2 if constant <= bound else 4 * constant * bound
        return max(between, to_null) if counts else between

    def squared_length(self, num_columns: int, setting: Setting) -> int:
        """Return B^4 for the products of a row, c^2 B^2 for those with the intercept, B^4 for the trace, and a count.

        The products on and above the diagonal have half the squared norm of all, and half that of the diagonal more.
        """
        square, constant = self.squared_bound, self.intercept_steps**2
        if self.row_weights is not None:
            return square**2 * (1 + self.trace) + (self.row_count_steps(setting) * self.counts_rows(setting)) ** 2
        return square**2 * (1 + self.trace) + constant * square + constant**2 * self.counts_rows(setting)

    def remark(self, privacy: PrivacyStatement) -> str:
        """Return, of a second round, that this promise is not the whole of what the same people are promised."""
        return super().remark(privacy) if self.basis is None else SECOND_OF_TWO

    # --- what a task may say -------------------------------------------------------------------------------------

    @property
    def noisy_count_advice(self) -> str:
        """Return in words that an intercept counts rows; "" if there is one."""
        advice = "count 'noisy': rows are counted by an intercept; give one, half of row_bound say"
        return "" if fraction(self.intercept) > 0 else advice

    def check_options(self, claim: Claim, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError or UnsupportedFeatureError for options that do not fit together or the columns."""
        if self.trace and claim.neighbours != "replace-one":
            raise InvalidTaskError("trace needs neighbours 'replace-one': otherwise it doubles the squared sensitivity")
        self.weighting.check(num_columns, self.rounding == "dithered", self.basis is not None)
        if self.counts_rows(setting) and fraction(self.intercept) == 0:
            raise InvalidTaskError(self.noisy_count_advice)
        if fraction(self.intercept) < 0:
            raise InvalidTaskError(f"intercept {self.intercept} is negative; use 0 for none")
        check_count(self.count, setting)
        check_second_round(self.basis, self.after, self.targets, num_columns, setting.noising_servers > 0)

    def check_grid(self, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError for a grid on which joined words may overflow, or the intercept is nothing."""
        if self.basis is not None:
            rank = num_directions(self.basis, num_columns)
            check_room(rank, len(self.targets), self.person_bound(setting), self.fraction_bits)
        if fraction(self.intercept) and not self.intercept_steps and self.row_weights is None:
            raise InvalidTaskError(f"intercept {self.intercept} is less than one step of the grid; use a larger one")
