"""Differences between groups: those of scipy and of the groups' own means, whatever the constant and the units."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from lintra_analysis.estimators.group_difference import difference, groups_of
from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import second_moment, with_intercept

GENERATOR = np.random.default_rng(7)
ARM = GENERATOR.integers(0, 3, 3000)
Y = 20 + np.array([0.0, 1.5, -2.0])[ARM] + 3 * GENERATOR.normal(size=3000)
LEVELS = ("a", "b", "c")
NAMED = (
    ScaledColumn("arm[b]", 0.5, 0.5, 0, 1, "", "boolean", "arm", LEVELS),
    ScaledColumn("arm[c]", 0.0, 1.0, 0, 1, "", "boolean", "arm", LEVELS),
    ScaledColumn("old", 0.0, 1.0, 0, 1, "", "boolean"),
    ScaledColumn("y", 18.0, 6.0, 0, 40, "mmHg"),
)
ROWS = np.column_stack([(ARM == 1) * 2 - 1, ARM == 2, GENERATOR.random(3000) < 0.3, (Y - 18) / 6]).astype(float)


@pytest.mark.parametrize("constant", [1.0, 2.0, 0.5])
def test_without_noise_to_speak_of_it_is_students_test_whatever_the_constant(constant: float) -> None:
    release = with_intercept(ROWS, 1e-3, np.random.default_rng(1), NAMED, constant)
    found = difference(release, "y", "old")
    old = ROWS[:, 2] > 0
    expected = stats.ttest_ind(Y[old], Y[~old], equal_var=True)
    assert found.params["old = 1"] == pytest.approx(Y[old].mean() - Y[~old].mean(), rel=1e-3)
    assert found.pvalues["old = 1"] == pytest.approx(expected.pvalue, rel=0.02)
    assert_allclose(found.conf_int()["old = 1"], expected.confidence_interval(), rtol=0.02)
    means = [one.value for one in found.group_means]
    assert_allclose(means, [Y[~old].mean(), Y[old].mean()], rtol=1e-4)
    assert found.group_means[1].interval is not None
    assert found.group_means[1].p_value is None


def test_the_levels_of_a_category_are_compared_with_its_first() -> None:
    release = with_intercept(ROWS, 1e-3, np.random.default_rng(1), NAMED)
    found = difference(release, "y", "arm", of="cohort")
    own = [Y[level == ARM].mean() for level in range(3)]
    assert list(found.params) == ["arm = b", "arm = c", "mean of arm = a", "mean of arm = b", "mean of arm = c"]
    assert_allclose(list(found.params.values()), [own[1] - own[0], own[2] - own[0], *own], rtol=1e-4)
    anova = stats.f_oneway(*(Y[level == ARM] for level in range(3))).pvalue
    assert difference(release, "y", "arm").f_p_value == pytest.approx(anova, abs=1e-6)
    assert "Differences from a: Told apart from 0: arm = " in found.in_words()
    assert found.plot().get_xlabel() == "y in mmHg"


def test_noise_widens_what_is_said_and_the_first_group_is_no_exception() -> None:
    small, large = (
        difference(with_intercept(ROWS, sigma, np.random.default_rng(2), NAMED), "y", "arm") for sigma in (1.0, 40.0)
    )
    for name in small.params:
        assert large.bse[name] > 1.2 * small.bse[name]  # type: ignore[operator]
        low, high = large.conf_int()[name]  # type: ignore[misc]
        assert low <= large.params[name] <= high


def test_what_is_no_group_and_welchs_test_are_refused_in_words() -> None:
    release = with_intercept(ROWS, 1.0, np.random.default_rng(2), NAMED)
    assert groups_of(release) == ("arm", "old")
    for arguments, said in (
        (("y", "y"), "a group is a boolean or a category"),
        (("y", "sex"), "unknown columns: sex"),
        (("old", "old"), "one of its own features"),
    ):
        with pytest.raises(InvalidAnalysisError, match=said):
            difference(release, *arguments)
    with pytest.raises(InvalidAnalysisError, match="variance of each group"):
        difference(release, "y", "old", equal_var=False)
    with pytest.raises(InvalidAnalysisError, match="this release has none"):
        groups_of(release.restrict(["(intercept)", "y"]))
    with pytest.raises(InvalidAnalysisError, match="no constant column"):
        difference(second_moment(ROWS, 1.0, np.random.default_rng(1), NAMED), "y", "old")
    with pytest.raises(InvalidAnalysisError, match="exact Gaussian law"):
        difference(replace(release, gaussian=False), "y", "old")
