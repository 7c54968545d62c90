"""Relative privacy is an analysis: leverages, the least noise for a set of data, and what it may not be used for."""

import math

import numpy as np
import pytest
from papers.inherent_privacy import inherent_privacy, leverages

from lintra_curator.ndis.closed_form import delta_rp, rp_pstar

GENERATOR = np.random.default_rng(8)
DATA = GENERATOR.uniform(-0.5, 0.5, size=(60, 3))


def removed(rows: np.ndarray, regularization: float) -> np.ndarray:
    """Return the leverages by the determinant of what is left, one row at a time."""
    whole = np.linalg.det(rows.T @ rows + regularization * np.eye(rows.shape[1]))
    left = [np.linalg.det(rows.T @ rows - np.outer(row, row) + regularization * np.eye(rows.shape[1])) for row in rows]
    return 1 - np.array(left) / whole


@pytest.mark.parametrize("regularization", [0.0, 0.7])
def test_leverages_are_what_a_row_takes_from_the_determinant(regularization: float) -> None:
    assert leverages(DATA, regularization) == pytest.approx(removed(DATA, regularization), rel=1e-9)
    assert leverages(DATA).sum() == pytest.approx(3)


def test_a_row_that_alone_spans_a_direction_has_leverage_one_and_a_null_row_none() -> None:
    rows = np.array([[1.0, 0, 0], [1, 1e-9, 0], [0, 0, 0], [1, 0, 0]])
    assert leverages(rows) == pytest.approx([0.5, 1, 0, 0.5], abs=1e-6)
    deficient = np.array([[1.0, 1.0], [2.0, 2.0]])
    assert leverages(deficient) == pytest.approx([0.2, 0.8])


def test_the_least_noise_brings_the_largest_leverage_down_to_the_private_one() -> None:
    report = inherent_privacy([DATA, DATA[:50]], 1.0, 1e-5, 20, 1.0)
    private = rp_pstar(1.0, 1e-5, 20)
    assert 0 < report.sigma < report.worst_case_sigma < report.published_sigma
    largest = max(leverages(rows, report.sigma**2).max() for rows in (DATA, DATA[:50]))
    assert largest <= private
    assert largest == pytest.approx(private, rel=1e-9)
    assert report.delta_without_noise >= float(delta_rp(1.0, report.largest_leverage, 20))
    assert "not a guarantee" in report.caveat


def test_no_noise_is_needed_where_every_leverage_is_small() -> None:
    many = np.vstack([DATA] * 200)
    report = inherent_privacy([many], 1.0, 1e-5, 20, 1.0)
    assert report.sigma == report.published_sigma == 0
    assert report.delta_without_noise <= 1e-5


def test_a_row_that_may_join_counts_in_the_larger_data() -> None:
    row = np.array([[0.9, 0.0, 0.1]])
    joined = leverages(np.vstack([DATA, row]))[-1]
    report = inherent_privacy([DATA], 1.0, 1e-5, 20, 1.0, additions=row)
    assert report.largest_leverage == pytest.approx(max(joined, leverages(DATA).max()), rel=1e-9)
    assert joined > leverages(DATA).max()
    flat = np.column_stack([DATA[:, :2], np.zeros(60)])
    assert inherent_privacy([flat], 1.0, 1e-5, 20, 1.0, additions=row).largest_leverage == 1


def test_singular_data_need_what_all_data_need() -> None:
    alone = np.array([[1.0, 0.0]])
    report = inherent_privacy([alone], 1.0, 1e-5, 20, 1.0)
    assert report.largest_leverage == 1
    assert report.delta_without_noise == 1
    assert report.sigma == pytest.approx(report.worst_case_sigma, rel=1e-9)


@pytest.mark.parametrize(
    ("datasets", "additions", "complaint"),
    [
        ([], None, "at least one"),
        ([2 * np.eye(2)], None, "longer than the bound"),
        ([np.eye(2)], [[0.1, 0.1, 0.1]], "columns"),
        ([np.full((1, 2), math.nan)], None, "finite"),
    ],
)
def test_wrong_data_are_refused(datasets: list, additions: list | None, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        inherent_privacy(datasets, 1.0, 1e-5, 20, 1.0, additions=additions)
    with pytest.raises(ValueError, match="regularization"):
        leverages(np.eye(2), -1.0)
