"""Regressions on rows whose features were turned: intervals, errors and subsets, against drawn releases."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis import correlation, means, ordinary_slopes, pca, regression, regression_path
from lintra_analysis.estimators.concentrated.regressions import Regression
from lintra_analysis.estimators.design import design
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_analysis.releases.second_moment_sum import SecondMomentSum, TurnedError
from lintra_analysis.releases.weighted_rows import WeightedRows
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError
from support import source

P, ROWS, SIGMA, DRAWS = 4, 4000, 60.0, 300
COLUMNS = (
    ScaledColumn("(intercept)", 0.0, 1.0, 1.0, 1.0),
    *(ScaledColumn(f"x{i}", float(i), 2.0, -20.0, 20.0) for i in range(P)),
    ScaledColumn("y", 0.0, 3.0, -50.0, 50.0),
)


class Collected:
    """Rows whose features nearly agree, turned by the inverse root of their covariance."""

    def __init__(self) -> None:
        generator = np.random.default_rng(1)
        common = generator.normal(size=(ROWS, 1))
        features = common + 0.4 * generator.normal(size=(ROWS, P))
        target = features @ np.array([0.5, -0.3, 0.2, 0.0]) + generator.normal(size=ROWS)
        self.rows = np.column_stack([np.ones(ROWS), features, target])
        values, vectors = np.linalg.eigh(np.cov(features.T))
        self.turn = (vectors / np.sqrt(values)) @ vectors.T
        whole = np.eye(P + 2)
        whole[1:-1, 1:-1] = self.turn
        self.basis = np.linalg.inv(whole).T
        turned = self.rows @ whole.T
        lengths = np.linalg.norm(turned, axis=1)
        self.bound = float(np.quantile(lengths, 0.7))
        self.weights = np.minimum(1, self.bound / lengths) ** 2
        self.products = (turned * self.weights[:, np.newaxis]).T @ turned
        self.law = SymmetricNoise(SIGMA, True, P + 2)
        noise = self.law.draws(DRAWS, P + 2, source("turned"))
        assert noise is not None
        self.noise = noise

    def release(self, draw: int, *, basis: FloatArray | None = None) -> SecondMomentSum:
        basis = self.basis if basis is None else basis
        values = self.basis.T @ (self.products + self.noise[draw]) @ self.basis
        weights = WeightedRows("all", "y", -math.inf, math.inf, float(self.weights.mean()), 0.01, self.turn)
        return SecondMomentSum(
            columns=COLUMNS,
            values=(values + values.T) / 2,
            noise_sd=SIGMA,
            num_clients=ROWS,
            row_bound=self.bound,
            trace_columns=P + 2,
            weighted=weights,
            straightening=basis,
        )

    def own(self, features: list[int]) -> FloatArray:
        """Return the weighted least squares of these rows, in units, shape `(k,)`."""
        index = [0, *(1 + i for i in features)]
        block = (self.rows * self.weights[:, np.newaxis]).T @ self.rows
        solved = np.linalg.solve(block[np.ix_(index, index)], block[index, -1])
        return np.asarray(solved[1:] * 3 / 2)


@pytest.fixture(scope="module")
def collected() -> Collected:
    return Collected()


def accepted(release: SecondMomentSum, features: list[int], own: FloatArray) -> tuple[list[bool], FloatArray]:
    """Return which 95 % intervals hold the slopes `own`, and the raw slopes in units, both of shape `(k,)`."""
    chosen = design(release, "y", [f"x{i}" for i in features])
    rows = chosen.to_units[:-1]
    sets = Regression.of_design(chosen, 0.0, "cohort", 0.95, rows, np.zeros(len(rows)))
    assert sets is not None
    return (sets.statements.at(own) <= sets.limit).tolist(), sets.values()


@pytest.mark.parametrize("features", [[3, 1], [0, 1, 2, 3]])
@pytest.mark.grid(2)
def test_intervals_hold_the_slopes_of_the_columns_as_often_as_they_say(
    collected: Collected, features: list[int]
) -> None:
    """False alarms: in 150 draws coverage leaves [.9, .99] in fewer than one seed of 1,000."""
    own = collected.own(features)
    found = [accepted(collected.release(draw), features, own) for draw in range(150)]
    assert 0.9 < np.mean([held for held, _ in found]) < 0.99
    raw = np.array([values for _, values in found])
    assert_allclose(raw.mean(axis=0), own, atol=5 * float(raw.std(axis=0).max()) / math.sqrt(150))
    told = regression(collected.release(0), "y", [f"x{i}" for i in features], of="cohort")
    errors = np.array([one.standard_error.total for one in told.coefficients if one.standard_error is not None])
    assert_allclose(errors, raw.std(axis=0), rtol=0.3)
    assert told.bounded
    low, high = np.array([one.interval for one in told.coefficients]).T
    assert (((low <= own) & (own <= high)) == accepted(collected.release(0), features, own)[0]).all()


def test_the_equations_covariance_is_that_of_a_simulation(collected: Collected) -> None:
    """Sigma(theta) = A C(phi) A^T for a subset: 2 % in the square root with 40,000 draws of a symmetric matrix."""
    index = np.array([0, 2, 4, 5])
    law = TurnedError(collected.law, collected.products, collected.basis).restrict(index)
    theta = np.array([0.3, -1.0, 0.7, -1.0])
    noise = collected.law.draws(40_000, P + 2, source("sigma"))
    assert noise is not None
    drawn = noise @ (law.basis @ theta) @ law.basis
    assert_allclose(np.sqrt(np.diagonal(law.product_covariance(theta))), drawn.std(axis=0), rtol=0.02)
    # Of the straightened block it has the closed form.
    upper, straight_law = law.straightened()
    assert straight_law is collected.law
    straight, inverse = collected.law.product_covariance(upper @ theta), np.linalg.inv(upper)
    assert_allclose(upper.T @ straight @ upper, law.product_covariance(theta), rtol=1e-9)
    assert_allclose(upper.T @ upper, law.basis.T @ law.basis, rtol=1e-9, atol=1e-12)
    assert (np.diagonal(upper) > 0).all()
    assert_allclose(inverse[0], np.eye(4)[0], atol=1e-12)


def test_intervals_of_a_law_that_leaves_the_turning_out_hold_less_or_more_often(collected: Collected) -> None:
    every = [0, 1, 2, 3]
    own, plain = collected.own(every), np.eye(P + 2)
    held = [accepted(collected.release(draw, basis=plain), every, own)[0] for draw in range(60)]
    assert not 0.9 < np.mean(held) < 0.99


def test_means_correlations_components_and_paths_are_those_of_the_columns(collected: Collected) -> None:
    quiet = collected.release(0)
    block = (collected.rows * collected.weights[:, np.newaxis]).T @ collected.rows
    told = means(quiet)
    expected = block[0, 1:] / block[0, 0] * [2, 2, 2, 2, 3] + [0, 1, 2, 3, 0]
    assert told.means is not None
    for one, truth in zip(told.means, expected, strict=True):
        low, high = one.interval
        assert low - (high - low) < truth < high + (high - low)
    assert correlation(quiet).matrix[0, 1] == pytest.approx(np.corrcoef(collected.rows[:, 1:3].T)[0, 1], abs=0.15)
    assert pca(quiet, 1).components.shape == (1, 5)
    assert regression_path(quiet, "y").coefficients.shape[1] == P


def test_a_part_of_a_release_has_the_slopes_of_the_whole(collected: Collected) -> None:
    whole = collected.release(1)
    part = whole.restrict(["(intercept)", "x2", "x0", "y"])
    names = ["x2", "x0"]
    assert regression(part, "y", names).raw == pytest.approx(regression(whole, "y", names).raw)


def test_noise_that_spares_a_column_cannot_be_straightened() -> None:
    with pytest.raises(ValueError, match="does not look the same"):
        TurnedError(SymmetricNoise(1.0, exact=0), np.eye(2), np.eye(2))


def test_ordinary_slopes_ask_for_all_columns_that_were_turned_together(collected: Collected) -> None:
    sample = {f"x{i}": collected.rows[:500, 1 + i] * 2 + i for i in range(P)} | {"y": collected.rows[:500, -1] * 3}
    whole = collected.release(2)
    told = ordinary_slopes(whole, regression(whole, "y"), sample)
    assert [one.name for one in told] == [f"x{i}" for i in range(P)]
    part = whole.restrict(["(intercept)", "x2", "x0", "y"])
    with pytest.raises(InvalidAnalysisError, match="turned together"):
        ordinary_slopes(part, regression(part, "y"), sample)
