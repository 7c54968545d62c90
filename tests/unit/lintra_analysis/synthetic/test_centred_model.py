"""Two rounds: the model of both releases, what they promise together, and what does not belong together."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lintra_analysis.kinds.ron_gauss_centred import centred_products
from lintra_analysis.releases.centred_products import CentredProducts
from lintra_analysis.releases.features import ClassLabel
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.releases.release import Release
from lintra_analysis.synthetic.bootstrap import bootstrap
from lintra_analysis.synthetic.centred_model import fit_two_rounds
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import fit
from lintra_curator.ron_gauss.ron_gauss import category_column, mapped_column
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import InvalidAnalysisError, InvalidReleaseError
from lintra_protocol.mechanisms.ron_gauss_centred import RonGaussCentred
from support.made_projected_sums import PROMISE, isotropic, numeric, released
from support.measured import reports_without_noise

LABEL = ClassLabel("kind", ("first", "second"))


def rounds(
    sum_sd: float = 0.0, product_sd: float = 0.0, seed: int = 0
) -> tuple[ProjectedSums, CentredProducts, np.ndarray]:
    """Return both releases of 500 rows of two classes far from the middle, and the covariance within the classes."""
    rng = np.random.default_rng(7)
    classes = np.arange(500) % 2
    own = rng.normal(0, 1, (500, 3)) @ rng.normal(0, 0.1, (3, 3))
    rows = own + np.array([[0.8, 0.5, -0.4], [0.6, 0.9, -0.7]])[classes]
    first = released(rows, classes, label=LABEL, noise=isotropic(0.0, sum_sd, 0.0), seed=seed)
    centers = fit(first).means
    left = rows - centers[classes]
    noise = np.triu(np.random.default_rng(seed + 1).normal(0, product_sd, (3, 3)))
    noise = noise + np.triu(noise, 1).T + np.diag(np.diag(noise)) * (2**0.5 - 1)
    second = CentredProducts(
        ("x0", "x1", "x2"), LABEL, None, centers, left.T @ left + noise, product_sd, 500, 1.0, "task", PROMISE
    )
    means = np.stack([rows[classes == k].mean(axis=0) for k in range(2)])
    inside = rows - means[classes]
    return first, second, inside.T @ inside / 500


def test_without_noise_the_covariance_is_that_of_the_rows() -> None:
    first, second, truth = rounds()
    model = fit_two_rounds(first, second)
    np.testing.assert_allclose(model.covariance, truth, atol=1e-12)
    np.testing.assert_allclose(model.means, fit(first).means)
    assert len(synthesize(model, 20, 1)) == 20


def test_centres_that_were_rounded_are_taken_for_what_they_are() -> None:
    first, second, truth = rounds()
    off = np.array([[0.05, -0.03, 0.02], [0.01, 0.04, -0.05]])
    per_class = np.einsum("ki,kj->ij", off, off) * 250
    moved = replace(second, centers=second.centers - off, products=second.products + per_class, grid=0.06)
    np.testing.assert_allclose(fit_two_rounds(first, moved).covariance, truth, atol=1e-12)


@pytest.mark.parametrize("per_class", [False, True])
def test_a_second_round_with_fewer_people_gives_the_same_covariance(per_class: bool) -> None:
    first, second, _ = rounds()
    if per_class:
        first, second = (
            replace(release, products=np.stack([release.products / 2] * 2))  # type: ignore[type-var]
            for release in (first, second)
        )
    fewer = replace(second, products=second.products * 0.9, product_sd=0.9, num_clients=450)
    wanted = fit_two_rounds(first, replace(second, product_sd=1.0))
    found = fit_two_rounds(first, fewer)
    for one, other in zip(found.repairs, wanted.repairs, strict=True):
        np.testing.assert_allclose(one.matrix, other.matrix, atol=1e-12)
        assert one.kept == pytest.approx(other.kept)


@pytest.mark.slow
def test_the_noise_of_the_means_is_taken_off_on_average() -> None:
    # 300 traces; four deviations of their mean, a false alarm below 1e-4. Uncorrected it is off by 3 s1 / N^2 = .0048.
    truth = np.trace(rounds()[2])
    traces = [np.trace(fit_two_rounds(*rounds(10.0, 1.0, seed)[:2]).covariance) for seed in range(300)]
    limit = 4 * np.std(traces) / 300**0.5
    assert abs(np.mean(traces) - truth) < limit
    assert 2 * limit < 3 * 10.0**2 / 250**2


def test_two_rounds_promise_what_both_spend() -> None:
    first, second, _ = rounds()
    promise = fit_two_rounds(first, second).release.promise
    assert promise.mu == pytest.approx(2**0.5 * PROMISE.mu)
    assert promise.epsilon > PROMISE.epsilon
    assert promise.delta == PROMISE.delta
    other = fit_two_rounds(first, replace(second, promise=replace(PROMISE, note="fewer are tolerated")))
    assert "fewer are tolerated" in other.release.promise.note
    with pytest.raises(InvalidAnalysisError, match="Gaussian"):
        fit_two_rounds(replace(first, promise=replace(PROMISE, mu=math.inf)), second)


def test_the_second_release_counts_in_the_digest_and_the_bootstrap_does_not_know_of_it() -> None:
    first, second, _ = rounds()
    model = fit_two_rounds(first, second)
    other = fit_two_rounds(first, replace(second, products=second.products * 1.1))
    assert len({model.digest, other.digest, fit(first).digest}) == 3
    with pytest.raises(InvalidAnalysisError, match="two rounds"):
        bootstrap(model, lambda rows: 0.0, num_rows=10, seed=1, runs=20)


def test_a_numeric_label_is_brought_to_the_scale_of_the_first_round() -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(0.5, 0.2, 400)
    y = 0.4 * x + rng.normal(0, 0.05, 400)
    first = released(np.column_stack([x, y * 0.5]), label=numeric("y", -1, 1, 0.5))
    center = np.array([[x.mean(), y.mean()]])
    left = np.column_stack([x - x.mean(), (y - y.mean()) * 0.2])
    second = CentredProducts(
        ("x0",), numeric("y", -1, 1, 0.2), None, center, left.T @ left, 0.0, 400, 1.0, "task", PROMISE
    )
    expected = np.cov(np.stack([x, y * 0.5]), bias=True)
    np.testing.assert_allclose(fit_two_rounds(first, second).covariance, expected, atol=1e-12)


@pytest.mark.parametrize("covariance", ["pooled", "per_class"])
def test_the_integers_of_the_mechanism_become_products_about_its_centres(covariance: str) -> None:
    columns = [mapped_column("a", -1, 1), mapped_column("b", 0, 4), category_column("kind", LABEL.levels)]
    mechanism = RonGaussCentred(
        row_bound="1.5", fraction_bits=12, sigma=10**6, dimension=2, label=2, levels=(0, 0, 2), covariance=covariance,  # type: ignore[arg-type]
        after=base64url(bytes(32)), centers=((0, 0), (16384, -8192)),
    )  # fmt: skip
    rng = np.random.default_rng(9)
    mapped = np.column_stack([rng.uniform(-0.5, 0.5, (60, 2)), np.arange(60) % 2])
    total = reports_without_noise(mechanism, mapped).sum(axis=0, keepdims=True)
    release = centred_products(mechanism, columns, total, 60, PROMISE)
    left = mapped[:, :2] - np.array([[0, 0], [0.5, -0.25]])[mapped[:, 2].astype(int)]
    parts = [left[::2], left[1::2]] if covariance == "per_class" else [left]
    expected = np.stack([part.T @ part for part in parts]).reshape(release.products.shape)
    np.testing.assert_allclose(release.products, expected, atol=60 * 2**-11)
    assert release.names == ("a", "b")
    names, values = release.table()
    assert len(set(names)) == values.size == 3 * len(parts)
    assert release.product_sd == pytest.approx(60**0.5 * 10**6 / 4096**2)
    whole = Release(centred=release)
    for ask in (lambda: whole.columns, whole.second_moment, lambda: whole.restrict(["a"])):
        with pytest.raises(InvalidAnalysisError, match="release of the first round"):
            ask()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"names": ("x0", "x1", "other")}, "same columns"),
        ({"label": ClassLabel("other", ("a", "b"))}, "same columns"),
        ({"label": ClassLabel("kind", ("second", "first"))}, "same columns"),
        ({"frame": np.eye(3)}, "same columns, label and frame"),
        ({"promise": replace(PROMISE, neighbours="zero-out")}, "neighbours"),
        ({"centers": np.zeros((2, 3))}, "about the means"),
    ],
)
def test_releases_that_do_not_belong_together_are_refused(changes: dict[str, object], words: str) -> None:
    first, second, _ = rounds()
    with pytest.raises(InvalidAnalysisError, match=words):
        fit_two_rounds(first, replace(second, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"products": np.zeros((2, 2))},
        {"centers": np.zeros((1, 3))},
        {"products": np.full((3, 3), np.nan)},
        {"num_clients": 0},
        {"product_sd": np.inf},
    ],
)
def test_a_second_release_whose_parts_do_not_fit_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidReleaseError):
        replace(rounds()[1], **changes)  # type: ignore[arg-type]
