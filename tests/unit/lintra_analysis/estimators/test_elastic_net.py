"""Elastic nets and partial correlations: the optimality conditions, the rows without noise, refusals."""

import numpy as np
import pytest

from lintra_analysis.estimators.elastic_net import elastic_net
from lintra_analysis.estimators.partial_correlation import partial_correlation
from lintra_analysis.estimators.regression import regression
from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import regression_rows, with_intercept

ROWS = regression_rows(4000, np.random.default_rng(8))
NAMES = ("a", "b", "c", "d", "y")
NAMED = tuple(ScaledColumn(name, 0, 1, -9, 9) for name in NAMES)
RELEASE = with_intercept(ROWS, 1e-6, np.random.default_rng(1), NAMED)
NOISY = with_intercept(ROWS, 40.0, np.random.default_rng(2), NAMED)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
def test_an_elastic_net_keeps_the_conditions_of_its_minimum(l1_ratio: float) -> None:
    alpha = 0.2
    found = elastic_net(RELEASE, "y", alpha=alpha, l1_ratio=l1_ratio)
    centred = ROWS - ROWS.mean(axis=0)
    gradient = centred[:, :-1].T @ (centred[:, -1] - centred[:, :-1] @ found.coef_) / (len(ROWS) - 1)
    gradient -= alpha * (1 - l1_ratio) * found.coef_
    chosen = found.coef_ != 0
    np.testing.assert_allclose(gradient[chosen], alpha * l1_ratio * np.sign(found.coef_[chosen]), atol=1e-5)
    assert (np.abs(gradient[~chosen]) <= alpha * l1_ratio + 1e-5).all()
    assert found.selected == tuple(np.array(NAMES[:-1])[chosen])


def test_without_a_penalty_it_is_least_squares_and_a_large_one_leaves_nothing() -> None:
    free, none = elastic_net(RELEASE, "y", alpha=0.0), elastic_net(RELEASE, "y", alpha=1e3)
    design = np.column_stack([np.ones(len(ROWS)), ROWS[:, :-1]])
    fit = np.linalg.lstsq(design, ROWS[:, -1], rcond=None)[0]
    np.testing.assert_allclose([free.intercept_, *free.coef_], fit, atol=1e-4)
    assert none.selected == ()
    assert none.intercept_ == pytest.approx(ROWS[:, -1].mean(), abs=1e-4)
    assert (free.params["a"], none.r2) == (free.coef_[0], 0.0)
    assert "no intervals" in free.summary()


def test_partial_correlations_are_those_of_residuals_with_the_p_values_of_regressions() -> None:
    found = partial_correlation(NOISY)
    exact = partial_correlation(RELEASE)
    design = np.column_stack([np.ones(len(ROWS)), ROWS[:, 2:]])
    left = ROWS[:, :2] - design @ np.linalg.lstsq(design, ROWS[:, :2], rcond=None)[0]
    assert exact.pairs[0].value == pytest.approx(float(np.corrcoef(left.T)[0, 1]), abs=1e-5)
    assert found.pvalues["a", "y"] == regression(NOISY, "a", ["b", "c", "d", "y"]).pvalues["y"]
    assert len(found.pairs) == 10
    assert "Told apart from 0" in found.in_words()


def test_what_noise_or_too_few_columns_leave_undetermined_is_refused_in_words() -> None:
    drowned = with_intercept(ROWS[:50], 1e4, np.random.default_rng(2), NAMED)
    lost = partial_correlation(drowned, ["a", "b", "y"])
    assert {one.value for one in lost.pairs} == {None}
    assert "noise is as large" in lost.warnings[0]
    with pytest.raises(InvalidAnalysisError, match="at least 3"):
        partial_correlation(RELEASE, ["a", "b"])
    with pytest.raises(InvalidAnalysisError, match="alpha is 0 or more"):
        elastic_net(RELEASE, "y", alpha=float("nan"))
    with pytest.raises(InvalidAnalysisError):
        elastic_net(RELEASE, "nobody")
