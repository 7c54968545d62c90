"""A linear score of a binary column: it ranks rows by how likely they have it, with the quality of that ranking.

Second moments hold what least squares needs and not what a logistic regression needs: its quadratic approximation
(Huggins, Adams, Broderick 2017, degree 2) solves to a multiple of least squares. So this is a ranking, without odds
ratios and without probabilities.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from lintra_analysis.estimators.estimates import Interval, Of
from lintra_analysis.estimators.linear_score_estimate import LinearScore, Weight
from lintra_analysis.estimators.means import means
from lintra_analysis.estimators.quantities import Quantity
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.regression_estimate import RegressionEstimate
from lintra_analysis.releases.columns import ScaledColumn, scales
from lintra_analysis.releases.gram_error import HasSecondMoment
from lintra_protocol.errors import InvalidAnalysisError

MEANS_ARE_MISSING = (
    "this release holds no constant column, so the score goes through the public centers, and neither the share of "
    "ones nor how well the score tells them apart is known; plan the next task with an intercept"
)
NO_WEIGHTS = "nothing of the score stands out of the noise; it ranks no row before another"


def linear_score(
    release: HasSecondMoment,
    target: str,
    features: Sequence[str] | None = None,
    *,
    of: Of = "population",
    confidence: float = 0.95,
) -> LinearScore:
    """Rank rows by a linear score of a binary column: the best separating line of Fisher (1936), by least squares.

    >>> from lintra_analysis import linear_score, open_release
    >>> score = linear_score(open_release("smokers.npz"), "smoker")
    >>> young, old = score.score([[25.0], [75.0]])  # age
    >>> bool(old > young), score.auc_if_normal > 0.5
    (True, True)

    Args:
        release: a sketch or a second moment; with an intercept, or little can be said.
        target: a boolean column, or the indicator of a level such as `sex[female]`; or a formula.
        features: the columns that the score is made of; all others by default.
        of: whom the p values are about, as for `regression`. Share, r2 and AUC are about the cohort's own rows.
        confidence: of the intervals.

    Returns:
        The weights with errors and intervals, and how well the score separates: share, r2 and AUC.

    Raises:
        InvalidAnalysisError: the release holds no second moments, the target is not binary, or an argument does not
            fit the release.
    """
    # Two intervals enter those of the separation: each has half of the doubt.
    fit = regression(release, target, features, of=of, confidence=(1 + confidence) / 2)
    binary = fit.scaled_columns[-1]
    if not is_binary(binary):
        raise InvalidAnalysisError(
            f"a linear score is of a column of zeros and ones, and {binary.name!r} is a number between "
            f"{binary.lower:g} and {binary.upper:g}; ask for its regression, or declare a boolean before rows are "
            "collected, such as whether it exceeds a threshold"
        )
    told, remarks = _mean(release, fit, binary.name, (1 + confidence) / 2)
    weighted = [] if fit.weighted is None else [f"the score is made of a {fit.weighted.name}"]
    warnings = [*weighted, *fit.warnings, *remarks]
    share = None if told is None else min(max(told.value, 0.0), 1.0)
    ends = None if told is None or told.interval is None else _inside(told.interval)
    r2 = fit.r2 if told else None
    within = fit.r2_interval if told else None
    weights = _weights(fit)
    if weights is None:
        warnings.append(NO_WEIGHTS)
    separation = None if r2 is None or share is None else _separation(r2, share)
    reach = None if within is None or ends is None else _separations(within, ends)
    return LinearScore(
        target=binary.name,
        features=fit.features,
        num_clients=fit.num_clients,
        of=of,
        confidence=confidence,
        weights=weights or tuple(Weight(name, 0.0, None) for name in fit.features),
        share=share,
        share_interval=ends,
        r2=r2,
        r2_interval=within,
        separation=separation,
        separation_interval=reach,
        auc_if_normal=None if separation is None else _normal_auc(separation),
        auc_if_normal_interval=None if reach is None else (_normal_auc(reach[0]), _normal_auc(reach[1])),
        auc_at_least=None if reach is None or ends is None else _least_auc(reach[0], ends),
        warnings=tuple(dict.fromkeys(warnings)),
        scaled_columns=fit.scaled_columns,
    )


def _mean(
    release: HasSecondMoment, fit: RegressionEstimate, name: str, confidence: float
) -> tuple[Quantity | None, list[str]]:
    """Return the cohort's mean of a column, or None and why there is none."""
    if not fit.intercept_fitted:
        return None, [MEANS_ARE_MISSING]
    try:
        told = means(release, [name], confidence, of="cohort").means
    except InvalidAnalysisError as error:
        return None, [error.detail]
    return (told[0], []) if told else (None, [MEANS_ARE_MISSING])


def is_binary(column: ScaledColumn) -> bool:
    """Return whether a column holds zeros and ones only."""
    return column.kind == "boolean" or (column.kind == "integer" and (column.lower, column.upper) == (0.0, 1.0))


def _inside(interval: Interval) -> Interval:
    """Return an interval of a share, cut to [0, 1]."""
    return min(max(interval[0], 0.0), 1.0), max(min(interval[1], 1.0), 0.0)


def _weights(fit: RegressionEstimate) -> tuple[Weight, ...] | None:
    """Return the direction of the score in normalised units, of length 1, or None if there is none."""
    direction = fit.coef_ * scales(fit.scaled_columns[:-1])
    length = float(np.linalg.norm(direction))
    if not length > 0:
        return None
    return tuple(
        Weight(one.name, float(value), one.p_value)
        for one, value in zip(fit.coefficients, direction / length, strict=True)
    )


def _separation(r2: float, share: float) -> float | None:
    """Return the distance of the class means of the score in pooled deviations within classes.

    The squared correlation of the score with a column of zeros and ones is r2, and
    r2 = s (1 - s) D^2 / (1 + s (1 - s) D^2) with the share s of ones.
    """
    spread = share * (1 - share)
    if not 0 <= r2 < 1 or spread <= 0:
        return None
    return math.sqrt(r2 / (1 - r2) / spread)


def _separations(r2: Interval, share: Interval) -> Interval | None:
    """Return the ends of the separation over all r2 and shares in their intervals; None if there is no upper one."""
    spreads = [s * (1 - s) for s in share]
    widest = 0.25 if share[0] <= 0.5 <= share[1] else max(spreads)
    low, high = max(r2[0], 0.0), r2[1]
    if high >= 1 or min(spreads) <= 0:
        return None
    return math.sqrt(low / (1 - low) / widest), math.sqrt(high / (1 - high) / min(spreads))


def _normal_auc(separation: float) -> float:
    """Return the chance that a row with 1 has the larger score, were scores normal with equal spread in each class."""
    return float(special.ndtr(separation / math.sqrt(2)))


def _least_auc(separation: float, share: Interval) -> float | None:
    """Return what that chance is at least, whatever the scores' law; None if that is no more than a half.

    The difference of two scores, one of each class, has mean D and a variance of at most 1 / min(s, 1 - s) in squared
    pooled deviations, so it is at most 0 with a chance of at most v / (v + D^2) (Cantelli 1928).
    """
    rarer = min(*share, *(1 - s for s in share))
    if rarer <= 0:
        return None
    least = separation**2 / (separation**2 + 1 / rarer)
    return least if least > 0.5 else None
