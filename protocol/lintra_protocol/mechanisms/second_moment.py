"""`second_moment`: the sum of the rows' outer products with Gaussian noise, distributed Analyze Gauss.

A client rounds and clips its row in integers and sends the exact integer products, so the sensitivity holds without
rounding slack. Off-diagonal noise has half the diagonal's variance, which makes the noise isotropic in the Frobenius
norm and the mechanism exactly Gaussian (Dwork et al. 2014; Sheffet 2019; docs/explanation/privacy.md#second-moments).
"""

from fractions import Fraction
from math import isqrt
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StringConstraints

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Identifier, Real, fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.directions import (
    MAX_BASIS_BYTES,
    SECOND_OF_TWO,
    along,
    clipped_along,
    directions,
    num_directions,
)
from lintra_protocol.mechanisms.layout import Block, Layout, Triangle
from lintra_protocol.mechanisms.row_count import CountedRows
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.clipping import clip_exactly
from lintra_protocol.privacy.statement import Claim, Neighbours, PrivacyStatement
from lintra_protocol.transforms.ones import Ones


class SecondMoment(CountedRows):
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
    intercept: Real = "0"
    trace: bool = False
    basis: Annotated[str, StringConstraints(min_length=1, max_length=MAX_BASIS_BYTES)] | None = Field(
        default=None, exclude_if=lambda basis: basis is None
    )
    after: Identifier | None = Field(default=None, exclude_if=lambda after: after is None)
    targets: tuple[Annotated[int, Field(ge=0, lt=2**20)], ...] = Field(
        default=(), max_length=8, exclude_if=lambda targets: targets == ()
    )

    counts_clipped: ClassVar[bool] = True
    start_bits: ClassVar[int] = 12

    @property
    def intercept_steps(self) -> int:
        """Return the constant in integer steps, rounded down; 0 for none."""
        scaled: Fraction = fraction(self.intercept) * 2**self.fraction_bits
        return max(scaled.numerator // scaled.denominator, 0)

    def num_factors(self, num_columns: int) -> int:
        """Return how many numbers are multiplied with each other: the columns, or directions and targets."""
        return num_columns if self.basis is None else num_directions(self.basis, num_columns) + len(self.targets)

    def num_words(self, num_columns: int) -> int:
        """Return d (d + 1) / 2, d more for an intercept, 1 more for the trace and for each of the two counts."""
        products = self._leading(num_columns) + _triangle(self.num_factors(num_columns))
        return products + int(self.trace) + self.count_words + self.clip_words

    @property
    def count_steps(self) -> int:
        """Return the constant's product with itself."""
        return self.intercept_steps**2

    @property
    def servers_may_noise(self) -> bool:
        """Whether a task with this mechanism may leave the noise to its servers: not in a second round so far."""
        return self.basis is None

    @property
    def num_rows(self) -> int:
        """Return 1: the servers' matrix is one row of ones."""
        return 1

    def round_rows(self, rows: FloatArray) -> IntArray:
        """Clip normalised rows and count them in integer steps, shape `(n, d)`; with a basis along its directions."""
        steps = super().round_rows(rows)
        if self.basis is None:
            return steps
        return clipped_along(steps, directions(self.basis, rows.shape[1]), self.targets, self.squared_bound)

    def shrinks(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say of normalised rows, shape `(n, d)`, which are too large to be encoded, shape `(n,)`.

        With a basis a row is, too, that is too long along the directions.
        """
        too_long = super().shrinks(rows)
        if self.basis is None:
            return too_long
        found = along(super().round_rows(self.filled(rows)), directions(self.basis, rows.shape[1]), self.targets)
        longer: NDArray[np.bool_] = np.square(found).sum(axis=1) > isqrt(self.squared_bound) ** 2
        return too_long | longer

    def steps_of_persons(self, rows: FloatArray, num_columns: int) -> IntArray:
        """Clip all rows of each person together; with a basis, along it again (for shapes see `CountedRows`)."""
        steps = super().steps_of_persons(rows, num_columns)
        if self.basis is None:
            return steps
        mapped = along(steps, directions(self.basis, num_columns), self.targets)
        whole = clip_exactly(mapped.reshape(len(rows), -1), isqrt(self.squared_person_bound))
        return whole.reshape(mapped.shape)

    def encode_exactly(self, steps: IntArray) -> IntArray:
        """Return the integer products of steps of shape `(n, d)`, shape `(n, w)`.

        They are those with the intercept, those of the upper triangle, the squared norm and the count.
        """
        products = [triangle_products(steps)]
        if self.intercept != "0":
            products.insert(0, steps * self.intercept_steps)
        if self.trace:
            products.append(np.square(steps).sum(axis=1, keepdims=True))
        products.append(np.full((len(steps), self.count_words), self.count_steps, np.int64))
        result: IntArray = np.concatenate(products, axis=1)
        return result

    @property
    def sigma_bits(self) -> int:
        """Return 2f."""
        return 2 * self.fraction_bits

    def sigmas(self, num_columns: int) -> IntArray:
        """Return the deviation of every word's noise, shape `(w,)`.

        It is `sigma` off the diagonal and for the clip counter, the next integer above sqrt(2) `sigma` on the diagonal,
        for the trace and for the count.
        """
        around = (self._leading(num_columns), int(self.trace) + self.count_words)
        triangle = triangle_sigmas(self.num_factors(num_columns), self.sigma)
        products = np.pad(triangle, around, constant_values=(self.sigma, triangle[0]))
        return np.pad(products, (0, self.clip_words), constant_values=self.sigma)

    def squared_row_distance(self, neighbours: Neighbours) -> Fraction:
        """Return the largest squared distance of neighbouring products (docs/explanation/privacy.md#second-moments).

        With R = B^2 and c the intercept: (R + c^2)^2 where one row is replaced, or 4 c^2 R if c^2 is above R; the same
        with and without the trace. R^2 / 2 + c^2 R where it becomes the null row, and R^2 / 2 more for the trace. Under
        a noisy count the null row has no constant, which adds c^4 / 2 there, and is one of the rows that may replace
        another (docs/explanation/privacy.md#missing-numbers).
        """
        squared = Fraction(self.squared_bound)
        constant = self.intercept_steps**2
        to_null = squared**2 * (2 if self.trace else 1) / 2 + constant * squared
        to_null += Fraction(constant**2 * self.count_words, 2)
        if neighbours == "zero-out":
            return to_null
        between = (squared + constant) ** 2 if constant <= squared else 4 * constant * squared
        return max(between, to_null) if self.count_words else between

    def squared_person_distance(self, neighbours: Neighbours) -> Fraction:
        """Return the largest squared distance if one person changes (O1, docs/explanation/privacy.md#organisations).

        With T the person's bound and C = r c^2: (T + C)^2 where they are replaced, or 4 C T under an exact count if C
        is above T; T^2 / 2 + C T where they become null rows that are still counted, (T + C)^2 / 2 where the noisy
        count changes with them; for the trace T^2 / 2 more in the last two.
        """
        rows = 1 if self.contributors is None else self.contributors.rows_per_person
        bound, constant = Fraction(self.squared_person_bound), Fraction(rows * self.intercept_steps**2)
        if neighbours == "replace-one":
            return (bound + constant) ** 2 if self.count_words or constant <= bound else 4 * constant * bound
        alone = bound**2 + 2 * constant * bound + constant**2 * self.count_words
        return (alone + bound**2 * self.trace) / 2

    def sum_of_steps(self, steps: IntArray) -> IntArray:
        """Return the sums, shape `(w,)`, of what `encode_exactly` makes of integer rows of shape `(n, d)`."""
        products = _summed_products(steps, self.squared_person_bound)
        parts = [products[np.triu_indices(steps.shape[1])]]
        if self.intercept != "0":
            parts.insert(0, steps.sum(axis=0) * self.intercept_steps)
        parts.append(np.full(int(self.trace), np.trace(products), np.int64))
        parts.append(np.full(self.count_words, self.count_steps * len(steps), np.int64))
        return np.concatenate(parts)

    @property
    def count_deviation(self) -> float:
        """Return the deviation of a square's noise over the intercept's square."""
        return int(triangle_sigmas(1, self.sigma)[0]) / self.count_steps

    @property
    def has_noisy_count(self) -> bool:
        """Whether there is an intercept, which counts rows."""
        return fraction(self.intercept) > 0

    def noisy_count_advice(self) -> str:
        """Return in words what is needed for a noisy count."""
        return "count 'noisy': rows are counted by an intercept; give one, half of row_bound say"

    def squared_report_bound(self) -> int:
        """Return B^4 for the products of a row, c^2 B^2 for those with the intercept, B^4 for the trace, and counts.

        The products on and above the diagonal have half the squared norm of all, and half that of the diagonal more.
        """
        square = self.squared_bound
        products = square**2 * (2 if self.trace else 1) + self.intercept_steps**2 * square
        return products + self.count_words * self.count_steps**2 + self.clip_steps**2

    def largest_word(self) -> int:
        """Return the squared integer norm bound, or the largest product with the intercept."""
        counts, square = max(self.clip_steps, self.count_steps * self.count_words), self.squared_person_bound
        return max(square, self.intercept_steps * isqrt(square), counts)

    def public_matrix(self, num_clients: int, seed: bytes) -> Ones:
        """Return the row of ones."""
        return Ones(num_clients)

    def decode(self, sketch: IntArray, num_columns: int) -> FloatArray:
        """Return the symmetric matrix in squared normalised units, shape `(d, d)`.

        With an intercept it has shape `(d + 1, d + 1)`; the constant comes first. Its product with itself stands
        there under a noisy count; else it is public and depends on the number of clients, so it is 0
        (`intercept_square`). With a trace the d noisy
        diagonal words and the noisy trace are combined by least squares: every diagonal word moves by
        (trace - their sum) / (d + 1).
        """
        leading, size = self._leading(num_columns), self.num_factors(num_columns)
        words = sketch[0][leading : leading + _triangle(size)]
        step = 4.0**-self.fraction_bits
        matrix = triangle_matrix(words, size, 1.0)
        if self.trace:
            own = words[np.equal(*np.triu_indices(size))]
            # A difference of integers, so that the ring keeps it exact.
            matrix += (sketch[0][leading + words.size] - own.sum()) / (size + 1) * np.eye(size)
        if leading:
            matrix = np.pad(matrix, (1, 0))
            matrix[0, 1:] = matrix[1:, 0] = sketch[0][:leading]
            if self.count_words:
                matrix[0, 0] = sketch[0][-1 - self.clip_words]
        return matrix * step

    def intercept_square(self, num_clients: int) -> float:
        """Return n c^2, the sum of the constant's products with itself, in squared normalised units."""
        return float(Fraction(num_clients * self.intercept_steps**2, 4**self.fraction_bits))

    def check(self, claim: Claim, num_columns: int, max_clients: int) -> None:
        """Refuse parameters that break the claim or may overflow the ring (see `Mechanism.check`).

        Raises:
            InvalidTaskError: also where the options do not fit.
        """
        self._require_options(claim)
        self._require_directions(num_columns)
        if fraction(self.intercept) and not self.intercept_steps:
            raise InvalidTaskError(f"intercept {self.intercept} is less than one step of the grid; use a larger one")
        super().check(claim, num_columns, max_clients)

    def calibrated(self, claim: Claim, num_columns: int, max_clients: int) -> Self:
        """Return this mechanism with the finest grid that fits and the smallest sigma (`Mechanism.calibrated`)."""
        self._require_options(claim)
        self._require_directions(num_columns)
        return super().calibrated(claim, num_columns, max_clients)

    def _leading(self, num_columns: int) -> int:
        """Return how many words hold products with the intercept: d, or 0 if there is none."""
        return self.num_factors(num_columns) if self.intercept != "0" else 0

    def _require_options(self, claim: Claim) -> None:
        if self.trace and claim.neighbours != "replace-one":
            raise InvalidTaskError(
                "the trace is free where one row is replaced; against the null row, or where rows are added, it would "
                "double the squared sensitivity: use neighbours 'replace-one', or leave the trace out"
            )
        if self.count_words and fraction(self.intercept) == 0:
            raise InvalidTaskError("count 'noisy': rows are counted by an intercept; give one, half of row_bound say")
        if fraction(self.intercept) < 0:
            raise InvalidTaskError(f"intercept {self.intercept} is negative; use 0 for none")

    def _require_directions(self, num_columns: int) -> None:
        """Refuse a basis that is none, and what only stands beside one."""
        if self.basis is None:
            if self.after is not None or self.targets:
                raise InvalidTaskError("after and targets belong to a second round, beside a basis; leave them out")
            return
        if self.after is None:
            raise InvalidTaskError("after: a second round names the task of the first")
        rank = directions(self.basis, num_columns).shape[1]
        if len(set(self.targets)) < len(self.targets) or max(self.targets, default=0) >= num_columns:
            raise InvalidTaskError(f"targets are different numbers of columns, from 0 to {num_columns - 1}")
        # No entry along a direction exceeds sqrt(2) |x| and a half, so that squares of what is joined fit 62 bits.
        if 4 * (2 * rank + len(self.targets)) * self.squared_person_bound >= 1 << 62:
            raise InvalidTaskError(
                f"{rank} directions of rows of {self.fraction_bits} fraction bits may overflow; use fewer bits"
            )

    def may_fit(self, claim: Claim, num_columns: int) -> bool:
        """Return whether the bounds fit, and with a basis also what is joined before it is clipped."""
        factors = 2 * self.num_factors(num_columns) if self.basis is not None else 0
        return super().may_fit(claim, num_columns) and 4 * factors * self.squared_person_bound < 1 << 62

    def clipping_rule(self) -> str:
        """Return in words what happens to a row that is too large, and what is made of it."""
        rule = super().clipping_rule()
        return rule if self.basis is None else f"{rule}, taken along public directions, and shrunk to it again"

    def remark(self, privacy: PrivacyStatement) -> str:
        """Return, of a second round, that this promise is not the whole of what the same people are promised."""
        return super().remark(privacy) if self.basis is None else SECOND_OF_TWO

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return products with the intercept, those of the upper triangle, the trace and a count."""
        size, bound, step = self.num_factors(num_columns), self.squared_person_bound, 4.0**-self.fraction_bits
        constant, square_sigma = self.intercept_steps, isqrt(2 * self.sigma**2 - 1) + 1
        triangle = Triangle(size, self.sigma, square_sigma)
        blocks = (
            Block("intercept", size * (self.intercept != "0"), self.sigma, constant * isqrt(bound), step),
            Block("products", triangle.size, triangle, bound, step),
            Block("trace", int(self.trace), square_sigma, bound, step),
            Block("count", self.count_words, square_sigma, constant**2, step),
        )
        return Layout(blocks, "count" * self.count_words, constant**2)


def _triangle(num_columns: int) -> int:
    """Return how many products d columns have: d (d + 1) / 2."""
    return num_columns * (num_columns + 1) // 2


def triangle_products(steps: IntArray) -> IntArray:
    """Return the products of every two columns of `steps`, shape `(n, d)`, in the order (1,1), (1,2), .., (2,2), .."""
    first, second = np.triu_indices(steps.shape[1])
    products: IntArray = steps[:, first] * steps[:, second]
    return products


_EXACT_IN_FLOATS = 1 << 53
_FEW_BITS = 1 << 40
"""Squared bounds up to which products are summed as floating-point numbers, many rows at once."""


def _summed_products(steps: IntArray, squared_bound: int) -> IntArray:
    """Return the exact sum of x x^T over integer rows of shape `(n, d)`, each of squared norm `squared_bound` or less.

    By Cauchy and Schwarz no sum over b rows exceeds b `squared_bound`: below 2^53 floating point has all integers.
    """
    if squared_bound > _FEW_BITS:
        whole: IntArray = np.matmul(steps.T, steps)
        return whole
    total = np.zeros((steps.shape[1],) * 2, np.int64)
    block = _EXACT_IN_FLOATS // squared_bound
    for start in range(0, len(steps), block):
        some = steps[start : start + block].astype(np.float64)
        total += (some.T @ some).astype(np.int64)
    return total


def triangle_sigmas(num_columns: int, sigma: int) -> IntArray:
    """Return the deviations of `triangle_products`, shape `(d (d + 1) / 2,)`.

    They are sigma off the diagonal and the next integer above sqrt(2) sigma on it.
    """
    first, second = np.triu_indices(num_columns)
    return np.where(first == second, isqrt(2 * sigma**2 - 1) + 1, sigma).astype(np.int64)


def triangle_matrix(words: IntArray, num_columns: int, step: float) -> FloatArray:
    """Return the symmetric matrix of shape `(d, d)` whose upper triangle, counted in steps, is given."""
    matrix = np.zeros((num_columns, num_columns))
    matrix[np.triu_indices(num_columns)] = words * step
    result: FloatArray = matrix + np.triu(matrix, 1).T
    return result
