"""A private logistic regression: what it estimates, and what it refuses."""

import math

import numpy as np
import pytest
from scipy.special import expit

from lintra_curator.calibrated.logistic_regression import logistic_regression, logistic_sensitivity
from lintra_curator.claims.claim import curator_claim
from support import source

CLAIM = curator_claim(1.0, 1e-6, "zero-out")


def test_the_eigenvalue_that_moves_has_the_ratio_of_the_vector() -> None:
    assert logistic_sensitivity(0.5, 1.0, 1.0).log_ratio == pytest.approx(0.1743533871448, rel=1e-9)


def test_a_record_alone_attains_the_ratio_and_others_stay_below() -> None:
    generator = np.random.default_rng(6)
    for sigma, regularization in ((0.5, 1.0), (0.1, 3.0)):
        bound = logistic_sensitivity(sigma, 1.0, regularization).log_ratio
        for count in (0, 1, 5):
            rows = generator.normal(size=(count + 1, 3))
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)

            def spread(part: np.ndarray, sigma: float = sigma, regularization: float = regularization) -> np.ndarray:
                precision = regularization * np.eye(3) + part.T @ part / 4
                return np.linalg.inv(precision) + sigma**2 * np.eye(3)

            ratios = np.abs(np.log(np.linalg.eigvals(np.linalg.solve(spread(rows), spread(rows[:-1]))).real))
            assert np.sort(ratios)[:2] == pytest.approx([0, 0], abs=1e-9)
            assert ratios.max() <= bound
            assert (ratios.max() == pytest.approx(bound, rel=1e-9)) == (count == 0)


def made_labels(count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(12)
    features = generator.uniform(-0.6, 0.6, size=(count, 2))
    return features, (generator.uniform(size=count) < expit(features @ [6.0, -3.0])).astype(float)


def test_the_release_is_a_draw_about_the_optimum() -> None:
    features, labels = made_labels(20_000)
    release = logistic_regression(features, labels, CLAIM, 1.0, 10.0, source("logistic"), max_rows=50_000)
    again = logistic_regression(
        features, labels, CLAIM, 1.0, 10.0, lambda count: (1 << 63).to_bytes(8, "little") * (count // 8)
    )
    # The median stream adds nothing, so this is the optimum: its gradient vanishes.
    miss = labels - expit(features @ again.coef)
    assert features.T @ miss - 10 * again.coef == pytest.approx([0, 0], abs=1e-6)
    assert np.linalg.norm(release.coef - again.coef) < 6 * math.hypot(release.plan.sigma, 0.3)
    assert release.coef[0] > 0 > release.coef[1]
    assert np.mean(release.predict(features) == labels) > 0.7
    assert release.predict_proba(features[:3]) == pytest.approx(expit(features[:3] @ release.coef))
    assert f"{release.coef[0]:.3f}" not in repr(release)


def test_one_record_moves_the_optimum_by_no_more_than_the_sensitivity_says() -> None:
    features, labels = made_labels(30)
    median = lambda count: (1 << 63).to_bytes(8, "little") * (count // 8)  # noqa: E731
    whole = logistic_regression(features, labels, CLAIM, 1.0, 0.5, median).coef
    for i in range(30):
        kept = np.arange(30) != i
        less = logistic_regression(features[kept], labels[kept], CLAIM, 1.0, 0.5, median).coef
        assert np.linalg.norm(whole - less) <= 1 / 0.5


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"labels": [0.0, 2.0]}, "labels"),
        ({"labels": [0.0]}, "labels"),
        ({"features": [[math.nan], [0.0]]}, "finite"),
        ({"features": [[3.0], [0.0]], "clip": False}, "longer than the bound"),
        ({"regularization": 0.0}, "regularization"),
        ({"row_bound": math.inf}, "row_bound"),
        ({"max_rows": 1}, "more records"),
        ({"max_rows": 0}, "max_rows"),
        ({"claim": curator_claim(1.0, 1e-6, "replace-one")}, "zero-out"),
        ({"claim": curator_claim(1000.0, 1e-6, "zero-out")}, "epsilon"),
    ],
)
def test_wrong_arguments_of_a_logistic_regression_are_refused(change: dict, complaint: str) -> None:
    arguments = {
        "features": [[0.5], [-0.5]], "labels": [1.0, 0.0], "claim": CLAIM, "row_bound": 1.0, "regularization": 1.0,
        "random_bytes": source("no"),
    }  # fmt: skip
    with pytest.raises(ValueError, match=complaint):
        logistic_regression(**{**arguments, **change})
    release = logistic_regression(**arguments)
    with pytest.raises(ValueError, match="1 features"):
        release.predict(np.zeros((2, 3)))
