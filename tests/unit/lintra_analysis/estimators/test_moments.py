"""Means and mean squares: exact without noise, errors in units, and what a release does not hold."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.correlation import correlation
from lintra_analysis.estimators.means import MeansEstimate, means
from lintra_analysis.estimators.quantities import Quantity
from lintra_analysis.releases.columns import ScaledColumn, centers
from lintra_analysis.releases.release import Release
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import columns, in_units, mixed_columns, regression_rows, second_moment, sketch, total

ROWS = regression_rows(600, np.random.default_rng(1)) + 0.5
NAMED = mixed_columns()


def moments(release: Release, confidence: float = 0.95) -> MeansEstimate:
    """Means and mean squares with the errors of the cohort."""
    return means(release, confidence=confidence, of="cohort")


def error(one: Quantity) -> float:
    assert one.standard_error is not None
    return one.standard_error.total


def test_a_noiseless_sum_gives_the_means_in_units_and_nothing_else() -> None:
    estimate = moments(total(ROWS, 0.0, np.random.default_rng(0), NAMED))
    assert estimate.means is not None
    assert_allclose([mean.value for mean in estimate.means], in_units(ROWS, NAMED).mean(axis=0))
    assert estimate.mean_squares is None
    assert estimate.root_mean_squares is None
    assert any("release a second moment or a sketch" in note for note in estimate.notes)


def test_the_error_of_a_mean_is_the_noise_over_the_clients_in_units() -> None:
    estimate = moments(total(ROWS, 12.0, np.random.default_rng(0), NAMED))
    assert estimate.means is not None
    bounds = means(total(ROWS, 12.0, np.random.default_rng(0), NAMED)).means
    assert bounds is not None
    for mean, column, bound in zip(estimate.means, NAMED, bounds, strict=True):
        assert error(mean) == pytest.approx(12.0 / 600 * column.scale)
        assert bound.standard_error is not None
        assert bound.standard_error.sampling == pytest.approx((column.upper - column.lower) / 2 / np.sqrt(600))


def test_a_noiseless_second_moment_gives_root_mean_squares_and_correlations_about_the_centers() -> None:
    release = second_moment(ROWS, 0.0, np.random.default_rng(0), NAMED)
    estimate = moments(release)
    off = in_units(ROWS, NAMED) - centers(NAMED)
    assert estimate.mean_squares is not None
    assert estimate.root_mean_squares is not None
    assert_allclose([square.value for square in estimate.mean_squares], (off**2).mean(axis=0))
    assert_allclose([root.value for root in estimate.root_mean_squares if root], np.sqrt((off**2).mean(axis=0)))
    expected = off.T @ off / np.sqrt(np.outer((off**2).sum(axis=0), (off**2).sum(axis=0)))
    assert_allclose(correlation(release, about="centers", of="cohort").matrix, expected)


def test_a_sketch_in_which_every_client_has_a_row_of_its_own_gives_exact_second_moments() -> None:
    estimate = moments(sketch(ROWS, 600, 0.0, np.random.default_rng(0)))
    assert estimate.mean_squares is not None
    assert_allclose([square.value for square in estimate.mean_squares], (ROWS**2).mean(axis=0))


def test_a_second_moment_without_a_constant_column_says_plainly_that_it_holds_no_means() -> None:
    estimate = moments(second_moment(ROWS, 0.0, np.random.default_rng(0)))
    assert estimate.means is None
    assert any("holds none; release a sum" in note for note in estimate.notes)


def test_a_constant_column_carries_the_means() -> None:
    rows = np.column_stack([ROWS[:, :2], np.full(600, 0.5)])
    named = (*NAMED[:2], ScaledColumn("one", 0.0, 2.0, 1.0, 1.0))
    estimate = moments(second_moment(rows, 0.0, np.random.default_rng(0), named))
    assert estimate.means is not None
    assert_allclose([mean.value for mean in estimate.means], in_units(rows, named).mean(axis=0)[:2])
    noisy_release = second_moment(rows, 3.0, np.random.default_rng(0), named)
    noisy = moments(noisy_release)
    assert noisy.means is not None
    slope = noisy_release.values[2, 0] / noisy_release.values[2, 2]
    expected = 3.0 / noisy_release.values[2, 2] * 0.5 * NAMED[0].scale * np.sqrt(1 + 2 * slope**2)
    assert error(noisy.means[0]) == pytest.approx(expected)
    assert any("'one'" in note for note in noisy.notes)


def test_the_diagonal_of_a_second_moment_has_root_two_times_the_noise() -> None:
    estimate = moments(second_moment(ROWS, 3.0, np.random.default_rng(0)))
    assert estimate.mean_squares is not None
    assert error(estimate.mean_squares[0]) == pytest.approx(np.sqrt(2) * 3.0 / 600)


def test_a_column_lost_in_noise_has_neither_a_root_nor_correlations_and_no_nan_appears() -> None:
    release = second_moment(ROWS, 0.0, np.random.default_rng(0))
    values = release.values.copy()
    values[1, 1] = -4.0
    lost = replace(release, values=values, noise_sd=5.0)
    estimate, pairs = moments(lost), correlation(lost, about="centers", of="cohort")
    assert estimate.root_mean_squares is not None
    assert estimate.root_mean_squares[1] is None
    assert pairs.lost == ("c1",)
    assert all(pairs.pair("c1", other).value is None for other in ("c0", "c2", "c3", "c4"))
    assert pairs.pair("c0", "c2").value is not None
    json.dumps(estimate.to_dict(), allow_nan=False)
    json.dumps(pairs.to_dict(), allow_nan=False)


def test_correlations_and_their_intervals_lie_between_minus_one_and_one() -> None:
    for seed in range(10):
        release = sketch(ROWS, 30, 2.0, np.random.default_rng(seed))
        for pair in correlation(release, about="centers", of="cohort").pairs:
            assert pair.value is not None
            assert -1 <= pair.interval[0] <= pair.value <= pair.interval[1] <= 1


def test_a_correlation_of_a_column_with_itself_is_one_without_error() -> None:
    for release in (
        sketch(ROWS, 60, 1.0, np.random.default_rng(0)),
        second_moment(ROWS, 5.0, np.random.default_rng(0)),
    ):
        assert_allclose(np.diagonal(correlation(release, about="centers").matrix), 1.0, rtol=1e-15)
        gram = release.second_moment()
        assert np.diagonal(gram.errors.correlation_variance(np.eye(5), np.diagonal(gram.matrix))).tolist() == [0.0] * 5


def test_the_answer_is_plain_json() -> None:
    generator = np.random.default_rng(0)
    for release in (total(ROWS, 1.0, generator), sketch(ROWS, 60, 1.0, generator), second_moment(ROWS, 1.0, generator)):
        plain = moments(release).to_dict()
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
        assert plain["columns"] == [column.name for column in columns(5)]


def test_a_bad_confidence_is_refused() -> None:
    with pytest.raises(InvalidAnalysisError, match="confidence"):
        moments(total(ROWS, 1.0, np.random.default_rng(0)), confidence=95)
