"""Moments: exact without noise, errors in units, and what a release does not hold."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.moments import moments
from lintra_analysis.releases.columns import ScaledColumn, centers
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import (
    columns,
    in_units,
    mixed_columns,
    regression_rows,
    second_moment,
    sketch,
    total,
)

ROWS = regression_rows(600, np.random.default_rng(1)) + 0.5
NAMED = mixed_columns()


def test_a_noiseless_sum_gives_the_means_in_units_and_nothing_else() -> None:
    estimate = moments(total(ROWS, 0.0, np.random.default_rng(0), NAMED))
    assert estimate.means is not None
    assert_allclose([mean.value for mean in estimate.means], in_units(ROWS, NAMED).mean(axis=0))
    assert estimate.second_moments is None
    assert estimate.rms is None
    assert estimate.correlations is None
    assert any("release a second moment or a sketch" in note for note in estimate.notes)


def test_the_error_of_a_mean_is_the_noise_over_the_clients_in_units() -> None:
    estimate = moments(total(ROWS, 12.0, np.random.default_rng(0), NAMED))
    assert estimate.means is not None
    assert estimate.mean_sampling_bounds is not None
    for mean, column, bound in zip(estimate.means, NAMED, estimate.mean_sampling_bounds, strict=True):
        assert mean.standard_error == pytest.approx(12.0 / 600 * column.scale)
        assert bound == pytest.approx((column.upper - column.lower) / 2 / np.sqrt(600))


def test_a_noiseless_second_moment_gives_root_mean_squares_and_correlations_about_the_centers() -> None:
    estimate = moments(second_moment(ROWS, 0.0, np.random.default_rng(0), NAMED))
    off = in_units(ROWS, NAMED) - centers(NAMED)
    assert estimate.second_moments is not None
    assert estimate.rms is not None
    assert estimate.correlations is not None
    assert_allclose([square.value for square in estimate.second_moments], (off**2).mean(axis=0))
    assert_allclose([root.value for root in estimate.rms if root], np.sqrt((off**2).mean(axis=0)))
    expected = off.T @ off / np.sqrt(np.outer((off**2).sum(axis=0), (off**2).sum(axis=0)))
    found = [[entry.value for entry in row if entry] for row in estimate.correlations]
    assert_allclose(found, expected)


def test_a_sketch_in_which_every_client_has_a_row_of_its_own_gives_exact_second_moments() -> None:
    estimate = moments(sketch(ROWS, 600, 0.0, np.random.default_rng(0)))
    assert estimate.second_moments is not None
    assert_allclose([square.value for square in estimate.second_moments], (ROWS**2).mean(axis=0))


def test_a_second_moment_without_a_constant_column_says_plainly_that_it_holds_no_means() -> None:
    estimate = moments(second_moment(ROWS, 0.0, np.random.default_rng(0)))
    assert estimate.means is None
    assert estimate.mean_sampling_bounds is None
    assert any("holds none; release a sum" in note for note in estimate.notes)


def test_a_constant_column_carries_the_means() -> None:
    rows = np.column_stack([ROWS[:, :2], np.full(600, 0.5)])
    named = (*NAMED[:2], ScaledColumn("one", 0.0, 2.0, 1.0, 1.0))
    estimate = moments(second_moment(rows, 0.0, np.random.default_rng(0), named))
    assert estimate.means is not None
    assert_allclose([mean.value for mean in estimate.means], in_units(rows, named).mean(axis=0))
    assert estimate.means[2].standard_error == 0.0
    noisy = moments(second_moment(rows, 3.0, np.random.default_rng(0), named))
    assert noisy.means is not None
    assert noisy.means[0].standard_error == pytest.approx(3.0 / (0.5 * 600) * NAMED[0].scale)
    assert any("'one'" in note for note in noisy.notes)


def test_the_diagonal_of_a_second_moment_has_root_two_times_the_noise() -> None:
    estimate = moments(second_moment(ROWS, 3.0, np.random.default_rng(0)))
    assert estimate.second_moments is not None
    assert estimate.second_moments[0].standard_error == pytest.approx(np.sqrt(2) * 3.0 / 600)


def test_a_column_lost_in_noise_has_neither_a_root_nor_correlations_and_no_nan_appears() -> None:
    release = second_moment(ROWS, 0.0, np.random.default_rng(0))
    values = release.values.copy()
    values[1, 1] = -4.0
    estimate = moments(replace(release, values=values, noise_sd=5.0))
    assert estimate.rms is not None
    assert estimate.correlations is not None
    assert estimate.rms[1] is None
    assert estimate.correlations[1] == (None,) * 5
    assert estimate.correlations[0][1] is None
    assert estimate.correlations[0][2] is not None
    json.dumps(estimate.to_dict(), allow_nan=False)


def test_correlations_and_their_intervals_lie_between_minus_one_and_one() -> None:
    for seed in range(10):
        release = sketch(ROWS, 30, 2.0, np.random.default_rng(seed))
        for row in moments(release).correlations or ():
            for entry in row:
                if entry is not None:
                    assert entry.interval is not None
                    assert -1 <= entry.interval[0] <= entry.value <= entry.interval[1] <= 1


def test_a_correlation_of_a_column_with_itself_is_one_without_error() -> None:
    for release in (
        sketch(ROWS, 60, 1.0, np.random.default_rng(0)),
        second_moment(ROWS, 5.0, np.random.default_rng(0)),
    ):
        correlations = moments(release).correlations
        assert correlations is not None
        entry = correlations[0][0]
        assert entry is not None
        assert (entry.value, entry.standard_error) == (pytest.approx(1.0), 0.0)


def test_the_answer_is_plain_json() -> None:
    generator = np.random.default_rng(0)
    for release in (total(ROWS, 1.0, generator), sketch(ROWS, 60, 1.0, generator), second_moment(ROWS, 1.0, generator)):
        plain = moments(release).to_dict()
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
        assert plain["columns"] == [column.name for column in columns(5)]


def test_a_bad_confidence_is_refused() -> None:
    with pytest.raises(InvalidAnalysisError, match="confidence"):
        moments(total(ROWS, 1.0, np.random.default_rng(0)), confidence=95)
