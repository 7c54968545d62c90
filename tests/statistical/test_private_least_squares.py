"""The scatter of private least squares has the stated law, whether drawn directly or by solving a real sketch.

Every test states how often it would fail were its seeds drawn anew, and shows that it rejects a wrong parameter.
"""

import math

import numpy as np
import pytest
from scipy import stats

from lintra_curator.claims.claim import curator_claim
from lintra_curator.least_squares.private_least_squares import (
    LeastSquaresPlan,
    plan_least_squares,
    private_least_squares,
    solved,
)
from support import source

pytestmark = pytest.mark.slow

RUNS, SKETCH_ROWS, SIZE = 4000, 9, 3
CLAIM = curator_claim(4.0, 1e-2, "zero-out")
GENERATOR = np.random.default_rng(9)
FEATURES = GENERATOR.uniform(-0.5, 0.5, size=(30, SIZE))
TARGET = FEATURES @ [0.5, 0.2, -0.4] + 0.2 * GENERATOR.normal(size=30)
# Kolmogorov: P(sqrt(n) D > 2.7) = 9.3e-7 is the false-alarm rate of every comparison of laws.
LIMIT = 2.7 / math.sqrt(RUNS)


def scaled_squares(law: str) -> tuple[np.ndarray, LeastSquaresPlan]:
    """Return (x - mean)^T H (x - mean) / |e|^2 of many releases, whose law does not depend on the data."""
    plan = plan_least_squares(CLAIM, SKETCH_ROWS, SIZE, 1.0, law)
    joint = np.column_stack([FEATURES, TARGET])
    joint /= np.maximum(1, np.linalg.norm(joint, axis=1, keepdims=True))
    solution, factor, residual = solved(joint, plan.sigma2)
    stream = source(f"scatter of {law}")
    coefs = [
        private_least_squares(FEATURES, TARGET, CLAIM, SKETCH_ROWS, 1.0, stream, law=law).coef - solution
        for _ in range(RUNS)
    ]
    return np.sum((factor @ np.array(coefs).T) ** 2, axis=0) / residual, plan


def distance(sample: np.ndarray, law: stats.rv_continuous) -> float:
    return float(stats.kstest(sample, law.cdf).statistic)


@pytest.mark.parametrize("law", ["t", "sketch"])
@pytest.mark.grid(2)
def test_a_sketched_solution_is_multivariate_t(law: str) -> None:
    sample, _ = scaled_squares(law)
    freedom = SKETCH_ROWS - SIZE + 1
    assert distance(sample * freedom / SIZE, stats.f(SIZE, freedom)) < LIMIT
    # One degree of freedom more or less, or the Gaussian limit, would be noticed.
    for wrong in (freedom - 1, freedom + 1):
        assert distance(sample * wrong / SIZE, stats.f(SIZE, wrong)) > LIMIT
    assert distance(sample * SKETCH_ROWS, stats.chi2(SIZE)) > LIMIT


@pytest.mark.slow
def test_the_gaussian_law_is_gaussian_with_one_rth_of_the_residual() -> None:
    sample, _ = scaled_squares("gaussian")
    assert distance(sample * SKETCH_ROWS, stats.chi2(SIZE)) < LIMIT
    assert distance(sample * (SKETCH_ROWS - 1), stats.chi2(SIZE)) > LIMIT
