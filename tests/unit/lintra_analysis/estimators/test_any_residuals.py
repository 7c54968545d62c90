"""Regression about the population without an assumption on the variances of residuals."""

import numpy as np
import pytest

from lintra_analysis.estimators.concentrated.regressions import Regression
from lintra_analysis.estimators.design import design
from lintra_analysis.estimators.estimates import Residuals
from lintra_analysis.estimators.regression import regression
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_protocol.errors import InvalidAnalysisError

CLIENTS, DRAWS, SIGMA = 2000, 60, 1.0
COLUMNS = (ScaledColumn("(intercept)", 0, 1, 1, 1), ScaledColumn("x", 0, 1, -1, 1), ScaledColumn("y", 0, 1, -2, 2))


def released(generator: np.random.Generator) -> GramEstimate:
    """Release clients of whom few have a large x, and only those a residual; the slope is 0."""
    large = generator.random(CLIENTS) < 0.05
    x = np.where(large, 1.0, 0.05) * generator.choice([-1.0, 1.0], CLIENTS)
    y = np.where(large, generator.choice([-1.0, 1.0], CLIENTS), 0.0)
    rows = np.column_stack([np.ones(CLIENTS), x, y])
    noise = SIGMA * generator.normal(size=(3, 3))
    noise = (noise + noise.T) / np.sqrt(2)
    noise[0, 0] = 0.0
    return GramEstimate(COLUMNS, rows.T @ rows + noise, SymmetricNoise(SIGMA, exact=0), CLIENTS, np.sqrt(6))


def held(residuals: Residuals) -> int:
    """Count the releases whose test at .05, and so whose interval at .95, holds the slope 0."""
    generator, found = np.random.default_rng(11), 0
    for _ in range(DRAWS):
        chosen = design(released(generator), "y")
        sets = Regression.of_design(chosen, 0.0, "population", 0.95, np.eye(2), np.zeros(2), residuals)
        assert sets is not None
        p_value = sets.coefficients(("(intercept)", "x"), None)[1].p_value
        assert p_value is not None
        found += p_value > 0.05
    return found


def test_intervals_hold_where_residuals_grow_with_a_feature_and_those_of_one_variance_do_not() -> None:
    # At .95 fewer than 50 of 60 have probability .0002.
    assert held("any") >= 50
    assert held("alike") < 40


def test_the_sampling_part_is_that_of_the_longest_row_and_the_law_says_so() -> None:
    release = released(np.random.default_rng(2))
    alike, anyhow = regression(release, "y"), regression(release, "y", residuals="any")
    (one,), (other,) = alike.coefficients, anyhow.coefficients
    assert one.standard_error is not None
    assert other.standard_error is not None
    assert other.value == one.value
    assert other.standard_error.privacy == one.standard_error.privacy
    # Features lie within the corner (1, 1) of their bounds, whose square is 2; X^T X of x is n (.05 + .95/400) or so.
    ratio = (other.standard_error.sampling / one.standard_error.sampling) ** 2
    assert ratio == pytest.approx(2 / (0.05 + 0.95 / 400), rel=0.25)
    assert "nothing is assumed of the residuals' variances" in anyhow.law
    assert "one residual variance is assumed" in alike.law


@pytest.mark.parametrize(("of", "residuals"), [("cohort", "any"), ("population", "robust")])
def test_what_is_assumed_of_residuals_is_about_the_population_and_one_of_two_words(of: str, residuals: str) -> None:
    release = GramEstimate(COLUMNS, np.diag([2000.0, 900.0, 900.0]), SymmetricNoise(1.0, exact=0), 2000, 2.0)
    with pytest.raises(InvalidAnalysisError, match=r"population|alike"):
        regression(release, "y", of=of, residuals=residuals)  # type: ignore[arg-type]
