"""Leverage scores: how much of one client's row a public integer sketch shows, exactly and from public numbers only.

The leverage of client i is tau_i = s_i^T G^-1 s_i, with s_i its column of the sketch S and G = S S^T over the honest
clients. A release is mu-Gaussian-DP with mu = Delta sqrt(max tau_i) / sigma, and with no smaller mu
(docs/proofs/sketch.md#leverage). Floating-point results here are never below the true value: an inverse comes
with its certified error, an eigenvalue with the error of its computation.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import RowUnderfilledError

MAX_RESIDUAL = 2.0**-30
"""Largest residual of an inverse that still certifies it; a sketch beyond it counts as singular."""

BLOCK = 130_000
"""Columns that are looked at together: work arrays have so many entries, however many columns there are.

An array of so many numbers is less than a mebibyte: it stays in a cache, and is not given back to the system each time.
"""

_ROUNDING = 2.0**-50

_SMALL = 64
"""A matrix of so many rows is inverted as it is."""

Table = TypeVar("Table", IntArray, FloatArray)

Columns = Callable[[], Iterable[tuple[IntArray, IntArray]]]
"""Gives the nonzero entries of all columns, row numbers and signs of shape `(k, s)`, some columns at a time."""


@dataclass(frozen=True)
class GramInverse:
    """The inverse of G = S S^T on the rows that hold any client, and how far off it may be."""

    gram: IntArray = field(repr=False)  #: G itself, shape `(k, k)` for k rows with clients; exact
    inverse: FloatArray = field(repr=False)  #: symmetric approximation X of its inverse, shape `(k, k)`
    residual: float  #: an upper bound of the norm |I - X G|_inf
    #: where a row of the sketch lies among the k, shape `(m,)`; -1 for a row without clients
    place: IntArray = field(repr=False)

    def leverages(self, row_numbers: IntArray, signs: IntArray) -> FloatArray:
        """Return an upper bound of every column's leverage, shape `(n,)`, above the true one by rounding only.

        Args:
            row_numbers: rows of the nonzero entries, shape `(n, s)`.
            signs: those entries, -1 or +1, same shape.
        """
        found = []
        for block in in_blocks(row_numbers, signs)():
            total = self._alone(block[0])
            for pair in _pairs(*block):
                total += pair.looked_up(self._together)
            found.append(total + self._error(row_numbers.shape[1]))
        return np.concatenate(found) if found else np.empty(0)

    def _alone(self, row_numbers: IntArray) -> FloatArray:
        """Return what the entries of every column add to its leverage each by itself, shape `(k,)`."""
        diagonal, total = np.diag(self._on_all_rows).copy(), np.zeros(len(row_numbers))
        for own in row_numbers.T:
            total += diagonal.take(own)
        return total

    def _error(self, sparsity: int) -> float:
        """Return by how much the sum over the entries of a column may be off its leverage."""
        # G^-1 - X = R (I - R)^-1 X with R = I - X G, so no entry is off by more than max|X| rho / (1 - rho).
        entry_error = self.residual / (1 - self.residual) + sparsity**2 * _ROUNDING
        return sparsity**2 * self._largest * entry_error

    @cached_property
    def _largest(self) -> float:
        return float(np.abs(self.inverse).max())

    @cached_property
    def _together(self) -> FloatArray:
        """What two entries add to a leverage together, by their rows and whether their signs are opposite."""
        return np.stack([2 * self._on_all_rows, -2 * self._on_all_rows], axis=-1)

    @cached_property
    def _on_all_rows(self) -> FloatArray:
        """The inverse with a row and a column of zeros for each row of the sketch that has no clients."""
        if len(self.gram) == len(self.place):
            return self.inverse
        whole = np.zeros((len(self.place), len(self.place)))
        filled = np.flatnonzero(self.place >= 0)
        whole[np.ix_(filled, filled)] = self.inverse
        return whole

    def smallest_eigenvalue(self) -> float:
        """Return a lower bound of the smallest eigenvalue of G."""
        size = len(self.gram)
        return float(np.linalg.eigvalsh(self.gram)[0]) - size * _ROUNDING * _infinity_norm(self.gram)


def gram_matrix(rows: int, row_numbers: IntArray, signs: IntArray) -> IntArray:
    """Return G = S S^T, shape `(rows, rows)`, exactly.

    Args:
        rows: m.
        row_numbers: rows of the nonzero entries, shape `(n, s)`; distinct within a column.
        signs: those entries, -1 or +1, same shape.
    """
    return _Meetings.of(rows, in_blocks(row_numbers, signs)).gram


def gram_inverse(rows: int, row_numbers: IntArray, signs: IntArray) -> GramInverse:
    """Invert G = S S^T of a sketch, with a certificate (see `gram_matrix` for the arguments and their shapes).

    Raises RowUnderfilledError if the rows of the sketch are, or may be, linearly dependent.
    """
    return _inverted(gram_matrix(rows, row_numbers, signs))


def _inverted(whole: IntArray) -> GramInverse:
    rows, filled = len(whole), np.flatnonzero(np.diag(whole))
    place = np.full(rows, -1, np.int64)
    place[filled] = np.arange(len(filled))
    gram = whole[np.ix_(filled, filled)] if len(filled) < rows else whole
    exact = gram.astype(np.float64)
    try:
        # G is S S^T, so that it is positive definite if it is regular, which the residual proves.
        with np.errstate(all="ignore"):
            inverse = _definite_inverse(exact)
    except np.linalg.LinAlgError:
        raise RowUnderfilledError("the rows of the sketch are linearly dependent") from None
    inverse = (inverse + inverse.T) / 2
    size = len(filled)
    computed = _infinity_norm(np.eye(size) - inverse @ exact) if size else 0.0
    # The product itself is rounded: by at most size times the unit roundoff, relative to |X| |G|.
    residual = computed + size * 2.0**-52 * _infinity_norm(inverse) * _infinity_norm(gram)
    if not residual <= MAX_RESIDUAL:
        raise RowUnderfilledError(f"the rows of the sketch are numerically dependent (residual {residual:.3g})")
    return GramInverse(gram, inverse, residual, place)


def _definite_inverse(matrix: FloatArray) -> FloatArray:
    """Return nearly the inverse of a positive definite matrix, by halves: half the work of an inverse, all products."""
    if len(matrix) <= _SMALL:
        return np.asarray(np.linalg.inv(matrix), np.float64)
    half = len(matrix) // 2
    corner = _definite_inverse(matrix[:half, :half])
    across = corner @ matrix[:half, half:]
    rest = _definite_inverse(matrix[half:, half:] - matrix[half:, :half] @ across)
    inverse = np.empty_like(matrix)
    inverse[half:, half:] = rest
    inverse[:half, half:] = -(across @ rest)
    inverse[half:, :half] = inverse[:half, half:].T
    inverse[:half, :half] = corner - inverse[:half, half:] @ across.T
    return inverse


def shared_pairs(rows: int, row_numbers: IntArray, signs: IntArray) -> int:
    """Return E_max: the most other columns, counted once per shared pair of rows, that agree with one column there.

    Two columns agree in a pair of rows if both have entries in both rows, with the same relative sign
    (see `gram_matrix` for the arguments and their shapes).
    """
    columns = in_blocks(row_numbers, signs)
    met = _Meetings.of(rows, columns)
    most = 0
    for block in columns():
        agreeing = np.zeros(len(block[0]), np.int64)
        for pair in _pairs(*block):
            agreeing += pair.looked_up(met.agreeing)
        most = max(most, int(agreeing.max(initial=0)))
    return most


def coalition_reach(corrupt: int, sparsity: int, most_shared: int) -> int:
    """Return L(t), a bound on the largest eigenvalue of S_C S_C^T over all C of at most t columns.

    L(t) = t + s - 1 + min(E_max, (s-1)(t-1)), and L(0) = 0 (docs/proofs/sketch.md#leverage).

    Args:
        corrupt: t.
        sparsity: s.
        most_shared: E_max of `shared_pairs`.
    """
    if corrupt == 0:
        return 0
    return corrupt + sparsity - 1 + min(most_shared, (sparsity - 1) * (corrupt - 1))


def coalition_factor(reach: float, smallest_eigenvalue: float) -> float:
    """Return 1 / (1 - L/lambda): by how much at most a coalition raises any honest client's leverage.

    Raises RowUnderfilledError if the coalition may isolate somebody; the detail has both numbers.
    """
    if reach == 0:
        return 1.0
    if not reach < smallest_eigenvalue:
        raise RowUnderfilledError(
            f"the tolerated coalition weighs up to {reach:g} in the sketch, whose smallest eigenvalue is "
            f"{smallest_eigenvalue:.6g}; it needs more clients, fewer rows or a smaller coalition"
        )
    return 1 / (1 - reach / smallest_eigenvalue)


@dataclass(frozen=True)
class LeverageBounds:
    """What one sketch says about all coalitions."""

    sparsity: int  #: s
    worst: float  #: an upper bound of any client's leverage if nobody is corrupt
    #: a lower bound of the smallest eigenvalue of G; 0 if nobody looked, so that no coalition passes
    smallest_eigenvalue: float
    most_shared: int  #: E_max of `shared_pairs`; 0 likewise

    @classmethod
    def of(cls, rows: int, row_numbers: IntArray, signs: IntArray) -> "LeverageBounds":
        """Compute them.

        Args:
            rows: m.
            row_numbers: rows of the nonzero entries, shape `(n, s)`; distinct within a column.
            signs: those entries, -1 or +1, same shape.

        Raises:
            RowUnderfilledError: the rows are linearly dependent, or too nearly so.
        """
        return cls.of_columns(rows, in_blocks(row_numbers, signs))

    @classmethod
    def of_columns(cls, rows: int, columns: Columns, coalitions: bool = True) -> "LeverageBounds":
        """Compute them in memory that does not grow with the columns, which are asked for twice.

        Args:
            rows: m.
            columns: of the sketch.
            coalitions: whether anybody may be corrupt; without, a third of the work is left out.

        Raises:
            RowUnderfilledError: the rows are linearly dependent, or too nearly so.
        """
        met = _Meetings.of(rows, columns)
        inverse = _inverted(met.gram)
        worst, shared = 0.0, 0
        for block in columns():
            leverages, agreeing = inverse._alone(block[0]), np.zeros(len(block[0]), np.int64)
            for pair in _pairs(*block):
                leverages += pair.looked_up(inverse._together)
                if coalitions:
                    agreeing += pair.looked_up(met.agreeing)
            worst = max(worst, float((leverages + inverse._error(met.sparsity)).max()))
            shared = max(shared, int(agreeing.max()))
        return cls(met.sparsity, worst, inverse.smallest_eigenvalue() if coalitions else 0.0, shared)

    def against(self, corrupt: int, quota: int) -> float:
        """Return an upper bound of the leverage of any honest client against any tolerated coalition, at most 1.

        Rounded up to 30 bits, so that machines whose arithmetic differs in the last bits say the same.

        Args:
            corrupt: t, the size of the coalition.
            quota: how many of it one row may hold, at most t (docs/proofs/sketch.md#coalitions).

        Raises:
            RowUnderfilledError: the coalition may isolate somebody.
        """
        worst = self.worst
        if corrupt:
            reach = coalition_reach(corrupt, self.sparsity, self.most_shared)
            worst *= coalition_factor(min(reach, self.sparsity * quota), self.smallest_eigenvalue)
        return min(1.0, _rounded_up(worst * (1 + _ROUNDING)))


@dataclass(frozen=True)
class _Meetings:
    """How rows meet in the columns of a sketch, summed over all columns."""

    sparsity: int  #: s; 0 if there are no columns
    gram: IntArray  #: G, shape `(m, m)`: products of the entries
    #: columns with entries in both rows, shape `(m, m, 2)`: of equal signs, and of opposite ones; its diagonal is of no
    #: use
    counts: IntArray

    @classmethod
    def of(cls, rows: int, columns: Columns) -> "_Meetings":
        sparsity, counts, sizes = 0, np.zeros((rows, rows, 2), np.int64), np.zeros(rows, np.int64)
        for row_numbers, signs in columns():
            sparsity = row_numbers.shape[1]
            for own in row_numbers.T:
                sizes += np.bincount(own, minlength=rows)
            for pair in _pairs(row_numbers, signs):
                pair.count(counts)
        counts += counts.transpose(1, 0, 2).copy()
        gram: IntArray = counts[..., 0] - counts[..., 1]
        gram[np.diag_indices(rows)] += sizes
        return cls(sparsity, gram, counts)

    @cached_property
    def agreeing(self) -> IntArray:
        """How many other columns agree with one in two rows, by the rows and whether its signs there are opposite."""
        return self.counts - 1


def in_blocks(row_numbers: IntArray, signs: IntArray) -> Columns:
    """Return columns that are there as arrays of shape `(n, s)`, `BLOCK` at a time."""
    starts = range(0, len(row_numbers), BLOCK)
    return lambda: ((row_numbers[start : start + BLOCK], signs[start : start + BLOCK]) for start in starts)


@dataclass(frozen=True)
class _Pair:
    """Two entries of every column: where they lie."""

    own: slice  #: all rows of the first of them
    other: slice  #: all rows of the second
    width: int
    #: of every column, where it stands in a table over the first, the second, and whether their signs are opposite, in
    #: which the second are padded to `width`; shape `(k,)`
    index: IntArray

    def count(self, counts: IntArray) -> None:
        """Add the columns to a table over all rows, and all rows, and whether signs are opposite."""
        height, width = self.own.stop - self.own.start, self.other.stop - self.other.start
        found = np.bincount(self.index, minlength=2 * height * self.width)
        counts[self.own, self.other] += found.reshape(height, self.width, 2)[:, :width]

    def looked_up(self, table: Table) -> Table:
        """Return what such a table says of every column, shape `(k,)`."""
        part = table[self.own, self.other]
        if part.shape[1] < self.width:
            part = np.pad(part, ((0, 0), (0, self.width - part.shape[1]), (0, 0)))
        return np.ascontiguousarray(part).reshape(-1).take(self.index)


def _pairs(row_numbers: IntArray, signs: IntArray) -> Iterator[_Pair]:
    """Yield each two entries of some columns."""
    spans = [slice(int(rows.min()), int(rows.max()) + 1) for rows in row_numbers.T] if len(row_numbers) else []
    # All are padded to one power of two, so that nothing of a place meets but the last bit, which is the sign.
    bits = max((span.stop - span.start - 1 for span in spans), default=0).bit_length()
    begin = [span.start for span in spans]
    negative = [own >> 1 for own in signs.T]  # 0, or -1
    others = [((rows - first) << 1) - sign for rows, first, sign in zip(row_numbers.T, begin, negative, strict=False)]
    for a, own in enumerate(spans[1:], 1):
        place = ((row_numbers[:, a] - own.start) << bits + 1) - negative[a]
        for b, other in enumerate(spans[:a]):
            yield _Pair(own, other, 1 << bits, place ^ others[b])


def _infinity_norm(matrix: FloatArray | IntArray) -> float:
    """Return the largest sum of absolute values in a row."""
    return float(np.abs(matrix).sum(axis=1).max()) if len(matrix) else 0.0


def _rounded_up(value: float) -> float:
    """Return the smallest float of 30 bits that is not below a positive value."""
    mantissa, exponent = math.frexp(value)
    return float(Fraction(math.ceil(mantissa * 2**30)) * Fraction(2) ** (exponent - 30))
