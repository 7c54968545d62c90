"""The one point that a regression prints, predicts with and draws.

The solution of the released matrix as it is has no bias and may lie anywhere: along features that nearly agree, the
noise decides. The point is drawn towards 0 in two steps (docs/explanation/estimators-intervals.md#the-point):

1. Eigenvalues of the features' products below 3 sigma sqrt(q) are raised to it, q the columns in use.
2. All slopes are multiplied by the factor of James and Stein (1961), which is 0 where the products of features and
   target are no larger than noise alone makes them. The same factor is taken of the means, from which the intercept
   follows.

A slope that then lies outside its interval is moved to the nearer end of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.estimators.coefficients import Coefficient
from lintra_analysis.estimators.design import Design
from lintra_analysis.estimators.solve import Fit
from lintra_protocol.crypto.ring import FloatArray

_FLOOR = 3.0


@dataclass(frozen=True, eq=False)
class Point:
    """Slopes and intercept in normalised units.

    Attributes:
        slopes: shape `(f,)`, f the features.
        means: of the features and the target over the constant, with which the intercept is made, shape `(f + 1,)`;
            None without a constant column.
        floor: the eigenvalue that smaller ones were raised to.
        blurred: the features that lie most in raised directions, most first; none if no eigenvalue was raised.
        regularised: whether one was.
    """

    slopes: FloatArray
    means: FloatArray | None
    floor: float
    blurred: tuple[str, ...]
    regularised: bool

    @property
    def solution(self) -> FloatArray:
        """The coefficients of all columns but the target, shape `(p,)`."""
        return np.asarray(with_intercept(self.slopes[np.newaxis], self.means)[0])

    @classmethod
    def of(cls, design: Design, regularization: float, fit: Fit) -> "Point":
        """Return the point of a regression.

        `regularization` is lambda. `fit` is the solution where the noise has no known deviation, as that of a sketch,
        or there is none.
        """
        start = int(design.constant is not None)
        sigma = design.gram.errors.spectral_sigma
        if not sigma:
            # The fit has its own intercept, whatever the slopes.
            means = None if not start else np.append(np.zeros(fit.solution.size - 1), fit.solution[0])
            return cls(fit.solution[start:], means, fit.floor, fit.blurred, fit.regularised)
        matrix, means = design.gram.matrix, released_means(design.gram.matrix, sigma) if start else None
        slopes, floor, raised = drawn_to_zero(matrix, sigma, means, np.array([regularization]))
        return cls(slopes[0], means, floor, _along(design, design.of_features(raised)), raised.shape[1] > 0)


def drawn_to_zero(
    matrix: FloatArray, sigma: float, means: FloatArray | None, penalties: FloatArray
) -> tuple[FloatArray, float, FloatArray]:
    """Return the slopes under several penalties, shape `(k, f)`, the floor, and the raised directions, shape `(p, r)`.

    `matrix` has the constant first if there are `means`, and the target last, shape `(p + 1, p + 1)`. `penalties` are
    added to the squares of the features, shape `(k,)`. One eigendecomposition serves all of them.
    """
    start, floor = int(means is not None), _FLOOR * sigma * float(np.sqrt(matrix.shape[0]))
    values, vectors = np.linalg.eigh(matrix[:-1, :-1])
    lifted = np.maximum(values, floor)
    weights = 1 / (lifted + penalties[:, np.newaxis])
    turned = weights * (vectors.T @ matrix[:-1, -1])
    if start:
        # The constant is not penalised: what the penalty took of it is given back (Sherman and Morrison 1950).
        constant = weights * vectors[0]
        returned = penalties * (turned @ vectors[0]) / ((constant * lifted) @ vectors[0])
        turned = turned + returned[:, np.newaxis] * constant
    slopes = turned @ vectors[start:].T
    mean = 0.0 if means is None else float(means[-1])
    products = matrix[start:-1, -1] - matrix[0, start:-1] * mean
    variance = sigma**2 * _noise_of_products(matrix, sigma, mean) if start else sigma**2
    return slopes * _stein(products, variance), floor, vectors[:, values < floor]


def _noise_of_products(matrix: FloatArray, sigma: float, mean: float) -> float:
    """Return the mean variance, in sigma^2, of the products less the means' product, M_jy - M_0j M_0y / M_00.

    To first order it is 1 + b^2 + a^2 (1 + 2 b^2), a = M_0j/M_00 and b the target's mean: M_00 has twice the variance.
    """
    of_features = matrix[0, 1:-1] / max(float(matrix[0, 0]), sigma)
    spread = float(of_features @ of_features) / max(of_features.size, 1)
    return 1 + mean**2 + spread * (1 + 2 * mean**2)


def with_intercept(slopes: FloatArray, means: FloatArray | None) -> FloatArray:
    """Return slopes, shape `(k, f)`, behind the coefficient of the constant that the means give: shape `(k, p)`."""
    return slopes if means is None else np.column_stack([means[-1] - slopes @ means[:-1], slopes])


def with_point(
    told: Sequence[Coefficient], point: Point, to_units: FloatArray, offsets: FloatArray
) -> tuple[Coefficient, ...]:
    """Return coefficients, the intercept last, with the point in the place of the raw solution.

    `to_units` is the map from normalised coefficients to those reported, shape `(k, p)`, and `offsets` are added to
    them, shape `(k,)`.
    """
    units = to_units[:-1, -point.slopes.size :]
    slopes = [at_point(one, float(value)) for one, value in zip(told[:-1], units @ point.slopes, strict=True)]
    moved = np.linalg.solve(units, np.array([one.value for one in slopes]))
    solution = with_intercept(moved[np.newaxis], point.means)[0]
    return (*slopes, at_point(told[-1], float(to_units[-1] @ solution + offsets[-1])))


def at_point(one: Coefficient, value: float) -> Coefficient:
    """Return a coefficient with another value, at the nearer end of its interval if that does not hold the value."""
    low, high = one.interval or (value, value)
    inside = min(max(value, low), high)
    return replace(one, value=inside, raw=one.value, moved=inside != value)


def released_means(matrix: FloatArray, sigma: float) -> FloatArray:
    """Return the means over the constant, shape `(f + 1,)`, drawn towards the public centers."""
    sums = matrix[0, 1:]
    return np.asarray(sums / max(float(matrix[0, 0]), sigma) * _stein(sums, sigma**2))


def _stein(values: FloatArray, variance: float) -> float:
    """Return max(0, 1 - k v / |x|^2) for k values x of variance v, whose expected squares are 0 if that is k v."""
    square = float(values @ values)
    return max(0.0, 1 - values.size * variance / square) if square > 0 else 0.0


def _along(design: Design, directions: FloatArray) -> tuple[str, ...]:
    """Return the features that lie in directions, columns of shape `(p, r)`, at least half as much as any."""
    share = np.sum(directions**2, axis=1)[int(design.constant is not None) :]
    order = np.argsort(-share, kind="stable")
    return tuple(design.names[i] for i in order if share[i] >= share.max() / 2 > 0)
