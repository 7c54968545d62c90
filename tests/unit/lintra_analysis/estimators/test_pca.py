"""Principal components: exact without noise, about means and centers, maps, errors by cause, refusals."""

import csv
import io
import json
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.pca import pca
from lintra_analysis.estimators.pca_estimate import PcaEstimate
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import columns, in_units, mixed_columns, second_moment, sketch, total, with_constant


def made_rows(count: int = 800) -> FloatArray:
    generator = np.random.default_rng(4)
    directions = np.linalg.qr(generator.normal(size=(5, 5)))[0]
    return np.asarray(generator.normal(size=(count, 5)) * [2.0, 1.4, 1.0, 0.5, 0.2] @ directions.T + 0.4)


ROWS = made_rows()


def about_means(sigma: float = 0.0, seed: int = 0) -> PcaEstimate:
    rows, named = with_constant(ROWS, mixed_columns())
    return pca(second_moment(rows, sigma, np.random.default_rng(seed), named))


def test_without_noise_and_with_a_constant_column_it_is_the_pca_of_the_covariance() -> None:
    estimate = about_means()
    values, vectors = np.linalg.eigh(np.cov(ROWS, rowvar=False))
    assert estimate.about_means
    assert_allclose(estimate.explained_variance_, values[::-1], rtol=1e-9)
    assert_allclose(estimate.explained_variance_ratio_, values[::-1] / values.sum(), rtol=1e-9)
    assert_allclose(np.abs(estimate.components_), np.abs(vectors[:, ::-1].T), atol=1e-8)
    assert estimate.cumulative_ratio is not None
    assert_allclose([share.value for share in estimate.cumulative_ratio], np.cumsum(values[::-1]) / values.sum())
    assert_allclose(estimate.mean_, in_units(ROWS, mixed_columns()).mean(axis=0))
    assert estimate.warnings == ()


def test_without_noise_and_without_a_constant_column_it_is_about_the_public_centers() -> None:
    estimate = pca(second_moment(ROWS, 0.0, np.random.default_rng(0), mixed_columns()))
    values = np.linalg.eigvalsh(ROWS.T @ ROWS / 800)[::-1]
    assert not estimate.about_means
    assert_allclose(estimate.explained_variance_, values, rtol=1e-9)
    assert estimate.mean_.tolist() == [column.center for column in mixed_columns()]
    assert any("not about the means" in note for note in estimate.notes)


def test_scores_have_the_stated_variances_and_all_components_give_the_rows_back() -> None:
    estimate = about_means()
    rows = in_units(ROWS, mixed_columns())
    scores = estimate.transform(rows)
    assert_allclose(np.cov(scores, rowvar=False), np.diag(estimate.explained_variance_), atol=1e-9)
    assert_allclose(estimate.inverse_transform(scores), rows)
    assert_allclose(estimate.loadings, estimate.components_.T * np.sqrt(estimate.explained_variance_))
    with pytest.raises(ValueError, match="one column for each of c0, c1, c2, c3, c4"):
        estimate.transform(rows[:, :3])
    with pytest.raises(ValueError, match="one column for each of component 1, component 2"):
        estimate.inverse_transform(rows[:, :3])


def test_the_sampling_part_is_that_of_normal_rows() -> None:
    # Anderson 1963: sd of an eigenvalue l of n rows is sqrt(2 / n) l.
    for quantity in about_means().explained_variance:
        assert quantity.standard_error is not None
        assert quantity.standard_error.privacy == pytest.approx(0.0, abs=1e-12)
        assert quantity.standard_error.sampling == pytest.approx(math.sqrt(2 / 800) * quantity.value, rel=1e-2)


def test_a_tight_trace_makes_explained_shares_surer_and_moves_no_component() -> None:
    gram = second_moment(ROWS, 5.0, np.random.default_rng(1)).second_moment()
    tight_law = SymmetricNoise(5.0, trace_tight=True, num_columns=5)
    tight = GramEstimate(gram.columns, gram.matrix, tight_law, gram.num_clients, gram.row_bound)
    plain, better = pca(gram), pca(tight)
    assert_allclose(plain.components_, better.components_)
    assert plain.explained_variance_ratio is not None
    assert better.explained_variance_ratio is not None
    for left, right in zip(plain.explained_variance_ratio, better.explained_variance_ratio, strict=True):
        if left.standard_error is not None:
            assert right.standard_error is not None
            assert right.standard_error.privacy < left.standard_error.privacy


@pytest.mark.parametrize("kind", ["sketch", "second moment"])
def test_the_parts_of_an_error_add_up_in_squares(kind: str) -> None:
    generator = np.random.default_rng(2)
    release = sketch(ROWS, 400, 0.2, generator) if kind == "sketch" else second_moment(ROWS, 5.0, generator)
    estimate = pca(release, 1)
    for quantity in (*estimate.explained_variance, *(estimate.explained_variance_ratio or ())):
        error = quantity.standard_error
        assert error is not None
        assert error.total == pytest.approx(math.hypot(error.privacy, error.sketching, error.sampling))
        assert min(error.privacy, error.sampling) > 0
        assert (error.sketching > 0) == (kind == "sketch")


def test_components_that_noise_mixes_have_no_errors_and_say_so() -> None:
    estimate = pca(second_moment(ROWS, 300.0, np.random.default_rng(2)))
    assert any("does not tell components" in warning for warning in estimate.warnings)
    assert np.isnan(estimate.component_errors).any()
    assert estimate.to_dict()["component_errors"] is not None
    lost = pca(second_moment(ROWS, 1e5, np.random.default_rng(2)))
    assert lost.explained_variance_ratio is None
    assert np.isnan(lost.explained_variance_ratio_).all()
    assert any("no shares" in warning for warning in lost.warnings)
    assert "-" in lost.summary()


def test_no_more_than_twenty_components_are_computed_unless_more_are_asked_for() -> None:
    rows = np.random.default_rng(5).normal(size=(200, 24)) * np.linspace(3, 1, 24)
    release = second_moment(rows, 0.0, np.random.default_rng(0))
    assert pca(release).n_components_ == 20
    assert pca(release, 24).n_components_ == 24


def test_about_the_centers_a_constant_column_changes_nothing_whether_or_not_the_release_holds_one() -> None:
    rows, named = with_constant(ROWS, mixed_columns())
    release = second_moment(rows, 5.0, np.random.default_rng(3), named)
    asked = pca(release, 2, about="centers")
    without = pca(release.restrict(["c0", "c1", "c2", "c3", "c4"]), 2)
    assert asked.to_dict() == without.to_dict()
    assert not np.allclose(asked.components_, pca(release, 2).components_)


def test_the_answer_is_json_csv_and_text() -> None:
    estimate = about_means(5.0)
    plain = estimate.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    lines = list(csv.DictReader(io.StringIO(estimate.to_csv())))
    assert [float(line["variance"]) for line in lines] == estimate.explained_variance_.tolist()
    assert [float(line["c3"]) for line in lines] == estimate.components_[:, 3].tolist()
    text = estimate.summary("epsilon 1")
    assert "Privacy: epsilon 1" in text
    assert max(map(len, text.splitlines())) <= 130
    assert "[" not in repr(estimate)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"components": 0}, "from 1 to the 5 columns, got 0"),
        ({"components": 6}, "from 1 to the 5 columns, got 6"),
        ({"components": True}, "whole number"),
        ({"components": 1.5}, "whole number"),
        ({"columns": ["age"]}, "unknown columns: age"),
        ({"columns": []}, "at least one column"),
        ({"columns": ["c0", "c0"]}, "once"),
        ({"columns": ["c0", "one"]}, "'one' is the same for everybody"),
        ({"confidence": 2.0}, "strictly between"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_with_the_reason(arguments: dict[str, object], reason: str) -> None:
    rows, named = with_constant(ROWS, columns(5))
    release = second_moment(rows, 1.0, np.random.default_rng(0), named)
    with pytest.raises(InvalidAnalysisError, match=reason):
        pca(release, **arguments)  # type: ignore[arg-type]


def test_what_the_release_cannot_carry_is_refused() -> None:
    with pytest.raises(InvalidAnalysisError, match="sum of rows"):
        pca(total(ROWS, 1.0, np.random.default_rng(0)))
    rows, named = with_constant(ROWS, columns(5))
    with pytest.raises(InvalidAnalysisError, match="swallowed the constant column 'one'"):
        pca(second_moment(rows, 1e5, np.random.default_rng(0), named))
    with pytest.raises(InvalidAnalysisError, match="nothing varies"):
        pca(second_moment(rows[:, :1], 0.0, np.random.default_rng(0), named[:1]))
