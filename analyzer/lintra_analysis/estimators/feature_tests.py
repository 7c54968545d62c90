"""Tests of several coefficients at once: a smaller regression against a larger one, and every term of one.

A smaller regression is a subspace of directions. Its statistic is the minimum of Q there, which is chi-square with as
many degrees of freedom as features are left out
(docs/explanation/estimators-intervals.md#several-coefficients-at-once).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lintra_analysis.estimators.concentrated.regressions import Regression
from lintra_analysis.estimators.estimates import Of
from lintra_analysis.estimators.known_noise import known_regression, weighted_words
from lintra_analysis.estimators.notes import CONCENTRATED_LAW, ONE_VARIANCE, clients, listed
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import number
from lintra_analysis.releases.columns import listed_names
from lintra_analysis.releases.gram_error import HasSecondMoment
from lintra_protocol.errors import InvalidAnalysisError


@dataclass(frozen=True)
class TermTest:
    """The test that some features have no part in a regression, given all others."""

    term: str  #: a column, a category, or all that a smaller model leaves out
    features: tuple[str, ...]  #: the columns whose coefficients are 0
    degrees: int  #: of freedom: how many these are
    statistic: float  #: chi-square with so many degrees of freedom where they are
    p_value: float | None  #: None where so many rows were clipped that no test is given

    @property
    def f_statistic(self) -> float:
        """The statistic over its degrees of freedom, as an F test prints it."""
        return self.statistic / self.degrees


@dataclass(frozen=True, eq=False, repr=False)
class FeatureTests(Estimate):
    """Tests of terms in the regression of one column on others.

    >>> from lintra_analysis import anova, open_release
    >>> table = anova(open_release("flights.npz"), "delay")
    >>> list(table.pvalues)
    ['hour', 'distance']

    Attributes:
        features: of the larger regression.
        of: whether the coefficients that are tested are the "cohort"'s own or those of the "population".
        tests: one for each term.
        law: what they rest on.
    """

    target: str
    features: tuple[str, ...]
    num_clients: int
    of: Of
    tests: tuple[TermTest, ...]
    law: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        return f"FeatureTests({self.target!r}, {len(self.tests)} terms, {self.num_clients} clients)"

    @property
    def pvalues(self) -> dict[str, float | None]:
        """The p values by term."""
        return {one.term: one.p_value for one in self.tests}

    @property
    def fvalues(self) -> dict[str, float]:
        """The statistics over their degrees of freedom, by term."""
        return {one.term: one.f_statistic for one in self.tests}

    def table(self) -> Table:
        """Return one line for each term."""
        return Table(
            title=f"Tests of terms in the regression of {self.target}",
            columns=("term", "degrees", "chi_square", "f", "p_value"),
            rows=((one.term, one.degrees, one.statistic, one.f_statistic, one.p_value) for one in self.tests),
            index=("term",),
            facts=[("Clients", str(self.num_clients)), ("Tests are of", f"the {self.of}")],
            shown=[
                (
                    ["", "df", "chi2", "chi2/df", "P>chi2"],
                    [
                        [one.term, str(one.degrees), *map(number, (one.statistic, one.f_statistic, one.p_value))]
                        for one in self.tests
                    ],
                )
            ],
            notes=(*self.notes, self.law),
            warnings=self.warnings,
        )

    def in_words(self) -> str:
        """Return which terms have a part."""
        told = [one.term for one in self.tests if one.p_value is not None and one.p_value <= 0.05]
        found = f"Told to have a part at 5 %: {listed(told)}." if told else "No term is told to have a part at 5 %."
        return f"Regression of {self.target} on {listed(self.features)}, {clients(self.num_clients)}. {found}"


def f_test(
    release: HasSecondMoment,
    target: str,
    features: Sequence[str] | None = None,
    less: Sequence[str] = (),
    *,
    intercept: bool | None = None,
    of: Of = "population",
) -> FeatureTests:
    """Return the test of a smaller regression against a larger one: what only the larger one has is all 0.

    >>> from lintra_analysis import f_test, open_release
    >>> test = f_test(open_release("flights.npz"), "delay", less=["hour"]).tests[0]
    >>> test.features, test.degrees
    (('distance',), 1)

    Args:
        release: a second moment.
        target: the column that both explain; or the formula of the larger one.
        features: those of the larger regression; all others by default.
        less: those of the smaller one, some of them; by default none, which tests all slopes at once.
        intercept: whether both have one; by default if the release holds a constant column.
        of: whose coefficients are tested: the "population"'s or the "cohort"'s own.

    Raises:
        InvalidAnalysisError: the noise has no known Gaussian law, or an argument does not fit the release.
    """
    sets = known_regression(release, target, features, intercept=intercept, of=of)
    names, kept = sets.design.names, set(listed_names(less))
    if strange := sorted(kept - set(names)):
        raise InvalidAnalysisError(
            f"the smaller model has {listed(strange)}, which the larger one lacks; it has {listed(names)}"
        )
    dropped = tuple(name for name in names if name not in kept)
    if not dropped:
        raise InvalidAnalysisError("both models have the same features, so there is nothing to test; leave one out")
    return _tested(sets, [(" + ".join(dropped), dropped)])


def anova(
    release: HasSecondMoment,
    target: str,
    features: Sequence[str] | None = None,
    *,
    intercept: bool | None = None,
    of: Of = "population",
) -> FeatureTests:
    """Return a test of every term of a regression given all others (type III): a column, or a whole category.

    >>> from lintra_analysis import anova, open_release
    >>> anova(open_release("flights.npz"), "delay").pvalues["hour"] < 0.05
    True

    Args:
        release: a second moment.
        target: the column to explain; or a formula.
        features: the columns that explain it; all others by default.
        intercept: whether to fit one; by default if the release holds a constant column.
        of: whose coefficients are tested: the "population"'s or the "cohort"'s own.

    Raises:
        InvalidAnalysisError: the noise has no known Gaussian law, or an argument does not fit the release.
    """
    sets = known_regression(release, target, features, intercept=intercept, of=of)
    terms: dict[str, tuple[str, ...]] = {}
    for column in sets.design.features:
        name = column.category or column.name
        terms[name] = (*terms.get(name, ()), column.name)
    return _tested(sets, list(terms.items()))


def _tested(sets: Regression, terms: Sequence[tuple[str, tuple[str, ...]]]) -> FeatureTests:
    chosen, tests = sets.design, []
    for term, dropped in terms:
        value, p_value = sets.subspace_test(dropped)
        tests.append(TermTest(term, dropped, len(dropped), value, p_value if chosen.gram.tests_hold else None))
    return FeatureTests(
        target=chosen.target.name,
        features=chosen.names,
        num_clients=chosen.gram.num_clients,
        of=sets.of,
        tests=tuple(tests),
        law=CONCENTRATED_LAW + ("" if sets.of == "cohort" else ONE_VARIANCE),
        notes=weighted_words(chosen.gram),
        warnings=(*chosen.gram.bound_notes, *chosen.gram.count_notes),
    )
