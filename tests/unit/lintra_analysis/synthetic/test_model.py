"""From released sums to the model: the vectors, exactness without noise, and refusals."""

from dataclasses import replace

import numpy as np
import pytest

from lintra_analysis.estimators.regression import regression
from lintra_analysis.releases.features import ClassLabel, Feature, NumericLabel
from lintra_analysis.releases.joint_sums import NoiseDeviations, ProjectedSums
from lintra_analysis.releases.release import Release
from lintra_analysis.synthetic.model import count_interval, fit, mean_error
from lintra_protocol.errors import InvalidAnalysisError, InvalidReleaseError
from support.made_projected_sums import EXACT, PROMISE, isotropic, numeric, reals, released

FRAME = np.array([[26273, -486], [-8758, 16031], [17515, 8744], [0, -27204]]) / 2**15
LABEL = ClassLabel("kind", ("first", "second"))
STEP = 2.0**-12


def vector_release(sum_variance: float, product_variance: float) -> ProjectedSums:
    """Return T12: four rows, two classes, per-client variances in integer steps."""
    product = (4 * product_variance) ** 0.5 * STEP**2
    return ProjectedSums(
        features=reals(4),
        label=LABEL,
        frame=FRAME,
        counts=np.array([8192, 8192]) / 4096,
        sums=np.array([[200, 800], [-200, -2400]]) * STEP,
        products=np.array([[1840000, 320000], [320000, 3400000]]) * STEP**2,
        histograms=(np.empty(0),) * 4,
        num_clients=4,
        radius=2000 * STEP,
        noise=isotropic(0.0, (4 * sum_variance) ** 0.5 * STEP, product),
        promise=PROMISE,
    )


def test_the_vector_of_an_exact_sum_holds() -> None:
    model = fit(vector_release(0, 0), min_count=2)
    np.testing.assert_array_equal(model.means, [[0.0244140625, 0.09765625], [-0.0244140625, -0.29296875]])
    np.testing.assert_allclose(model.covariance, np.diag([0.02682209014892578, 0.0029802322387695312]), rtol=1e-14)
    np.testing.assert_array_equal(model.weights, [0.5, 0.5])


def test_the_vector_of_a_noisy_sum_holds() -> None:
    model = fit(vector_release(4e4, 1e10), min_count=2)
    np.testing.assert_allclose(model.covariance, 0.01728534698486328 * np.eye(2), rtol=1e-12)
    # e itself, and the debiased matrix before its repair, through the relative error that is reported.
    norm = np.hypot(0.029206275939941406, 0.005364418029785156)
    assert model.repairs[0].relative_error == pytest.approx(np.sqrt(3.986144747614162e-4) / norm, rel=1e-12)
    assert "covariance not usable" in model.warnings[0]


def test_without_noise_the_model_is_that_of_the_rows() -> None:
    rng = np.random.default_rng(1)
    rows, classes = rng.normal(0, 0.3, (500, 3)), rng.integers(0, 2, 500)
    rows[classes == 1] += 0.2
    model = fit(released(rows, classes, label=LABEL))
    means = np.stack([rows[classes == k].mean(axis=0) for k in range(2)])
    np.testing.assert_allclose(model.means, means)
    np.testing.assert_allclose(model.covariance, (rows - means[classes]).T @ (rows - means[classes]) / 500, atol=1e-12)
    np.testing.assert_allclose(model.weights, np.bincount(classes) / 500)
    assert model.warnings == ()
    assert mean_error(model).max() == 0


def test_a_numeric_label_is_modelled_with_its_mean() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(0.1, 0.2, (400, 3))
    model = fit(released(rows, label=numeric("income", 0, 10, 0.5)))
    np.testing.assert_allclose(model.means[0], rows.mean(axis=0))
    np.testing.assert_allclose(model.covariance, np.cov(rows.T, bias=True), atol=1e-12)


def test_a_covariance_for_each_class_is_fitted_to_its_own_rows() -> None:
    rng = np.random.default_rng(3)
    classes = np.repeat([0, 1], [300, 200])
    rows = rng.normal(0, 1, (500, 2)) * np.array([[0.1, 0.3], [0.3, 0.1]])[classes]
    each = np.stack([rows[classes == k].T @ rows[classes == k] for k in range(2)])
    model = fit(replace(released(rows, classes, label=LABEL), products=each))
    for k in range(2):
        np.testing.assert_allclose(model.covariances[k], np.cov(rows[classes == k].T, bias=True), atol=1e-12)
    np.testing.assert_allclose(model.covariance, 0.6 * model.covariances[0] + 0.4 * model.covariances[1])


def test_a_class_that_noise_could_have_made_is_left_out_with_a_warning() -> None:
    rows, classes = np.full((1000, 2), 0.1), np.repeat([0, 1], [990, 10])
    release = released(rows, classes, label=LABEL, noise=isotropic(3.0, 0, 0))
    model = fit(replace(release, counts=np.array([990.0, 10.0])))
    np.testing.assert_array_equal(model.weights, [1, 0])
    assert model.warnings == ("class 'second' left out: its count cannot be told from noise, which takes 15 rows",)
    with pytest.raises(InvalidAnalysisError, match="no class has 15 rows, 5 deviations"):
        fit(replace(release, counts=np.array([14.0, -10.0])))


def test_the_mean_of_many_noisy_fits_is_near_the_covariance_of_the_rows() -> None:
    # The debiased matrix is unbiased; its repair is not, so the trace, which repair keeps, is what is tested.
    # 400 traces of deviation .0122, four of them in the mean: a false alarm below 1e-4. Without the correction for
    # the noise of the means the trace is 0.0128 too small, which is 20 deviations.
    rng = np.random.default_rng(4)
    rows, classes = rng.normal(0, 0.3, (500, 4)), rng.integers(0, 2, 500)
    noise = isotropic(0, 20.0, 1.0)
    traces = [np.trace(fit(released(rows, classes, label=LABEL, noise=noise, seed=s)).covariance) for s in range(400)]
    truth = np.trace(fit(released(rows, classes, label=LABEL)).covariance)
    missing = 4 * 2 * 20.0**2 / 250 / 500
    limit = 4 * np.std(traces) / 20
    assert abs(np.mean(traces) - truth) < limit
    assert missing > 2 * limit


def test_rows_are_split_over_the_classes_by_largest_remainder() -> None:
    model = fit(vector_release(0, 0), min_count=2)
    assert model.class_sizes(5).tolist() == [3, 2]
    assert model.class_sizes(1).tolist() == [1, 0]
    for wrong in (0, -1, True, 2.5, "7"):
        with pytest.raises(InvalidAnalysisError, match="num_rows"):
            model.class_sizes(wrong)  # type: ignore[arg-type]


def test_second_moments_of_unprojected_rows_serve_the_other_estimators() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(0, 0.2, (100, 3))
    label = numeric("income", 0, 10, 0.5)
    release = released(rows, label=label, noise=isotropic(0, 0.5, 0.25))
    whole = Release(joint_sums=release)
    gram = whole.second_moment()
    assert [column.name for column in gram.columns] == ["(intercept)", "x0", "x1", "income"]
    assert [column.name for column in whole.columns] == [column.name for column in gram.columns]
    assert gram.columns[3].scale == 10  # half the width, over the coordinate's scale
    # The intercept is 1/2 in normalised units, so that half the noise of a sum is that of a product.
    assert gram.matrix[0, 0] == 100 / 4
    np.testing.assert_allclose(gram.matrix[0, 1:], release.sums[0] / 2)
    np.testing.assert_allclose(whole.restrict(["x1", "income"]).need("moments").values, release.products[1:, 1:])
    assert gram.num_clients == 100
    with pytest.raises(InvalidAnalysisError, match="projected"):
        Release(joint_sums=vector_release(0, 0)).second_moment()
    own = released(rows, label=label, noise=NoiseDeviations(0, 0, 1, 1, 0, "discrete Laplace"))
    with pytest.raises(InvalidAnalysisError, match="symmetric Gaussian"):
        Release(joint_sums=own).second_moment()
    category = (Feature("c", "category", levels=("a", "b", "c")),)
    with pytest.raises(InvalidAnalysisError, match="more than two levels"):
        Release(joint_sums=released(rows, features=category, noise=EXACT)).second_moment()


def test_regression_and_means_of_unprojected_rows_are_those_of_the_rows() -> None:
    rng = np.random.default_rng(6)
    x = rng.uniform(-0.5, 0.5, (500, 2))
    y = 60 + 20 * x[:, 0] - 10 * x[:, 1]
    release = released(np.column_stack([x, (y / 50 - 1) * 0.5]), label=numeric("y", 0, 100, 0.5))
    found = regression(Release(joint_sums=release), "y")
    np.testing.assert_allclose(found.coef_, [20, -10], rtol=1e-6)
    assert found.intercept_ == pytest.approx(60, rel=1e-6)


def test_every_released_number_has_a_name_of_its_own() -> None:
    names, values = vector_release(0, 0).table()
    assert len(set(names)) == len(names) == values.size == 2 + 4 + 3
    assert names[:4] == ["count[first]", "count[second]", "sum[first] h1", "sum[first] h2"]
    features = reals(2, cells=3)
    names, values = released(np.ones((4, 3)), features=features, label=numeric("y", 0, 1, 1)).table()
    assert names[-1] == "cell[x1] 2"
    assert names[3:6] == ["sum[] y", "product[] h1*h1", "product[] h1*h2"]


def test_count_intervals_do_not_reach_below_zero() -> None:
    assert count_interval(3.0, 2.0, 2.0) == (0.0, 7.0)


def test_the_digest_depends_on_every_released_number() -> None:
    release = vector_release(0, 0)
    changed = replace(release, sums=release.sums + 1e-9)
    assert release.digest == vector_release(0, 0).digest
    assert changed.digest != release.digest
    assert replace(release, noise=isotropic(1, 0, 0)).digest != release.digest


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"counts": np.ones(3)}, "counts"),
        ({"sums": np.full((2, 2), np.nan)}, "finite"),
        ({"products": np.ones((3, 3))}, "products"),
        ({"frame": np.ones((3, 2))}, "frame"),
        ({"frame": np.ones((4, 5))}, "projected dimension"),
        ({"histograms": (np.empty(0),)}, "histograms"),
        ({"num_clients": 0}, "client"),
        ({"radius": 0.0}, "radius"),
        ({"features": ()}, "at least one column"),
        ({"label": ClassLabel("x0", ("a", "b"))}, "occur twice"),
    ],
)
def test_a_release_whose_parts_do_not_fit_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidReleaseError, match=words):
        replace(vector_release(0, 0), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Feature("a", "real", 1, 1),
        lambda: Feature("a", "real", 0, np.inf),
        lambda: Feature("a", "integer", 0, 1.5),
        lambda: Feature("a", "category", levels=("only",)),
        lambda: Feature("a", "category", levels=("b", "b")),
        lambda: Feature("a", "real", levels=("b", "c")),
        lambda: Feature("a", "real", cells=-1),
        lambda: Feature("a", "category", levels=("b", "c"), cells=3),
        lambda: ClassLabel("a", ("only",)),
        lambda: NumericLabel(Feature("a", "category", levels=("b", "c")), 1),
        lambda: numeric("a", 0, 1, 0),
        lambda: NoiseDeviations(-1, 0, 0, 0, 0, "discrete Gaussian"),
        lambda: NoiseDeviations(0, np.nan, 0, 0, 0, "discrete Gaussian"),
    ],
)
def test_a_column_or_law_that_makes_no_sense_is_refused(make: object) -> None:
    with pytest.raises(InvalidReleaseError):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("noise", [0.0, 20.0])
def test_cells_are_shares_of_the_rows_that_are_in_one(noise: float) -> None:
    # 40 % of 10,000 values are missing, which are in no cell; the others are in the cells as 1, 2 and 3 to 6.
    rows = np.random.default_rng(2).normal(0, 0.3, (10_000, 1))
    law = isotropic(noise, noise, noise, noise)
    model = fit(released(rows, features=reals(1, cells=3), histograms=[np.array([1000.0, 2000, 3000])], noise=law))
    np.testing.assert_allclose(model.marginals[0], np.array([1, 2, 3]) / 6, atol=1e-12 + 3 * noise / 6000)


def test_a_gap_that_noise_explains_is_no_missing_value() -> None:
    rows = np.random.default_rng(2).normal(0, 0.3, (10_000, 1))
    counts = np.array([1650.0, 3300.0, 4950.0])  # 100 rows short, less than 5 deviations of 20 sqrt(3)
    exact = isotropic(0.0, 0.0, 0.0, 20.0)
    own = released(rows, features=reals(1, cells=3), histograms=[counts])
    model = fit(replace(own, noise=exact, histograms=(counts,)))
    np.testing.assert_allclose(model.marginals[0], (counts + 100 / 3) / 10_000, atol=1e-12)
