"""The layout of a report: a table of blocks of words, from which sizes, noise, encoding and decoding follow.

A report of w ring words is a row of blocks. All words of a block mean the same kind of number, are counted in the same
step and have the same bound. A mechanism declares its blocks once (`Mechanism.blocks`), and says how a clipped row
fills them (`Mechanism.fill`). No other module knows where a word stands.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import isqrt, sqrt
from typing import Literal, Self, cast

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.floor import NO_FLOOR, Floor

CLIPPED = "clipped"
"""The block of the clip counter: one word, to which every row adds that was clipped."""

ROWS = "rows"
"""The block of an exact count: one word without noise, the number of an organisation's rows."""

_EXACT_IN_FLOATS = 1 << 53
"""Floating point holds every integer up to here, so that a matrix product below it is exact."""

_FEW_BITS = 1 << 40
"""Largest bound of a word up to which products are summed in floating point, many rows at once."""


@dataclass(frozen=True)
class Triangle:
    """One number for each product of two of `order` factors, in the order (1,1), (1,2), .., (2,2), ..; `times` over.

    A document may speak of a million columns before it is refused, so the numbers are spelled out only when they are
    asked for.

    Attributes:
        order: how many factors there are.
        product: the number of a product of two different factors.
        square: the number of a product of a factor with itself.
        times: how many such triangles follow one another.
    """

    order: int
    product: int
    square: int
    times: int = 1

    @classmethod
    def of_products(cls, order: int, sigma: int, times: int = 1) -> Self:
        """Return the deviations of products: `sigma`, and the next integer above sqrt(2) `sigma` of a square."""
        return cls(order, sigma, isqrt(2 * sigma**2 - 1) + 1, times)

    @property
    def size(self) -> int:
        """Return how many numbers there are."""
        return self.times * (self.order * (self.order + 1) // 2)

    @property
    def largest(self) -> int:
        """Return the largest of them."""
        return max(self.product, self.square)

    @property
    def smallest(self) -> int:
        """Return the smallest of them; products of different factors exist only if there are two."""
        return min(self.product, self.square) if self.order > 1 else self.square

    def spelled(self) -> IntArray:
        """Return all of them, shape `(size,)`."""
        first, second = np.triu_indices(self.order)
        return np.tile(np.where(first == second, self.square, self.product), self.times).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Tiled:
    """Some numbers, shape `(k,)`, that repeat `times` over."""

    pattern: FloatArray
    times: int

    def spelled(self) -> FloatArray:
        """Return all of them, shape `(k times,)`."""
        return np.tile(self.pattern, self.times)


@dataclass(frozen=True, eq=False)
class Block:
    """A run of words that mean the same.

    Attributes:
        name: what the words are.
        size: how many words are released; a report holds them `copies` times.
        sigma: deviation of the noise of each word, one for all or that of products; 0 for an exact count.
        bound: largest absolute value of a word in a noiseless report of one row.
        step: what 1 is worth in normalised units, before it is divided by `per`.
        per: what a row adds to a word that counts rows.
        copies: c, how many independently noised copies of the words a report holds.
        spread: deviation of a report's noise over `sigma`; 1 unless the noise has another law.
        is_total: whether servers add the words up as they are, past the public matrix, into row 0 of the sketch.
    """

    name: str
    size: int
    sigma: int | Triangle
    bound: int
    step: float | Tiled = 1.0
    per: int = 1
    copies: int = 1
    spread: float = 1.0
    is_total: bool = False

    @property
    def sigmas(self) -> IntArray:
        """Return `sigma` of each word, shape `(size,)`."""
        return self.sigma.spelled() if isinstance(self.sigma, Triangle) else np.full(self.size, self.sigma, np.int64)

    @property
    def largest_sigma(self) -> int:
        """Return the largest deviation of a word."""
        return self.sigma.largest if isinstance(self.sigma, Triangle) else self.sigma

    @property
    def smallest_sigma(self) -> int:
        """Return the smallest deviation of a word."""
        return self.sigma.smallest if isinstance(self.sigma, Triangle) else self.sigma

    @property
    def steps(self) -> FloatArray:
        """Return `step` of each word, shape `(size,)`, or one for all, shape `()`."""
        return self.step.spelled() if isinstance(self.step, Tiled) else np.asarray(self.step)


@dataclass(frozen=True, eq=False)
class Products:
    """Words that are products of integer factors of a row, so that their sum over rows is a matrix product.

    Attributes:
        left: shape `(n, j)`.
        right: shape `(n, k)`.
        form: all products, j outer and k inner; those on and above the diagonal; or the sum of left times right.
    """

    left: IntArray
    right: IntArray
    form: Literal["outer", "upper", "dot"] = "outer"

    def of_each_row(self) -> IntArray:
        """Return the words of each row, shape `(n, size)`."""
        if self.form == "dot":
            dot: IntArray = (self.left * self.right).sum(axis=1, keepdims=True)
            return dot
        if self.form == "upper":
            first, second = np.triu_indices(self.left.shape[1])
            upper: IntArray = self.left[:, first] * self.right[:, second]
            return upper
        return (self.left[:, :, np.newaxis] * self.right[:, np.newaxis, :]).reshape(len(self.left), -1)

    def summed(self, bound: int) -> IntArray:
        """Return the sum over all rows, shape `(size,)`.

        Args:
            bound: of the absolute value of a row's word. By Cauchy and Schwarz no sum over b rows exceeds b times it.
        """
        if self.form == "dot":
            return np.array([np.vdot(self.left, self.right)])
        total = _exact_product(self.left, self.right, bound)
        summed: IntArray = total[np.triu_indices(len(total))] if self.form == "upper" else total.ravel()
        return summed


def _exact_product(left: IntArray, right: IntArray, bound: int) -> IntArray:
    if bound > _FEW_BITS:
        whole: IntArray = np.matmul(left.T, right)
        return whole
    total, rows = np.zeros((left.shape[1], right.shape[1]), np.int64), _EXACT_IN_FLOATS // max(bound, 1)
    for start in range(0, len(left), rows):
        some = slice(start, start + rows)
        total += (left[some].T.astype(np.float64) @ right[some].astype(np.float64)).astype(np.int64)
    return total


Words = IntArray | Products
"""What fills a block for some rows: an array of shape `(n, size)`, or products."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The blocks of a report, in the order of its words.

    Attributes:
        blocks: those of the mechanism, then the clip counter (`CLIPPED`), then an exact count (`ROWS`). A block
            without words is dropped.
        counter: the block whose words add up to `rows_per_count` for each row; "" where nothing counts rows.
        rows_per_count: what one row adds to that sum.
        floor: noise that servers add to that of the reports.
    """

    blocks: tuple[Block, ...]
    counter: str = ""
    rows_per_count: int = 1
    floor: Floor = NO_FLOOR

    def __post_init__(self) -> None:
        """Drop blocks without words."""
        object.__setattr__(self, "blocks", tuple(block for block in self.blocks if block.size))

    def __contains__(self, name: str) -> bool:
        return any(block.name == name for block in self.blocks)

    def __getitem__(self, name: str) -> Block:
        """Return the block of a name.

        Raises:
            KeyError: a report has no such block.
        """
        for block in self.blocks:
            if block.name == name:
                return block
        raise KeyError(name)

    # --- where words stand -------------------------------------------------------------------------------------

    @cached_property
    def num_words(self) -> int:
        """Return w, the ring words of a report."""
        return sum(block.size * block.copies for block in self.blocks)

    @cached_property
    def num_released(self) -> int:
        """Return the ring words in a row of the sketch: copies enter the same words."""
        return sum(block.size for block in self.blocks)

    @cached_property
    def num_noised(self) -> int:
        """Return the ring words of a report that have noise: all but an exact count."""
        return self.num_words - (ROWS in self)

    @cached_property
    def _sent(self) -> dict[str, slice]:
        return _slices((block.name, block.size * block.copies) for block in self.blocks)

    @cached_property
    def _released(self) -> dict[str, slice]:
        return _slices((block.name, block.size) for block in self.blocks)

    def sent(self, name: str) -> slice:
        """Return where a block stands in a report; an empty slice if there is none."""
        return self._sent.get(name, slice(0, 0))

    def released(self, name: str) -> slice:
        """Return where a block stands in a row of the sketch; an empty slice if there is none."""
        return self._released.get(name, slice(0, 0))

    # --- from rows to reports ----------------------------------------------------------------------------------

    def reports(self, words: Mapping[str, Words]) -> IntArray:
        """Return noiseless reports, shape `(n, w)`, of what fills each block."""
        parts = []
        for block in self.blocks:
            filled = words[block.name]
            part = filled.of_each_row() if isinstance(filled, Products) else filled
            parts.append(part if block.copies == 1 else np.tile(part, (1, block.copies)))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def summed(self, words: Mapping[str, Words]) -> IntArray:
        """Return the sum of the same reports over all rows, shape `(w,)`."""
        parts = []
        for block in self.blocks:
            filled = words[block.name]
            part = filled.summed(block.bound) if isinstance(filled, Products) else filled.sum(axis=0)
            parts.append(np.tile(part, block.copies))
        return np.concatenate(parts).astype(np.int64, copy=False)

    # --- noise -------------------------------------------------------------------------------------------------

    @cached_property
    def sigmas(self) -> IntArray:
        """Return the deviation of every word's noise, shape `(w,)`, 0 for an exact count."""
        return np.concatenate([block.sigmas for block in self.blocks for _ in range(block.copies)])

    @cached_property
    def words_by_sigma(self) -> list[tuple[int, IntArray]]:
        """Return each deviation above 0 in ascending order, and the places of its words, an array of shape `(k,)`."""
        return _runs(self.sigmas)

    @cached_property
    def words_by_floor(self) -> list[tuple[int, IntArray]]:
        """Return the same of one server's floor, with the places of released words, arrays of shape `(k,)`."""
        return _runs(self.floor.of(np.concatenate([block.sigmas for block in self.blocks])))

    @property
    def least_sigma(self) -> int:
        """Return the smallest deviation of a word that has noise."""
        return min(block.smallest_sigma for block in self.blocks if block.name != ROWS)

    @property
    def largest_sigma(self) -> int:
        """Return the largest deviation of a word."""
        return max(block.largest_sigma for block in self.blocks)

    # --- from released integers to numbers ---------------------------------------------------------------------

    def integers(self, sketch: IntArray, name: str) -> IntArray:
        """Return a block's released integers, shape `(m, size)`; those of a total have shape `(1, size)`.

        Args:
            sketch: released integers, shape `(m, num_released)`.
            name: of the block.
        """
        rows = sketch[:1] if self[name].is_total else sketch
        return rows[:, self.released(name)]

    def values(self, sketch: IntArray, name: str) -> FloatArray:
        """Return the same, of the same shape, in normalised units; a count is divided by what a row adds to it."""
        block = self[name]
        scaled: FloatArray = self.integers(sketch, name) * block.steps
        return scaled / block.per if block.per != 1 else scaled

    def first_values(self, sketch: IntArray, name: str) -> FloatArray:
        """Return those of row 0, shape `(size,)`: all that there are where the public matrix is a row of ones."""
        first: FloatArray = self.values(sketch, name)[0]
        return first

    def deviation(self, name: str, draws: float, servers_variance: float = 0.0) -> FloatArray:
        """Return the deviation of a block's released numbers, in normalised units; shape `(size,)` or `()`.

        Args:
            name: of the block.
            draws: how many draws of a report's noise they carry (`Setting.draws`).
            servers_variance: of the smoothing noise of all servers, in squared ring units.
        """
        block = self[name]
        sigmas = block.sigmas if isinstance(block.sigma, Triangle) else np.asarray(block.sigma)
        summed = self._summed(sigmas, draws * block.spread**2, servers_variance)
        deviation: FloatArray = summed * block.steps / block.per
        return deviation

    def own_deviation(self, name: str) -> FloatArray:
        """Return the same of the noise of one report alone, of shape `(size,)` or `()`."""
        return replace(self, floor=NO_FLOOR).deviation(name, 1)

    def product_deviations(self, name: str, draws: float) -> tuple[float, float]:
        """Return the deviations of a product and of a square in a released block of products, in normalised units."""
        sigmas, step = cast("Triangle", self[name].sigma), float(self[name].steps)
        product, square = self._summed(np.array([sigmas.product, sigmas.square]), draws)
        return float(product * step), float(square * step)

    def _summed(self, sigmas: IntArray, draws: float, servers_variance: float = 0.0) -> FloatArray:
        """Return the deviation of words to which so many draws are added, and what servers add, in ring units."""
        if not (servers_variance or self.floor.deviation):
            return sqrt(draws) * sigmas.astype(np.float64)
        of_reports: FloatArray = draws * np.square(sigmas.astype(np.float64))
        together: FloatArray = np.sqrt(of_reports + self.floor.variance(sigmas) + servers_variance)
        return together

    def counted(self, sketch: IntArray) -> float:
        """Return how many rows the counter counts, with its noise, from released integers of shape `(m, w)`."""
        return float(self.integers(sketch, self.counter)[0].sum()) / self.rows_per_count

    def count_deviation(self, draws: float) -> float:
        """Return the deviation, in rows, of the counter that carries so many draws of a report's noise."""
        block = self[self.counter]
        return float(np.linalg.norm(self._summed(block.sigmas, draws * block.spread**2))) / self.rows_per_count

    def with_spread(self, spread: float) -> Self:
        """Return the same blocks with noise of so many times their `sigma`."""
        return replace(self, blocks=tuple(replace(block, spread=spread) for block in self.blocks))

    @property
    def bound(self) -> int:
        """Return the largest absolute value of a word of a noiseless report of one row."""
        return max(block.bound for block in self.blocks)


def _slices(sizes: Iterable[tuple[str, int]]) -> dict[str, slice]:
    names, counts = zip(*sizes, strict=True)
    ends = list(accumulate(counts, initial=0))
    return {name: slice(start, end) for name, start, end in zip(names, ends, ends[1:], strict=False)}


def _runs(deviations: IntArray) -> list[tuple[int, IntArray]]:
    return [(int(each), np.flatnonzero(deviations == each)) for each in np.unique(deviations[deviations > 0])]


def triangle_matrix(words: IntArray | FloatArray) -> FloatArray:
    """Return the symmetric matrix, shape `(d, d)`, whose upper triangle of d (d + 1) / 2 words is given."""
    size = (isqrt(8 * words.size + 1) - 1) // 2
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size)] = words
    result: FloatArray = matrix + np.triu(matrix, 1).T
    return result
