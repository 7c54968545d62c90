"""States how far an answer may be off for the rows before they were clipped.

The clip counter says how many rows a bound changed, C at most (95 %). A row within its columns' bounds is at most B_max
long, that of the farthest corner, so shrinking it to B moves it by at most B_max - B and takes at most 1 - B/B_max of
each value. What follows is no interval but a limit, and it is wide. Values beyond a column's bounds have no limit
without an assumption about tails, and the counter does not tell the one from the other.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lintra_analysis.estimators.estimates import ClipLimit, Clipping
from lintra_analysis.estimators.simultaneous import reach_of
from lintra_analysis.estimators.solve import Fit
from lintra_analysis.estimators.tabular import number
from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_protocol.crypto.ring import FloatArray

_NAMED = 8
NO_TESTS = "so many rows may have been clipped that p values are left out"


def shrinking_warnings(clipped: ClippedRows | None, what: str, limits: Sequence[tuple[str, float | None]]) -> list[str]:
    """Return what has to be said beside an answer: nothing if few rows were clipped or nobody counted.

    `what` is the numbers that the limits are about, such as "means". `limits` are by name, how far each may be from
    that of the rows before they were shrunk; None for no limit.
    """
    if clipped is None or not clipped.worth_a_word:
        return []
    found = [clipped.words]
    if not clipped.tests_hold:
        found.append(NO_TESTS)
    if clipped.most_shrunk > 0 and limits:
        known = [(name, number(limit)) for name, limit in limits if limit is not None]
        shown = [f"{name} {limit}" for name, limit in known[:_NAMED]] + ["..."] * (len(known) > _NAMED)
        if known and len(known) < len(limits):
            shown.append("no limit follows for the others")
        found.append(
            f"the {what} of the rows before shrinking may differ from these by any amount, "
            "also if every value lay within its column's bounds"
            if not known
            else f"if all of them lay within their columns' bounds, {what} of the rows before shrinking differ by at "
            f"most: {', '.join(shown)}"
        )
    return found


def clipping(clipped: ClippedRows | None, limits: Sequence[tuple[str, float | None]]) -> Clipping | None:
    """Return the count and the limits as an answer holds them; None if nobody counted."""
    if clipped is None:
        return None
    held = tuple(ClipLimit(name, limit) for name, limit in limits) if clipped.most_shrunk > 0 else ()
    return Clipping(clipped.estimate, clipped.sd, clipped.upper_rows, clipped.upper_share, held)


def mean_limits(clipped: ClippedRows | None, columns: Sequence[ScaledColumn]) -> list[tuple[str, float | None]]:
    """Return how far each mean may be from that of the unshrunk rows, in own units: (C/n) (1 - B/B_max) max |z|."""
    if clipped is None:
        return []
    share = clipped.upper_share * clipped.most_shrunk
    return [(column.name, share * column.farthest * column.scale) for column in columns]


def square_warning(clipped: ClippedRows | None, gram: GramEstimate) -> list[str]:
    """Return what shrinking can have taken from the second moments, beside their own size."""
    if clipped is None or not clipped.worth_a_word or not clipped.square_limit:
        return []
    size = float(np.linalg.norm(gram.matrix))
    limit = number(clipped.square_limit)
    return [f"second moments of the rows before shrinking are larger by at most {limit} in norm, beside {number(size)}"]


def coefficient_limits(
    gram: GramEstimate, fit: Fit, linear: FloatArray, names: Sequence[str]
) -> list[tuple[str, float | None]]:
    """Return how far each coefficient may be from that of the unshrunk rows, in own units.

    The joint matrix moves by at most `ClippedRows.product_limit` in Frobenius norm; the noise is left out. `gram` is
    that of the regression, the constant first if it has one. `linear` is the map from normalised coefficients to those
    reported, shape `(k, p)`; `names` are those of the k.
    """
    if gram.clipped is None:
        return []
    constant = next((column.constant for column in gram.columns if column.constant is not None), None) or 0.0
    reach = reach_of(fit, linear, gram.clipped.product_limit(constant))
    return [(name, None if reach is None else float(reach[i])) for i, name in enumerate(names)]


def correlation_limits(
    clipped: ClippedRows | None, columns: Sequence[ScaledColumn], squares: FloatArray, correlations: FloatArray
) -> FloatArray | None:
    """Return between which numbers the correlation of the unshrunk rows lies, shape `(d, d, 2)`.

    A column of deviations from the mean, as a vector of n values, moves by at most sqrt(C) (1 - B/B_max) max |z|; a
    correlation is the cosine of the angle between two, and each turns by at most the arcsine of that over its length.
    `columns` are the d columns. `squares` are sums of squared deviations of the shrunk rows, shape `(d,)`, in
    normalised units. `correlations` are those of the shrunk rows, shape `(d, d)`.
    """
    if clipped is None or not clipped.limited:
        return None
    moved = math.sqrt(clipped.upper_rows) * clipped.most_shrunk * np.array([column.farthest for column in columns])
    length = np.sqrt(np.maximum(squares, 0.0))
    turned = np.where(
        moved < length, np.arcsin(np.divide(moved, length, out=np.ones_like(moved), where=moved < length)), np.pi
    )
    angle, most = np.arccos(np.clip(correlations, -1, 1)), np.add.outer(turned, turned)
    ends = np.cos(np.minimum(angle + most, np.pi)), np.cos(np.maximum(angle - most, 0.0))
    return np.stack(ends, axis=2)


def pair_limits(gram: GramEstimate, usable: NDArray[np.bool_]) -> list[tuple[str, float | None]]:
    """Return how far the correlation of each pair of columns may be from that of the unshrunk rows.

    `gram` holds sums of products of deviations, in normalised units. `usable` says which variances stand out of the
    noise, shape `(d,)`.
    """
    diagonal = np.where(usable, np.diagonal(gram.matrix), 0.0)
    root = np.sqrt(np.where(usable, diagonal, 1.0))
    raw = gram.matrix / np.outer(root, root)
    ends = correlation_limits(gram.clipped, gram.columns, diagonal, raw)
    limits: list[tuple[str, float | None]] = []
    if ends is not None:
        for i, j in itertools.combinations(range(usable.size), 2):
            off = float(max(ends[i, j, 1] - raw[i, j], raw[i, j] - ends[i, j, 0]))
            name = f"{gram.columns[i].name} and {gram.columns[j].name}"
            limits.append((name, off if usable[i] and usable[j] and ends[i, j, 0] > -1 else None))
    return limits
