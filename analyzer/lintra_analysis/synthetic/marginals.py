"""Columns from scores: the ranks of a column's scores are mapped through its released histogram.

The result follows the histogram whatever the scores are, and keeps their order; so bounds, whole numbers and levels
hold by construction (a Gaussian copula: Nelsen 2006, Section 2.3).
"""

import numpy as np

from lintra_analysis.releases.features import ColumnArray, Feature
from lintra_analysis.synthetic.repair import project_on_simplex
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.joint_rows import feature_steps, histogram_cells

MAX_INTEGERS = 1 << 20
"""Integer columns with more values than this are drawn as reals and rounded."""

_ROUNDS = 200


def from_histogram(feature: Feature, scores: FloatArray, probabilities: FloatArray) -> ColumnArray:
    """Return a column whose values follow a histogram and are ordered as their scores.

    `scores` has shape `(n, width)`. `probabilities` are those of the cells; at least 0, sum 1.
    """
    if feature.width > 1:
        return feature.named(levels_by_race(scores, probabilities))
    levels = _mid_ranks(scores[:, 0])
    if feature.kind == "integer" and feature.upper - feature.lower < MAX_INTEGERS:
        return _integers(feature, levels, probabilities)
    cell, inside = _invert(levels, probabilities)
    if feature.kind == "category":
        return feature.named(cell)
    if feature.kind == "boolean":
        return np.asarray(2 * cell >= probabilities.size)
    if not feature.edges:
        return feature.emitted(feature.lower + (cell + inside) / probabilities.size * (feature.upper - feature.lower))
    ends = feature.cell_ends
    return feature.emitted(ends[cell] + inside * (ends[cell + 1] - ends[cell]))


def without_histogram(feature: Feature, scores: FloatArray) -> ColumnArray:
    """Return a column straight from its Gaussian coordinates of shape `(n, width)`, moved inside its bounds."""
    if feature.kind == "category":
        wide = scores if feature.width > 1 else np.column_stack([-scores[:, 0], scores[:, 0]])
        return feature.named(np.argmax(wide, axis=1))
    return feature.emitted(feature.lower + (scores[:, 0] + 1) / 2 * (feature.upper - feature.lower))


def levels_by_race(scores: FloatArray, probabilities: FloatArray) -> IntArray:
    """Return a level for each row, so that the levels have nearly the given frequencies and follow the scores.

    Each level has an exponential clock that its scores' ranks drive, and the first clock decides. With independent
    scores a level has exactly its probability. The rates are then adjusted until the frequencies of this table fit,
    too. `scores` has shape `(n, levels)`; the higher, the likelier. `probabilities` has shape `(levels,)`, at least 0,
    sum 1.
    """
    clocks = np.stack([-np.log(_mid_ranks(column)) for column in scores.T])
    rates = np.maximum(probabilities, 0.0)
    winners = _winners(clocks, rates)
    best, closest = winners, np.inf
    for _ in range(_ROUNDS):
        frequencies = np.bincount(winners, minlength=rates.size) / winners.size
        distance = float(np.abs(frequencies - probabilities).sum())
        if distance < closest:
            best, closest = winners, distance
        if distance == 0:
            break
        rates = rates * np.sqrt((probabilities + 0.1 / winners.size) / (frequencies + 0.1 / winners.size))
        rates = np.where(probabilities > 0, rates, 0.0)
        winners = _winners(clocks, rates)
    return best


def integer_cells(feature: Feature) -> IntArray:
    """Return the cell of every integer from lower to upper, in the shape `(k,)`, as a client's encoder has it."""
    count = round(feature.upper - feature.lower) + 1
    return histogram_cells(feature_steps(2 * np.arange(count) / (count - 1) - 1), feature.cells, feature.edges)


def _integers(feature: Feature, levels: FloatArray, probabilities: FloatArray) -> IntArray:
    """Return integers: the cell by its probability, and inside it each of its integers alike."""
    cells = integer_cells(feature)
    sizes = np.bincount(cells, minlength=probabilities.size)
    # A cell without integers holds nothing but noise.
    reachable = probabilities if sizes.all() else np.where(sizes > 0, probabilities, -1.0)
    cell, inside = _invert(levels, project_on_simplex(reachable) if not sizes.all() else reachable)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    steps = first[cell] + np.minimum((inside * sizes[cell]).astype(np.int64), sizes[cell] - 1)
    return steps + round(feature.lower)


def _mid_ranks(scores: FloatArray) -> FloatArray:
    """Return (rank + 1/2)/n for every score; equal scores are ranked in their own order."""
    ranks = np.empty(scores.size)
    ranks[np.argsort(scores, kind="stable")] = np.arange(scores.size) + 0.5
    return ranks / scores.size


def _invert(levels: FloatArray, probabilities: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the cell of each level of the distribution function, and how far inside it lies, in [0, 1)."""
    ends = np.cumsum(probabilities)
    last = int(np.flatnonzero(probabilities)[-1])
    cell = np.minimum(np.searchsorted(ends, levels * ends[-1], side="right"), last)
    inside = (levels * ends[-1] - (ends[cell] - probabilities[cell])) / probabilities[cell]
    return cell.astype(np.int64), np.clip(inside, 0.0, np.nextafter(1.0, 0.0))


def _winners(clocks: FloatArray, rates: FloatArray) -> IntArray:
    """Return which of the clocks of shape `(levels, n)` is first in each row; the first of equal ones."""
    winners = np.zeros(clocks.shape[1], dtype=np.int64)
    earliest = np.full(clocks.shape[1], np.inf)
    for level in np.flatnonzero(rates > 0).tolist():
        times = clocks[level] / rates[level]
        np.copyto(winners, level, where=times < earliest)
        np.minimum(earliest, times, out=earliest)
    return winners
