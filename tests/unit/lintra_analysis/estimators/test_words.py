"""Results speak the words of statsmodels, scikit-learn and pandas, and say it plainly where nothing can be told."""

from dataclasses import replace

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.correlation import correlation
from lintra_analysis.estimators.means import means
from lintra_analysis.estimators.pca import pca
from lintra_analysis.estimators.regression import regression
from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import columns, in_units, mixed_columns, regression_rows, second_moment, with_constant

ROWS, NAMED = with_constant(regression_rows(4096, np.random.default_rng(1)), mixed_columns())
RELEASE = second_moment(ROWS, 20.0, np.random.default_rng(2), NAMED)
HELD = in_units(ROWS[:50, 1:], mixed_columns())


def test_a_regression_has_the_words_of_statsmodels_by_name() -> None:
    estimate = regression(RELEASE, "c4")
    names = ["c0", "c1", "c2", "c3", "(intercept)"]
    assert list(estimate.params) == list(estimate.bse) == list(estimate.pvalues) == list(estimate.conf_int()) == names
    for name in names:
        interval, error = estimate.conf_int()[name], estimate.bse[name]
        assert interval is not None
        assert error is not None
        assert interval[0] < estimate.params[name] < interval[1]
        assert interval[1] - interval[0] == pytest.approx(2 * 1.96 * error, rel=0.05)
    assert_allclose(estimate.coef_, [estimate.params[name] for name in names[:-1]])
    assert "<table>" in estimate._repr_html_()


def test_what_one_types_after_fitting_with_statsmodels_works() -> None:
    fit = regression(RELEASE, "c4")
    error = {name: value for name, value in fit.bse.items() if value is not None}
    assert fit.tvalues == {name: pytest.approx(fit.raw[name] / error[name]) for name in fit.params}
    assert (fit.rsquared, fit.rsquared_adj) == (fit.r2, fit.adjusted_r2)
    assert (fit.nobs, fit.fvalue, fit.f_pvalue) == (4096, fit.f_statistic, fit.f_p_value)
    covariance = fit.cov_params()
    assert covariance is not None
    assert_allclose(np.sqrt(np.diagonal(covariance)), list(error.values()))


@pytest.mark.parametrize("gaussian", [True, False])
def test_conf_int_takes_alpha_as_statsmodels_does(gaussian: bool) -> None:
    release = replace(RELEASE, gaussian=gaussian)
    fit, asked = regression(release, "c4"), regression(release, "c4", confidence=0.8)
    for name, interval in fit.conf_int(alpha=0.2).items():
        assert interval == pytest.approx(asked.conf_int()[name], rel=1e-6)
    for name, interval in fit.conf_int(0.05).items():
        assert interval == pytest.approx(fit.conf_int()[name], rel=1e-6)
    with pytest.raises(InvalidAnalysisError, match="strictly between 0 and 1"):
        fit.conf_int(alpha=0)


def test_conf_int_says_nothing_at_a_confidence_that_the_noise_does_not_allow() -> None:
    noisy = second_moment(ROWS, 250.0, np.random.default_rng(2), NAMED)
    fit = regression(noisy, "c4", confidence=0.5)
    assert fit.bounded
    assert None not in fit.conf_int().values()
    assert set(fit.conf_int(alpha=1e-6).values()) == {None}


def test_residuals_are_refused_in_words_since_nobody_has_the_rows() -> None:
    with pytest.raises(AttributeError, match="a release holds no rows, so there are no residuals"):
        regression(RELEASE, "c4").resid.mean()


def test_pca_takes_n_components_as_scikit_learn_does() -> None:
    assert pca(RELEASE, n_components=2).components.shape == (2, 5)
    with pytest.raises(InvalidAnalysisError, match="name one of them"):
        pca(RELEASE, 2, n_components=3)


def test_one_feature_is_named_by_a_text() -> None:
    assert regression(RELEASE, "c4", features="c1").params == regression(RELEASE, "c4", features=["c1"]).params
    assert means(RELEASE, "c1").columns == ("c1",)
    assert pca(RELEASE, columns="c1").feature_names_in_ == ("c1",)


def test_predict_takes_an_array_a_list_a_series_or_a_row_of_a_frame() -> None:
    fit, alone = regression(RELEASE, "c4", ["c3", "c0"]), regression(RELEASE, "c4", "c0")
    frame = pandas.DataFrame(HELD, columns=[f"c{i}" for i in range(5)])
    expected = fit.predict(HELD[:1, [3, 0]])
    for row in (HELD[0, [3, 0]], HELD[0, [3, 0]].tolist(), frame.iloc[0], frame.loc[0, ["c0", "c3"]]):
        assert_allclose(fit.predict(row), expected)
    for column in (HELD[:, 0], HELD[:, 0].tolist(), frame["c0"], frame[["c0"]]):
        assert_allclose(alone.predict(column), alone.predict(HELD[:, [0]]))
    assert_allclose(alone.predict({"c0": HELD[0, 0]}), alone.predict(HELD[:1, [0]]))
    with pytest.raises(ValueError, match="the rows lack the columns c3"):
        fit.predict(frame.iloc[0].drop("c3"))
    with pytest.raises(ValueError, match=r"shape \(k, 2\)"):
        fit.predict(HELD[:7, 0])


def test_a_notebook_shows_tables_and_no_column_name_becomes_markup() -> None:
    named = (*NAMED[:-1], replace(NAMED[-1], name="<b>pay</b>"))
    shown = regression(replace(RELEASE, columns=named), "<b>pay</b>")._repr_html_()
    assert shown.count("<table>") == 2
    assert "<b>" not in shown
    assert "&lt;b&gt;pay&lt;/b&gt;" in shown
    assert "<th>coef</th>" in shown


def test_predictions_go_by_the_names_of_columns_and_not_by_their_order() -> None:
    estimate = regression(RELEASE, "c4", ["c3", "c0"])
    frame = pandas.DataFrame(HELD, columns=[f"c{i}" for i in range(5)])
    expected = estimate.predict(HELD[:, [3, 0]])
    assert_allclose(estimate.predict(frame), expected)
    assert_allclose(estimate.predict(frame[["c4", "c0", "c3"]]), expected)
    assert_allclose(estimate.predict({"c0": HELD[:, 0], "c3": HELD[:, 3]}), expected)
    with pytest.raises(ValueError, match="the rows lack the columns c3; they have c0, c1"):
        estimate.predict(frame[["c0", "c1"]])
    directions = pca(RELEASE, 2, ["c0", "c3"])
    assert_allclose(directions.transform(frame), directions.transform(HELD[:, [0, 3]]))


def test_the_interval_of_a_prediction_at_zero_is_that_of_the_intercept() -> None:
    estimate = regression(RELEASE, "c4")
    found = estimate.prediction_intervals(np.zeros((1, 4)))
    assert found is not None
    assert_allclose(found[0], estimate.intercept.interval, rtol=1e-3)


def test_where_nothing_can_be_told_no_number_pretends_to_and_the_columns_are_named() -> None:
    generator = np.random.default_rng(3)
    copied = np.column_stack([ROWS[:, :4], ROWS[:, 2] + 1e-3 * generator.normal(size=len(ROWS)), ROWS[:, 5]])
    named = with_constant(np.zeros((1, 5)), columns(5))[1]
    estimate = regression(second_moment(copied, 20.0, generator, named), "c4")
    assert not estimate.bounded
    assert set(estimate.bse.values()) == set(estimate.conf_int().values()) == {None}
    assert set(estimate.undetermined) == {"c1", "c3"}
    assert any("cannot be told at this epsilon: along" in warning for warning in estimate.warnings)
    assert estimate.r2_standard_error is None
    assert estimate.prediction_errors(np.zeros((1, 4))) is None
    assert estimate.prediction_intervals(np.zeros((1, 4))) is None
    assert estimate.penalised is not None
    assert all(one.interval is not None for one in estimate.penalised.coefficients)
    assert "penalty" in estimate.summary()
    assert "penalised_lower" in estimate.to_csv()
    assert estimate.regularised
    assert not np.allclose(list(estimate.params.values()), list(estimate.raw.values()))


def test_the_law_behind_the_intervals_is_said() -> None:
    assert "exact Gaussian law" in regression(RELEASE, "c4").law
    assert "linearised" in regression(replace(RELEASE, gaussian=False), "c4").law
    assert "no noise" in regression(second_moment(ROWS, 0.0, np.random.default_rng(0), NAMED), "c4").law


def test_every_estimate_is_a_frame_with_names() -> None:
    table = regression(RELEASE, "c4").to_frame()
    assert list(table.index) == ["c0", "c1", "c2", "c3", "(intercept)"]
    assert {"coefficient", "standard_error", "p_value", "lower", "upper"} <= set(table.columns)
    assert list(pca(RELEASE, 2).to_frame().columns) == ["c0", "c1", "c2", "c3", "c4"]
    pairs = correlation(RELEASE)
    assert_allclose(pairs.to_frame().loc["c0", "c3"], pairs.matrix[0, 3])
    averages = means(RELEASE)
    assert averages.to_frame()["mean"].to_dict() == averages.params


def indicator_columns() -> tuple[ScaledColumn, ...]:
    """An intercept, the two indicators of a category with a reserved level, and two numbers."""
    levels = ("never", "former", "(other)")
    whole = [ScaledColumn(f"smoker[{level}]", 0, 1, 0, 1, "", "boolean", "smoker", levels) for level in levels[1:]]
    return (ScaledColumn("(intercept)", 0, 1, 1, 1), *whole, *columns(2))


def test_a_category_may_stand_in_a_frame_as_it_is() -> None:
    generator = np.random.default_rng(4)
    smoker = generator.integers(0, 3, 4096)
    numbers = generator.normal(size=4096)
    rows = np.column_stack([np.ones(4096), smoker == 1, smoker == 2, numbers, 2.0 * (smoker == 1) + numbers])
    estimate = regression(second_moment(rows.astype(float), 5.0, generator, indicator_columns()), "c1")
    frame = pandas.DataFrame({"c0": [0.5, 1.0, 2.0, 0.0], "smoker": ["never", "former", "pipe", None]})
    encoded = np.array([[0, 0, 0.5], [1, 0, 1.0], [0, 1, 2.0], [0, 1, 0.0]])
    assert_allclose(estimate.predict(frame), estimate.predict(encoded))
    assert_allclose(estimate.predict(frame.astype({"smoker": "category"})), estimate.predict(encoded))
    spread = {"smoker[former]": encoded[:, 0], "smoker[(other)]": encoded[:, 1], "c0": encoded[:, 2]}
    assert_allclose(estimate.predict(spread), estimate.predict(encoded))


def test_a_level_that_is_unknown_is_refused_where_none_is_reserved() -> None:
    named = tuple(replace(one, levels=("never", "former")) if one.category else one for one in indicator_columns())
    named = (named[0], named[1], *named[3:])
    rows = np.column_stack([np.ones(4096), np.arange(4096) % 2, np.random.default_rng(5).normal(size=(4096, 2))])
    estimate = regression(second_moment(rows, 5.0, np.random.default_rng(6), named), "c1")
    with pytest.raises(ValueError, match="'pipe', which is none of its levels: never, former"):
        estimate.predict({"smoker": np.array(["never", "pipe"]), "c0": np.zeros(2)})
