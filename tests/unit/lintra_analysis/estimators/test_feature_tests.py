"""Tests of several coefficients: the F test of the rows without noise, and the regression's own p values with it."""

import numpy as np
import pytest
from scipy import special

from lintra_analysis.estimators.feature_tests import anova, f_test
from lintra_analysis.estimators.regression import regression
from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import regression_rows, sketch, with_intercept

GENERATOR = np.random.default_rng(8)
ROWS = regression_rows(4000, GENERATOR)
ROWS[:, :2] = (np.arange(4000)[:, np.newaxis] % 3 == [1, 2]).astype(float)
ROWS[:, 4] += 0.03 * ROWS[:, 0]
LEVELS = ("a", "b", "c")
NAMED = (
    ScaledColumn("arm[b]", 0.0, 1.0, 0, 1, "", "boolean", "arm", LEVELS),
    ScaledColumn("arm[c]", 0.0, 1.0, 0, 1, "", "boolean", "arm", LEVELS),
    *(ScaledColumn(name, 0, 1, -9, 9) for name in ("age", "bmi", "y")),
)


def residual(features: list[int]) -> float:
    """Return the residual sum of squares of least squares on some columns."""
    held = np.column_stack([np.ones(len(ROWS)), ROWS[:, features]])
    return float(np.linalg.lstsq(held, ROWS[:, 4], rcond=None)[1][0])


def test_without_noise_to_speak_of_terms_have_the_f_test_of_the_rows() -> None:
    release = with_intercept(ROWS, 1e-3, np.random.default_rng(1), NAMED)
    larger, smaller = residual([0, 1, 2, 3]), residual([2, 3])
    f_value = (smaller - larger) / 2 / (larger / (4000 - 5))
    found = anova(release, "y")
    assert list(found.pvalues) == ["arm", "age", "bmi"]
    assert [one.degrees for one in found.tests] == [2, 1, 1]
    assert found.pvalues["arm"] == pytest.approx(float(special.fdtrc(2, 3995, f_value)), rel=0.03)
    one = f_test(release, "y", less=["age", "bmi"]).tests[0]
    assert one.term == "arm[b] + arm[c]"
    # Q divides by the residual variance under the smaller model, an F test by that under the larger one.
    assert one.f_statistic == pytest.approx(f_value, rel=0.01)


def test_one_column_has_the_p_value_of_its_coefficient_and_all_have_that_of_the_regression() -> None:
    release = with_intercept(ROWS, 40.0, np.random.default_rng(2), NAMED)
    fit, terms = regression(release, "y"), anova(release, "y")
    for name in ("age", "bmi"):
        assert terms.pvalues[name] == pytest.approx(fit.pvalues[name], rel=1e-3)
    whole = f_test(release, "y")
    assert whole.tests[0].p_value == pytest.approx(fit.f_p_value, rel=1e-6)
    assert whole.tests[0].degrees == 4
    value = whole.tests[0].statistic
    assert whole.tests[0].p_value == pytest.approx(float(special.chdtrc(4, value)))
    assert "Told to have a part" in whole.in_words()
    assert "arm" in terms.to_csv()


def test_what_no_test_can_be_of_is_refused_in_words() -> None:
    release = with_intercept(ROWS, 40.0, np.random.default_rng(2), NAMED)
    with pytest.raises(InvalidAnalysisError, match="the larger one lacks; it has age"):
        f_test(release, "y", ["age"], ["bmi"])
    with pytest.raises(InvalidAnalysisError, match="nothing to test"):
        f_test(release, "y", ["age"], "age")
    with pytest.raises(InvalidAnalysisError, match="exact Gaussian law"):
        anova(sketch(ROWS, 40, 1.0, np.random.default_rng(1), NAMED), "y")
