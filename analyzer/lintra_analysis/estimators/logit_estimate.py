"""The answer of a logistic regression: a table, chances by column name, and the words of statsmodels and sklearn."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from lintra_analysis.estimators.estimates import Interval, Of, check_confidence
from lintra_analysis.estimators.figures import Figure, Mark, intervals
from lintra_analysis.estimators.notes import clients
from lintra_analysis.estimators.rows import Rows, rows_by_name
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import levels, number
from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

INTERCEPT = "(intercept)"

NOTES = {
    "interval": "two successive rounds agree with each other, so that the intervals hold",
    "another round": "needs another round: the last two rounds do not agree on a quadratic model, so that no interval "
    "is told; release another round",
    "not told": "cannot be told at this epsilon: along {columns} the noise is as large as what the rows say; leave one "
    "of them out, or ask more people",
}
"""What a result says, by its status."""

APPROXIMATE = (
    "the intervals are approximate: there are few rows of one of both values, so that the model is not quadratic "
    "within the noise"
)
POINT_NOTE = (
    "the coefficients are drawn towards the model without features as far as noise alone could have made them; `raw` "
    "has the last step as it is"
)


@dataclass(frozen=True)
class Slope:
    """One coefficient in its own unit; without an interval where none can be told."""

    name: str
    value: float  #: the point
    raw: float  #: the last Newton step
    standard_error: float | None
    interval: Interval | None
    p_value: float | None  #: that the coefficient is 0, given the others


@dataclass(frozen=True)
class Round:
    """One round of a chain."""

    number: int
    num_clients: int
    statistic: float | None  #: T, of this round and the one before; None of the first
    passes: bool


class ConfidenceSets(Protocol):
    """What gives the intervals of the coefficients at any confidence."""

    def intervals(self, confidence: float) -> Sequence[Interval | None]:
        """Return them in the order of the coefficients; None where nothing bounds one."""


@dataclass(frozen=True, eq=False, repr=False)
class LogisticEstimate(Estimate):
    """The logistic regression of a yes or no on features, in the features' own units.

    >>> from lintra_analysis import logit, open_release
    >>> estimate = logit(open_release("smoking.npz"))
    >>> estimate.features, len(estimate.rounds)
    (('age',), 1)

    Attributes:
        status: "interval", "another round" or "not told"; `NOTES` says each in a sentence.
        converged: whether the last two rounds agree, by T.
        coefficients: the intercept first.
        rounds: with T of each.
        prevalence: the share of ones among the rows by their weights; None if the first round is not at hand.
        average_weight: how much a row counts on average; None likewise.
        approximate: whether few rows of one value make the intervals approximate.
        undetermined: where the status is "not told", the features of that direction.
        warnings: in plain words, what the analyst must know before using the numbers.
    """

    target: str
    features: tuple[str, ...]
    num_clients: int
    of: Of
    confidence: float
    status: str
    converged: bool
    coefficients: tuple[Slope, ...]
    rounds: tuple[Round, ...]
    prevalence: float | None
    average_weight: float | None
    approximate: bool
    undetermined: tuple[str, ...]
    warnings: tuple[str, ...]
    scaled_columns: tuple[ScaledColumn, ...] = field(default=(), metadata={"plain": False})
    sets: ConfidenceSets | None = field(default=None, metadata={"plain": False})

    def __repr__(self) -> str:
        return f"LogisticEstimate({self.target!r} by {len(self.features)} features, {self.num_clients} clients)"

    @property
    def params(self) -> dict[str, float]:
        """The coefficients by name, the intercept first."""
        return {one.name: one.value for one in self.coefficients}

    @property
    def raw(self) -> dict[str, float]:
        """The last Newton step by name, which nothing was drawn towards."""
        return {one.name: one.raw for one in self.coefficients}

    @property
    def bse(self) -> dict[str, float | None]:
        """The standard errors by name; None where no interval is told."""
        return {one.name: one.standard_error for one in self.coefficients}

    @property
    def pvalues(self) -> dict[str, float | None]:
        """The p values of coefficients of 0, by name."""
        return {one.name: one.p_value for one in self.coefficients}

    def conf_int(self, alpha: float | None = None) -> dict[str, Interval]:
        """Return the intervals by name; `alpha` is 1 less the confidence, by default that which was asked for.

        Raises:
            InvalidAnalysisError: none is told, and the detail says whether another round is needed; or `alpha` does not
                lie strictly between 0 and 1.
        """
        if self.status != "interval" or self.sets is None:
            raise InvalidAnalysisError(self.said)
        if alpha is not None:
            check_confidence(1 - alpha)
        found = self.sets.intervals(self.confidence if alpha is None else 1 - alpha)
        return {one.name: own or (-np.inf, np.inf) for one, own in zip(self.coefficients, found, strict=True)}

    def odds_ratios(self) -> dict[str, tuple[float, Interval | None]]:
        """Return by feature exp of the coefficient, and of the ends of its interval."""
        with np.errstate(over="ignore"):
            return {
                one.name: (
                    float(np.exp(one.value)),
                    None if one.interval is None else (float(np.exp(one.interval[0])), float(np.exp(one.interval[1]))),
                )
                for one in self.coefficients[1:]
            }

    @property
    def said(self) -> str:
        """What the result says, in a sentence."""
        return NOTES[self.status].format(columns=", ".join(self.undetermined))

    # --- scikit-learn's words ------------------------------------------------------------------------------------

    @property
    def classes_(self) -> FloatArray:
        """The two values of the target, shape `(2,)`."""
        return np.array([0.0, 1.0])

    @property
    def coef_(self) -> FloatArray:
        """The slopes, shape `(1, f)`."""
        return np.array([[one.value for one in self.coefficients[1:]]])

    @property
    def intercept_(self) -> FloatArray:
        """The intercept, shape `(1,)`."""
        return np.array([self.coefficients[0].value])

    @property
    def feature_names_in_(self) -> tuple[str, ...]:
        """The features in the order that `predict_proba` expects of an array."""
        return self.features

    def predict_proba(self, rows: Rows) -> FloatArray:
        """Return the chances of 0 and of 1 for rows of features in their own units, shape `(k, 2)`.

        Args:
            rows: a frame or a mapping, whose columns are taken by name; or an array of shape `(k, f)`.

        Raises:
            ValueError: a feature is missing, the shape does not fit, a number is not finite, or a level is unknown.
        """
        scores = rows_by_name(rows, self.features, self.scaled_columns) @ self.coef_[0] + self.intercept_[0]
        with np.errstate(over="ignore"):
            ones = 1 / (1 + np.exp(-scores))
        return np.column_stack([1 - ones, ones])

    def predict(self, rows: Rows) -> FloatArray:
        """Return the likelier value of the target for rows of features, shape `(k,)` (see `predict_proba`)."""
        likelier: FloatArray = (self.predict_proba(rows)[:, 1] > 0.5).astype(np.float64)
        return likelier

    # --- presentation --------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """Return one line for each coefficient, and one for each round."""
        low, high = levels(self.confidence)
        lines = [
            [
                one.name,
                number(one.value),
                "" if one.name == INTERCEPT else number(float(np.exp(min(one.value, 700.0)))),
                number(one.standard_error),
                *(("-", "-") if one.interval is None else (number(one.interval[0]), number(one.interval[1]))),
                number(one.p_value, 3),
            ]
            for one in self.coefficients
        ]
        rounds = [
            [str(one.number), f"{one.num_clients:,}", number(one.statistic), "yes" if one.passes else "no"]
            for one in self.rounds
        ]
        return Table(
            title=f"Logistic regression of {self.target} from private Newton steps",
            columns=("name", "coefficient", "raw", "standard_error", "lower", "upper", "p_value"),
            rows=(
                (one.name, one.value, one.raw, one.standard_error, *(one.interval or (None, None)), one.p_value)
                for one in self.coefficients
            ),
            index=("name",),
            facts=[("Clients", str(self.num_clients)), ("Rounds", str(len(self.rounds)))],
            shown=[
                (["", "coefficient", "odds ratio", "std err", low, high, f"P, {self.of}"], lines),
                (["round", "rows", "T", "agrees"], rounds),
            ],
            notes=(self.said, POINT_NOTE),
            warnings=self.warnings,
            figures={"": self._figure},
        )

    def _figure(self) -> Figure:
        marks = [Mark(one.name, one.value, one.interval) for one in self.coefficients[1:]]
        return intervals(marks, f"Logistic regression of {self.target}", "logarithm of the odds ratio")

    def in_words(self) -> str:
        """Return what was found in a few sentences."""
        apart = [one.name for one in self.coefficients[1:] if one.p_value is not None and one.p_value < 0.05]
        found = f"told apart from 0 at the 5 % level: {', '.join(apart)}" if apart else "no slope is told apart from 0"
        rows = clients(self.num_clients, self.of, self.confidence)
        return f"Logistic regression of {self.target}, {rows}, in {len(self.rounds)} rounds: {found}. {self.said}."
