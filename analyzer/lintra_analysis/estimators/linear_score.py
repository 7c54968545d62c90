"""A linear score of a binary column: it ranks rows by how likely they have it, with the quality of that ranking.

Second moments hold what least squares needs and not what a logistic regression needs: its quadratic approximation
(Huggins, Adams, Broderick 2017, degree 2) solves to a multiple of least squares. So this is a ranking, without odds
ratios and without probabilities.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from lintra_analysis.estimators.estimates import Interval, Of
from lintra_analysis.estimators.figures import Figure, bars
from lintra_analysis.estimators.means import means
from lintra_analysis.estimators.notes import clients, listed, with_interval
from lintra_analysis.estimators.quantities import Quantity
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.regression_estimate import RegressionEstimate
from lintra_analysis.estimators.rows import Rows, rows_by_name
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import number
from lintra_analysis.releases.columns import ScaledColumn, centers, scales
from lintra_analysis.releases.gram_error import HasSecondMoment
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

RANKING_NOTE = (
    "this is a ranking: only the order of scores has a meaning. Second moments hold no odds ratios and no probabilities"
)
NORMAL_NOTE = (
    "the AUC is what r2 and the share give if scores are normal with equal spread in both classes; on 19 targets "
    "where it was stated it was off by .016 on average and by at most .041"
)


@dataclass(frozen=True)
class Weight:
    """One column's part in the score.

    `value` is in normalised units; the squares of all add up to 1. `p_value` is that of the column having no part,
    given the others; None where the release supports no test.
    """

    name: str
    value: float
    p_value: float | None


@dataclass(frozen=True, eq=False, repr=False)
class LinearScore(Estimate):
    """A score that ranks rows by how likely a binary column is 1 in them.

    >>> from lintra_analysis import linear_score, open_release
    >>> score = linear_score(open_release("smokers.npz"), "smoker")
    >>> score.features, score.weights[0].value
    (('age',), 1.0)
    >>> low, high = score.share_interval
    >>> 0 <= low <= high <= 1
    True

    Attributes:
        target: the binary column.
        of: whom p values are about. All else is about the cohort's own rows.
        weights: one for each feature.
        share: of rows with 1; None if the release holds no means.
        r2: the squared correlation of score and target; None if it cannot be told, and so are all below.
        separation: the distance of the two classes' mean scores, in pooled deviations within them.
        auc_if_normal: the chance that a row with 1 has a larger score than one with 0, if scores are normal with equal
            spread in both classes.
        auc_at_least: what that chance is at least whatever the scores' law; None where that is no more than a half.
        warnings: in plain words, what the analyst must know before using the numbers.
        scaled_columns: features and target as the release has them; not part of `to_dict`.
    """

    target: str
    features: tuple[str, ...]
    num_clients: int
    of: Of
    confidence: float
    weights: tuple[Weight, ...]
    share: float | None
    share_interval: Interval | None
    r2: float | None
    r2_interval: Interval | None
    separation: float | None
    separation_interval: Interval | None
    auc_if_normal: float | None
    auc_if_normal_interval: Interval | None
    auc_at_least: float | None
    warnings: tuple[str, ...]
    scaled_columns: tuple[ScaledColumn, ...] = field(default=(), metadata={"plain": False})

    def __repr__(self) -> str:
        return f"LinearScore({self.target!r} by {len(self.features)} features, {self.num_clients} clients)"

    @property
    def params(self) -> dict[str, float]:
        """The weights by name."""
        return {one.name: one.value for one in self.weights}

    @property
    def pvalues(self) -> dict[str, float | None]:
        """The p values of weights of 0, by name."""
        return {one.name: one.p_value for one in self.weights}

    @property
    def feature_names_in_(self) -> tuple[str, ...]:
        """The features in the order that `score` expects of an array."""
        return self.features

    def score(self, rows: Rows) -> FloatArray:
        """Return the scores of rows of features in their own units, shape `(k,)`; larger is likelier 1.

        Args:
            rows: a frame or a mapping, whose columns are taken by name; or an array of shape `(k, p)`.

        Raises:
            ValueError: a feature is missing, the shape does not fit, a number is not finite, or a level is unknown.
        """
        explaining = self.scaled_columns[:-1]
        held = (rows_by_name(rows, self.features, self.scaled_columns) - centers(explaining)) / scales(explaining)
        scores: FloatArray = held @ np.array([one.value for one in self.weights])
        return scores

    def table(self) -> Table:
        """Return one line for each weight."""
        rows = ([one.name, number(one.value), number(one.p_value, 3)] for one in self.weights)
        return Table(
            title=f"Linear score of {self.target} from a private second moment",
            columns=("name", "weight", "p_value"),
            rows=((one.name, one.value, one.p_value) for one in self.weights),
            index=("name",),
            facts=[
                ("Clients", str(self.num_clients)),
                ("Share of 1", _told(self.share, self.share_interval)),
                ("R2", _told(self.r2, self.r2_interval)),
                ("Separation", _told(self.separation, self.separation_interval)),
                ("AUC if normal", _told(self.auc_if_normal, self.auc_if_normal_interval)),
                ("AUC at least", "not told" if self.auc_at_least is None else number(self.auc_at_least)),
            ],
            shown=[(["column", "weight", f"P, {self.of}"], rows)],
            notes=(RANKING_NOTE, NORMAL_NOTE),
            warnings=self.warnings,
            figures={"": self._figure},
        )

    def _figure(self) -> Figure:
        """Return the weights as bars, hollow where the data do not tell them from 0."""
        told = [one.p_value is not None and one.p_value <= 1 - self.confidence for one in self.weights]
        title = f"Linear score of {self.target}: a ranking"
        return bars(self.params, told, title, "weight of a normalised column; squares add up to 1")

    def in_words(self) -> str:
        """Return which columns have a part in the score, and how well it ranks."""
        told = [one.name for one in self.weights if one.p_value is not None and one.p_value <= 1 - self.confidence]
        parts = f"Told to have a part: {listed(told)}." if told else "No column is told to have a part."
        auc = with_interval(self.auc_if_normal, self.auc_if_normal_interval)
        return f"A ranking by {self.target}, {clients(self.num_clients)}. {parts} AUC if scores are normal: {auc}."


def _told(value: float | None, interval: Interval | None) -> str:
    """Return a number and its interval."""
    if value is None:
        return "not told"
    return number(value) if interval is None else f"{number(value)} ({number(interval[0])} to {number(interval[1])})"


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
