"""Draws named columns from a model and a seed: Gaussian rows, lifted, and selected by pair tables where there are some.

The same seed gives the same rows in every process: words come from a stream derived from the seed alone, and the
matrix that shapes them does not depend on how a linear algebra library orders its eigenvectors.
"""

import operator
from typing import Literal

import numpy as np

from lintra_analysis.releases.features import ColumnArray, Feature, starts_of
from lintra_analysis.releases.sampling import gaussians
from lintra_analysis.synthetic.model import GaussianModel
from lintra_analysis.synthetic.repair import project_on_simplex, symmetric_root
from lintra_analysis.synthetic.tilting import LEAST_ROWS, MOST_ROWS, fit_tilt
from lintra_protocol.crypto.randomness import RandomBytes, derive_seed, keystream
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidAnalysisError
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


Space = Literal["columns", "projected"]

MAX_NUMBERS = 1 << 28
"""Most numbers in one table: rows times coordinates."""

_SPARE = 4
"""So many rows of the model are drawn for one that is chosen, where pairs of columns were counted."""


def drawn_columns(model: GaussianModel, num_rows: int, words: bytes, space: Space) -> dict[str, ColumnArray]:
    """Return rows by column, each of shape `(num_rows,)`, the label last; by name, or as the coordinates h1..hp.

    `model` is made by `fit`; `num_rows` is at most `MAX_NUMBERS` over the coordinates. `words` are 32 bytes that decide
    everything. In the `space` of columns rows follow pair tables; projected coordinates know none.
    """
    release = model.release
    if space == "columns" and release.tables:
        most = MAX_NUMBERS // max(release.num_coordinates, release.size)
        spare = max(num_rows, min(max(_SPARE * num_rows, LEAST_ROWS), most))
        return _tilted(model, _drawn(model, spare, words, space), num_rows, words)
    return _drawn(model, num_rows, words, space)


def _drawn(model: GaussianModel, num_rows: int, words: bytes, space: Space) -> dict[str, ColumnArray]:
    """Return rows of the Gaussian model by column, the label last."""
    release = model.release
    classes, latent = draw_latent(model, model.class_sizes(num_rows), words)
    columns: dict[str, ColumnArray] = {}
    if space == "projected":
        columns = {f"h{number + 1}": latent[:, number] for number in range(release.dimension)}
    else:
        columns = lift(model, latent[:, : release.dimension], _stream(words, "filler"))
    label = release.label
    if label is not None and label.levels:
        columns[label.name] = np.array(label.levels)[classes]
    for feature in release.label_features:
        columns[feature.name] = _column(feature, latent[:, -1:] / release.label_scale, model.marginals[-1])
    return columns


def _tilted(
    model: GaussianModel, columns: dict[str, ColumnArray], num_rows: int, words: bytes
) -> dict[str, ColumnArray]:
    """Choose rows of the model by the released pair tables, and let numbers follow their histograms again.

    A row may be chosen more than once. Afterwards equal values are set apart by the histogram, in random order.
    """
    release = model.release
    some = {name: column[:MOST_ROWS] for name, column in columns.items()}
    ends = np.cumsum(fit_tilt(release, some).weights(release, columns))
    random = np.frombuffer(_stream(words, "choice")(8 * (num_rows + 1)), "<u8")
    # Equally spaced points from a random start: every row is chosen as often as its weight says, to one.
    points = (np.arange(num_rows) + random[0] * 2.0**-64) / num_rows * ends[-1]
    chosen = np.minimum(np.searchsorted(ends, points, side="right"), ends.size - 1)
    chosen = chosen[np.argsort(random[1:], kind="stable")]
    found = {name: column[chosen] for name, column in columns.items()}
    for feature, cells in zip(release.histogram_features, model.marginals, strict=True):
        if cells.size and feature.width == 1:
            own = feature.cells_of(found[feature.name]) if feature.kind == "category" else found[feature.name]
            ties = np.frombuffer(_stream(words, f"ties of {feature.name}")(8 * num_rows), "<u8")
            ranks = np.empty(num_rows)
            ranks[np.lexsort((ties, np.asarray(own, np.float64)))] = np.arange(num_rows)
            found[feature.name] = from_histogram(feature, ranks[:, np.newaxis], cells)
    return found


def seed_bytes(seed: int) -> bytes:
    """Return a seed as 32 bytes; raise InvalidAnalysisError if it is no whole number, or out of range."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**256:
        raise InvalidAnalysisError(f"a seed is a whole number from 0 to 2^256 - 1, got {seed!r}")
    return operator.index(seed).to_bytes(32, "big")


def draw_latent(model: GaussianModel, sizes: IntArray, seed: bytes) -> tuple[IntArray, FloatArray]:
    """Draw rows of the projected space in random order.

    `model` is made by `fit`; `sizes` are rows of each class, shape `(K,)`. `seed` is 32 bytes.

    Returns:
        The classes, shape `(n,)`, and the rows, shape `(n, P)`.
    """
    total = int(sizes.sum())
    classes = np.repeat(np.arange(sizes.size), sizes)
    order = np.argsort(np.frombuffer(_stream(seed, "order")(8 * total), "<u8"), kind="stable")
    classes = classes[order]
    white = gaussians((total, model.release.size), _stream(seed, "latent"))
    roots = [symmetric_root(covariance) for covariance in model.covariances]
    if len(roots) == 1:
        return classes, model.means[classes] + white @ roots[0]
    rows = np.empty_like(white)
    for number, root in enumerate(roots):
        chosen = classes == number
        rows[chosen] = model.means[number] + white[chosen] @ root
    return classes, rows


def lift(model: GaussianModel, latent: FloatArray, random_bytes: RandomBytes) -> dict[str, ColumnArray]:
    """Return the named columns of projected rows of shape `(n, p)`.

    Outside the span of the frame the model knows nothing; there the rows get equal variances, the mean one inside.
    """
    release = model.release
    mapped = latent
    if release.frame is not None:
        frame = release.frame
        mapped = latent @ frame.T
        if release.dimension < release.num_coordinates:
            level = float(np.trace(model.covariance[: release.dimension, : release.dimension])) / release.dimension
            filler = gaussians(mapped.shape, random_bytes) * np.sqrt(level)
            mapped = mapped + filler - (filler @ frame) @ frame.T
    columns: dict[str, ColumnArray] = {}
    starts = starts_of(release.features)
    for number, feature in enumerate(release.features):
        scores = mapped[:, starts[number] : starts[number + 1]]
        columns[feature.name] = _column(feature, scores, model.marginals[number])
    return columns


def _column(feature: Feature, scores: FloatArray, cells: FloatArray) -> ColumnArray:
    return from_histogram(feature, scores, cells) if cells.size else without_histogram(feature, scores)


def _stream(seed: bytes, purpose: str) -> RandomBytes:
    return keystream(derive_seed(seed, "synthetic rows", purpose.encode()))
