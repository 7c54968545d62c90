"""The allowance between weighted and ordinary slopes: by its formula, and by draws of samples and cohorts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.correlation import correlation
from lintra_analysis.estimators.linear_score import linear_score
from lintra_analysis.estimators.means import means
from lintra_analysis.estimators.ordinary_slopes import allowances, ordinary_slopes
from lintra_analysis.estimators.path import regression_path
from lintra_analysis.estimators.pca import pca
from lintra_analysis.estimators.regression import regression
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_analysis.releases.weighted_rows import WeightedRows
from lintra_analysis.trial.row_weights import row_weighting
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.mechanisms.row_weights import WeightedBy


def population(count: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows with a curved law, so that weights change slopes: plain, as collected, and weights."""
    x = generator.normal(size=(count, 2))
    y = x[:, 0] - 0.5 * x[:, 1] + 0.5 * x[:, 0] * np.abs(x[:, 0]) + generator.normal(size=count)
    plain = np.column_stack([np.ones(count), x, y])
    moved = np.column_stack([np.ones(count), x, np.clip(y, -2.5, 2.5)])
    weights = np.minimum(1, 2 / (1 + np.sum(x**2, axis=1)))
    return plain, moved, weights


def least_squares(rows: FloatArray, weights: FloatArray) -> FloatArray:
    root = np.sqrt(weights)[:, np.newaxis]
    return np.asarray(np.linalg.lstsq((rows * root)[:, :-1], (rows * root)[:, -1], rcond=None)[0][1:])


def test_of_the_collected_rows_themselves_the_allowance_is_the_difference() -> None:
    plain, moved, weights = population(500, np.random.default_rng(1))
    allowed, difference = allowances(plain, moved, weights)
    assert_allclose(difference, least_squares(moved, weights) - least_squares(plain, np.ones(500)), rtol=1e-9)
    assert_allclose(allowed, np.abs(difference))


def test_rows_of_weight_one_within_their_bounds_need_no_allowance() -> None:
    plain, _, _ = population(500, np.random.default_rng(2))
    allowed, difference = allowances(plain, plain, np.ones(500), 1000)
    assert_allclose(allowed, 0.0, atol=1e-12)
    assert_allclose(difference, 0.0, atol=1e-12)


@pytest.mark.parametrize("num_rows", [300, 3000])
def test_the_allowance_holds_for_nearly_every_cohort_and_its_difference_alone_does_not(num_rows: int) -> None:
    generator, held, bare = np.random.default_rng(3), [], []
    for _ in range(300):
        allowed, difference = allowances(*population(600, generator), num_rows)
        plain, moved, weights = population(num_rows, generator)
        apart = np.abs(least_squares(moved, weights) - least_squares(plain, np.ones(num_rows)))
        held.append(apart <= allowed)
        bare.append(apart <= np.abs(difference))
    assert np.mean(held, axis=0).min() > 0.92
    assert np.mean(bare, axis=0).max() < 0.7


COUNT = 8000


def collected(by: WeightedBy, generator: np.random.Generator) -> tuple[SecondMomentSum, FloatArray]:
    """A release of weighted rows x0, x1, y, and these rows in own units: x1 is in tens."""
    x = generator.normal(size=(COUNT, 2))
    y = x[:, 0] - 0.5 * x[:, 1] + 0.5 * x[:, 0] * np.abs(x[:, 0]) + generator.normal(size=COUNT)
    rows = np.clip(np.column_stack([x, y]), -6, 6)
    rule = row_weighting(rows, COUNT, 0.5, by=by)
    vectors, root = rule.vectors(rows)
    sigma = rule.row_bound**2 / 0.5
    theirs = vectors * root[:, np.newaxis]
    noise = generator.normal(size=(4, 4)) * sigma
    matrix = theirs.T @ theirs + (noise + noise.T) / np.sqrt(2)
    reach = np.inf if rule.target_bound is None else rule.target_bound
    columns = (
        ScaledColumn("(intercept)", 0, 1 / rule.constant, 1, 1),
        ScaledColumn("x0", 0, 1, -6, 6),
        ScaledColumn("x1", 0, 10, -60, 60),
        ScaledColumn("y", 0, 1 / rule.target_factor, -6, 6),
    )
    weights = WeightedRows(by, "y", -reach, reach, float(np.mean(root**2)), 0.001)
    return SecondMomentSum(columns, matrix, sigma, COUNT, rule.row_bound, weighted=weights), rows * [1, 10, 1]


def frame(rows: FloatArray) -> dict[str, FloatArray]:
    return {name: rows[:, i] for i, name in enumerate(("x0", "x1", "y"))}


@pytest.mark.parametrize("by", ["features", "all"])
@pytest.mark.grid(2)
def test_intervals_for_ordinary_slopes_hold_them_and_the_bare_ones_do_not(by: WeightedBy) -> None:
    held, bare = [], []
    for seed in range(12):
        release, rows = collected(by, np.random.default_rng(seed))
        fit = regression(release, "y")
        found = ordinary_slopes(release, fit, frame(rows[: COUNT // 2]))
        design = np.column_stack([rows[:, :2], np.ones(COUNT)])
        truth = np.linalg.lstsq(design, rows[:, 2], rcond=None)[0][:2]
        for one, own, coefficient in zip(found, truth.tolist(), fit.coefficients, strict=True):
            assert one.interval is not None
            assert coefficient.interval is not None
            held.append(one.interval[0] <= own <= one.interval[1])
            bare.append(coefficient.interval[0] <= own <= coefficient.interval[1])
    assert np.mean(held) > 0.9
    assert np.mean(bare) < np.mean(held)


def test_rows_that_all_count_alike_need_no_second_interval_and_a_sample_needs_its_columns() -> None:
    release, rows = collected("all", np.random.default_rng(1))
    fit = regression(release, "y")
    with pytest.raises(ValueError, match="the rows lack the columns y"):
        ordinary_slopes(release, fit, {name: values for name, values in frame(rows).items() if name != "y"})
    with pytest.raises(ValueError, match="more than 4 rows, got 2"):
        ordinary_slopes(release, fit, frame(rows[:2]))
    alike = SecondMomentSum(release.columns, release.values, release.noise_sd, COUNT, release.row_bound)
    with pytest.raises(InvalidAnalysisError, match="all count alike"):
        ordinary_slopes(alike, regression(alike, "y"), frame(rows))


@pytest.mark.parametrize("by", ["features", "all"])
def test_every_table_says_how_rows_are_weighted_and_how_much_they_count(by: WeightedBy) -> None:
    release, _ = collected(by, np.random.default_rng(2))
    assert release.weighted is not None
    average = f"average weight {release.weighted.average:.2f}"
    fit = regression(release, "y")
    assert fit.summary().lstrip().startswith("Weighted regression of y")
    for answer in (fit, means(release), pca(release), correlation(release), regression_path(release, "y")):
        assert average in " ".join(answer.summary().split()), type(answer).__name__
    assert "about the weighted regression" in " ".join(fit.summary().split())
    assert "weighted regression" in fit.in_words()
    assert fit.to_dict()["weighted"]["average"] == pytest.approx(release.weighted.average)  # type: ignore[call-overload, index]


def test_a_score_says_that_its_weights_come_from_weighted_rows() -> None:
    release, _ = collected("features", np.random.default_rng(3))
    columns = (*release.columns[:-1], ScaledColumn("y", 0, release.columns[-1].scale, 0, 1, "", "boolean"))
    held = SecondMomentSum(
        columns, release.values, release.noise_sd, COUNT, release.row_bound, weighted=release.weighted
    )
    assert any("weighted regression" in warning for warning in linear_score(held, "y").warnings)
