"""`second_moment`: the sum of the rows' outer products with Gaussian noise, distributed Analyze Gauss.

A client rounds and clips its row in integers and sends the exact integer products, so the sensitivity holds without
rounding slack. Off-diagonal noise has half the diagonal's variance, which makes the noise isotropic in the Frobenius
norm and the mechanism exactly Gaussian (Dwork et al. 2014; Sheffet 2019; docs/explanation/privacy.md#second-moments).
"""

from collections.abc import Mapping
from fractions import Fraction
from math import isqrt
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StringConstraints

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Identifier, Real, fraction
from lintra_protocol.errors import InvalidTaskError, UnsupportedFeatureError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.directions import MAX_BASIS_BYTES, SECOND_OF_TWO, along, directions, num_directions
from lintra_protocol.mechanisms.layout import Block, Layout, Products, Triangle, Words, triangle_matrix
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.mechanisms.setting_check import check_count
from lintra_protocol.noise.clipping import clip_exactly
from lintra_protocol.privacy.statement import Claim, Neighbours, PrivacyStatement


class SecondMoment(Mechanism):
    """The noisy matrix sum of x x^T; a report is its upper triangle in the order (1,1), (1,2), .., (1,d), (2,2), ..

    Three options. `trace` adds a last word, the squared norm of the row: it makes the trace less noisy and costs
    nothing. A positive `intercept`, in normalised units, puts this constant before every row, after it was shrunk;
    the constant's products with the row are the first d words, its product with itself is public and not sent.
    With `count` noisy it is sent, after the trace, with noise like that of any square: a row in which a number is
    missing is then left out, its constant too. A clip counter comes last of all.

    In a second round, after that of a `range_finder`, a row is not its columns but what it is along the directions of
    a `basis`, joined by `targets`, columns that are taken as they are, and clipped again; d is then the number of both.
    """

    kind: Literal["second_moment"] = "second_moment"
    count: Literal["exact", "noisy"] = Field(default="exact", exclude_if=lambda count: count == "exact")
    intercept: Real = "0"
    trace: bool = False
    basis: Annotated[str, StringConstraints(min_length=1, max_length=MAX_BASIS_BYTES)] | None = Field(
        default=None, exclude_if=lambda basis: basis is None
    )
    after: Identifier | None = Field(default=None, exclude_if=lambda after: after is None)
    targets: tuple[Annotated[int, Field(ge=0, lt=2**20)], ...] = Field(
        default=(), max_length=8, exclude_if=lambda targets: targets == ()
    )

    allows: ClassVar[frozenset[str]] = frozenset({"contributors", "persons", "clip counter", "server noise", "floor"})
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
        """Return how many numbers are multiplied with each other: the columns, or directions and targets."""
        return num_columns if self.basis is None else num_directions(self.basis, num_columns) + len(self.targets)

    def leaves_out(self, setting: Setting) -> bool:
        """Whether a row in which a number is missing is sent as zeros: where rows are counted with noise."""
        return "noisy" in (self.count, setting.count)

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return products with the intercept, those of the upper triangle, the trace and a count.

        Noise is `sigma` off the diagonal, and the next integer above sqrt(2) `sigma` for whatever is a square.
        """
        size, bound, step = self.num_factors(num_columns), self.person_bound(setting), 4.0**-self.fraction_bits
        constant, counts = self.intercept_steps, self.leaves_out(setting)
        triangle = Triangle.of_products(size, self.sigma)
        blocks = (
            Block("intercept", size * (self.intercept != "0"), self.sigma, constant * isqrt(bound), step),
            Block("products", triangle.size, triangle, bound, step),
            Block("trace", int(self.trace), triangle.square, bound, step),
            Block("count", int(counts), triangle.square, constant**2, step),
        )
        return Layout(blocks, "count", constant**2) if counts else Layout(blocks)

    def fill(self, steps: IntArray, setting: Setting) -> Mapping[str, Words]:
        """Return the products of clipped integer rows, shape `(n, d)`."""
        words: dict[str, Words] = {"products": Products(steps, steps, "upper")}
        if self.intercept != "0":
            words["intercept"] = Products(np.full((len(steps), 1), self.intercept_steps, np.int64), steps)
        if self.trace:
            words["trace"] = Products(steps, steps, "dot")
        if self.leaves_out(setting):
            words["count"] = np.full((len(steps), 1), self.intercept_steps**2, np.int64)
        return words

    def decode(self, layout: Layout, sketch: IntArray) -> FloatArray:
        """Return the symmetric matrix in squared normalised units, shape `(d, d)`.

        With an intercept it has shape `(d + 1, d + 1)`; the constant comes first. Its product with itself stands
        there under a noisy count; else it is public and depends on the number of clients, so it is 0
        (`intercept_square`). With a trace the d noisy diagonal words and the noisy trace are combined by least squares:
        every diagonal word moves by (trace - their sum) / (d + 1).
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

    def clip(self, rows: FloatArray, setting: Setting) -> IntArray:
        """Clip rows, or all rows of a person together, and count them in steps; with a basis along it, again clipped.

        `rows` have shape `(n, d)`, or `(n, r, d)` for n persons.
        """
        steps = super().clip(rows, setting)
        if self.basis is None:
            return steps
        mapped = along(steps, directions(self.basis, rows.shape[-1]), self.targets)
        together = clip_exactly(mapped.reshape(len(rows), -1), isqrt(self.person_bound(setting)))
        return together.reshape(mapped.shape)

    def is_clipped(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say of normalised rows, shape `(n, d)`, which are too large to be encoded, shape `(n,)`.

        With a basis a row is, too, that is too long along the directions.
        """
        too_long = super().is_clipped(rows)
        if self.basis is None:
            return too_long
        steps = super().clip(self.with_centre_for_missing(rows), Setting())
        mapped = along(steps, directions(self.basis, rows.shape[1]), self.targets)
        longer: NDArray[np.bool_] = np.square(mapped).sum(axis=1) > isqrt(self.squared_bound) ** 2
        return too_long | longer

    def clipping_rule(self, setting: Setting) -> str:
        """Return in words what happens to a row that is too large, and what is made of it."""
        rule = super().clipping_rule(setting)
        return rule if self.basis is None else f"{rule}, taken along public directions, and shrunk to it again"

    # --- what a row or a person can move -------------------------------------------------------------------------

    def squared_distance(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> Fraction:
        """Return the largest squared distance of neighbouring sums (docs/explanation/privacy.md#second-moments).

        T is the bound of a person's r rows (of one row, r = 1), and C = r c^2. Where they become null rows it is
        T^2 / 2 + C T, and T^2 / 2 more for the trace; under a noisy count the null row has no constant, which adds
        C^2 / 2. Where they are replaced it is (T + C)^2, or 4 C T under an exact count if C is above T; the same with
        and without the trace. Under a noisy count of single rows the null row is one of those that may replace another
        (#missing-numbers); persons of different numbers of rows differ by (T + C)^2 at most (O1 of #organisations).
        """
        bound, counts = Fraction(self.person_bound(setting)), self.leaves_out(setting)
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
        return square**2 * (1 + self.trace) + constant * square + constant**2 * self.leaves_out(setting)

    def remark(self, privacy: PrivacyStatement) -> str:
        """Return, of a second round, that this promise is not the whole of what the same people are promised."""
        return super().remark(privacy) if self.basis is None else SECOND_OF_TWO

    # --- what a task may say -------------------------------------------------------------------------------------

    @property
    def noisy_count_advice(self) -> str:
        """Return in words that an intercept counts rows; "" if there is one."""
        if fraction(self.intercept) > 0:
            return ""
        return "count 'noisy': rows are counted by an intercept; give one, half of row_bound say"

    def check_options(self, claim: Claim, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError or UnsupportedFeatureError for options that do not fit together or the columns."""
        if self.trace and claim.neighbours != "replace-one":
            raise InvalidTaskError(
                "the trace is free where one row is replaced; against the null row, or where rows are added, it would "
                "double the squared sensitivity: use neighbours 'replace-one', or leave the trace out"
            )
        if self.leaves_out(setting) and fraction(self.intercept) == 0:
            raise InvalidTaskError("count 'noisy': rows are counted by an intercept; give one, half of row_bound say")
        if fraction(self.intercept) < 0:
            raise InvalidTaskError(f"intercept {self.intercept} is negative; use 0 for none")
        check_count(self.count, setting)
        if self.basis is None:
            if self.after is not None or self.targets:
                raise InvalidTaskError("after and targets belong to a second round, beside a basis; leave them out")
            return
        if self.after is None:
            raise InvalidTaskError("after: a second round names the task of the first")
        if setting.noising_servers:
            raise UnsupportedFeatureError(f"noise: servers cannot add that of {self.kind}; use 'clients'")
        directions(self.basis, num_columns)
        if len(set(self.targets)) < len(self.targets) or max(self.targets, default=0) >= num_columns:
            raise InvalidTaskError(f"targets are different numbers of columns, from 0 to {num_columns - 1}")

    def check_grid(self, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError for a grid on which joined words may overflow, or the intercept is nothing."""
        if self.basis is not None:
            rank = num_directions(self.basis, num_columns)
            # No entry along a direction exceeds sqrt(2) |x| and a half, so that squares of what is joined fit 62 bits.
            if 4 * (2 * rank + len(self.targets)) * self.person_bound(setting) >= 1 << 62:
                raise InvalidTaskError(
                    f"{rank} directions of rows of {self.fraction_bits} fraction bits may overflow; use fewer bits"
                )
        if fraction(self.intercept) and not self.intercept_steps:
            raise InvalidTaskError(f"intercept {self.intercept} is less than one step of the grid; use a larger one")
