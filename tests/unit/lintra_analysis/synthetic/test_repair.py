"""Repairing a noisy covariance: the vectors, and what must hold for every matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lintra_analysis.synthetic.repair import project_on_simplex, repair, symmetric_root
from support import few

matrices = st.integers(1, 6).flatmap(
    lambda size: arrays(np.float64, (size, size), elements=st.floats(-100, 100, allow_subnormal=False))
)


def test_the_repair_vector_holds() -> None:
    repaired = repair(np.array([[2, 1.5, 0], [1.5, 0.5, 0], [0, 0, -0.4]]), 0.6)
    expected = [[1.1523673922, 0.5183669053, 0], [0.5183669053, 0.6340004869, 0], [0, 0, 0.3136321208]]
    np.testing.assert_allclose(repaired.matrix, expected, atol=1e-9)


def test_the_projection_vectors_hold() -> None:
    np.testing.assert_allclose(project_on_simplex(np.array([3.0, 1, -1]), 3), [2.5, 0.5, 0])
    found = project_on_simplex(np.array([0.5, -0.1, 0.4, 0.3]))
    np.testing.assert_allclose(found, [0.4333333333, 0, 0.3333333333, 0.2333333333], atol=1e-9)


@few
@given(matrices, st.floats(0, 1e4))
def test_a_repaired_matrix_is_a_covariance_with_the_trace_it_had(matrix: np.ndarray, noise: float) -> None:
    repaired = repair(matrix, noise)
    values = np.linalg.eigvalsh(repaired.matrix)
    scale = max(abs(values).max(), 1e-300)
    assert values.min() >= -1e-12 * scale
    assert values.sum() > 0
    assert 0 <= repaired.kept <= 1
    if np.trace(matrix) > 1e-6:
        assert np.trace(repaired.matrix) == pytest.approx(np.trace(matrix), rel=1e-9)


@few
@given(matrices)
def test_without_noise_a_covariance_is_left_alone(matrix: np.ndarray) -> None:
    covariance = matrix @ matrix.T + np.eye(matrix.shape[0])
    repaired = repair(covariance, 0.0)
    np.testing.assert_allclose(repaired.matrix, covariance, rtol=1e-9, atol=1e-9 * np.abs(covariance).max())
    assert repaired.kept == 1
    assert repaired.floored == 0


def test_noise_that_drowns_a_matrix_leaves_its_mean_eigenvalue_alone() -> None:
    repaired = repair(np.diag([3.0, 1.0]), 100.0)
    np.testing.assert_allclose(repaired.matrix, 2 * np.eye(2))
    assert repaired.kept == 0


def test_values_that_swallow_the_total_still_have_a_projection() -> None:
    # Noise of 1e19 rows in a cell: at that size no double tells x from x - 1.
    np.testing.assert_array_equal(project_on_simplex(np.array([1e19, -1e19, 3.0])), [1, 0, 0])
    np.testing.assert_array_equal(project_on_simplex(np.array([1e19, 1e19])), [0.5, 0.5])


def test_a_negative_trace_still_gives_a_covariance() -> None:
    assert np.trace(repair(-np.eye(3), 1.0).matrix) > 0
    assert np.trace(repair(np.zeros((3, 3)), 0.0).matrix) > 0


@few
@given(matrices)
def test_the_root_times_itself_is_the_covariance(matrix: np.ndarray) -> None:
    covariance = matrix @ matrix.T
    root = symmetric_root(covariance)
    np.testing.assert_allclose(root @ root, covariance, atol=1e-9 * (1 + np.abs(covariance).max()))


@few
@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(-10, 10)), st.floats(0.01, 100))
def test_no_point_of_the_simplex_is_nearer_than_the_projection(values: np.ndarray, total: float) -> None:
    projected = project_on_simplex(values, total)
    assert projected.min() >= 0
    assert projected.sum() == pytest.approx(total, rel=1e-9)
    # The projection of x is the y with (x - y).(v - y) <= 0 for every corner v (Moreau).
    corners = total * np.eye(values.size)
    assert ((corners - projected) @ (values - projected)).max() <= 1e-9 * (1 + np.abs(values).max()) * total


@pytest.mark.parametrize(
    ("matrix", "noise"),
    [(np.ones((2, 3)), 0.0), (np.ones(3), 0.0), (np.array([[np.nan]]), 0.0), (np.eye(2), -1.0), (np.eye(2), np.nan)],
)
def test_what_is_no_noisy_matrix_is_refused(matrix: np.ndarray, noise: float) -> None:
    with pytest.raises(ValueError, match=r"square|finite"):
        repair(matrix, noise)


@pytest.mark.parametrize(("values", "total"), [([], 1.0), ([np.inf], 1.0), ([1.0], 0.0), ([1.0], np.nan)])
def test_what_has_no_projection_is_refused(values: list[float], total: float) -> None:
    with pytest.raises(ValueError, match=r"finite"):
        project_on_simplex(np.array(values), total)
