"""Regression: the design note's vector, least squares without noise, intercepts, bounds, text, CSV, refusals."""

import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.regression_estimate import RegressionEstimate
from lintra_analysis.estimators.simultaneous import proved_noise_norm
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import (
    columns,
    in_units,
    mixed_columns,
    regression_rows,
    second_moment,
    sketch,
    symmetric_noise,
    total,
    with_constant,
)

ROWS = regression_rows(600, np.random.default_rng(1))
NOTE = np.array([[100.0, 0, 50], [0, 80, -40], [50, -40, 90]])


def coefficients(estimate: RegressionEstimate) -> FloatArray:
    return np.append(estimate.coef_, estimate.intercept_)


def errors(estimate: RegressionEstimate, part: str = "total") -> FloatArray:
    every = (*estimate.coefficients, estimate.intercept)
    return np.array([getattr(one.standard_error, part) for one in every])


def noiseless(rows: FloatArray = ROWS) -> SecondMomentSum:
    return second_moment(rows, 0.0, np.random.default_rng(0), mixed_columns())


def test_the_vector_of_the_design_note_is_met_to_its_last_digit() -> None:
    estimate = regression(SecondMomentSum(columns(3), NOTE, 2.0, 100, 1.0), "c2")
    assert not estimate.regularised
    assert_allclose([estimate.raw["c0"], estimate.raw["c1"]], [0.5, -0.5], rtol=1e-12)
    # Two products of deviation 2, of squares 50^2 + 40^2.
    assert_allclose(estimate.coef_, np.array([0.5, -0.5]) * (1 - 2 * 4 / 4100), rtol=1e-12)
    assert_allclose(estimate.residual_sum_of_squares, 45.1575, rtol=1e-12)
    assert_allclose(estimate.residual_sd**2, 0.460790816, rtol=1e-8)
    assert_allclose(errors(estimate)[:2], [0.07285539213, 0.08278668494], rtol=1e-8)
    assert_allclose(errors(estimate, "privacy")[:2], [0.02645751311, 0.03307189139], rtol=1e-8)
    assert_allclose(errors(estimate, "sampling")[:2], [0.06788157455, 0.07589390756], rtol=1e-8)


def test_trace_tight_noise_enters_the_errors_with_its_kappa() -> None:
    law = SymmetricNoise(2.0, trace_tight=True, num_columns=3)
    estimate = regression(GramEstimate(columns(3), NOTE, law, 100, 1.0), "c2")
    raw, inverse = np.array([0.5, -0.5]), np.diag([0.01, 0.0125])
    privacy = 4 * inverse @ (1.5 * np.eye(2) + 0.5 * np.outer(raw, raw)) @ inverse
    assert_allclose(errors(estimate, "privacy")[:2], np.sqrt(np.diagonal(privacy)), rtol=1e-12)
    assert_allclose([estimate.raw["c0"], estimate.raw["c1"]], raw, rtol=1e-12)


@pytest.mark.parametrize("fitted", [True, False])
def test_a_noiseless_release_gives_ordinary_least_squares_with_its_whole_table(fitted: bool) -> None:
    rows, named = with_constant(ROWS, mixed_columns()) if fitted else (ROWS, mixed_columns())
    estimate = regression(second_moment(rows, 0.0, np.random.default_rng(0), named), "c4", confidence=0.9)
    plain = in_units(ROWS, mixed_columns())
    design = np.column_stack([plain[:, :4], np.ones(600)])
    if not fitted:
        # Through the public centers: the normalised rows have no column of ones.
        design = plain[:, :4] - [column.center for column in mixed_columns()[:4]]
    target = plain[:, 4] - (0.0 if fitted else mixed_columns()[4].center)
    solution = np.linalg.lstsq(design, target)[0]
    residuals, freedom = target - design @ solution, 600 - design.shape[1]
    covariance = residuals @ residuals / freedom * np.linalg.inv(design.T @ design)
    size = design.shape[1]
    assert_allclose(coefficients(estimate)[:size], solution, rtol=1e-7)
    assert_allclose(errors(estimate)[:size], np.sqrt(np.diagonal(covariance)), rtol=1e-7)
    assert_allclose(errors(estimate, "sampling"), errors(estimate))
    about = target - (target.mean() if fitted else 0.0)
    r2 = 1 - residuals @ residuals / (about @ about)
    assert estimate.rsquared == pytest.approx(r2)
    assert estimate.adjusted_r2 == pytest.approx(1 - (1 - r2) * (599 if fitted else 600) / freedom)
    assert estimate.f_statistic == pytest.approx(r2 / (1 - r2) * freedom / 4)
    assert estimate.residual_sum_of_squares == pytest.approx(residuals @ residuals)
    first = estimate.coefficients[0]
    t = solution[0] / math.sqrt(covariance[0, 0])
    assert first.statistic == pytest.approx(t)
    assert first.degrees_of_freedom == pytest.approx(freedom)
    assert first.p_value == pytest.approx(2 * stats.t.sf(abs(t), freedom))
    reach = stats.t.ppf(0.95, freedom) * math.sqrt(covariance[0, 0])
    assert first.interval == pytest.approx((solution[0] - reach, solution[0] + reach))
    assert estimate.intercept_fitted == fitted
    assert estimate.warnings == ()


def test_an_intercept_is_not_shrunk_and_can_be_refused() -> None:
    rows, named = with_constant(ROWS + 0.5, columns(5))
    release = second_moment(rows, 0.0, np.random.default_rng(0), named)
    heavy = regression(release, "c4", regularization=1e9)
    assert_allclose(heavy.coef_, 0.0, atol=1e-4)
    assert heavy.intercept_ == pytest.approx(rows[:, -1].mean(), abs=1e-3)
    assert any("shrinks" in warning for warning in heavy.warnings)
    without = regression(release, "c4", intercept=False)
    assert not without.intercept_fitted
    assert_allclose(without.coef_, np.linalg.lstsq(rows[:, 1:5], rows[:, 5])[0], rtol=1e-9)


def test_predictions_are_in_units_with_their_errors_and_refuse_other_shapes_by_name() -> None:
    estimate = regression(second_moment(ROWS, 5.0, np.random.default_rng(3), mixed_columns()), "c4", ["c0", "c1"])
    rows = in_units(ROWS, mixed_columns())[:, :2]
    assert_allclose(estimate.predict(rows), rows @ estimate.coef_ + estimate.intercept_)
    assert estimate.covariance is not None
    at_zero = estimate.prediction_errors(np.zeros((1, 2)))
    assert at_zero is not None
    assert estimate.intercept.standard_error is not None
    assert at_zero[0] == pytest.approx(estimate.intercept.standard_error.total)
    assert estimate.feature_names_in_ == ("c0", "c1")
    assert estimate.n_features_in_ == 2
    with pytest.raises(ValueError, match=r"shape \(k, 2\), one column for each of c0, c1; got \(600, 5\)"):
        estimate.predict(ROWS)
    with pytest.raises(ValueError, match="finite"):
        estimate.predict(np.full((1, 2), np.nan))


def test_the_score_on_rows_that_are_held_is_their_r2() -> None:
    rows, named = with_constant(ROWS, columns(5))
    estimate = regression(second_moment(rows, 0.0, np.random.default_rng(0), named), "c4")
    assert estimate.score(ROWS[:, :4], ROWS[:, 4]) == pytest.approx(estimate.r2)
    with pytest.raises(ValueError, match="one number for each row"):
        estimate.score(ROWS[:, :4], ROWS[:5, 4])
    with pytest.raises(ValueError, match="all equal"):
        estimate.score(ROWS[:, :4], np.ones(600))


@pytest.mark.slow
def test_simultaneous_bounds_hold_for_every_regression_whenever_the_noise_is_within_its_norm() -> None:
    generator = np.random.default_rng(7)
    rows = regression_rows(4096, generator)
    gram = rows.T @ rows
    norm = proved_noise_norm(5, 60.0, 0.95)
    assert norm == pytest.approx(60.0 * (2 * math.sqrt(5) + 2 * math.sqrt(math.log(40))))
    widest = 0.0
    for scale in (-1.0, 1.0):
        noise = symmetric_noise(5, 60.0, generator)
        noise *= scale * norm / np.linalg.norm(noise, 2)
        release = SecondMomentSum(columns(5), gram + noise, 60.0, 4096, 10.0)
        for target in range(5):
            others = [i for i in range(5) if i != target]
            for used in (others, others[:2], others[3:]):
                estimate = regression(release, f"c{target}", [f"c{i}" for i in used], simultaneous=True)
                truth = np.linalg.solve(gram[np.ix_(used, used)], gram[used, target])
                assert estimate.simultaneous is not None
                for interval, value in zip(estimate.simultaneous.intervals, truth, strict=False):
                    assert interval is not None
                    assert interval[0] <= value <= interval[1]
                    widest = max(widest, 2 * abs(value - sum(interval) / 2) / (interval[1] - interval[0]))
    # They are not idle: some truth lies a good part of the way to the end of its interval.
    assert widest > 0.3


def test_simultaneous_bounds_cover_all_columns_of_the_release_and_end_where_noise_may_swallow_a_direction() -> None:
    release = second_moment(ROWS, 5.0, np.random.default_rng(3))
    part = regression(release, "c4", ["c0"], simultaneous=True)
    alone = regression(release.restrict(["c0", "c4"]), "c4", simultaneous=True)
    assert part.simultaneous is not None
    assert alone.simultaneous is not None
    assert part.simultaneous.noise_norm == pytest.approx(proved_noise_norm(5, 5.0, 0.95))
    assert alone.simultaneous.noise_norm == pytest.approx(proved_noise_norm(2, 5.0, 0.95))
    drowned = regression(second_moment(ROWS, 60.0, np.random.default_rng(3)), "c4", simultaneous=True)
    assert drowned.simultaneous is not None
    assert drowned.simultaneous.intervals[:4] == (None,) * 4
    assert any("no simultaneous bounds" in warning for warning in drowned.warnings)
    with pytest.raises(InvalidAnalysisError, match="known Gaussian noise"):
        regression(replace(release, gaussian=False), "c4", simultaneous=True)
    with pytest.raises(InvalidAnalysisError, match="known Gaussian noise"):
        regression(sketch(ROWS, 60, 1.0, np.random.default_rng(3)), "c4", simultaneous=True)


@pytest.mark.parametrize("kind", ["sketch", "second moment"])
def test_the_answer_is_plain_json_and_csv_that_reads_back(kind: str) -> None:
    generator = np.random.default_rng(3)
    release = sketch(ROWS, 60, 1.0, generator) if kind == "sketch" else second_moment(ROWS, 5.0, generator)
    estimate = regression(release, "c4", simultaneous=kind != "sketch")
    plain = estimate.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert "covariance" not in plain
    lines = list(csv.DictReader(io.StringIO(estimate.to_csv())))
    assert [line["name"] for line in lines] == ["c0", "c1", "c2", "c3", "(intercept)"]
    assert [float(line["coefficient"]) for line in lines] == coefficients(estimate).tolist()
    assert [float(line["standard_error"]) for line in lines] == errors(estimate).tolist()
    assert ("simultaneous_lower" in lines[0]) == (kind != "sketch")
    assert lines[-1]["t"] == ""


def test_the_summary_has_a_line_for_each_coefficient_the_promise_and_every_warning() -> None:
    rows, named = with_constant(ROWS, columns(5))
    release = second_moment(rows, 5.0, np.random.default_rng(3), named)
    estimate = regression(release, "c4", simultaneous=True)
    text = estimate.summary("epsilon 1 at delta 1e-06 (replace-one)")
    lines = {line.split()[0]: line.split() for line in text.splitlines() if line.startswith(("c", "(intercept)"))}
    assert list(lines) == ["c0", "c1", "c2", "c3", "(intercept)"]
    assert "std err" in text
    assert "[0.025" in text
    assert "Privacy: epsilon 1 at delta 1e-06 (replace-one)" in text
    assert max(map(len, text.splitlines())) <= 120
    drowned = regression(second_moment(ROWS, 2000.0, np.random.default_rng(0)), "c4").summary()
    assert "Warning: noise is large" in drowned
    assert "Privacy" not in drowned
    assert "[" not in repr(estimate)


def test_a_floored_sketch_has_coefficients_and_no_errors_in_every_dress() -> None:
    estimate = regression(sketch(ROWS, 60, 500.0, np.random.default_rng(0)), "c4")
    assert estimate.covariance is None
    assert estimate.f_statistic is None
    assert estimate.prediction_errors(ROWS[:, :4]) is None
    assert estimate.to_csv().splitlines()[1].endswith("," * 9 + "False")
    assert "no standard errors" in estimate.summary()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"target": "age"}, "unknown columns: age; known are: one, c0, c1, c2, c3, c4"),
        ({"features": ["c0", "age"]}, "unknown columns: age"),
        ({"features": ["c0", "c4"]}, "own features"),
        ({"features": ["c0", "c0"]}, "once"),
        ({"features": []}, "no column besides"),
        ({"features": ["c0", "one"]}, "'one' is the same for everybody, so it explains nothing"),
        ({"target": "one"}, "the target 'one' is the same for everybody"),
        ({"regularization": -1.0}, "at least 0, got -1.0"),
        ({"regularization": math.inf}, "finite"),
        ({"regularization": 1e300}, r"at most 1e\+60"),
        ({"confidence": 1 - 1e-13}, "doubt of at least 1e-12"),
        ({"confidence": 0.0}, "strictly between 0 and 1"),
        ({"confidence": math.nan}, "strictly between 0 and 1"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_with_the_reason(arguments: dict[str, object], reason: str) -> None:
    rows, named = with_constant(ROWS, columns(5))
    release = second_moment(rows, 5.0, np.random.default_rng(3), named)
    call: dict[str, object] = {"target": "c4", **arguments}
    with pytest.raises(InvalidAnalysisError, match=reason):
        regression(release, **call)  # type: ignore[arg-type]


def test_what_the_release_cannot_carry_is_refused() -> None:
    with pytest.raises(InvalidAnalysisError, match="holds no constant column"):
        regression(noiseless(), "c4", intercept=True)
    with pytest.raises(InvalidAnalysisError, match="sum of rows"):
        regression(total(ROWS, 1.0, np.random.default_rng(0)), "c4")
    with pytest.raises(InvalidAnalysisError, match="need more than 4 clients"):
        regression(noiseless(ROWS[:4]), "c4")
    twice = np.column_stack([ROWS[:, 0], ROWS[:, 0], ROWS[:, 4]])
    with pytest.raises(InvalidAnalysisError, match="linearly dependent"):
        regression(second_moment(twice, 0.0, np.random.default_rng(0)), "c2")


@pytest.mark.parametrize("penalty", [1e10, 1e20, 1e60])
def test_however_large_a_penalty_the_intercept_becomes_the_mean_and_keeps_its_error(penalty: float) -> None:
    rows, named = with_constant(ROWS + 0.3, columns(5))
    estimate = regression(second_moment(rows, 0.0, np.random.default_rng(0), named), "c4", regularization=penalty)
    assert_allclose(estimate.coef_, 0.0, atol=1e-6)
    mean = float(rows[:, -1].mean())
    assert estimate.intercept_ == pytest.approx(mean, abs=1e-5)
    error = estimate.intercept.standard_error
    assert error is not None
    spread = float(np.sum((rows[:, -1] - mean) ** 2)) / (len(rows) - 5)
    assert error.total == pytest.approx(math.sqrt(spread / len(rows)), rel=1e-5)


def test_the_warning_of_a_raised_eigenvalue_names_the_columns_that_are_copies_of_each_other() -> None:
    generator = np.random.default_rng(6)
    copied = np.column_stack([ROWS[:, :4], ROWS[:, 1] + 1e-3 * generator.normal(size=len(ROWS)), ROWS[:, 4]])
    estimate = regression(second_moment(copied, 5.0, generator), "c5")
    assert estimate.regularised
    assert any("mostly along c1, c4:" in text or "mostly along c4, c1:" in text for text in estimate.warnings)


def test_a_constant_column_in_any_unit_gives_the_same_intercept() -> None:
    rows, named = with_constant(ROWS + 0.3, columns(5))
    release = second_moment(rows, 0.0, np.random.default_rng(0), named)
    expected = regression(release, "c4")
    scaled = release.values.copy()
    scaled[0] *= 0.5
    scaled[:, 0] *= 0.5
    other = replace(release, columns=(ScaledColumn("one", 3.0, 4.0, 5.0, 5.0), *named[1:]), values=scaled)
    found = regression(other, "c4")
    assert_allclose(coefficients(found), coefficients(expected), rtol=1e-9)
    assert_allclose(errors(found), errors(expected), rtol=1e-9)


def test_the_population_is_told_how_far_errors_may_be_off_whatever_the_residuals_variances() -> None:
    generator = np.random.default_rng(11)
    features = generator.uniform(-1, 1, (4000, 2)) * [0.5, 0.1]
    # Nearly all residuals belong to the rows at the end of the second feature, as unlike one variance as can be.
    noise = generator.normal(size=4000) * (np.abs(features[:, 1]) > 0.095) * 0.3
    rows, named = with_constant(np.column_stack([features, features @ [0.3, 0.2] + noise]), columns(3))
    release = second_moment(rows, 0.05, generator, named)
    law = regression(release, "c2").law
    stated = float(law.partition("is at most ")[2].split()[0])
    x = rows[:, :-1]
    inverse, residuals = np.linalg.inv(x.T @ x), rows[:, -1] - x @ np.linalg.lstsq(x, rows[:, -1], rcond=None)[0]
    one = np.diagonal(inverse) * float(residuals @ residuals) / (4000 - 3)
    true = np.diagonal(inverse @ (x.T * residuals**2) @ x @ inverse)
    ratio = np.sqrt((true / one)[1:].max())
    assert 1.6 < ratio <= stated
    assert "tried down to .68 of .95" in law
    assert "at most" not in regression(release, "c2", of="cohort").law


def test_an_answer_about_the_population_says_that_one_residual_variance_is_assumed() -> None:
    release = second_moment(ROWS, 5.0, np.random.default_rng(3), mixed_columns())
    assert "one residual variance is assumed" in " ".join(regression(release, "c4").summary().split())
    assert "residual variance" not in regression(release, "c4", of="cohort").law
    # The sandwich of a sketch follows its own rows, and assumes no such thing.
    assert "residual variance" not in regression(sketch(ROWS, 40, 0.1, np.random.default_rng(3)), "c4").law
