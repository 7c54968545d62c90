"""Is the noise's own distance chi-square with one degree of freedom, where linearised intervals fail?

Seeds are fixed. 300 draws: were they drawn anew, a statistic that is accepted in .95 of the draws would be accepted in
fewer than .91 or more than .99 of them in less than 1 in 200 cases. Near-copies of a column, where the linearised
interval of a floored matrix hardly ever covers, are the case that these sets are for.
"""

import numpy as np
import pytest
from scipy import special

from lintra_analysis.estimators.concentrated.equations import Equations
from lintra_analysis.estimators.concentrated.pairs import PairIntervals
from lintra_analysis.estimators.concentrated.regressions import Regression, Residual, penalty_beside
from lintra_analysis.estimators.design import design
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.solve import solve
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_protocol.crypto.ring import FloatArray
from support.made_releases import columns, symmetric_noise, with_constant

pytestmark = pytest.mark.slow

DRAWS = 300
CLIENTS = 4096
SIGMA = 60.0
LIMIT = float(special.chdtri(1, 0.05))


def near_copies() -> FloatArray:
    """Rows with a one, three features of which two are nearly the same, and a target; shape `(n, 5)`."""
    generator = np.random.default_rng(41)
    features = 0.5 * generator.normal(size=(CLIENTS, 3)) + 0.2
    features[:, 1] = features[:, 0] + 0.1 * features[:, 1]
    target = features @ [2.0, -1.5, -0.4] + 0.3 * generator.normal(size=CLIENTS)
    return np.column_stack([np.ones(CLIENTS), features, target])


ROWS = near_copies()
GRAM = ROWS.T @ ROWS
TRUTH = np.linalg.solve(GRAM[:4, :4], GRAM[:4, 4])


def released(generator: np.random.Generator, *, tight: bool = True) -> GramEstimate:
    """Release the second moments."""
    noise = symmetric_noise(5, SIGMA, generator)
    law = SymmetricNoise(SIGMA)
    if tight:
        noise[0, 0] = 0.0
        noise[1:, 1:] -= np.trace(noise) / 4 * (1 - 1 / np.sqrt(5)) * np.eye(4)
        law = SymmetricNoise(SIGMA, trace_tight=True, num_columns=4, exact=0)
    named = with_constant(np.zeros((1, 4)), columns(4))[1]
    return GramEstimate(named, GRAM + noise, law, CLIENTS, 2.0)


def sets(release: GramEstimate, regularization: float = 0.0, features: list[str] | None = None) -> Regression:
    chosen = design(release, "c3", features)
    count = chosen.fitted
    found = Regression.of_design(chosen, regularization, "cohort", 0.95, np.eye(count), np.zeros(count))
    assert found is not None
    return found


@pytest.mark.parametrize("tight", [True, False])
@pytest.mark.grid(2)
def test_each_coefficient_of_the_cohort_is_accepted_as_often_as_stated_and_with_a_smaller_law_it_is_not(
    tight: bool,
) -> None:
    generator = np.random.default_rng(42)
    right, small, linear = [], [], []
    for _ in range(DRAWS):
        release = released(generator, tight=tight)
        distance = sets(release).statements.at(TRUTH)
        right.append(distance <= LIMIT)
        small.append(1.4**2 * distance <= LIMIT)
        fit = solve(design(release, "c3"))
        assert fit.parts is not None
        error = np.sqrt(np.diagonal(fit.parts.cohort))
        linear.append(np.abs(fit.solution - TRUTH) <= np.sqrt(LIMIT) * error)
    each = np.mean(right, axis=0)
    assert ((each >= 0.91) & (each <= 1.0)).all()
    assert np.mean(small, axis=0).min() < 0.91
    # What was reported before: the matrix with raised eigenvalues, linearised.
    assert np.mean(linear, axis=0).min() < 0.75


def test_the_slopes_test_keeps_its_size_and_rejects_slopes_that_are_there() -> None:
    generator = np.random.default_rng(43)
    flat = GRAM.copy()
    flat[4, :4] = flat[:4, 4] = flat[0, 4] * GRAM[0, :4] / GRAM[0, 0]
    null, there = [], []
    for _ in range(DRAWS):
        release = released(generator)
        there.append(sets(release).subspace_test(sets(release).design.names)[1] < 0.05)
        without = GramEstimate(release.columns, release.matrix - GRAM + flat, release.errors, CLIENTS, 2.0)
        null.append(sets(without).subspace_test(sets(without).design.names)[1] < 0.05)
    assert 0.01 <= np.mean(null) <= 0.09
    assert np.mean(there) > 0.9


def test_the_residual_sum_of_squares_is_accepted_as_often_as_stated_and_a_wrong_one_is_not() -> None:
    generator = np.random.default_rng(44)
    used = [0, 1, 3]
    cross = GRAM[used, 4]
    true = float(GRAM[4, 4] - cross @ np.linalg.solve(GRAM[np.ix_(used, used)], cross))
    right, wrong = [], []
    for _ in range(DRAWS):
        found = sets(released(generator), features=["c0", "c2"])
        matrix = found.design.gram.matrix
        residual = Residual.about(Equations.of_matrix(matrix, found.sigma, found.kernel, sums=True))
        right.append(residual.at(np.array([true]))[0] <= LIMIT)
        wrong.append(residual.at(np.array([true + 6 * SIGMA]))[0] <= LIMIT)
    assert 0.91 <= np.mean(right) <= 1.0
    assert np.mean(wrong) < 0.9


def test_penalised_coefficients_are_accepted_as_often_as_stated() -> None:
    generator = np.random.default_rng(45)
    penalty = penalty_beside(SIGMA, 4)
    shrunk = np.linalg.solve(GRAM[:4, :4] + penalty * np.diag([0.0, 1, 1, 1]), GRAM[:4, 4])
    hits, unshrunk = [], []
    for _ in range(DRAWS):
        statements = sets(released(generator), penalty).statements
        hits.append(statements.at(shrunk) <= LIMIT)
        unshrunk.append(statements.at(TRUTH) <= LIMIT)
    each = np.mean(hits, axis=0)
    assert ((each >= 0.91) & (each <= 0.99)).all()
    assert np.mean(unshrunk, axis=0).min() < 0.91


def test_an_interval_ends_where_the_distance_reaches_its_limit() -> None:
    generator = np.random.default_rng(46)
    for _ in range(5):
        estimate = regression(released(generator), "c3", of="cohort")
        statements = sets(released(generator)).statements
        ends = statements.intervals(LIMIT)
        for side in range(2):
            finite = np.isfinite(ends[:, side])
            assert np.allclose(statements.at(np.where(finite, ends[:, side], 0.0))[finite], LIMIT, rtol=0.02)
        for one in estimate.coefficients:
            assert (one.interval is None) == (not estimate.bounded)


@pytest.mark.parametrize(("first", "second", "correlation"), [(200.0, 300.0, 0.97), (8.0, 5.0, 0.6), (1.0, 1.0, 0.0)])
def test_a_correlation_is_accepted_as_often_as_stated_however_small_the_variances_are(
    first: float, second: float, correlation: float
) -> None:
    generator = np.random.default_rng(47)
    truth = np.array([first, correlation * np.sqrt(first * second), second])
    covariance = np.diag([2.0, 1.0, 2.0])
    sums = truth + generator.multivariate_normal(np.zeros(3), covariance, 1000)
    pairs = PairIntervals.of(sums, np.tile(covariance, (1000, 1, 1)))
    accepted = np.mean(pairs.distances(np.full(1000, correlation)) <= LIMIT)
    understated = np.mean(2 * pairs.distances(np.full(1000, correlation)) <= LIMIT)
    # The sd of a share is .007. Where both variances are lost in noise the set is a little too small.
    assert (0.9 if first < 2 else 0.93) <= accepted <= 0.97
    assert understated < 0.9


def test_r2_is_linearised_only_where_noise_cannot_change_what_features_explain_by_half() -> None:
    # p = 2 features with sigma 1: 4 sqrt(2) = 5.66. From 3 sqrt(3) = 5.2 on no eigenvalue is raised.
    for smallest, linear in ((5.4, False), (6.5, True)):
        matrix = np.array([[smallest, 0.0, 2.0], [0.0, 4000.0, 3000.0], [2.0, 3000.0, 4000.0]])
        found = regression(GramEstimate(columns(3), matrix, SymmetricNoise(1.0), CLIENTS, 2.0), "c2", of="cohort")
        assert found.bounded
        assert not found.regularised
        assert found.r2_interval is not None
        assert (found.r2_standard_error is not None) == linear
