"""Directions, variances and ridge regressions of thousands of columns, from a range finder.

The singular vectors of M W that stand out of the noise are kept, and the core of M between them is found by least
squares: M U = U X where U^T W is known. Not Nystroem (Tropp, Yurtsever, Udell, Cevher 2017), which divides by a noisy
core (docs/reference/mechanisms/range_finder.md).
"""

import math
from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.centred import About
from lintra_analysis.estimators.estimates import IntervalEstimate, check_confidence, quantile
from lintra_analysis.estimators.wide_estimate import WideComponents, WideRidge
from lintra_analysis.estimators.wide_second import ridge_along
from lintra_analysis.releases.columns import centers, positions, scales
from lintra_analysis.releases.range_sums import RangeSums
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidAnalysisError

EDGE = 1.02
"""What a singular value must exceed, in multiples of the largest one of noise alone."""

LEAST_FREE = 8
"""Degrees of freedom that are left for the error of a variance, at least."""

LARGE_SHARE = 0.4
"""A component with more than this part of the trace gets an interval only where projections are hardly clipped."""

UNCLIPPED = 0.999

POINT_NOTE = "the variances are a little too small: a direction that the signs happen to favour is found more easily"
HALVES_NOTE = (
    "the directions come from one half of the released products and their variances from the other, so that the "
    "choice of a direction does not favour it; `wide_components` finds better directions, without intervals"
)
COHORT_NOTE = "everything is about the cohort's own clipped rows; the sampling of clients would come on top"
TOO_SMALL = "may be too small: it holds most of the rows' length, and projections of many rows were clipped together"
MEANS_WARNING = (
    "the means are far from the centers and noisy: the products about them hold that noise as directions of their own; "
    'ask about the "centers", or choose centers nearer to the means'
)
NO_INTERVALS_NOTE = "coefficients have no intervals: one round of a range finder supports none"


@dataclass(frozen=True, eq=False)
class Core:
    """Directions U of shape `(d, k)` and the core of M between them.

    Attributes:
        directions: U, orthonormal.
        seen: G = U^T W, shape `(k, r)`.
        inverse: P, the pseudo-inverse of G, shape `(r, k)`.
        core: X, symmetric, shape `(k, k)`.
    """

    directions: FloatArray
    seen: FloatArray
    inverse: FloatArray
    core: FloatArray

    def components(self) -> tuple[FloatArray, FloatArray]:
        """Return the components, shape `(d, k)`, and the sums of squares along them, shape `(k,)`, largest first."""
        values, turn = np.linalg.eigh(self.core)
        return self.directions @ turn[:, ::-1], np.maximum(values[::-1], 0.0)


def leading(values: FloatArray, noise_sd: float, most: int) -> FloatArray:
    """Return the left singular vectors that stand out of the noise, shape `(d, k)`, k at most `most`.

    Raises:
        InvalidAnalysisError: none does.
    """
    size, rank = values.shape
    vectors, sizes, _ = np.linalg.svd(values, full_matrices=False)
    edge = EDGE * noise_sd * (math.sqrt(size) + math.sqrt(rank))
    kept = min(int((sizes > edge).sum()), most)
    if kept < 1:
        raise InvalidAnalysisError(
            f"nothing stands above the noise: the largest singular value is {sizes[0]:.4g}, noise alone reaches "
            f"{edge:.4g}; more clients or a larger epsilon are needed"
        )
    found: FloatArray = vectors[:, :kept]
    return found


def core_between(directions: FloatArray, values: FloatArray, projection: FloatArray) -> Core:
    """Return the core of M between some orthonormal directions, shape `(d, k)`, by least squares.

    `values` and `projection` are what the release holds, both of shape `(d, w)`.
    """
    seen = directions.T @ projection
    inverse = np.asarray(np.linalg.pinv(seen), np.float64)
    core: FloatArray = directions.T @ values @ inverse
    return Core(directions, seen, inverse, (core + core.T) / 2)


def variances_from_halves(
    values: FloatArray, projection: FloatArray, noise_sd: float
) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Return directions from one half of the products, sums of squares along them from the other, and their errors.

    In the other half H = X G + noise, so that H P is the core, and what is left of H tells the error.

    Returns:
        Directions of shape `(d, k)`, sums of squares and standard errors of shape `(k,)`, and degrees of freedom.

    Raises:
        InvalidAnalysisError: there are too few columns in W, or nothing stands above the noise.
    """
    half = projection.shape[1] // 2
    if half <= LEAST_FREE:
        raise InvalidAnalysisError(
            f"intervals need a rank of at least {2 * LEAST_FREE + 2}, the release has {projection.shape[1]}; ask for "
            "`wide_components`"
        )
    directions = leading(values[:, :half], noise_sd, half - LEAST_FREE)
    other = core_between(directions, values[:, half:], projection[:, half:])
    held = directions.T @ values[:, half:]
    core = held @ other.inverse
    free = projection.shape[1] - half - directions.shape[1]
    left = np.linalg.norm(held - core @ other.seen, axis=1) / math.sqrt(free)
    errors = np.maximum(left, noise_sd) * np.linalg.norm(other.inverse, axis=0)
    return directions, np.diagonal(core).copy(), errors, free


def wide_components(release: Release, components: int | None = None, *, about: About = "means") -> WideComponents:
    """Return the leading principal components of very many columns, without intervals.

    >>> from lintra_analysis import open_release, wide_components
    >>> wide_components(open_release("sensors.npz"), 1).components.shape
    (1, 36)

    Args:
        release: a range finder.
        components: most to return; by default all that stand above the noise, at most half of its rank.
        about: the "means" where the release holds them, or the public "centers" in any case.

    Raises:
        InvalidAnalysisError: the release is no range finder, or nothing stands above the noise.
    """
    held = release.need("range_sums")
    values, _, centred = _about(held, about)
    found = core_between(leading(values, held.noise_sd, held.rank // 2), values, held.projection)
    vectors, squares = found.components()
    kept = _limit(components, squares.size)
    measured = tuple(IntervalEstimate(float(value) / held.num_clients) for value in squares[:kept])
    return _answer(held, vectors[:, :kept], measured, None, centred=centred, notes=(POINT_NOTE,))


def wide_variances(
    release: Release, components: int | None = None, confidence: float = 0.95, *, about: About = "means"
) -> WideComponents:
    """Return directions of large variance with intervals of these variances.

    The intervals are for the variance of the cohort's rows along the very directions returned, not for that of the
    cohort's own components.

    >>> from lintra_analysis import open_release, wide_variances
    >>> low, high = wide_variances(open_release("sensors.npz")).explained_variance[0].interval
    >>> 0 <= low < high
    True

    Args:
        release: a range finder of rank 18 or more.
        components: most to return; by default all that stand above the noise.
        confidence: of each interval.
        about: the "means" where the release holds them, or the public "centers" in any case.

    Raises:
        InvalidAnalysisError: the release is no range finder or has too small a rank, or nothing stands above the noise.
    """
    check_confidence(confidence)
    held = release.need("range_sums")
    values, trace, centred = _about(held, about)
    vectors, squares, errors, free = variances_from_halves(values, held.projection, held.noise_sd)
    order = np.argsort(-squares)[: _limit(components, squares.size)]
    total = float(np.maximum(squares, 0.0).sum()) if trace is None else trace
    narrow = held.projected_bound < held.row_bound * _unclipped_length(held) * (1 - 1e-5)
    reach, count = quantile(confidence, free), held.num_clients
    measured, warnings = [], []
    for place, i in enumerate(order, 1):
        value, error = float(squares[i]) / count, float(errors[i]) / count
        if narrow and squares[i] > LARGE_SHARE * total:
            measured.append(IntervalEstimate(value, error))
            warnings.append(f"the variance of component {place} {TOO_SMALL}")
        else:
            measured.append(
                IntervalEstimate(value, error, (max(value - reach * error, 0.0), max(value + reach * error, 0.0)))
            )
    return _answer(
        held, vectors[:, order], tuple(measured), confidence, centred=centred, notes=(HALVES_NOTE,), warnings=warnings
    )


def wide_ridge(release: Release, target: str, regularization: float = 0.0, *, about: About = "means") -> WideRidge:
    """Return a ridge regression of one column on all that are no targets, along the leading components.

    Where the task named the column as a target, its products with all others are used. Otherwise they are estimated
    from the projected ones, which is equal in the median and worse at its worst; the answer says so. Of a second
    round it is the regression along its directions (docs/reference/mechanisms/range_finder.md#second-round).

    >>> from lintra_analysis import open_release, wide_ridge
    >>> wide_ridge(open_release("sensors.npz"), "power").declared
    True

    Args:
        release: a range finder, or the second round of one.
        target: the column to explain.
        regularization: lambda, at least 0, in normalised units: it stands beside a sum over all clients, and beside
            the floor that follows from the noise.
        about: of a range finder, the "means" where the release holds them, or the public "centers" in any case.

    Raises:
        InvalidAnalysisError: the release is no range finder, has no such column, or nothing stands above the noise.
    """
    if not (math.isfinite(regularization) and regularization >= 0):
        raise InvalidAnalysisError(f"regularization must be finite and at least 0, got {regularization}")
    if release.directions is not None:
        return ridge_along(release, release.directions, target, regularization, about, (COHORT_NOTE,))
    held = release.need("range_sums")
    own = int(positions(held.columns, [target])[0])
    values, _, centred = _about(held, about)
    declared = [each.column for each in held.targets]
    left_out = sorted({*declared, own})
    free = np.setdiff1d(np.arange(len(held.columns)), left_out)
    # The core is that of all columns; its directions without the targets' rows are made orthonormal again.
    found = core_between(leading(values, held.noise_sd, held.rank // 2), values, held.projection)
    directions, turn = np.linalg.qr(found.directions[free])
    vectors_of_core, components = np.linalg.eigh(turn @ found.core @ turn.T)
    squares, vectors = np.maximum(vectors_of_core, 0.0), directions @ components
    products = _target_products(held, values, own, free, directions, centred=centred)
    along = vectors.T @ (directions @ products.along if products.whole is None else products.whole[free])
    floor = 2 * held.noise_sd * float(np.linalg.norm(found.inverse, 2)) * math.sqrt(squares.size)
    weights = along / (squares + regularization + floor)
    slopes = vectors @ weights
    return _ridge_answer(held, own, free, slopes, (along, weights, squares), products, floor, centred=centred)


@dataclass(frozen=True, eq=False)
class _TargetProducts:
    """Products of a target with all columns, where they were released, or with the directions only.

    Attributes:
        whole: shape `(d,)`; None where the target was not declared.
        along: with the directions, shape `(k,)`.
        noise_sd: of an entry of `whole`.
    """

    whole: FloatArray | None
    along: FloatArray
    noise_sd: float


def _target_products(
    held: RangeSums, values: FloatArray, own: int, free: IntArray, directions: FloatArray, *, centred: bool
) -> _TargetProducts:
    for number, each in enumerate(held.targets):
        if each.column == own:
            whole = held.about_means()[1][:, number] if centred else each.values
            return _TargetProducts(whole, directions.T @ whole[free], each.noise_sd)
    # U^T Y = X (U^T W) + (U^T g) w: the row of W that belongs to the target is one regressor more.
    seen = np.vstack([directions.T @ held.projection[free], held.projection[own]])
    estimated: FloatArray = (directions.T @ values[free] @ np.linalg.pinv(seen))[:, -1]
    return _TargetProducts(None, estimated, 0.0)


def _ridge_answer(
    held: RangeSums,
    own: int,
    free: IntArray,
    slopes: FloatArray,
    fit: tuple[FloatArray, FloatArray, FloatArray],
    products: _TargetProducts,
    floor: float,
    *,
    centred: bool,
) -> WideRidge:
    along, weights, squares = fit
    middle, scale = _means(held, centred=centred), scales(held.columns)
    coefficients = slopes * scale[own] / scale[free]
    explained = None
    if products.whole is not None and products.whole[own] > 2 * products.noise_sd:
        total = float(products.whole[own])
        share = float(2 * weights @ along - weights**2 @ squares) / total
        # To first order: the fit moves with the products' noise as well, so that this is a little too good.
        error = products.noise_sd * math.hypot(2 * float(np.linalg.norm(slopes)), share) / total
        explained = IntervalEstimate(share, error)
    warnings = _of_means(held, centred=centred)
    if products.whole is None:
        warnings.append(
            f"{held.columns[own].name!r} was not declared a target: its products with other columns are estimated from "
            "the projected ones, which is worse in the worst case"
        )
    elif explained is None:
        warnings.append("the target's own sum of squares is lost in noise, so the explained share is not available")
    return WideRidge(
        target=held.columns[own].name,
        features=tuple(held.columns[i].name for i in free),
        num_clients=held.num_clients,
        about_means=centred,
        declared=products.whole is not None,
        components=int(squares.size),
        floor=floor,
        intercept=float(middle[own] - coefficients @ middle[free]),
        coefficients=coefficients,
        explained_share=explained,
        notes=(NO_INTERVALS_NOTE, COHORT_NOTE),
        warnings=tuple(warnings),
        scaled_columns=tuple(held.columns[i] for i in free),
    )


def _about(held: RangeSums, about: About) -> tuple[FloatArray, float | None, bool]:
    """Return the products and their trace, about the means if these are asked for and released."""
    if about == "centers" or held.sums is None:
        return held.values, held.trace, False
    return held.about_means()[0], held.trace_about_means(), True


def _of_means(held: RangeSums, *, centred: bool) -> list[str]:
    """Warn where the noise of the means is as large a direction as the largest that noise alone makes in products."""
    edge = EDGE * held.noise_sd * (math.sqrt(len(held.columns)) + math.sqrt(held.rank))
    return [MEANS_WARNING] if centred and held.noise_of_means > edge else []


def _means(held: RangeSums, *, centred: bool) -> FloatArray:
    """Return what rows are measured from, in own units: the means, or the public centers."""
    middle = centers(held.columns)
    if centred and held.sums is not None:
        middle = middle + scales(held.columns) * held.sums.values / held.num_clients
    return middle


def _limit(components: int | None, found: int) -> int:
    if components is None:
        return found
    if isinstance(components, bool) or components < 1:
        raise InvalidAnalysisError(f"components is a whole number from 1 on, got {components!r}")
    return min(components, found)


def _unclipped_length(held: RangeSums) -> float:
    """Return how long W^T x is at most with |x| = 1, for 99.9 % of all W (docs/explanation/privacy.md#joint, J5)."""
    from scipy.special import betaincinv

    size, rank = held.projection.shape
    return math.sqrt(float(betaincinv(rank / 2, (size - rank) / 2, UNCLIPPED)) * size / rank)


def _answer(
    held: RangeSums,
    vectors: FloatArray,
    variances: tuple[IntervalEstimate, ...],
    confidence: float | None,
    *,
    centred: bool,
    notes: tuple[str, ...],
    warnings: list[str] | None = None,
) -> WideComponents:
    count = held.num_clients
    trace = held.trace_about_means() if centred else held.trace
    seen = held.noise_sd * math.sqrt(len(held.columns)) / count
    total = None if trace is None else IntervalEstimate(trace / count, held.trace_sd / count)
    known = total is not None and total.value > 2 * (total.standard_error or 0.0)
    angles = [min(1.0, (seen / one.value) ** 2) if one.value > 0 else 1.0 for one in variances]
    # Of the two signs of a direction the one whose largest entry is positive.
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    return WideComponents(
        columns=tuple(column.name for column in held.columns),
        num_clients=count,
        confidence=confidence,
        about_means=centred,
        components=(vectors * signs).T,
        mean=_means(held, centred=centred),
        scale=scales(held.columns),
        explained_variance=variances,
        total_variance=total,
        explained_variance_ratio=tuple(one.value / total.value for one in variances) if known and total else None,
        squared_sines=tuple(angles),
        smallest_seen=seen,
        notes=(*notes, COHORT_NOTE),
        warnings=(*_of_means(held, centred=centred), *(warnings or ())),
        scaled_columns=held.columns,
    )
