"""The share of a target that a ridge regression along the directions of a range finder explains, from halves.

What a fit explains on the products that it was made from flatters it: directions, weights and the target's products
have taken in the same noise. So the fit is made of the first half of the released products, and judged on the other.
"""

import math

import numpy as np

from lintra_analysis.estimators.estimates import IntervalEstimate
from lintra_analysis.estimators.wide_core import core_between, leading
from lintra_analysis.releases.range_sums import RangeSums
from lintra_protocol.crypto.ring import FloatArray, IntArray


def share_from_halves(
    held: RangeSums, values: FloatArray, own: int, free: IntArray, regularization: float, targets: FloatArray
) -> IntervalEstimate | None:
    """Return the share of the target's sum of squares that a fit from half of the products explains, and its error.

    With a fit b = V w from the first half it is (2 w a - w X w - 2 s^2 sum 1/(l + floor)) / total: a the products of
    the target along V, X the core along V from the other half, and s the noise of a target's product, which a and w
    share.

    Args:
        held: the release.
        values: products about the means or the centers, shape `(d, r)`.
        own: the target's column, which is a declared one.
        free: the columns that explain it, shape `(f,)`.
        regularization: lambda of the fit.
        targets: products of all columns with the declared targets, in their order, shape `(d, k)`.

    Returns:
        None where the target's own sum of squares is lost in noise, or no direction stands above it.
    """
    number = [each.column for each in held.targets].index(own)
    products, noise_sd = targets[:, number], held.targets[number].noise_sd
    total, half = float(products[own]), held.rank // 2
    if total <= 2 * noise_sd or half < 2:
        return None
    projection = held.projection
    found = core_between(leading(values[:, :half], held.noise_sd, half // 2), values[:, :half], projection[:, :half])
    directions, turn = np.linalg.qr(found.directions[free])
    squares, components = np.linalg.eigh(turn @ found.core @ turn.T)
    vectors, squares = directions @ components, np.maximum(squares, 0.0)
    floor = 2 * held.noise_sd * float(np.linalg.norm(found.inverse, 2)) * math.sqrt(squares.size)
    along, below = vectors.T @ products[free], squares + regularization + floor
    weights = along / below
    # The other half without what targets, which are no features, put into it.
    others = values[free, half:] - targets[free] @ projection[[each.column for each in held.targets], half:]
    seen = vectors.T @ projection[free, half:]
    inverse = np.asarray(np.linalg.pinv(seen), np.float64)
    rows = weights @ (vectors.T @ others)
    core = rows @ inverse
    explained = 2 * float(weights @ along) - float(core @ weights) - 2 * noise_sd**2 * float(np.sum(1 / below))
    left = float(np.linalg.norm(rows - core @ seen)) / math.sqrt(max(held.rank - half - squares.size, 1))
    spread = max(left, held.noise_sd * float(np.linalg.norm(weights))) * float(np.linalg.norm(inverse @ weights))
    share = explained / total
    error = math.hypot(spread, 2 * noise_sd * float(np.linalg.norm(weights)), share * noise_sd) / total
    return IntervalEstimate(share, error)
