"""How far weighted slopes may be from ordinary ones, learned from rows of a public sample.

A release of weighted rows tells the slopes of the weighted regression. On a sample of the same population both
regressions can be computed, and so can the error of their difference. An interval of a weighted slope that is widened
by the allowance, both ways, is one for the ordinary slope.
"""

import math
from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.estimates import Interval
from lintra_analysis.estimators.regression_estimate import RegressionEstimate
from lintra_analysis.estimators.rows import Rows, rows_by_name
from lintra_analysis.releases.columns import centers, scales
from lintra_analysis.releases.gram_error import GramEstimate, HasSecondMoment
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

_TWO_SIDED = 1.959964
_CUT_OFF = 1e-12

APPROXIMATE_BELOW = 0.001
"""Below this relative noise the allowance is as large as the noise, and intervals hold less often than they say."""


@dataclass(frozen=True)
class OrdinarySlope:
    """An interval for the slope of ordinary least squares, from that of a weighted regression and a public sample."""

    name: str
    interval: Interval | None  #: widened by the allowance both ways; None where the noise bounds none
    allowance: float
    difference: float  #: the weighted less the ordinary slope of the sample
    approximate: bool  #: whether noise is so small that the interval may hold less often than it says


def ordinary_slopes(release: HasSecondMoment, estimate: RegressionEstimate, sample: Rows) -> tuple[OrdinarySlope, ...]:
    """Return intervals for ordinary slopes beside those of a weighted regression.

    >>> from lintra_analysis import open_release, ordinary_slopes, regression
    >>> release = open_release("flights.npz")
    >>> ordinary_slopes(release, regression(release, "delay"), {"hour": [8.0, 9.0]})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    lintra_protocol.errors.InvalidAnalysisError: ...

    Args:
        release: the one that the regression was asked of.
        estimate: the regression; its intervals are those that are widened.
        sample: rows of the same population, public or held by the analyst, in own units: a frame or a mapping with
            every column of the release.

    Raises:
        InvalidAnalysisError: the rows of this release are not weighted, so that there is nothing to allow for.
        ValueError: the sample lacks a column, or has too few rows.
    """
    gram = release.second_moment()
    if gram.weighted is None:
        raise InvalidAnalysisError(
            "the rows of this release all count alike, so its intervals are about ordinary slopes of rows within bounds"
        )
    plain, bounded, weights = _sampled(gram, sample)
    names = [column.name for column in gram.columns if column.constant is None]
    index = [0, *(1 + names.index(name) for name in (*estimate.features, estimate.target))]
    if len(plain) <= len(index):
        raise ValueError(f"the sample needs more than {len(index)} rows, got {len(plain)}")
    allowed, difference = allowances(plain[:, index], bounded[:, index], weights, gram.num_rows)
    units = estimate.scaled_columns[-1].scale / scales(estimate.scaled_columns[:-1])
    relative = 1.02 * len(gram.columns) * (gram.errors.spectral_sigma or 0.0) / (gram.num_rows * gram.row_bound**2)
    return tuple(
        OrdinarySlope(
            name=one.name,
            interval=None if one.interval is None else (one.interval[0] - reach, one.interval[1] + reach),
            allowance=reach,
            difference=apart,
            approximate=relative < APPROXIMATE_BELOW,
        )
        for one, reach, apart in zip(
            estimate.coefficients, (allowed * units).tolist(), (difference * units).tolist(), strict=True
        )
    )


def _sampled(gram: GramEstimate, sample: Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows of a sample with the constant first, as they are and within bounds, `(m, q)`, and weights, `(m,)`."""
    weighted, columns = gram.weighted, [column for column in gram.columns if column.constant is None]
    assert weighted is not None
    constant = next(column.constant for column in gram.columns if column.constant is not None) or 1.0
    names = [column.name for column in columns]
    held = rows_by_name(sample, names, columns)
    low, high = (np.array([getattr(column, end) for column in columns]) for end in ("lower", "upper"))
    if weighted.target:
        place = names.index(weighted.target)
        low[place], high[place] = max(low[place], weighted.lower), min(high[place], weighted.upper)
    plain, bounded = (
        np.column_stack([np.full(len(held), constant), (values - centers(columns)) / scales(columns)])
        for values in (held, np.clip(held, low, high))
    )
    place = 0 if not weighted.target else 1 + names.index(weighted.target)
    features = np.delete(bounded, [0, place] if place else [0], axis=1)
    if weighted.basis is not None:
        if len(weighted.basis) != features.shape[1]:
            raise InvalidAnalysisError("features were turned together: ask the release of all its columns")
        features = features @ weighted.basis.T
    squares = constant**2 + np.square(features).sum(axis=1)
    most = gram.row_bound
    if weighted.by == "features":
        most /= math.sqrt(2)
    elif place:
        squares += np.square(bounded[:, place])
    return plain, bounded, most**2 / np.maximum(squares, most**2)


def allowances(
    plain: FloatArray,
    weighted: FloatArray,
    weights: FloatArray,
    num_rows: float | None = None,
    turn: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return by how much intervals of slopes are widened, and weighted less ordinary slopes; both of shape `(p,)`.

    The allowance is |d_j| + 1.96 s_j sqrt(1 + m/n) for the difference d_j of the slopes of the m rows of the sample;
    s_j is its deviation, from the rows' influences on both slopes, psi = G_w^-1 x w e_w - G^-1 x e.

    Args:
        plain: a constant, features and the target of the sample's rows, shape `(m, p + 2)`.
        weighted: the same rows as they are collected, values moved to their bounds, before the row's weight.
        weights: of the rows, shape `(m,)`.
        num_rows: n, rows of the release; None where the sample is the collected rows themselves: nothing varies.
        turn: T, shape `(p, p)`, if the features of the rows are T z; slopes are then those of z.
    """
    ordinary, influence = _slopes(plain, np.ones(len(plain)))
    theirs, influence_weighted = _slopes(weighted, weights)
    difference, apart = (theirs - ordinary)[1:], (influence_weighted - influence)[:, 1:]
    if turn is not None:
        difference, apart = difference @ turn, apart @ turn
    if num_rows is None:
        return np.abs(difference), difference
    deviation = np.sqrt(np.sum(apart**2, axis=0))
    return np.abs(difference) + _TWO_SIDED * deviation * np.sqrt(1 + len(plain) / num_rows), difference


def _slopes(rows: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weighted least squares of the last column, shape `(k,)`, and each row's influence, shape `(m, k)`."""
    features, target = rows[:, :-1], rows[:, -1]
    scaled = features * weights[:, np.newaxis]
    inverse = np.linalg.pinv(scaled.T @ features, rcond=_CUT_OFF, hermitian=True)
    slopes = inverse @ (scaled.T @ target)
    influence = (scaled * (target - features @ slopes)[:, np.newaxis]) @ inverse
    return np.asarray(slopes), np.asarray(influence)
