"""How the mean of a column differs between groups: the slopes of least squares on the groups' indicators.

A mean of a group is a prediction at its row, so means and differences are linear statements about one regression, with
the law of its noise. Nothing is divided by the noisy size of a group.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lintra_analysis.estimators.coefficients import CSV_HEADER, PARTS_NOTE, POINT_NOTE, Coefficient, text_header
from lintra_analysis.estimators.estimates import Interval, Of
from lintra_analysis.estimators.figures import Figure, Mark, intervals
from lintra_analysis.estimators.known_noise import NEEDS_CONSTANT, known_noise
from lintra_analysis.estimators.linear_score import is_binary
from lintra_analysis.estimators.notes import apart_from_zero, clients
from lintra_analysis.estimators.point import at_point
from lintra_analysis.estimators.regression import raw_fit, regression
from lintra_analysis.estimators.regression_estimate import RegressionEstimate, Weighting
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import number
from lintra_analysis.releases.columns import ScaledColumn, positions
from lintra_analysis.releases.gram_error import HasSecondMoment
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

NO_WELCH = (
    "Welch's test needs the variance of each group, and second moments hold the residual variance of all rows "
    'together; leave equal_var as it is, or ask for the regression with residuals="any"'
)


@dataclass(frozen=True, eq=False, repr=False)
class DifferenceEstimate(Estimate):
    """The mean of a column in each group, and how it differs from that of the first.

    >>> from lintra_analysis import difference, open_release
    >>> found = difference(open_release("smokers.npz"), "age", "smoker")
    >>> found.levels, len(found.differences)
    (('0', '1'), 1)

    Attributes:
        target: the column whose means these are.
        group: a boolean or a category.
        levels: of the group, the first one that others are compared with.
        of: whether errors, intervals and tests are about the "cohort" or the "population".
        differences: of every other level from the first, in the target's unit.
        group_means: one for each level; a p value has no meaning for them.
        f_p_value: of all means being the same; None where so many rows were clipped that no test is given.
        bounded: whether the noise tells every group apart from an empty one; if not, nothing has an interval.
        weighted: how rows of the release are weighted; None where all count alike.
        law: what intervals and tests rest on.
    """

    target: str
    group: str
    levels: tuple[str, ...]
    num_clients: int
    of: Of
    confidence: float
    differences: tuple[Coefficient, ...]
    group_means: tuple[Coefficient, ...]
    f_p_value: float | None
    bounded: bool
    weighted: Weighting | None
    law: str
    warnings: tuple[str, ...]
    unit: str = field(default="", metadata={"plain": False})

    def __repr__(self) -> str:
        return f"DifferenceEstimate({self.target!r} by {self.group!r}, {self.num_clients} clients)"

    @property
    def rows(self) -> tuple[Coefficient, ...]:
        """The differences, then the means."""
        return (*self.differences, *self.group_means)

    @property
    def params(self) -> dict[str, float]:
        """The differences and the means by name."""
        return {one.name: one.value for one in self.rows}

    @property
    def bse(self) -> dict[str, float | None]:
        """Their standard errors by name; None where nothing is told."""
        return {one.name: None if one.standard_error is None else one.standard_error.total for one in self.rows}

    @property
    def pvalues(self) -> dict[str, float | None]:
        """The p values of no difference, by name."""
        return {one.name: one.p_value for one in self.differences}

    def conf_int(self) -> dict[str, Interval | None]:
        """Return the intervals by name, None where nothing is told."""
        return {one.name: one.interval for one in self.rows}

    def table(self) -> Table:
        """Return one line for each difference, then one for each mean."""
        weights = () if self.weighted is None else (self.weighted.name, self.weighted.about)
        kind = "Difference" if self.weighted is None else f"{self.weighted.name.split()[0].capitalize()} difference"
        return Table(
            title=f"{kind} of {self.target} between levels of {self.group}",
            columns=CSV_HEADER,
            rows=(one.csv_cells() for one in self.rows),
            index=("name",),
            facts=[
                ("Clients", str(self.num_clients)),
                ("Errors are of", f"the {self.of}"),
                ("Compared with", self.levels[0]),
                ("P, all means alike", number(self.f_p_value, 3)),
            ],
            shown=[(text_header(self.confidence), [one.text_cells() for one in self.rows])],
            notes=(*weights, POINT_NOTE, PARTS_NOTE, self.law),
            warnings=self.warnings,
            figures={"": self._figure},
        )

    def _figure(self) -> Figure:
        marks = [Mark(one.name, one.value, one.interval) for one in self.rows]
        title = f"{self.target} by {self.group}: {100 * self.confidence:g} % for the {self.of}"
        return intervals(marks, title, f"{self.target} in {self.unit}" if self.unit else self.target)

    def in_words(self) -> str:
        """Return which differences are told apart from 0."""
        head = f"{self.target} by {self.group}, {clients(self.num_clients, self.of, self.confidence)}."
        if self.weighted is not None:
            head += f" It is a {self.weighted.name}."
        found = apart_from_zero([(one.name, one.value, one.interval) for one in self.differences])
        return f"{head} Differences from {self.levels[0]}: {found}"


def difference(
    release: HasSecondMoment,
    target: str,
    group: str,
    *,
    of: Of = "population",
    confidence: float = 0.95,
    equal_var: bool = True,
) -> DifferenceEstimate:
    """Return how the mean of a column differs between groups, such as those of an A/B test, and the means themselves.

    >>> from lintra_analysis import difference, open_release
    >>> found = difference(open_release("smokers.npz"), "age", "smoker")
    >>> low, high = found.conf_int()["smoker = 1"]
    >>> low < found.params["smoker = 1"] < high
    True

    Args:
        release: a second moment with an intercept.
        target: the column whose means are compared.
        group: a boolean column, or a category; its first level is what others are compared with.
        of: whom errors, intervals and tests are about: the "population" or the "cohort".
        confidence: of the intervals, each on its own.
        equal_var: one residual variance in all groups; Welch's test without it is refused, as scipy names it.

    Raises:
        InvalidAnalysisError: the noise has no known Gaussian law, or an argument does not fit the release.
    """
    if not equal_var:
        raise InvalidAnalysisError(NO_WELCH)
    groups_of(release)
    gram = release.second_moment()
    indicators = _indicators(gram.columns, group)
    fit = regression(gram, target, [column.name for column in indicators], of=of, confidence=confidence)
    levels = indicators[0].levels or ("0", "1")
    others = [column.level for column in indicators] if indicators[0].category else ["1"]
    names = tuple(f"{group} = {level}" for level in others)
    means = tuple(f"mean of {group} = {level}" for level in (levels[0], *others))
    compared = (levels[0], *others)
    return DifferenceEstimate(
        target=fit.target,
        group=group,
        levels=compared,
        num_clients=fit.num_clients,
        of=of,
        confidence=float(confidence),
        differences=tuple(replace(one, name=name) for one, name in zip(fit.coefficients, names, strict=True)),
        group_means=_group_means(fit, means),
        f_p_value=fit.f_p_value,
        bounded=fit.bounded,
        weighted=fit.weighted,
        law=fit.law,
        warnings=fit.warnings,
        unit=fit.scaled_columns[-1].unit,
    )


def groups_of(release: HasSecondMoment) -> tuple[str, ...]:
    """Return the columns that can be a group: booleans, zeros and ones, and categories.

    Raises InvalidAnalysisError if there is none, or no mean of another column can be told.
    """
    gram = known_noise(release)
    if all(column.constant is None for column in gram.columns):
        raise InvalidAnalysisError(NEEDS_CONSTANT)
    found = tuple(dict.fromkeys(each.category or each.name for each in gram.columns if is_binary(each)))
    if not found:
        raise InvalidAnalysisError(
            "a group is a boolean or a category, and this release has none; ask for `regression`"
        )
    return found


def _indicators(columns: Sequence[ScaledColumn], group: str) -> tuple[ScaledColumn, ...]:
    """Return the columns that say in which group a row is: those of a category, or a column of zeros and ones."""
    if found := tuple(column for column in columns if column.category and column.category == group):
        return found
    column = columns[int(positions(columns, [group])[0])]
    if not is_binary(column):
        raise InvalidAnalysisError(
            f"a group is a boolean or a category, and {group!r} is a number between {column.lower:g} and "
            f"{column.upper:g}; ask for its regression"
        )
    return (column,)


def _group_means(fit: RegressionEstimate, names: tuple[str, ...]) -> tuple[Coefficient, ...]:
    """Return the predictions at the row of each level, the first of them without any indicator."""
    assert fit.sets is not None  # the noise has a law
    lines: FloatArray = np.column_stack([np.eye(len(names), len(names) - 1, -1), np.ones(len(names))])
    beside = replace(fit.sets, rows=lines @ fit.sets.rows, offsets=lines @ fit.sets.offsets)
    raw = raw_fit(beside)
    told = beside.coefficients(names, None if raw is None else raw.parts)
    points = lines @ [one.value for one in fit.rows]
    return tuple(
        replace(at_point(one, value), statistic=None, p_value=None)
        for one, value in zip(told, points.tolist(), strict=True)
    )
