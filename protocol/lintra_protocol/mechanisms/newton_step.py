"""`newton_step`: the gradient and the Hessian of a logistic regression at a public parameter, one noisy Newton step.

A client sends the integer residual times its row, and a weight times the row's products. The weight is a function of
the same integer residual, so that the Hessian costs no privacy (docs/proofs/newton.md#newton-steps). Every
rounding is random and has the right mean; the row itself is rounded to nearest before the residual is computed.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import isqrt
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lintra_protocol.crypto.randomness import RandomBytes, no_randomness
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Identifier, Real, fraction, omitted
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.base import Mechanism, OtherRounds, squared_distance_of_persons
from lintra_protocol.mechanisms.layout import Block, Layout, Products, Triangle, Words, triangle_matrix
from lintra_protocol.mechanisms.newton_residuals import integer_residuals, largest_ratio, largest_weights
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.clipping import column_norms, quantise, shrink_factors, within_reach
from lintra_protocol.privacy.statement import Claim, Neighbours, PrivacyStatement

MAX_ROUNDS = 5
"""Most rounds of a chain for the same people."""

MAX_PARAMETER = 10**6
"""Largest absolute value of a number of the parameter, in normalised units."""

START_RATIO = 8
"""The largest beta of a round at the parameter 0, where every residual is one half."""

START_DISTANCE, STEP_DISTANCE = Fraction(25, 16), Fraction(4)
"""Squared distances of the first round, at beta = 8, and of a later one: mu^2 of a chain is shared like them."""

_WORDS_OF_A_ROW = 3
"""Dither words: one each for the residual, for what multiplies the row, and for the weight."""

_ROUND_OF_A_CHAIN = (
    "one of several rounds: this promise is of this round alone, and the others are about the same people; the squares "
    "of all mu add up"
)


class NewtonStep(Mechanism):
    """The noisy sums of residual times row and of weight times the row's products, at a public parameter.

    A row is the constant and the columns but for the target, p numbers as there are columns. The target counts as 1
    above its centre, else as 0. With h residual bits a report holds p words of the gradient, Gamma rho x, and the upper
    triangle of om x x^T, in the order (1,1), (1,2), .., (p,p). With organisations and a noisy count a word that counts
    the row follows, and a clip counter last of all. A row in which a number is missing is all zeros.

    `parameter` holds p numbers, the intercept's first, in normalised units. `after` is the task from whose release they
    were computed; a chain begins without it, at the parameter 0. `rounds` is K, the most rounds that the same people
    answer, and `round_number` says which of them this is. Whatever the parameter is, the bounds hold: they rest on
    integers alone.
    """

    kind: Literal["newton_step"] = "newton_step"
    family: Literal["logistic"] = "logistic"
    target: Annotated[int, Field(ge=0, lt=2**20)]
    intercept: Real
    residual_bits: int = Field(ge=8, le=12)
    neighbours: Literal["replace-one", "zero-out"] = omitted("replace-one")
    parameter: tuple[Real, ...] = Field(min_length=1, max_length=2**20)
    after: Identifier | None = omitted(None)
    rounds: int = Field(default=1, ge=1, le=MAX_ROUNDS)
    round_number: int = Field(default=1, ge=1, le=MAX_ROUNDS)

    allows: ClassVar[frozenset[str]] = frozenset({"contributors", "clip counter", "server noise", "floor"})
    start_bits: ClassVar[int] = 10

    # --- what a report holds -------------------------------------------------------------------------------------

    @property
    def intercept_steps(self) -> int:
        """Return the constant in integer steps, rounded down."""
        scaled: Fraction = fraction(self.intercept) * 2**self.fraction_bits
        return max(scaled.numerator // scaled.denominator, 0)

    @property
    def is_start(self) -> bool:
        """Return whether every number of the parameter denotes 0: then every residual is one half, exactly."""
        return all(fraction(number) == 0 for number in self.parameter)

    @property
    def gradient_factor(self) -> int:
        """Return Gamma, the least integer with R / (2 Gamma^2) at most the largest beta of this round."""
        largest = START_RATIO if self.is_start else largest_ratio(self.residual_bits, self.neighbours)
        square = Fraction(self.squared_bound) / (2 * largest)
        return max(isqrt(-(-square.numerator // square.denominator) - 1) + 1, 1) if square > 0 else 1

    def dithered_entries(self, num_columns: int) -> int:
        """Return 3: the residual, what multiplies the row, and the weight are rounded at random."""
        return _WORDS_OF_A_ROW

    def leaves_out(self, setting: Setting) -> bool:
        """Whether a row in which a number is missing counts nowhere; only an exact count of an organisation has it."""
        return setting.count != "exact"

    def row_count_steps(self, num_columns: int) -> int:
        """Return what a row adds to a noisy count: a fifth of the largest word of the gradient."""
        return self._gradient_bound // 5

    @property
    def _gradient_bound(self) -> int:
        return self.gradient_factor * int(self._levels[-1]) * isqrt(self.squared_bound)

    @property
    def _levels(self) -> IntArray:
        """Return which integer residuals a report may have."""
        one = 2**self.residual_bits
        return np.array([one // 2]) if self.is_start else np.arange(one + 1)

    def blocks(self, num_columns: int, setting: Setting) -> Layout:
        """Return the gradient, the Hessian's upper triangle, and a count where organisations count with noise."""
        unit, level = 2.0**-self.fraction_bits, 2.0**-self.residual_bits
        triangle = Triangle.of_products(num_columns, self.sigma)
        largest = 2**self.residual_bits // 4 * self.squared_bound
        one, counts = self.row_count_steps(num_columns), setting.count == "noisy"
        blocks = (
            Block("gradient", num_columns, self.sigma, self._gradient_bound, level * unit, per=self.gradient_factor),
            Block("hessian", triangle.size, triangle, largest, level * unit**2),
            Block("count", int(counts), self.sigma, one, per=max(one, 1)),
        )
        return Layout(blocks, "count", one) if counts else Layout(blocks)

    def fill(self, steps: IntArray, setting: Setting) -> Mapping[str, Words]:
        """Return the words of `clip`'s rows, shape `(n, p + 2)`: x, then rho, then om."""
        rows, residuals, weights = steps[:, :-2], steps[:, -2:-1], steps[:, -1:]
        words: dict[str, Words] = {
            "gradient": self.gradient_factor * residuals * rows,
            "hessian": Products(weights * rows, rows, "upper"),
        }
        if setting.count == "noisy":
            words["count"] = np.full((len(steps), 1), self.row_count_steps(rows.shape[1]), np.int64)
        return words

    def decode(self, layout: Layout, sketch: IntArray) -> FloatArray:
        """Return the gradient, and below it the Hessian, in normalised units, shape `(p + 1, p)`."""
        hessian = triangle_matrix(layout.first_values(sketch, "hessian"))
        decoded: FloatArray = np.vstack([layout.first_values(sketch, "gradient"), hessian])
        return decoded

    # --- the client's part ---------------------------------------------------------------------------------------

    def with_centre_for_missing(self, rows: FloatArray) -> FloatArray:
        """Return rows of shape `(n, d)` as they are: a row in which a number is missing becomes zeros."""
        return rows

    def clip(self, rows: FloatArray, setting: Setting, random_bytes: RandomBytes = no_randomness) -> IntArray:
        """Return of normalised rows, shape `(n, d)`, integers of shape `(n, d + 2)`: x of p = d numbers, rho, om.

        A row that is longer than the bound is shrunk, its residual with it, and so counts less. Three words of
        `random_bytes` are read for each row.
        """
        del setting
        known: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(rows), axis=1)
        whole = within_reach(np.where(known[:, np.newaxis], rows, 0.0))
        features = np.rint(np.delete(whole, self.target, axis=1) * 2.0**self.fraction_bits)
        constant = np.full((len(rows), 1), float(self.intercept_steps))
        vectors = np.concatenate([constant, features], axis=1)
        dithers = np.frombuffer(random_bytes(4 * _WORDS_OF_A_ROW * len(rows)), "<u4").reshape(-1, _WORDS_OF_A_ROW)
        residual = (whole[:, self.target] > 0) - self._probabilities(vectors)
        # What is not a number, whatever a machine's exponential returns, makes a row of zeros.
        known &= np.isfinite(residual)
        residual = np.where(known, residual, 0.0)
        factors = shrink_factors(column_norms(vectors), float(self.squared_bound) ** 0.5)
        _, multiples, weights = integer_residuals(residual, factors, self.residual_bits, dithers)
        steps = np.column_stack([quantise(vectors, self.squared_bound), multiples, weights])
        steps[~known] = 0
        return steps

    def _probabilities(self, vectors: FloatArray) -> FloatArray:
        """Return 1 / (1 + exp(-x.b)) of vectors in steps, shape `(n, p)`, products added in the order of columns."""
        parameter = np.array([float(number) for number in self.parameter])
        with np.errstate(over="ignore", invalid="ignore"):
            terms = vectors * (parameter * 2.0**-self.fraction_bits)
            scores = np.add.accumulate(terms, axis=1)[:, -1]
            probabilities: FloatArray = 1 / (1 + np.exp(-scores))
        return probabilities

    def is_clipped(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say of no row of shape `(n, d)` that it is too large, shape `(n,)`: far out it counts less, unclipped."""
        return np.zeros(len(rows), np.bool_)

    def clipping_rule(self, setting: Setting) -> str:
        """Return in words what happens to a row that is too large."""
        del setting
        return f"a row counts less the farther its features lie from the centre (norm {self.row_bound})"

    # --- what a row or a person can move -------------------------------------------------------------------------

    def squared_distance(self, neighbours: Neighbours, num_columns: int, setting: Setting) -> Fraction:
        """Return the largest squared distance of neighbouring sums (docs/proofs/newton.md#newton-steps).

        4 Gamma^2 4^h R where a row is replaced, and against the null row the largest Gamma^2 t^2 R + c(t)^2 R^2 / 2. At
        the parameter 0 it is Gamma^2 4^h R (1/2 + beta/8 + 1/(2 beta)). Of persons r^2 times as much (Lemma O0).
        """
        steps = self.row_count_steps(num_columns) if setting.count == "noisy" else 0
        return squared_distance_of_persons(self._squared_of_rows, neighbours, setting, steps**2)

    def _squared_of_rows(self, neighbours: Neighbours) -> Fraction:
        square, gamma = self.squared_bound, self.gradient_factor
        to_null = Fraction(max(2 * gamma**2 * t**2 * square + c**2 * square**2 for t, c in self._pairs()), 2)
        if neighbours != "replace-one":
            return to_null
        unit = Fraction(gamma**2 * 4**self.residual_bits * square)
        if not self.is_start:
            return max(4 * unit, to_null)
        beta = Fraction(square, 2 * gamma**2)
        between = Fraction(1, 2) + beta / 8 + 1 / (2 * beta) if beta >= 2 else Fraction(1)
        return max(unit * between, to_null)

    def squared_length(self, num_columns: int, setting: Setting) -> int:
        """Return the largest Gamma^2 t^2 R + c(t)^2 R^2: the triangle's squares are at most those of |x|^2."""
        square = self.squared_bound
        return max(self.gradient_factor**2 * t**2 * square + c**2 * square**2 for t, c in self._pairs())

    def _pairs(self) -> list[tuple[int, int]]:
        """Return t and c(t) of the integer residuals that a report may have."""
        weights = largest_weights(self.residual_bits)[self._levels]
        return list(zip(self._levels.tolist(), weights.tolist(), strict=True))

    @property
    def other_rounds(self) -> OtherRounds:
        """Return the task before, and how many of K rounds are left; windows have people of their own.

        A later round has 4 / 1.5625 of the first one's mu^2, since all rounds have one noise in the gradient.
        """
        share = STEP_DISTANCE / START_DISTANCE if self.round_number == 1 else Fraction(1)
        return OtherRounds(None if self.rounds == 1 else self.after, self.rounds - self.round_number, share)

    def remark(self, privacy: PrivacyStatement) -> str:
        """Return, of one of several rounds, that this promise is not the whole of what the same people are promised."""
        return super().remark(privacy) if self.rounds == 1 else _ROUND_OF_A_CHAIN

    # --- what a task may say -------------------------------------------------------------------------------------

    @property
    def noisy_count_advice(self) -> str:
        """Return "": a word for a noisy count is there."""
        return ""

    def check_options(self, claim: Claim, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError for options that do not fit together or the columns."""
        if self.target >= num_columns:
            raise InvalidTaskError(f"target {self.target} is not the number of one of {num_columns} columns")
        if not 0 < fraction(self.intercept) < fraction(self.row_bound):
            raise InvalidTaskError(
                f"intercept {self.intercept}: the model's constant lies above 0 and below row_bound {self.row_bound}"
            )
        if len(self.parameter) != num_columns:
            raise InvalidTaskError(
                f"parameter: {len(self.parameter)} numbers; give {num_columns}, one for the intercept and one for each "
                "column but the target"
            )
        if max(abs(fraction(number)) for number in self.parameter) > MAX_PARAMETER:
            raise InvalidTaskError(f"parameter: a number is larger than {MAX_PARAMETER}; give a smaller one")
        if self.round_number > self.rounds or (self.rounds > 1 and (self.round_number == 1) != (self.after is None)):
            raise InvalidTaskError(
                f"round_number {self.round_number} of {self.rounds} rounds: the first has no `after`, and each later "
                "one up to the last names the task before it"
            )
        if self.after is None and not self.is_start:
            raise InvalidTaskError("after: a parameter other than 0 names the task from whose release it was computed")

    def check_grid(self, num_columns: int, setting: Setting) -> None:
        """Raise InvalidTaskError for a grid on which the constant is nothing."""
        if not self.intercept_steps:
            raise InvalidTaskError(f"intercept {self.intercept} is less than one step of the grid; use a larger one")
