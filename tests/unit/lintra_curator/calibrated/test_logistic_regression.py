"""A private logistic regression: what it estimates, and what it refuses."""

import math

import numpy as np
import pytest
from scipy.special import expit

from lintra_curator.calibrated.logistic_regression import logistic_regression, logistic_sensitivity, mean_shift
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


def shift_of(rows: np.ndarray, regularization: float, sigma: float) -> float:
    """Return how far the last of some records, which are times their labels, moves the optimum over the scatter."""

    def optimum(part: np.ndarray) -> np.ndarray:
        theta = np.zeros(rows.shape[1])
        for _ in range(25):
            miss = expit(-part @ theta)
            hessian = regularization * np.eye(theta.size) + (part.T * (miss * (1 - miss))) @ part
            theta = theta - np.linalg.solve(hessian, regularization * theta - part.T @ miss)
        return theta

    moved = optimum(rows) - optimum(rows[:-1])
    scatter = np.linalg.inv(regularization * np.eye(rows.shape[1]) + rows.T @ rows / 4)
    return math.sqrt(moved @ np.linalg.solve(scatter + sigma**2 * np.eye(rows.shape[1]), moved))


def test_no_record_moves_the_optimum_farther_than_the_bound_and_a_lone_one_comes_near() -> None:
    generator, nearest = np.random.default_rng(8), 0.0
    for _ in range(25):
        count, regularization = int(generator.integers(1, 30)), float(10 ** generator.uniform(0, 2))
        sigma = float(10 ** generator.uniform(-2, 0))
        # Few directions and labels that mostly agree: optima far out, and records against them.
        rows = generator.normal(size=(count, 2)) * [1.0, 0.2] + [generator.uniform(0, 2), 0]
        rows[-1] *= generator.choice([-1, 1])
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
        bound = mean_shift(sigma, 1.0, regularization, count)
        assert shift_of(rows, regularization, sigma) <= bound
        nearest = max(nearest, shift_of(rows, regularization, sigma) / bound)
    assert nearest > 0.9
    # Where records hardly bend the objective, the gradient of a lone record is half of l, and the bound says so.
    assert mean_shift(0.0, 1.0, 1e6, 1) == pytest.approx(shift_of(np.eye(2)[:1], 1e6, 0.0), rel=1e-3)


@pytest.mark.parametrize(
    ("sigma", "regularization", "count"), [(0.0, 1.0, 40), (0.3, 2.0, 40), (0.3, 50.0, 9), (5.0, 1.0, 10**6)]
)
def test_the_bound_of_the_shift_is_the_largest_over_a_grid_of_eigenvalues(
    sigma: float, regularization: float, count: int
) -> None:
    margin = math.sqrt(0.27846454276 * count / regularization)
    bend, eigenvalues = (
        math.cosh(min(margin / 2, 300)) ** -2,
        np.geomspace(regularization, regularization + count / 4, 4001),
    )
    hidden = np.sqrt(eigenvalues / (1 + sigma**2 * eigenvalues))
    found = expit(margin) * hidden / ((1 - bend) * regularization + bend * eigenvalues)
    assert mean_shift(sigma, 1.0, regularization, count) == pytest.approx(found.max(), rel=1e-5)


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
