"""The pages on the mechanisms of the NDIS papers: their examples run, and do what the pages say."""

import re
from pathlib import Path

import numpy as np

from lintra_analysis.estimators.regression import RegressionEstimate
from lintra_curator.calibrated.logistic_regression import LogisticRelease
from lintra_curator.least_squares.private_least_squares import LeastSquaresRelease
from lintra_curator.projection.random_projection import ProjectionRelease

PAGES = Path(__file__).resolve().parents[3] / "docs/mechanisms"


def run_example(page: str) -> dict[str, object]:
    (source,) = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text("utf-8"), re.DOTALL)
    made: dict[str, object] = {}
    exec(source, made)
    return made


def test_the_example_of_random_projection_keeps_its_claim_and_its_interval() -> None:
    made = run_example("random_projection.md")
    release, estimate = made["release"], made["estimate"]
    assert isinstance(release, ProjectionRelease)
    assert isinstance(estimate, RegressionEstimate)
    assert release.promise.status == "proved"
    assert release.promise.delta_hi <= 1e-6
    # Ten standard errors, since the example draws from the operating system.
    error = estimate.coefficients[0].standard_error
    assert error is not None
    assert abs(estimate.coefficients[0].value - 0.6) < 10 * error.total
    assert error.total < 0.1


def test_the_example_of_least_squares_keeps_its_claim_and_comes_close() -> None:
    release = run_example("private_least_squares.md")["release"]
    assert isinstance(release, LeastSquaresRelease)
    assert release.plan.promise.status == "numerical supremum"
    assert release.plan.promise.delta_hi <= 1e-6
    # A coefficient scatters by |e| / sqrt(r) / |column|, .1 / .29 / sqrt(2000) = .008; ten of them, and the ridge.
    assert np.abs(release.coef - [0.6, -0.3]).max() < 0.1


def test_the_example_of_logistic_regression_keeps_its_claim_and_comes_close() -> None:
    release = run_example("calibrated_gaussian.md")["release"]
    assert isinstance(release, LogisticRelease)
    assert release.plan.promise.delta_hi <= 1e-6
    # Noise of .46 and a scatter of .05 in each coefficient; seven of them, and the prior's pull.
    assert np.abs(release.coef - [4.0, -2.0]).max() < 4.0
    assert 0 < release.plan.sigma < 0.5
