"""Row weights: a row that is far out is shrunk together with its constant and its target, and so counts less.

What is clipped is f = (c, z), the target in it times k. A row is shrunk by its own factor t, so that the products of
t f are those of a row of weight t^2 (docs/reference/mechanisms/second_moment.md#row-weights). Before it is shrunk the
features may be turned by a public matrix (#turned-features).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.noise.clipping import column_norms, dithered_norm, quantise_shrunk, shrink_factors, within_reach
from lintra_protocol.privacy.statement import Neighbours

WeightedBy = Literal["features", "all"]
"""What says how much a row counts: its features alone, or its target too."""

LARGEST_TURN = 10**6
"""No entry of a matrix that turns features is larger, so that no turned feature overflows."""


@lru_cache(maxsize=64)
def turning(rows: tuple[tuple[str, ...], ...]) -> FloatArray:
    """Return the matrix T that a document spells in decimals, shape `(p, p)`."""
    return np.array([[float(entry) for entry in row] for row in rows])


def turned(features: FloatArray, basis: FloatArray) -> FloatArray:
    """Return T z for features z, the rows of shape `(n, p)`, products added up in the order of the columns.

    Every party that adds up in this order, each product and sum rounded to a double, finds the same bits.
    """
    found = np.zeros_like(features)
    for place in range(features.shape[1]):
        found += features[:, place : place + 1] * basis[:, place]
    return found


@dataclass(frozen=True, eq=False)
class RowWeights:
    """How rows of d columns become vectors of q = d + 1 numbers, and how these are shrunk."""

    #: "features": t = min(1, R_x/|(c, z without the target)|), R_x = R/sqrt(2), and the target is moved into [-Y, Y];
    #: "all": t = min(1, R/|f|)
    by: WeightedBy
    constant: float  #: c, in normalised units
    target: int | None  #: number of the target's column; None without
    target_bound: float  #: Y, in normalised units; inf under "all", where nothing moves it
    target_factor: float  #: k
    unit: float  #: steps in a normalised unit
    basis: FloatArray | None = None  #: T, by which the features are turned, shape `(p, p)`; None leaves them

    def vectors(self, rows: FloatArray) -> FloatArray:
        """Return f of normalised rows of shape `(n, d)` in steps, shape `(n, d + 1)`; 0 where a number is missing."""
        whole: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(rows), axis=1)
        known = within_reach(np.where(whole[:, np.newaxis], rows, 0.0))
        if self.basis is not None:
            features = [place for place in range(rows.shape[1]) if place != self.target]
            known[:, features] = turned(known[:, features], self.basis)
        if self.target is not None:
            inside = np.clip(known[:, self.target], -self.target_bound, self.target_bound)
            known[:, self.target] = inside * self.target_factor
        vectors: FloatArray = np.column_stack([self.constant * whole, known]) * self.unit
        return vectors

    def clip(self, rows: FloatArray, squared_bound: int, random_bytes: RandomBytes) -> IntArray:
        """Return integer vectors, shape `(n r, d + 1)`, of rows of shape `(n, d)`, or of persons, `(n, r, d)`.

        Those of a person are shrunk together: no squared norm of all of them exceeds `squared_bound`. Under "features"
        the features' part is shrunk to R/sqrt(2), and all of it to R, which for single rows follows.
        """
        vectors = self.vectors(rows.reshape(-1, rows.shape[-1]))
        together = vectors.reshape(len(rows), -1)
        shrunk = together * self._factors(vectors, len(rows), squared_bound)[:, np.newaxis]
        return quantise_shrunk(shrunk, squared_bound, random_bytes).reshape(vectors.shape)

    def straightening(self, num_columns: int) -> FloatArray | None:
        """Return B, shape `(d + 1, d + 1)`: B^T M B are products of columns if M are those of turned ones; else None.

        The constant comes first, in M and in B^T M B.
        """
        if self.basis is None:
            return None
        whole = np.eye(num_columns + 1)
        features = [place + 1 for place in range(num_columns) if place != self.target]
        whole[np.ix_(features, features)] = np.linalg.inv(self.basis).T
        return whole

    def average_weight(self, rows: FloatArray, squared_bound: int) -> float:
        """Return the mean of t^2 over rows of shape `(n, d)`; a row that is left out counts 0."""
        vectors = self.vectors(rows)
        counted = np.isfinite(rows).all(axis=1)
        return float((self._factors(vectors, len(rows), squared_bound) ** 2 * counted).mean())

    def _factors(self, vectors: FloatArray, num_persons: int, squared_bound: int) -> FloatArray:
        """Return t of each person whose vectors follow each other, shape `(num_persons,)`."""
        together = vectors.reshape(num_persons, -1)
        norm = dithered_norm(squared_bound, together.shape[1])
        factors = shrink_factors(column_norms(together), norm)
        if self.by == "features" and self.target is not None:
            features = np.delete(vectors, self.target + 1, axis=1).reshape(num_persons, -1)
            factors = np.minimum(factors, shrink_factors(column_norms(features), norm / sqrt(2)))
        return factors

    def moves_target(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each normalised row of shape `(n, d)` whether its target lies beyond [-Y, Y]."""
        if self.target is None:
            return np.zeros(len(rows), np.bool_)
        return np.greater(np.abs(rows[:, self.target]), self.target_bound)


def weighted_distance(neighbours: Neighbours, bound: Fraction, one: int, rows: int, trace: bool) -> Fraction:
    """Return the largest squared distance of neighbouring sums (docs/proofs/moments.md#row-weights).

    `bound` is T, the squared norm of a person's r vectors, the constants in them; `one` is g, what a row adds to a
    noisy count, or 0. It is T^2 / 2, T^2 / 2 more for the trace, and (g r)^2 against null rows; where persons are
    replaced it is the larger of that and T^2 + (g (r - 1))^2.
    """
    to_null = bound**2 * (1 + trace) / 2 + (one * rows) ** 2
    return to_null if neighbours != "replace-one" else max(bound**2 + (one * (rows - 1)) ** 2, to_null)


class WeightOptions(NamedTuple):
    """What a document says about the weights of its rows."""

    by: WeightedBy | None  #: None where rows have no weights
    constant: Fraction  #: c, in normalised units
    target: int | None
    target_bound: Fraction  #: Y, in normalised units; 0 where none is given
    target_factor: Fraction  #: k, 1 where none is given
    basis: tuple[tuple[str, ...], ...] | None

    def of_rows(self, num_columns: int, squared_bound: int, fraction_bits: int) -> RowWeights:
        """Return how rows of d columns are shrunk.

        Under "features" k Y is (R - sqrt(q)) / sqrt(2) steps, R the root of `squared_bound` and q = d + 1.

        Raises:
            ValueError: rows have no weights.
        """
        if self.by is None:
            raise ValueError("these rows have no weights: they are shrunk without a constant")
        unit, bound, factor = 2.0**fraction_bits, inf, float(self.target_factor)
        if self.by == "features":
            bound = float(self.target_bound)
            factor = dithered_norm(squared_bound, num_columns + 1) / sqrt(2) / (bound * unit)
        basis = None if self.basis is None else turning(self.basis)
        return RowWeights(self.by, float(self.constant), self.target, bound, factor, unit, basis)

    def rule(self, row_bound: str, target_bound: str) -> str:
        """Return in words how much a row counts."""
        farther = "its features lie" if self.by == "features" else "its features or its target lie"
        turns = ", after the features were turned by a public matrix" * (self.basis is not None)
        moved = f", and the target is moved to at most {target_bound} from its centre" * (self.by == "features")
        return f"a row counts less the farther {farther} from the centre (norm {row_bound}){turns}{moved}"

    def check(self, num_columns: int, is_dithered: bool, is_second_round: bool) -> None:
        """Raise InvalidTaskError for options that do not fit each other, the columns or the rest of the document."""
        if self.by is None:
            if self.target is not None or self.target_bound or self.target_factor != 1 or self.basis is not None:
                raise InvalidTaskError(
                    "target, target_bound, target_factor and features_basis belong to row_weights; leave them out"
                )
            return
        if not is_dithered:
            raise InvalidTaskError(
                "row_weights: rows that are weighted are dithered; use rounding 'dithered', not 'nearest'"
            )
        if self.constant <= 0:
            raise InvalidTaskError("row_weights: the constant tells the weights; give an intercept above 0")
        if is_second_round:
            raise InvalidTaskError("row_weights: rows of a second round are along directions; leave the weights out")
        self._check_target(num_columns)
        if self.basis is not None:
            _check_turning(self.basis, num_columns - (self.target is not None))

    def _check_target(self, num_columns: int) -> None:
        bound, factor = self.target_bound, self.target_factor
        if self.target is not None and self.target >= num_columns:
            raise InvalidTaskError(f"target {self.target} is not the number of one of {num_columns} columns")
        if self.by == "features" and (self.target is None or bound <= 0 or factor != 1):
            raise InvalidTaskError(
                "row_weights 'features': give a target and its target_bound, above 0; target_factor follows from them"
            )
        if self.by == "all" and (bound or factor <= 0 or (self.target is None and factor != 1)):
            raise InvalidTaskError(
                "row_weights 'all': nothing bounds the target, so leave target_bound out; target_factor, above 0, "
                "needs a target"
            )


def _check_turning(basis: tuple[tuple[str, ...], ...], num_features: int) -> None:
    if any(len(row) != num_features for row in (basis, *basis)):
        raise InvalidTaskError(
            f"features_basis: {num_features} rows of {num_features} numbers turn {num_features} features"
        )
    if any(abs(fraction(entry)) > LARGEST_TURN for row in basis for entry in row):
        raise InvalidTaskError(f"features_basis: no number is larger than {LARGEST_TURN}")
    if np.linalg.matrix_rank(turning(basis)) < num_features:
        raise InvalidTaskError("features_basis: a matrix that has no inverse loses features; use another one")
