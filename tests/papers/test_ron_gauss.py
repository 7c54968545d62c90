"""The paper's pipeline: what it promises with either noise, what it makes, and what it refuses."""

import math
from dataclasses import replace

import numpy as np
import pytest
from papers.ron_gauss import PaperQuestion, release_paper
from papers.ron_gauss_noise import COUNT_SHARE, MEAN_SHARE, Sizes, gaussian_noise, laplace_noise, published_noise
from papers.ron_gauss_sensitivity import triangle_distance

from lintra_curator.claims.claim import CalibrationError, curator_claim
from lintra_protocol.errors import InvalidAnalysisError, InvalidRowError
from lintra_protocol.privacy.gaussian import gaussian_mu
from support import source

SEED = bytes(32)
UNSUPERVISED = PaperQuestion("unsupervised", 3, SEED)
REGRESSION = PaperQuestion("regression", 3, SEED, label_bound=1.0)
MIXTURE = PaperQuestion("mixture", 3, SEED, levels=("a", "b"))
SIZES = Sizes(features=8, dimension=3, classes=1, unit=4096, label=0)


def rows(count: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, classes and numeric labels."""
    rng = np.random.default_rng(1)
    classes = rng.integers(0, 2, count)
    values = rng.normal(0, 0.3, (count, 8)) + 0.4 * classes[:, np.newaxis]
    return values, classes, np.clip(values[:, 0], -1, 1)


def labels_of(question: PaperQuestion) -> np.ndarray | None:
    _, classes, targets = rows()
    return {"unsupervised": None, "regression": targets, "mixture": classes}[question.algorithm]


def test_corrected_laplace_noise_spends_what_is_asked_for() -> None:
    for sizes in (SIZES, Sizes(8, 3, 4, 4096, 0), Sizes(8, 3, 1, 4096, 2048)):
        noise = laplace_noise(sizes, 1.0)
        spent = sizes.mean_distance / float(noise.sums) + sizes.product_distance / float(noise.products)
        spent += 2 * sizes.unit / float(noise.counts) if noise.counts else 0
        assert 0.999 < spent <= 1
        assert noise.promise.epsilon == 1.0


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_corrected_gaussian_noise_spends_what_is_asked_for(classes: int, neighbours: str) -> None:
    noise = gaussian_noise(Sizes(8, 3, classes, 4096, 0), curator_claim(1.0, 1e-6, neighbours))  # type: ignore[arg-type]
    assert 0.9999 * gaussian_mu(1.0, 1e-6) < noise.promise.mu <= gaussian_mu(1.0, 1e-6)
    assert noise.promise.epsilon <= 1
    assert noise.squares >= noise.products * 2**0.5


def test_no_pair_of_rows_is_further_apart_than_the_noise_allows_for() -> None:
    # Random pairs, and pairs in two classes with the largest L1 norms.
    rng = np.random.default_rng(2)
    sizes = Sizes(8, 4, 2, 1, 0)
    upper = np.triu_indices(4)
    worst_same = worst_other = 0.0
    for _ in range(3000):
        one, other = (vector / np.linalg.norm(vector) for vector in rng.normal(0, 1, (2, 4)))
        products = [np.outer(vector, vector)[upper] for vector in (one, other)]
        worst_same = max(worst_same, np.abs(products[0] - products[1]).sum())
        worst_other = max(worst_other, np.abs(products[0]).sum() + np.abs(products[1]).sum())
    flat = np.full(4, 0.5)
    worst_other = max(worst_other, 2 * np.abs(np.outer(flat, flat)[upper]).sum())
    assert worst_same <= triangle_distance(4)
    assert worst_other == pytest.approx(sizes.product_distance)
    assert worst_other > triangle_distance(4)


def test_the_published_noise_says_its_true_epsilon() -> None:
    sizes = Sizes(64, 10, 1, 4096, 0)
    noise = published_noise(sizes, 1.0)
    factor = triangle_distance(10) / (2 * math.sqrt(10))
    assert noise.promise.epsilon == pytest.approx(MEAN_SHARE + (1 - MEAN_SHARE) * factor, rel=1e-5)
    assert noise.promise.epsilon > 1.19
    assert "claimed epsilon 1, in truth up to 1.19" in noise.promise.note
    large = published_noise(Sizes(64, 50, 5, 4096, 0), 1.0)
    assert large.promise.epsilon > 2
    assert "same class" in large.promise.note
    assert (noise.promise.neighbours, large.promise.neighbours) == ("replace-one", "replace-one within its class")
    with_label = published_noise(Sizes(64, 50, 1, 4096, 1024), 1.0)
    assert 1.5 < with_label.promise.epsilon < large.promise.epsilon


def test_published_noise_needs_acceptance() -> None:
    values, _, _ = rows()
    with pytest.raises(ValueError, match="accept_published_loss=True"):
        release_paper(values, UNSUPERVISED, source("p"), epsilon=1.0, calibration="published")
    with pytest.raises(ValueError, match="no delta"):
        release_paper(
            values,
            UNSUPERVISED,
            source("p"),
            epsilon=1.0,
            delta=1e-6,
            calibration="published",
            accept_published_loss=True,
        )
    with pytest.raises(ValueError, match="'exact' or 'published'"):
        release_paper(values, UNSUPERVISED, source("p"), epsilon=1.0, calibration="other")  # type: ignore[arg-type]


@pytest.mark.parametrize("question", [UNSUPERVISED, REGRESSION, MIXTURE], ids=["unsupervised", "regression", "mixture"])
@pytest.mark.parametrize("calibration", ["pure", "gaussian", "published"])
def test_every_algorithm_makes_rows_with_every_noise(question: PaperQuestion, calibration: str) -> None:
    options: dict[str, object] = {
        "pure": {},
        "gaussian": {"delta": 1e-6},
        "published": {"calibration": "published", "accept_published_loss": True},
    }[calibration]
    values, _, _ = rows()
    release = release_paper(values, question, source("make"), epsilon=2.0, labels=labels_of(question), **options)  # type: ignore[arg-type]
    made = release.synthesize(101, 5)
    again = release.synthesize(101, 5)
    names = ["h1", "h2", "h3"] + ([] if question.algorithm == "unsupervised" else ["label"])
    assert list(made.columns) == names
    for name in names:
        np.testing.assert_array_equal(made.columns[name], again.columns[name])
    if question.algorithm == "mixture":
        assert set(made.columns["label"].tolist()) == {"a", "b"}
    assert made.label_levels == question.levels
    for moment in release.moments:
        assert np.linalg.eigvalsh(moment).min() > -1e-12
    assert (release.promise.epsilon > 2) is False or calibration == "published"
    assert "rows" in repr(release)


def test_with_little_noise_the_moment_is_that_of_the_normalised_rows() -> None:
    values, _, _ = rows()
    release = release_paper(values, PaperQuestion("unsupervised", 8, SEED), source("clear"), epsilon=1e6)
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    unit -= unit.mean(axis=0)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    expected = np.linalg.eigvalsh(unit.T @ unit / 400)
    np.testing.assert_allclose(np.linalg.eigvalsh(release.moments[0]), expected, atol=1e-3)


@pytest.mark.parametrize("bound", [1e-6, 1e-3, 100.0, 3e4, 1e6])
@pytest.mark.parametrize("calibration", ["exact", "published"])
def test_labels_are_released_in_any_unit(bound: float, calibration: str) -> None:
    # At 3e4 and epsilon 30 the sampler would take a finer grid than the one on which products are exact.
    values, _, _ = rows()
    question = PaperQuestion("regression", 3, SEED, label_bound=bound)
    labels = bound * np.sign(values[:, 0])
    labels[:2] = -1e308, 1e308
    release = release_paper(
        values,
        question,
        source("units"),
        epsilon=30.0,
        labels=labels,
        calibration=calibration,  # type: ignore[arg-type]
        accept_published_loss=True,
    )
    assert release.moments[0][3, 3] == pytest.approx(max(bound, 2.0**-12) ** 2, rel=0.2, abs=0.02)
    with pytest.raises(CalibrationError, match="64-bit"):
        release_paper(values, replace(question, label_bound=1e9), source("units"), epsilon=1e6, labels=labels)


def test_the_last_digits_of_a_sum_are_hidden_also_where_noise_is_larger_than_doubles_are_exact() -> None:
    # Above 2^53 every double is even: with noise in doubles, what a sum of products adds to it shows where both cancel.
    noise = laplace_noise(Sizes(8, 40, 1, 4096, 0), 4e-8)
    drawn = noise.triangle(40, source("odd"))
    assert (drawn == drawn.T).all()
    odd = drawn[np.abs(drawn) > 2**53].astype(object) % 2
    assert len(odd) > 300
    assert 0.3 < odd.mean() < 0.7


def test_a_row_of_zeros_adds_nothing_to_the_products_also_about_a_mean() -> None:
    values, _, _ = rows()
    question, clear = PaperQuestion("unsupervised", 8, SEED), source("clear")
    values[:200] = 0
    release = release_paper(values, question, clear, epsilon=1e6)
    assert np.trace(release.moments[0]) == pytest.approx(0.5, abs=1e-2)


def test_a_row_of_zeros_stays_one_and_reveals_nothing() -> None:
    values, _, _ = rows()
    values[0] = 0
    release = release_paper(values, UNSUPERVISED, source("zero"), epsilon=1.0)
    assert np.isfinite(release.moments[0]).all()


@pytest.mark.parametrize(
    ("values", "question", "labels"),
    [
        (np.ones((1, 4)), UNSUPERVISED, None),
        (np.ones(4), UNSUPERVISED, None),
        (np.full((5, 4), np.nan), UNSUPERVISED, None),
        (np.ones((5, 4)), UNSUPERVISED, np.zeros(5)),
        (np.ones((5, 4)), MIXTURE, None),
        (np.ones((5, 4)), MIXTURE, np.full(5, 2)),
        (np.ones((5, 4)), MIXTURE, np.full(5, 0.5)),
        (np.ones((5, 4)), REGRESSION, np.full(5, np.inf)),
        (np.ones((5, 4)), REGRESSION, np.zeros(4)),
    ],
)
def test_rows_and_labels_that_do_not_fit_are_refused(
    values: np.ndarray, question: PaperQuestion, labels: np.ndarray | None
) -> None:
    with pytest.raises(InvalidRowError):
        release_paper(values, question, source("bad"), epsilon=1.0, labels=labels)


def test_questions_and_budgets_that_make_no_sense_are_refused() -> None:
    values, _, _ = rows()
    with pytest.raises(ValueError, match=r"dimension must lie in 1\.\.8"):
        release_paper(values, PaperQuestion("unsupervised", 9, SEED), source("bad"), epsilon=1.0)
    for epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(CalibrationError, match="epsilon"):
            release_paper(values, UNSUPERVISED, source("bad"), epsilon=epsilon)
    with pytest.raises(CalibrationError, match="64-bit"):
        release_paper(values, UNSUPERVISED, source("bad"), epsilon=1e-15)
    with pytest.raises(CalibrationError, match="coarser grid"):
        release_paper(values, UNSUPERVISED, source("bad"), epsilon=1e-9, delta=1e-10)
    for question in (
        {"algorithm": "other"},
        {"algorithm": "mixture"},
        {"algorithm": "mixture", "levels": ("a", "a")},
        {"algorithm": "unsupervised", "levels": ("a", "b")},
        {"algorithm": "regression"},
        {"algorithm": "unsupervised", "label_bound": 1.0},
    ):
        with pytest.raises(ValueError, match=r"algorithm|mixture|regression"):
            PaperQuestion(dimension=2, frame_seed=SEED, **question)  # type: ignore[arg-type]
    with pytest.raises(InvalidAnalysisError, match="num_rows"):
        release_paper(values, UNSUPERVISED, source("bad"), epsilon=1.0).synthesize(0, 1)


def test_a_count_has_its_share_of_a_mixture() -> None:
    sizes = Sizes(8, 3, 2, 4096, 0)
    assert float(laplace_noise(sizes, 1.0).counts) == pytest.approx(2 * 4096 / COUNT_SHARE, rel=1e-5)
