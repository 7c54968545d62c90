"""The answer of a linear score: weights that rank rows, and the quality of the ranking."""

from dataclasses import dataclass, field

import numpy as np

from lintra_analysis.estimators.estimates import Interval, Of
from lintra_analysis.estimators.figures import Figure, bars
from lintra_analysis.estimators.notes import clients, listed, with_interval
from lintra_analysis.estimators.rows import Rows, rows_by_name
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import number
from lintra_analysis.releases.columns import ScaledColumn, centers, scales
from lintra_protocol.crypto.ring import FloatArray

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
