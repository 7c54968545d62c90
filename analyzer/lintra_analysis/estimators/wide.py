"""Directions, variances and ridge regressions of thousands of columns, from a range finder."""

import math
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.estimators.centred import About
from lintra_analysis.estimators.estimates import IntervalEstimate, check_confidence, quantile
from lintra_analysis.estimators.wide_core import EDGE, LEAST_FREE, core_between, leading, variances_from_halves
from lintra_analysis.estimators.wide_estimate import WideComponents, WideRidge
from lintra_analysis.estimators.wide_second import ridge_along
from lintra_analysis.estimators.wide_share import share_from_halves
from lintra_analysis.releases.columns import centers, positions, scales
from lintra_analysis.releases.range_sums import RangeSums
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidAnalysisError

LEAST_RANK = 2 * LEAST_FREE + 2
"""Below this rank no half of the products tells variances."""

LARGE_SHARE = 0.4
"""A component with more than this part of the trace gets an interval only where projections are hardly clipped."""

UNCLIPPED = 0.999

MOST_SINE = 0.5
"""A component with a larger expected squared sine is left out: noise has turned it by more than 45 degrees."""

FROM_HALVES_NOTE = (
    "the components come from all released products; the variance beside each is that of a component of the same "
    "rank from half of them, measured on the other half, so that the choice of a direction does not favour it"
)
HALVES_NOTE = (
    "the directions come from one half of the released products and their variances from the other, so that the "
    "choice of a direction does not favour it; `wide_components` finds better directions"
)
POINT_NOTE = "the variances are a little too small: a direction that the signs happen to favour is found more easily"
COHORT_NOTE = "everything is about the cohort's own clipped rows; the sampling of clients would come on top"
TOO_SMALL = "may be too small: it holds most of the rows' length, and projections of many rows were clipped together"
NO_TRACE = "has no interval: projections of rows were clipped, and without a trace nobody knows how much that took"
MEANS_WARNING = (
    "the means are far from the centers and noisy: the products about them hold that noise as directions of their own; "
    'ask about the "centers", or choose centers nearer to the means'
)
NO_INTERVALS_NOTE = "coefficients have no intervals: one round of a range finder supports none"


def wide_components(release: Release, components: int | None = None, *, about: About = "means") -> WideComponents:
    """Return the leading principal components of very many columns.

    >>> from lintra_analysis import open_release, wide_components
    >>> wide_components(open_release("sensors.npz"), 1).components.shape
    (1, 36)

    Args:
        release: a range finder.
        components: most to return; by default all that are told from noise, at most half of its rank.
        about: the "means" where the release holds them, or the public "centers" in any case.

    Raises:
        InvalidAnalysisError: the release is no range finder or has too small a rank, or nothing stands above the noise.
    """
    held = release.need("range_sums")
    values, trace, centred = _about(held, about)
    core = core_between(leading(values, held.noise_sd, held.rank // 2), values, held.projection)
    vectors, squares = core.components()
    if held.rank >= LEAST_RANK:
        told, _, warnings = _measured(held, values, trace, 0.95)
        measured, note = tuple(replace(one, interval=None) for one in told), FROM_HALVES_NOTE
    else:
        seen, own = _smallest_seen(held), squares / held.num_clients
        measured = tuple(IntervalEstimate(one) for one in own.tolist() if _squared_sine(one, seen) <= MOST_SINE)
        warnings, note = _left_out(len(own) - len(measured)), POINT_NOTE
    if not measured:
        raise InvalidAnalysisError(_nothing(held))
    kept = _limit(components, min(len(measured), vectors.shape[1]))
    return _answer(held, vectors[:, :kept], measured[:kept], None, centred=centred, notes=(note,), warnings=warnings)


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
        components: most to return; by default all that are told from noise.
        confidence: of each interval.
        about: the "means" where the release holds them, or the public "centers" in any case.

    Raises:
        InvalidAnalysisError: the release is no range finder or has too small a rank, or nothing stands above the noise.
    """
    check_confidence(confidence)
    held = release.need("range_sums")
    values, trace, centred = _about(held, about)
    measured, vectors, warnings = _measured(held, values, trace, confidence)
    kept = _limit(components, len(measured))
    return _answer(
        held,
        vectors[:, :kept],
        measured[:kept],
        confidence,
        centred=centred,
        notes=(HALVES_NOTE,),
        warnings=warnings,
    )


def _measured(
    held: RangeSums, values: FloatArray, trace: float | None, confidence: float
) -> tuple[tuple[IntervalEstimate, ...], FloatArray, list[str]]:
    """Return variances from halves, largest first, their directions, shape `(d, k)`, and warnings.

    What noise may have made is left out and counted: a variance whose interval reaches down to the smallest that is
    seen, or a direction that noise has turned by more than 45 degrees.

    Raises:
        InvalidAnalysisError: nothing is left.
    """
    vectors, squares, errors, free = variances_from_halves(values, held.projection, held.noise_sd)
    reach, count, seen = quantile(confidence, free), held.num_clients, _smallest_seen(held)
    narrow = held.projected_bound < held.row_bound * _unclipped_length(held) * (1 - 1e-5)
    total = float(np.maximum(squares, 0.0).sum()) if trace is None else trace
    measured, places, warnings = [], [], []
    for i in np.argsort(-squares):
        value, error = float(squares[i]) / count, float(errors[i]) / count
        if value - reach * error <= seen or _squared_sine(value, seen) > MOST_SINE:
            continue
        interval = max(value - reach * error, 0.0), max(value + reach * error, 0.0)
        large = narrow and squares[i] > LARGE_SHARE * total
        measured.append(IntervalEstimate(value, error, None if large else interval))
        places.append(i)
        if large:
            why = NO_TRACE if trace is None else TOO_SMALL
            warnings.append(f"the variance of component {len(measured)} {why}")
    if not measured:
        raise InvalidAnalysisError(_nothing(held))
    return tuple(measured), vectors[:, places], [*warnings, *_left_out(len(squares) - len(measured))]


def _left_out(count: int) -> list[str]:
    """Return the words about components that are left out; none if there are none."""
    return [f"noise may have made {count} of the components that stand above its edge; left out"] * (count > 0)


def _nothing(held: RangeSums) -> str:
    """Return why there is no component."""
    return (
        f"nothing is told from the noise: variances below {_smallest_seen(held):.4g} are lost in it; more clients or "
        "a larger epsilon are needed"
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
    share = None
    if products.whole is not None:
        about_targets = held.about_means()[1] if centred else np.array([each.values for each in held.targets]).T
        share = share_from_halves(held, values, own, free, regularization, about_targets)
    return _ridge_answer(held, own, free, slopes, int(squares.size), products, floor, share, centred=centred)


@dataclass(frozen=True, eq=False)
class _TargetProducts:
    """Products of a target with all columns, where they were released, or with the directions only.

    Attributes:
        whole: shape `(d,)`; None where the target was not declared.
        along: with the directions, shape `(k,)`.
    """

    whole: FloatArray | None
    along: FloatArray


def _target_products(
    held: RangeSums, values: FloatArray, own: int, free: IntArray, directions: FloatArray, *, centred: bool
) -> _TargetProducts:
    for number, each in enumerate(held.targets):
        if each.column == own:
            whole = held.about_means()[1][:, number] if centred else each.values
            return _TargetProducts(whole, directions.T @ whole[free])
    # U^T Y = X (U^T W) + (U^T g) w: the row of W that belongs to the target is one regressor more.
    seen = np.vstack([directions.T @ held.projection[free], held.projection[own]])
    estimated: FloatArray = (directions.T @ values[free] @ np.linalg.pinv(seen))[:, -1]
    return _TargetProducts(None, estimated)


def _ridge_answer(
    held: RangeSums,
    own: int,
    free: IntArray,
    slopes: FloatArray,
    components: int,
    products: _TargetProducts,
    floor: float,
    explained: IntervalEstimate | None,
    *,
    centred: bool,
) -> WideRidge:
    middle, scale = _means(held, centred=centred), scales(held.columns)
    coefficients = slopes * scale[own] / scale[free]
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
        components=components,
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
    """Return how long W^T x is at most with |x| = 1, for 99.9 % of all W (docs/proofs/joint.md#joint, J5)."""
    from scipy.special import betaincinv

    size, rank = held.projection.shape
    return math.sqrt(float(betaincinv(rank / 2, (size - rank) / 2, UNCLIPPED)) * size / rank)


def _smallest_seen(held: RangeSums) -> float:
    """Return the variance below which directions are lost in the noise, about."""
    return held.noise_sd * math.sqrt(len(held.columns)) / held.num_clients


def _squared_sine(variance: float, seen: float) -> float:
    """Return the expected squared sine between a direction of some variance and the rows' own, about."""
    return min(1.0, (seen / variance) ** 2) if variance > 0 else 1.0


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
    seen = _smallest_seen(held)
    total = None if trace is None else IntervalEstimate(trace / count, held.trace_sd / count)
    known = total is not None and total.value > 2 * (total.standard_error or 0.0)
    angles = [_squared_sine(one.value, seen) for one in variances]
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
