"""How much one row changes products of vectors in L1, and what RON-Gauss as published therefore loses.

Lemma 4 of Chanyaswad, Liu, Mittal 2019 takes sqrt(p) |M|_F for a bound of |M|_1, where it is p |M|_F. So their Laplace
noise, of scale 2 sqrt(p) / (n epsilon), is sqrt(p / 2) times less private than stated, and no less for some rows
(docs/reference/mechanisms/central_ron_gauss.md#published).
"""

import math

import numpy as np

from lintra_protocol.crypto.ring import FloatArray
from papers.loss_distribution import LossDistribution

_GRID_CELLS = 1 << 21


def product_distance(dimension: int) -> float:
    """Return a bound of |u u^T - v v^T|_1 over all p^2 entries for u, v in the unit ball (Theorem S1).

    It is sqrt(2) p, attained for even p; for odd p sqrt(2 p^2 - 2/p), where sqrt(2 p^2 - 1) is attained.
    """
    _require_dimension(dimension)
    if dimension % 2 == 0:
        return math.sqrt(2) * dimension
    return math.sqrt(2 * dimension**2 - 2 / dimension) if dimension > 1 else 1.0


def attained_product_distance(dimension: int) -> float:
    """Return the largest distance over all entries that pairs are known to attain: sqrt(2) p, or sqrt(2 p^2 - 1).

    For odd p found by enumeration up to p = 7 and by climbing up to p = 31; not proved to be the largest.
    """
    _require_dimension(dimension)
    return math.sqrt(2 * dimension**2 - dimension % 2)


def triangle_distance(dimension: int) -> float:
    """Return a bound of the same over the upper triangle with its diagonal (Theorem S1).

    It is min(p / sqrt(2) + 1, sqrt((p^2 + 3 p) / 2)): the triangle is half of all entries and half of the diagonal,
    which changes by at most 2; or Cauchy and Schwarz with the diagonal's weights.
    """
    _require_dimension(dimension)
    if dimension == 1:
        return 1.0
    return min(dimension / math.sqrt(2) + 1, math.sqrt((dimension**2 + 3 * dimension) / 2))


def attained_triangle_distance(dimension: int) -> float:
    """Return the largest triangle distance that pairs are known to attain: sqrt((p+2)^2 + 4 floor(p/2) ceil(p/2)) / 2.

    Found by enumeration up to p = 7 and by climbing up to p = 50; not proved to be the largest.
    """
    _require_dimension(dimension)
    if dimension == 1:
        return 1.0
    return math.sqrt((dimension + 2) ** 2 + 4 * (dimension // 2) * ((dimension + 1) // 2)) / 2


def published_factor(dimension: int, *, mirrored: bool) -> float:
    """Return a bound of the true epsilon of the published covariance noise, in multiples of the claimed one.

    `dimension` is p. `mirrored` says whether the triangle is noised and mirrored, as here, or all p^2 entries on their
    own.
    """
    distance = triangle_distance(dimension) if mirrored else product_distance(dimension)
    return distance / (2 * math.sqrt(dimension))


def published_label_factor(dimension: int, label_bound: float) -> float:
    """Return a bound of the true epsilon of Lemma 5 of the paper, in multiples of the claimed one.

    Lemma 5 adds the largest changes of three blocks; its first term inherits the error of Lemma 4. `dimension` is p;
    `label_bound` is a, the largest absolute value of a label.

    Raises:
        ValueError: the label bound is negative or not finite.
    """
    _require_dimension(dimension)
    if not 0 <= label_bound < math.inf:
        raise ValueError(f"a label bound must be finite and not negative, got {label_bound}")
    root = math.sqrt(dimension)
    rest = 4 * label_bound * root + label_bound**2
    return (product_distance(dimension) + rest) / (2 * root + rest)


def worst_pair(dimension: int) -> tuple[FloatArray, FloatArray]:
    """Return unit vectors u, v of shape `(p,)`, p even, whose products differ by sqrt(2) / p in every entry.

    Raises:
        ValueError: p is odd.
    """
    _require_dimension(dimension)
    if dimension % 2:
        raise ValueError(f"a worst pair is known for even dimensions, got {dimension}")
    angles = np.repeat([math.pi / 8, -3 * math.pi / 8], dimension // 2)
    scale = math.sqrt(2 / dimension)
    return scale * np.cos(angles), scale * np.sin(angles)


def published_delta(dimension: int, epsilon: float, claimed: float = 1.0) -> tuple[float, float]:
    """Return bounds of delta(epsilon) of the published covariance noise for its worst pair of rows, p even.

    All p^2 entries carry Laplace noise on their own, and each differs by sqrt(2) / p of its sensitivity. `dimension` is
    p, even; `epsilon` is the one at which delta is asked for. `claimed` is what the noise was calibrated to.

    Raises:
        ValueError: p is odd.
    """
    _require_dimension(dimension)
    if dimension % 2:
        raise ValueError(f"a worst pair is known for even dimensions, got {dimension}")
    number = dimension**2
    shift = claimed / (math.sqrt(2) * dimension**1.5)
    step = 2 * shift * number / _GRID_CELLS
    total = _power(_laplace_loss(shift, step), number)
    # Every loss was rounded up by less than a step, so the sum by less than p^2 steps.
    lower = total.delta_at(epsilon + number * step) - 2 * total.infinite
    return max(0.0, lower), total.delta_at(epsilon)


def _laplace_loss(shift: float, step: float) -> LossDistribution:
    """Return the privacy loss of unit Laplace noise for neighbours `shift` apart, rounded up to the grid."""
    highest = math.ceil(shift / step)
    edges = np.arange(-highest, highest + 1) * step
    # P(loss <= l) for l in [-shift, shift): exp(-(shift - l) / 2) / 2, and 1 from `shift` on.
    below = np.where(edges < shift, np.exp(-(shift - np.maximum(edges, -shift)) / 2) / 2, 1.0)
    below[0] = math.exp(-shift) / 2 if edges[0] >= -shift else 0.0
    return LossDistribution(np.diff(below, prepend=0.0), -highest, step, 0.0)


def _power(loss: LossDistribution, times: int) -> LossDistribution:
    """Return the loss of `times` independent releases."""
    result: LossDistribution | None = None
    square = loss
    while True:
        if times & 1:
            result = square if result is None else result.compose(square)
        times >>= 1
        if not times:
            return result or loss
        square = square.compose(square)


def _require_dimension(dimension: int) -> None:
    if dimension < 1:
        raise ValueError(f"a dimension is at least 1, got {dimension}")


def augmented_distance(constant: float, squared_bound: float) -> float:
    """Return the largest Frobenius distance of g g^T and h h^T for g = (c, v), h = (c, w).

    Theorem J2 of docs/proofs/joint.md#joint. It is sqrt(2) (c^2 + q) if c^2 <= q, else 2 sqrt(2) c sqrt(q): what
    one row changes where mean and second moment are released as one matrix with isotropic noise. `constant` is c, at
    least 0; `squared_bound` is q, the bound of |v|^2 and |w|^2, positive.

    Raises:
        ValueError: an argument is out of range or not finite.
    """
    if not (0 <= constant < math.inf and 0 < squared_bound < math.inf):
        raise ValueError(f"expected a constant >= 0 and a positive bound, got {constant} and {squared_bound}")
    if constant**2 <= squared_bound:
        return math.sqrt(2) * (constant**2 + squared_bound)
    return 2 * math.sqrt(2) * constant * math.sqrt(squared_bound)


def centred_covariance_distance(num_rows: int) -> float:
    """Return how far one replaced row moves the mean-subtracted covariance of rows in the unit ball (Theorem J4).

    The Frobenius distance is 4 (n - 1) / n^2, against sqrt(2) / n for the second moment.

    Raises:
        ValueError: there is no row.
    """
    if num_rows < 1:
        raise ValueError(f"a covariance needs a row, got {num_rows}")
    return 4 * (num_rows - 1) / num_rows**2
