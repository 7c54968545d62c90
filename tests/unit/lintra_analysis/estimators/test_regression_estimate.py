"""Ridge: exact without noise, the design note's vectors, units, floors, refusals."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.regression_estimate import RegressionEstimate
from lintra_analysis.estimators.spectral import floor_eigenvalues
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import columns, in_units, mixed_columns, regression_rows, second_moment, sketch, total

ROWS = regression_rows(600, np.random.default_rng(1))


def ridge(
    release: Release,
    target: str = "c4",
    features: list[str] | None = None,
    regularization: float = 1.0,
    confidence: float = 0.95,
) -> RegressionEstimate:
    """A regression with a penalty of 1 unless another is given."""
    return regression(release, target, features, regularization, confidence=confidence)


def values(estimate: RegressionEstimate) -> FloatArray:
    return np.array([coefficient.value for coefficient in estimate.coefficients])


def errors(estimate: RegressionEstimate, part: str) -> FloatArray:
    return np.array([getattr(coefficient.standard_error, part) for coefficient in estimate.coefficients])


def exact(gram: FloatArray, regularization: float) -> FloatArray:
    size = gram.shape[0] - 1
    return np.asarray(np.linalg.solve(gram[:-1, :-1] + regularization * np.eye(size), gram[:-1, -1]))


def noisy(kind: str, seed: int = 3) -> Release:
    generator = np.random.default_rng(seed)
    return sketch(ROWS, 60, 1.0, generator) if kind == "sketch" else second_moment(ROWS, 5.0, generator)


def test_the_vector_of_the_design_note_is_met_to_its_last_digit() -> None:
    gram = np.array([[100.0, 0, 50], [0, 80, -40], [50, -40, 90]])
    estimate = ridge(SecondMomentSum(columns(3), gram, 2.0, 100, 1.0), "c2", regularization=0.0)
    assert not estimate.regularised
    assert_allclose([one.raw for one in estimate.coefficients], [0.5, -0.5], rtol=1e-12)
    assert_allclose(estimate.residual_sum_of_squares, 45.1575, rtol=1e-12)
    assert_allclose(estimate.residual_sd**2, 0.460790816, rtol=1e-8)
    assert_allclose(errors(estimate, "total"), [0.07285539213, 0.08278668494], rtol=1e-8)
    assert_allclose(errors(estimate, "privacy"), [0.02645751311, 0.03307189139], rtol=1e-8)
    assert_allclose(errors(estimate, "sampling"), [0.06788157455, 0.07589390756], rtol=1e-8)
    assert_allclose(errors(estimate, "sketching"), 0.0)


def test_the_floor_vector_of_the_design_note_is_met() -> None:
    repaired = floor_eigenvalues(np.array([[10.0, 0, 9], [0, 4, 0], [9, 0, 8]]), math.sqrt(3))
    expected = [[10.79502333, 0, 8.11174824], [0, 4, 0], [8.11174824, 0, 8.99241261]]
    assert_allclose(repaired, expected, atol=1e-8)


@pytest.mark.parametrize("regularization", [0.0, 1.0, 50.0])
def test_a_noiseless_second_moment_gives_the_exact_ridge_solution(regularization: float) -> None:
    release = second_moment(ROWS, 0.0, np.random.default_rng(0))
    estimate = ridge(release, "c4", regularization=regularization)
    solution = exact(ROWS.T @ ROWS, regularization)
    residual = ROWS[:, 4] - ROWS[:, :4] @ solution
    assert_allclose(values(estimate), solution, rtol=1e-10)
    assert_allclose(estimate.residual_sum_of_squares, residual @ residual, rtol=1e-10)
    assert_allclose(estimate.r2, 1 - residual @ residual / (ROWS[:, 4] @ ROWS[:, 4]), rtol=1e-10)
    assert_allclose(errors(estimate, "privacy"), 0.0)
    assert not estimate.regularised
    assert [text for text in estimate.warnings if "penalty" not in text] == []
    assert bool(estimate.warnings) == (regularization > 0)


@pytest.mark.parametrize("regularization", [0.0, 1.0, 50.0])
def test_a_noiseless_sketch_gives_the_exact_ridge_solution_on_its_own_rows(regularization: float) -> None:
    release = sketch(ROWS, 60, 0.0, np.random.default_rng(0))
    estimate = ridge(release, "c4", regularization=regularization)
    assert_allclose(values(estimate), exact(release.values.T @ release.values, regularization), rtol=1e-10)
    assert_allclose(errors(estimate, "privacy"), 0.0)
    assert (errors(estimate, "sketching") > 0).all()


def test_a_sketch_in_which_every_client_has_a_row_of_its_own_gives_the_exact_ridge_solution() -> None:
    release = sketch(ROWS, ROWS.shape[0], 0.0, np.random.default_rng(0))
    assert_allclose(values(ridge(release, "c4")), exact(ROWS.T @ ROWS, 1.0), rtol=1e-10)


@pytest.mark.parametrize("kind", ["sketch", "second moment"])
def test_units_change_the_coefficients_and_nothing_else(kind: str) -> None:
    plain = noisy(kind)
    named = mixed_columns()
    estimate = ridge(replace(plain, columns=named), "c4", regularization=2.0)  # type: ignore[call-arg]
    reference = ridge(plain, "c4", regularization=2.0)
    ratios = np.array([named[4].scale / column.scale for column in named[:4]])
    assert_allclose(values(estimate), values(reference) * ratios)
    predicted = ROWS[:, :4] @ values(reference)
    rows = in_units(ROWS, named)
    in_target_units = predicted * named[4].scale + named[4].center
    assert_allclose(estimate.predict(rows[:, :4]), in_target_units, rtol=1e-10)
    assert_allclose(
        estimate.residual_sum_of_squares, reference.residual_sum_of_squares * named[4].scale ** 2, rtol=1e-10
    )
    assert estimate.r2 == pytest.approx(reference.r2)
    for own, normal, column in zip(estimate.coefficients, reference.coefficients, named, strict=False):
        ratio = named[4].scale / column.scale
        assert own.standard_error is not None
        assert normal.standard_error is not None
        assert own.standard_error.total == pytest.approx(normal.standard_error.total * ratio)
        assert own.interval == pytest.approx(tuple(ratio * end for end in normal.interval or ()), rel=1e-3)


def test_the_intercept_has_the_error_of_the_prediction_at_zero() -> None:
    named = mixed_columns()
    estimate = ridge(replace(second_moment(ROWS, 5.0, np.random.default_rng(3), named), gaussian=False), "c4")
    assert estimate.intercept.standard_error is not None
    assert estimate.intercept.interval is not None
    assert estimate.intercept.value == pytest.approx(estimate.predict(np.zeros((1, 4)))[0])
    low, high = estimate.intercept.interval
    assert (low + high) / 2 == pytest.approx(estimate.intercept.raw)
    # Only the sampling part is estimated, from 596 residuals (Satterthwaite 1946).
    error = estimate.intercept.standard_error
    freedom = 596 * (error.total / error.sampling) ** 4
    assert estimate.intercept.degrees_of_freedom == pytest.approx(freedom)
    assert high - low == pytest.approx(2 * stats.t.ppf(0.975, freedom) * error.total)


@pytest.mark.parametrize("kind", ["sketch", "second moment"])
def test_the_parts_of_a_standard_error_add_up_in_squares(kind: str) -> None:
    for coefficient in ridge(noisy(kind), "c4").coefficients:
        error = coefficient.standard_error
        assert error is not None
        assert error.total == pytest.approx(math.hypot(error.privacy, error.sketching, error.sampling))
        assert (error.sketching > 0) == (kind == "sketch")


@pytest.mark.parametrize("kind", ["sketch", "second moment"])
def test_leaving_columns_out_is_the_same_before_and_in_the_regression(kind: str) -> None:
    inside = ridge(noisy(kind), "c4", ["c1", "c3"])
    before = ridge(noisy(kind).restrict(["c4", "c3", "c1"]), "c4", ["c1", "c3"])
    assert_allclose(values(inside), values(before))
    assert inside.floor == before.floor
    assert_allclose(errors(inside, "total"), errors(before, "total"))


@pytest.mark.slow
def test_noise_that_drowns_a_direction_is_floored_flagged_and_explained() -> None:
    for seed in range(20):
        release = second_moment(ROWS, 2000.0, np.random.default_rng(seed))
        estimate = ridge(release, "c4", regularization=0.0)
        assert estimate.regularised
        assert np.abs(estimate.coef_).max() < 10
        assert estimate.floor == pytest.approx(3 * 2000.0 * math.sqrt(5))
        assert any("raised" in warning for warning in estimate.warnings)
        assert estimate.bounded or any("cannot be told" in warning for warning in estimate.warnings)
        linear = ridge(replace(release, gaussian=False), "c4", regularization=0.0)
        assert any("approximate" in warning for warning in linear.warnings)
        assert linear.r2 is None


def test_a_sketch_whose_floor_is_active_has_no_standard_errors_and_says_so() -> None:
    estimate = ridge(sketch(ROWS, 60, 500.0, np.random.default_rng(0)), "c4")
    assert estimate.regularised
    alone = 500.0 * (2 * math.sqrt(60 * 4) + 4)
    assert estimate.floor**2 == pytest.approx(alone**2 + 4 * 500.0 * 4 * estimate.floor)
    for coefficient in (*estimate.coefficients, *estimate.coefficients, estimate.intercept):
        assert coefficient.standard_error is None
        assert coefficient.interval is None
    assert any("no standard errors" in warning for warning in estimate.warnings)
    assert any("sketch uninformative" in warning for warning in estimate.warnings)


def test_an_informative_sketch_is_not_called_uninformative() -> None:
    assert not any("uninformative" in warning for warning in ridge(noisy("sketch"), "c4").warnings)


@pytest.mark.parametrize("kind", ["sketch", "second moment"])
def test_the_answer_is_plain_json(kind: str) -> None:
    plain = ridge(noisy(kind), "c4").to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["features"] == ["c0", "c1", "c2", "c3"]


def test_an_r2_that_noise_has_swallowed_is_none() -> None:
    release = second_moment(ROWS, 0.0, np.random.default_rng(0))
    drowned = release.values.copy()
    drowned[4, 4] = -1.0
    estimate = ridge(replace(release, values=drowned, noise_sd=30.0), "c4")
    assert estimate.r2 is None
    assert estimate.to_dict()["r2"] is None
    assert any("r2 and the residual deviation cannot be told" in warning for warning in estimate.warnings)
    linear = ridge(replace(release, values=drowned, noise_sd=30.0, gaussian=False), "c4")
    assert linear.r2 is None
    assert any("no r2" in warning for warning in linear.warnings)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"target": "age"}, "unknown columns: age; known are: c0, c1, c2, c3, c4"),
        ({"features": ["c0", "age"]}, "unknown columns: age"),
        ({"features": ["c0", "c4"]}, "own features"),
        ({"features": ["c0", "c0"]}, "once"),
        ({"features": []}, "no column besides"),
        ({"regularization": -1.0}, "at least 0, got -1.0"),
        ({"regularization": math.nan}, "finite"),
        ({"confidence": 1.0}, "strictly between 0 and 1"),
        ({"confidence": math.nan}, "strictly between 0 and 1"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_with_the_reason(arguments: dict[str, object], reason: str) -> None:
    call: dict[str, object] = {"target": "c4", **arguments}
    with pytest.raises(InvalidAnalysisError, match=reason):
        ridge(noisy("sketch"), **call)  # type: ignore[arg-type]


def test_a_sum_cannot_be_regressed() -> None:
    with pytest.raises(InvalidAnalysisError, match="sum of rows"):
        ridge(total(ROWS, 1.0, np.random.default_rng(0)), "c4")


def test_dependent_features_without_regularization_are_refused_and_with_it_are_not() -> None:
    twice = np.column_stack([ROWS[:, 0], ROWS[:, 0], ROWS[:, 4]])
    release = second_moment(twice, 0.0, np.random.default_rng(0))
    with pytest.raises(InvalidAnalysisError, match="linearly dependent"):
        ridge(release, "c2", regularization=0.0)
    first, second = values(ridge(release, "c2", regularization=1.0))
    assert first == pytest.approx(second)


def test_more_features_than_clients_are_refused() -> None:
    with pytest.raises(InvalidAnalysisError, match="need more than 4 clients"):
        ridge(second_moment(ROWS[:4], 1.0, np.random.default_rng(0)), "c4")


def test_a_sketch_with_hardly_more_rows_than_features_has_no_standard_errors() -> None:
    estimate = ridge(sketch(ROWS, 5, 0.0, np.random.default_rng(0)), "c4")
    assert not estimate.regularised
    assert estimate.coefficients[0].standard_error is None
    assert any("more sketch rows than features" in warning for warning in estimate.warnings)
