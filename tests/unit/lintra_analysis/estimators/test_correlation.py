"""Correlations: exact without noise, Fisher's intervals, repair, columns lost in noise, refusals."""

import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from lintra_analysis.estimators.correlation import correlation
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import columns, mixed_columns, regression_rows, second_moment, sketch, total, with_constant

ROWS = regression_rows(600, np.random.default_rng(1)) + 0.5


def with_means(sigma: float, seed: int = 0) -> SecondMomentSum:
    rows, named = with_constant(ROWS, mixed_columns())
    return second_moment(rows, sigma, np.random.default_rng(seed), named)


def test_without_noise_it_is_the_correlation_matrix_with_fishers_intervals() -> None:
    estimate = correlation(with_means(0.0))
    expected = np.corrcoef(ROWS, rowvar=False)
    assert estimate.about_means
    assert not estimate.repaired
    assert_allclose(estimate.matrix, expected, atol=1e-12)
    pair = estimate.pair("c3", "c1")
    r = expected[1, 3]
    assert pair.value == pytest.approx(r)
    half = 1.959964 / math.sqrt(597)
    assert pair.interval == pytest.approx((math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)), rel=1e-6)
    assert pair.privacy == pytest.approx(0.0, abs=1e-12)
    assert correlation(with_means(0.0), of="cohort").pair("c3", "c1").interval == pytest.approx((r, r))
    assert estimate.warnings == ()


def test_without_noise_p_is_that_of_pearsons_t_test() -> None:
    rows, named = with_constant(ROWS[:12], mixed_columns())
    estimate = correlation(second_moment(rows, 0.0, np.random.default_rng(0), named))
    for pair in estimate.pairs:
        i, j = int(pair.first[1]), int(pair.second[1])
        assert pair.p_value == pytest.approx(stats.pearsonr(ROWS[:12, i], ROWS[:12, j]).pvalue, rel=1e-6)


def test_noise_is_no_reason_to_doubt_the_sign_of_a_strong_correlation() -> None:
    rows = np.random.default_rng(5).normal(size=(600, 1)) + 0.05 * np.random.default_rng(6).normal(size=(600, 2))
    near = correlation(second_moment(rows, 30.0, np.random.default_rng(7))).pairs[0]
    assert near.value > 0.9
    assert near.interval[0] > near.value - 2.5 * near.standard_error


def test_without_a_constant_column_it_is_about_the_centers_with_the_first_order_errors_of_the_law() -> None:
    release = second_moment(ROWS, 5.0, np.random.default_rng(2))
    estimate, gram = correlation(release), release.second_moment()
    root = np.sqrt(np.diagonal(gram.matrix))
    expected = gram.matrix / np.outer(root, root)
    variance = gram.errors.correlation_variance(expected, root**2)
    assert not estimate.about_means
    for pair in estimate.pairs:
        i, j = int(pair.first[1]), int(pair.second[1])
        assert pair.value == pytest.approx(expected[i, j])
        assert pair.privacy == pytest.approx(math.sqrt(variance[i, j]))


def test_the_error_about_the_means_is_that_of_the_gradient() -> None:
    rows, named = with_constant(ROWS, columns(5))
    gram, step = rows.T @ rows, 1e-4
    # The squared derivatives along an orthonormal basis of the symmetric matrices, times 2 sigma^2, are the variance.
    variance = np.zeros((5, 5))
    for i in range(6):
        for j in range(i, 6):
            unit = np.zeros((6, 6))
            unit[i, j] = unit[j, i] = 1.0 if i == j else math.sqrt(0.5)
            up, down = (
                correlation(SecondMomentSum(named, gram + s * step * unit, 0.0, 600, 10.0)).matrix for s in (1, -1)
            )
            variance += ((up - down) / (2 * step)) ** 2
    estimate = correlation(SecondMomentSum(named, gram, 0.01, 600, 10.0))
    for pair in estimate.pairs:
        i, j = int(pair.first[1]), int(pair.second[1])
        assert pair.privacy == pytest.approx(0.01 * math.sqrt(2 * variance[i, j]), rel=1e-4)


def test_a_matrix_that_noise_made_indefinite_is_repaired_and_said_so() -> None:
    almost = np.column_stack([ROWS[:, 0], ROWS[:, 0] + 0.01 * ROWS[:, 1], ROWS[:, 2]])
    for seed in range(50):
        estimate = correlation(second_moment(almost, 30.0, np.random.default_rng(seed)))
        assert np.linalg.eigvalsh(estimate.matrix)[0] > -1e-12
        assert_allclose(np.diagonal(estimate.matrix), 1.0)
        assert estimate.repaired == any("indefinite" in warning for warning in estimate.warnings)
        for pair in estimate.pairs:
            assert -1 <= pair.interval[0] <= pair.interval[1] <= 1
        if estimate.repaired:
            break
    assert estimate.repaired


@pytest.mark.parametrize("kind", ["sketch", "second moment"])
def test_the_parts_of_an_error_add_up_in_squares(kind: str) -> None:
    generator = np.random.default_rng(2)
    release = sketch(ROWS, 100, 0.5, generator) if kind == "sketch" else second_moment(ROWS, 5.0, generator)
    for pair in correlation(release).pairs:
        assert pair.standard_error == pytest.approx(math.hypot(pair.privacy, pair.sketching, pair.sampling))
        assert (pair.sketching > 0) == (kind == "sketch")
        assert pair.privacy > 0


def test_a_column_lost_in_noise_is_left_out_and_named() -> None:
    small = ROWS * [1, 1, 1, 1e-3, 1]
    estimate = correlation(second_moment(small, 20.0, np.random.default_rng(0)))
    assert estimate.lost == ("c3",)
    assert estimate.columns == ("c0", "c1", "c2", "c4")
    assert any("swallowed the variance of c3" in warning for warning in estimate.warnings)
    assert estimate.pair("c0", "c3").value is None
    low, high = estimate.pair("c0", "c3").interval
    assert high - low > 1.5
    with pytest.raises(InvalidAnalysisError, match="no pair"):
        estimate.pair("c0", "c0")
    nothing = correlation(second_moment(ROWS, 1e5, np.random.default_rng(0)))
    assert nothing.matrix.size <= 1
    assert all(pair.value is None and pair.interval[1] - pair.interval[0] > 1 for pair in nothing.pairs)
    with pytest.raises(InvalidAnalysisError, match="no correlation is left"):
        correlation(replace(second_moment(ROWS, 1e5, np.random.default_rng(0)), gaussian=False))


def test_the_answer_is_json_csv_and_text() -> None:
    estimate = correlation(with_means(5.0), ["c0", "c4", "c2"])
    plain = estimate.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    lines = list(csv.DictReader(io.StringIO(estimate.to_csv())))
    assert [(line["first"], line["second"]) for line in lines] == [("c0", "c4"), ("c0", "c2"), ("c4", "c2")]
    assert [float(line["correlation"]) for line in lines] == [pair.value for pair in estimate.pairs]
    text = estimate.summary("epsilon 1")
    assert "c0, c4" in text
    assert "about the means" in text
    assert "[" not in repr(estimate)


@pytest.mark.parametrize(
    ("columns_asked", "reason"),
    [
        (["c0"], "at least 2 columns"),
        (["c0", "age"], "unknown columns: age"),
        (["c0", "one"], "same for everybody"),
        (["c0", "c0"], "once"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns_asked: list[str], reason: str) -> None:
    with pytest.raises(InvalidAnalysisError, match=reason):
        correlation(with_means(1.0), columns_asked)


def test_what_the_release_cannot_carry_is_refused() -> None:
    with pytest.raises(InvalidAnalysisError, match="sum of rows"):
        correlation(total(ROWS, 1.0, np.random.default_rng(0)))
    with pytest.raises(InvalidAnalysisError, match="strictly between"):
        correlation(with_means(1.0), confidence=1.0)
