"""What is said about a model without real rows, and with reference rows that the analyst owns."""

import json
from dataclasses import replace

import numpy as np
import pytest

from lintra_analysis.releases.features import ClassLabel, Feature
from lintra_analysis.releases.release import Release
from lintra_analysis.synthetic.analysis import SyntheticEstimate
from lintra_analysis.synthetic.analysis import synthesize as synthesize_release
from lintra_analysis.synthetic.comparison import NOT_PRIVATE, compare, logistic_accuracy, ridge_error
from lintra_analysis.synthetic.fidelity import fidelity
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import fit
from lintra_analysis.synthetic.rows import WARNING
from lintra_protocol.errors import InvalidAnalysisError
from support.made_projected_sums import PROMISE, isotropic, numeric, reals, released

LABEL = ClassLabel("kind", ("first", "second"))
FEATURES = (
    Feature("weight", "real", -1, 1, cells=20),
    Feature("count", "integer", 0, 4, cells=5),
    Feature("member", "boolean", cells=2),
    Feature("region", "category", levels=("north", "south", "west"), cells=3),
)


def table(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 2, count)
    weight = np.clip(rng.normal(0.4 * classes - 0.2, 0.2), -1, 1)
    return {
        "weight": weight,
        "count": np.clip(np.rint(2 + 3 * weight + rng.normal(0, 0.7, count)), 0, 4).astype(int),
        "member": rng.random(count) < 0.3,
        "region": np.array(["north", "south", "west"])[rng.choice(3, count, p=[0.6, 0.3, 0.1])],
        "kind": np.array(LABEL.levels)[classes],
    }


def mapped(rows: dict[str, np.ndarray]) -> np.ndarray:
    regions = [2 * (rows["region"] == level) - 1.0 for level in FEATURES[3].levels]
    return np.stack([rows["weight"], rows["count"] / 2 - 1, 2.0 * rows["member"] - 1, *regions], axis=1)


def histograms(rows: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [
        np.histogram(rows["weight"], 20, (-1, 1))[0].astype(float),
        np.bincount(rows["count"], minlength=5).astype(float),
        np.bincount(rows["member"].astype(int), minlength=2).astype(float),
        np.array([(rows["region"] == level).sum() for level in FEATURES[3].levels], float),
    ]


def model_of(rows: dict[str, np.ndarray], noise: object = None) -> object:
    classes = (rows["kind"] == "second").astype(int)
    law = {} if noise is None else {"noise": noise}
    return fit(released(mapped(rows), classes, features=FEATURES, label=LABEL, histograms=histograms(rows), **law))


def test_a_report_says_what_the_noise_has_left() -> None:
    model = model_of(table(4000), isotropic(40.0, 30.0, 60.0, 25.0))
    report = fidelity(model)
    assert report.promise == PROMISE
    assert report.warnings[0] == WARNING
    for number, one in enumerate(report.classes):
        assert one.interval[0] < one.count < one.interval[1]
        assert one.interval[1] - one.interval[0] == pytest.approx(2 * 1.96 * 40, rel=1e-3)
        assert one.share == model.weights[number]  # type: ignore[attr-defined]
    assert sum(one.share for one in report.classes) == pytest.approx(1)
    assert report.covariances[0].entry_sd == 60 / 4000
    assert report.covariances[0].relative_error < 0.1
    assert report.pairs[0].error > 0.1
    assert report.covariances[0].verdict.startswith("covariance rough"), "not good, since its worst pair is not"
    assert [one.column for one in report.histograms] == ["weight", "count", "member", "region"]
    assert report.histograms[0].total_variation == pytest.approx(20 * 25 / 4000 * 0.3989, rel=1e-3)
    assert report.eigenvalues.tolist() == sorted(report.eigenvalues.tolist(), reverse=True)
    assert json.loads(json.dumps(report.to_dict()))["model_digest"] == model.digest  # type: ignore[attr-defined]


def test_the_predicted_histogram_error_is_the_mean_of_many() -> None:
    # 300 runs: the mean has a deviation of 1 % of itself; five leave a false alarm below 1e-6.
    rng = np.random.default_rng(1)
    report = fidelity(model_of(table(4000), isotropic(0, 0, 0, 25.0)))
    errors = np.abs(rng.normal(0, 25.0 / 4000, (300, 20))).sum(axis=1) / 2
    assert report.histograms[0].total_variation == pytest.approx(errors.mean(), rel=0.05)
    assert report.histograms[0].total_variation != pytest.approx(errors.mean() * 1.1, rel=0.05)


def test_the_predicted_relative_error_is_the_mean_of_many() -> None:
    # 200 squared norms with a deviation of 40 % each: 3 % in the mean; five leave a false alarm below 1e-6.
    rows = np.random.default_rng(2).normal(0, 0.4, (2000, 5))
    exact = rows.T @ rows / 2000 - np.outer(rows.mean(axis=0), rows.mean(axis=0))
    noise = isotropic(0.0, 30.0, 25.0)
    squared, predicted = [], []
    for seed in range(200):
        release = released(rows, noise=noise, seed=seed)
        mean = release.sums[0] / 2000
        raw = release.products / 2000 - np.outer(mean, mean) + (30 / 2000) ** 2 * np.eye(5)
        squared.append(np.square(raw - exact).sum())
        predicted.append((fit(release).repairs[0].relative_error * np.linalg.norm(raw)) ** 2)
    assert np.mean(predicted) == pytest.approx(np.mean(squared), rel=0.15)


def test_a_drowned_release_is_called_what_it_is() -> None:
    report = fidelity(model_of(table(100), isotropic(1.0, 1e4, 1e4, 500.0)))
    assert report.covariances[0].verdict == "covariance not usable: shrunk to equal variances"
    assert report.classes[0].verdict.startswith("mean weak")
    assert report.histograms[0].verdict == "histogram weak: mostly noise"
    assert any("not usable" in warning for warning in report.warnings)


def test_long_headers_are_cut_and_too_large_tables_refused() -> None:
    model = model_of(table(100))
    rows = replace(synthesize(model, 5, 1), warnings=tuple(f"class {number} left out" for number in range(900)))
    said = json.loads(SyntheticEstimate(rows).headers()["lintra-provenance"])
    assert len(said["warnings"]) == 6
    assert said["warnings"][-1] == "896 more"
    assert ".. " not in SyntheticEstimate(rows).summary()
    assert ".. 15 more" in SyntheticEstimate(synthesize(model, 25, 1)).summary("a promise")
    with pytest.raises(InvalidAnalysisError, match="too many at once"):
        synthesize_release(Release(joint_sums=model.release), 100, 1, "columns", most=399)  # type: ignore[attr-defined]


def test_projection_and_missing_histograms_are_said() -> None:
    rng = np.random.default_rng(3)
    frame = np.linalg.qr(rng.normal(0, 1, (5, 2)))[0]
    report = fidelity(fit(released(rng.normal(0, 0.3, (50, 2)), features=reals(5), frame=frame)))
    assert report.unmodelled == ("x0", "x1", "x2", "x3", "x4")
    assert any("outside the 2 projected of 5 coordinates" in note for note in report.notes)
    with pytest.raises(InvalidAnalysisError, match="confidence"):
        fidelity(fit(released(rng.normal(0, 0.3, (50, 2)))), 1.0)


def test_rows_of_a_good_model_are_near_the_reference_and_of_a_bad_one_are_not() -> None:
    reference = table(3000, seed=9)
    good = model_of(table(3000))
    found = compare(good, synthesize(good, 3000, 1), reference)
    for column in found.columns:
        assert column.distance < 4 * column.chance + 0.03
        assert column.outside == 0
    assert found.correlation_error is not None
    assert found.correlation_error[1] < 0.05
    assert found.training is not None
    assert found.training.measure == "accuracy"
    assert found.training.synthetic > found.training.reference - 0.03
    assert found.training.reference > found.training.baseline + 0.1
    assert found.notes == (NOT_PRIVATE,)
    bad = model_of(table(3000), isotropic(1.0, 3000.0, 30000.0, 3000.0))
    worse = compare(bad, synthesize(bad, 3000, 1), reference)
    assert worse.columns[0].distance > found.columns[0].distance + 0.1
    assert json.loads(json.dumps(worse.to_dict()))["training"]["measure"] == "accuracy"


def test_the_distance_of_a_column_is_that_of_the_two_samples() -> None:
    from scipy import stats

    model = model_of(table(500))
    rows, reference = synthesize(model, 400, 2), table(300, 5)
    found = compare(model, rows, reference).columns
    for column in found[:2]:
        expected = stats.ks_2samp(rows.columns[column.column], reference[column.column]).statistic
        assert column.distance == pytest.approx(expected)
    share = rows.columns["member"].mean() - reference["member"].mean()
    assert found[2].distance == pytest.approx(abs(share))


def test_a_regression_label_is_compared_by_its_error() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(0, 0.2, (2000, 2))
    y = np.clip(50 + 40 * x[:, 0] + rng.normal(0, 2, 2000), 0, 100)
    label = numeric("y", 0, 100, 0.5)
    model = fit(released(np.column_stack([x, (y / 50 - 1) * 0.5]), label=label))
    reference = {"x0": x[:500, 0], "x1": x[:500, 1], "y": y[:500]}
    use = compare(model, synthesize(model, 2000, 1), reference).training
    assert use is not None
    assert use.measure == "root mean squared error"
    assert use.synthetic == pytest.approx(use.reference, rel=0.1)
    assert use.baseline > 2 * use.reference


def test_reference_values_outside_the_bounds_are_counted_and_clipped() -> None:
    model = model_of(table(500))
    reference = table(200, 5)
    reference["weight"] = np.where(np.arange(200) < 50, 7.0, reference["weight"])
    column = compare(model, synthesize(model, 200, 1), reference).columns[0]
    assert column.outside == 0.25
    assert column.at_bounds[1] >= 0.25


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weight": None}, "no column 'weight'"),
        ({"region": np.array(["mars"] * 100)}, "'mars' is none of its levels"),
        ({"weight": np.full(100, np.nan)}, "finite"),
        ({"weight": np.array(["a"] * 100)}, "finite numbers"),
        ({"weight": np.zeros((100, 2))}, "dimension"),
        ({"weight": np.zeros(50)}, "one length"),
    ],
)
def test_a_reference_that_does_not_fit_is_refused(change: dict[str, object], words: str) -> None:
    model = model_of(table(100))
    reference = {name: value for name, value in (table(100) | change).items() if value is not None}
    with pytest.raises(InvalidAnalysisError, match=words):
        compare(model, synthesize(model, 100, 1), reference)


def test_a_short_reference_and_projected_rows_are_refused() -> None:
    model = model_of(table(100))
    with pytest.raises(InvalidAnalysisError, match="at least 20"):
        compare(model, synthesize(model, 100, 1), table(10))
    with pytest.raises(InvalidAnalysisError, match="original columns"):
        compare(model, synthesize(model, 100, 1, "projected"), table(100))


def test_the_test_models_learn_what_is_there_and_survive_constant_columns() -> None:
    rng = np.random.default_rng(6)
    x = np.column_stack([rng.normal(0, 1, (400, 2)), np.ones(400)])
    classes = (x[:, 0] + x[:, 1] > 0).astype(int)
    assert logistic_accuracy((x[:200], classes[:200]), (x[200:], classes[200:]), 2) > 0.95
    y = 3 * x[:, 0] - x[:, 1] + 5
    assert ridge_error((x[:200], y[:200]), (x[200:], y[200:])) < 0.05
