"""Components about the centers: exact without noise, conventions of sign and order, what is not resolved, refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lintra_analysis.estimators.pca import pca
from lintra_analysis.estimators.pca_estimate import PcaEstimate
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import columns, regression_rows, second_moment, sketch, symmetric_noise, total, with_constant

ROWS = regression_rows(600, np.random.default_rng(1)) * np.array([3.0, 2.0, 1.0, 0.5, 1.0])


def low_rank(release: Release, rank: int, confidence: float = 0.95) -> PcaEstimate:
    """Components about the public centers, with errors of the cohort."""
    return pca(release, rank, confidence=confidence, about="centers", of="cohort")


def noisy(kind: str) -> Release:
    generator = np.random.default_rng(3)
    return sketch(ROWS, 60, 1.0, generator) if kind == "sketch" else second_moment(ROWS, 5.0, generator)


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_a_noiseless_second_moment_gives_the_singular_vectors_of_the_rows(rank: int) -> None:
    estimate = low_rank(second_moment(ROWS, 0.0, np.random.default_rng(0)), rank)
    _, singular, right = np.linalg.svd(ROWS, full_matrices=False)
    best = (ROWS @ right[:rank].T) @ right[:rank]
    assert_allclose(estimate.inverse_transform(estimate.transform(ROWS)), best, atol=1e-9)
    assert_allclose(estimate.explained_variance_ * 600, singular[:rank] ** 2)
    assert estimate.cumulative_ratio is not None
    explained = estimate.cumulative_ratio[-1]
    assert explained.value == pytest.approx((singular[:rank] ** 2).sum() / (singular**2).sum())
    assert explained.interval == pytest.approx((explained.value,) * 2)
    assert estimate.resolved
    assert estimate.subspace_error == pytest.approx(0.0)
    assert estimate.noise_norm == 0.0


def test_weyls_intervals_say_where_they_take_noise_to_be_gaussian() -> None:
    release = second_moment(ROWS, 5.0, np.random.default_rng(3))
    assert not any("Gaussian" in note for note in low_rank(release, 2).notes)
    assert any("close to Gaussian" in note for note in low_rank(replace(release, gaussian=False), 2).notes)


def test_a_constant_column_is_no_direction_of_the_data() -> None:
    rows, named = with_constant(ROWS, columns(5))
    noise = symmetric_noise(6, 5.0, np.random.default_rng(3))
    whole = SecondMomentSum(named, rows.T @ rows + noise, 5.0, 600, 10.0)
    plain = low_rank(whole.restrict([f"c{i}" for i in range(5)]), 2)
    assert low_rank(whole, 2).to_dict() == plain.to_dict()


@pytest.mark.parametrize("kind", ["sketch", "second moment"])
def test_components_are_orthonormal_and_their_largest_entry_is_positive(kind: str) -> None:
    components = low_rank(noisy(kind), 3).components
    assert_allclose(components @ components.T, np.eye(3), atol=1e-12)
    assert (components[np.arange(3), np.abs(components).argmax(axis=1)] > 0).all()


def test_subtracting_the_noise_level_moves_no_component_of_a_sketch() -> None:
    release = sketch(ROWS, 60, 1.0, np.random.default_rng(3))
    quiet = replace(release, noise_variance=np.zeros(60))
    assert_allclose(low_rank(release, 3).components, low_rank(quiet, 3).components, atol=1e-9)


@pytest.mark.parametrize("kind", ["sketch", "second moment"])
def test_permuting_the_columns_permutes_the_components(kind: str) -> None:
    order = ["c3", "c0", "c4", "c1", "c2"]
    components = low_rank(noisy(kind), 2).components
    permuted = low_rank(noisy(kind).restrict(order), 2).components
    assert_allclose(permuted, components[:, [3, 0, 4, 1, 2]], atol=1e-9)


def test_more_rank_explains_more_and_full_rank_explains_everything() -> None:
    shares = []
    for rank in range(1, 6):
        cumulative = low_rank(noisy("second moment"), rank).cumulative_ratio
        assert cumulative is not None
        shares.append(cumulative[-1].value)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


def test_reported_eigenvalues_are_never_negative_and_the_warning_counts_those_that_were() -> None:
    estimate = low_rank(second_moment(0.01 * ROWS, 50.0, np.random.default_rng(0)), 5)
    assert all(value.value >= 0 for value in estimate.explained_variance)
    assert any("negative" in warning for warning in estimate.warnings)


def test_noise_leaves_the_components_unresolved_and_says_so() -> None:
    for release in (
        second_moment(0.01 * ROWS, 50.0, np.random.default_rng(0)),
        sketch(0.01 * ROWS, 60, 50.0, np.random.default_rng(0)),
    ):
        estimate = low_rank(release, 2)
        assert not estimate.resolved
        assert any("not told apart" in warning for warning in estimate.warnings)
        assert 0 < estimate.subspace_error <= 2


def test_a_tie_without_noise_is_not_an_error() -> None:
    estimate = low_rank(second_moment(np.eye(4), 0.0, np.random.default_rng(0)), 2)
    assert estimate.resolved
    assert_array_equal([value.value for value in estimate.explained_variance], [0.25, 0.25])


@pytest.mark.parametrize("kind", ["sketch", "second moment"])
def test_the_answer_is_plain_json(kind: str) -> None:
    plain = low_rank(noisy(kind), 2).to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


@pytest.mark.parametrize("rank", [0, 6, -1, 1.5, True])
def test_a_rank_out_of_range_is_refused_with_the_range(rank: int) -> None:
    with pytest.raises(InvalidAnalysisError, match="from 1 to the 5 columns"):
        low_rank(noisy("sketch"), rank)


def test_a_sum_has_no_components() -> None:
    with pytest.raises(InvalidAnalysisError, match="sum of rows"):
        low_rank(total(ROWS, 1.0, np.random.default_rng(0)), 1)


def test_a_bad_confidence_is_refused() -> None:
    with pytest.raises(InvalidAnalysisError, match="confidence"):
        low_rank(noisy("sketch"), 1, confidence=0.0)
