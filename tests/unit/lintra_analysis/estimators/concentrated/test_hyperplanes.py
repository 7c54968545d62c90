"""Confidence sets in the eigenbasis of a release are those of dense matrices (tests/support/dense_sets.py)."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import special

from lintra_analysis.estimators.concentrated.equations import Equations, NoiseKernel
from lintra_analysis.estimators.concentrated.regressions import Regression, penalty_beside
from lintra_analysis.estimators.design import design
from lintra_analysis.estimators.estimates import Of, Residuals
from lintra_analysis.estimators.spectral import floor_eigenvalues
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from support import dense_sets
from support.made_releases import columns, symmetric_noise, with_constant

LIMIT = float(special.chdtri(1, 0.05))
RESIDUAL_LIMIT = float(special.chdtri(1, 0.04))
CLIENTS = 4000
SAME = 1e-9


@dataclass(frozen=True)
class Law:
    """What a release takes off the diagonal of its noise, and whose constant is apart."""

    exact: bool = False
    traced: bool = False
    apart: bool = False

    def release(self, generator: np.random.Generator, number: int) -> GramEstimate:
        """Release up to 11 columns with a one, of which two are nearly or quite different."""
        size = int(generator.integers(3, 12))
        sigma, near = (60.0, 20.0, 5.0)[number % 3], (0.1, 1.0, 0.02)[number // 3 % 3]
        rows = 0.5 * generator.normal(size=(CLIENTS, size - 1)) + 0.2
        if size > 4:
            rows[:, 1] = rows[:, 0] + near * rows[:, 1]
        rows[:, -1] = rows[:, :-1] @ generator.normal(size=size - 2) + 0.3 * generator.normal(size=CLIENTS)
        rows, named = with_constant(rows, columns(size - 1))
        noised = size - (self.exact or self.apart)
        law = SymmetricNoise(
            sigma, self.traced, noised if self.traced else 0, 0 if self.exact else None, apart=0 if self.apart else None
        )
        noise = symmetric_noise(size, sigma, generator)
        return GramEstimate(named, rows.T @ rows + noise, law, CLIENTS, 2.0)


LAWS = (Law(), Law(exact=True), Law(exact=True, traced=True), Law(traced=True), Law(traced=True, apart=True))


def dense(sets: Regression) -> dense_sets.Equations:
    """Return the equations of a regression as dense matrices."""
    matrix = sets.design.gram.matrix
    left = matrix[:-1].copy()
    left[:, :-1] += np.diag(sets.design.penalty(sets.regularization))
    kernel = sets.kernel[:-1, :-1]
    if sets.of == "cohort":
        return dense_sets.Equations(left, sets.sigma, kernel)
    clipped = floor_eigenvalues(matrix, 0.0)
    spread = clipped[:-1, :-1] if sets.residuals == "alike" else sets.widest_spread * np.eye(sets.design.fitted)
    freedom = sets.design.gram.num_rows - sets.design.fitted
    return dense_sets.Equations(left, sets.sigma, kernel, clipped / freedom, spread)


def differences(release: GramEstimate, of: Of, residuals: Residuals, *, penalised: bool, intercept: bool) -> float:
    """Return by how much the intervals and tests of one regression differ at most, in widths."""
    chosen = design(release, release.columns[-1].name, None, intercept)
    size, sigma = chosen.fitted, release.errors.spectral_sigma
    assert sigma is not None
    penalty = penalty_beside(sigma, size) if penalised else 0.0
    sets = Regression.of_design(chosen, penalty, of, 0.95, np.eye(size), np.zeros(size), residuals)
    assert sets is not None
    equations = dense(sets)
    oracle = dense_sets.Statements.about(equations, np.eye(size))
    infinite = oracle.at_infinity()[0]
    assert sets.bounded == (infinite > sets.limit)
    found = [float(np.max(np.abs(sets.statements.at(np.zeros(size)) / oracle.at(np.zeros(size)) - 1)))]
    kept = [i for i, column in enumerate(chosen.gram.columns[:-1]) if column.constant is not None] + [size]
    basis = np.eye(size + 1)[np.newaxis][:, :, kept]
    starts = dense_sets.smallest_directions(equations, basis, oracle.point, 4)[0]
    least = float(dense_sets.minimise(equations, basis, starts)[0][0])
    found.append(abs(sets.subspace_test(chosen.names)[0] / least - 1))
    if sets.bounded:
        before, now = oracle.intervals(LIMIT), sets.statements.intervals(LIMIT)
        assert (np.isfinite(before) == np.isfinite(now)).all()
        whole = np.isfinite(before).all(axis=1)
        width = before[whole, 1:] - before[whole, :1]
        found.append(float(np.max(np.abs(before[whole] - now[whole]) / width, initial=0.0)))
    if of == "cohort" and not penalised:
        sums = dense_sets.Residual.about(dense_sets.Equations(chosen.gram.matrix, sets.sigma, sets.kernel))
        low, high = sums.interval(RESIDUAL_LIMIT, max(sets.total[1], 0))
        # An upper end below 1.96 deviations would claim that noise hid nothing.
        high = max(high, 1.96 * sums.error)
        found.append(float(np.max(np.abs(np.array(sets.residual) - (low, high)))) / (high - low))
    return max(found)


SETS: list[tuple[Of, Residuals]] = [("cohort", "alike"), ("population", "alike"), ("population", "any")]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.grid(3)
def test_one_release_of_each_law_has_the_intervals_of_dense_matrices_to_a_billionth_of_their_width(law: Law) -> None:
    release = law.release(np.random.default_rng(3), 1)
    for of, residuals in SETS[:2]:
        assert differences(release, of, residuals, penalised=of == "population", intercept=True) < SAME


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_hundred_releases_have_the_intervals_of_dense_matrices_to_a_billionth_of_their_width(part: int) -> None:
    generator = np.random.default_rng(part)
    for number in range(25):
        release = LAWS[number % len(LAWS)].release(generator, number)
        for of, residuals in SETS:
            for penalised in (False, True):
                for intercept in (False, True):
                    assert differences(release, of, residuals, penalised=penalised, intercept=intercept) < SAME


@pytest.mark.parametrize("size", [60, 90])
def test_sums_of_many_columns_start_where_those_of_dense_matrices_do(size: int) -> None:
    generator = np.random.default_rng(size)
    rows = generator.normal(size=(3000, size))
    matrix = rows.T @ rows + symmetric_noise(size, 20.0, generator)
    chosen = design(GramEstimate(columns(size), matrix, SymmetricNoise(20.0), 3000, 9.0), "c3")
    sets = Regression.of_design(chosen, 0.0, "cohort", 0.95, np.eye(size - 1), np.zeros(size - 1))
    assert sets is not None
    oracle = dense_sets.Residual.about(dense_sets.Equations(chosen.gram.matrix, sets.sigma, sets.kernel))
    low, high = oracle.interval(RESIDUAL_LIMIT, sets.total[1])
    assert np.allclose(sets.residual, (low, high), rtol=0, atol=SAME * (high - low))


def test_a_kernel_is_read_into_one_number_and_what_special_columns_add_and_gives_the_same_covariance() -> None:
    generator, size = np.random.default_rng(8), 6
    for law in LAWS:
        kernel = law.release(generator, 0).errors.kernel(size)
        assert kernel is not None
        read = NoiseKernel.of(kernel)
        assert read.special in ((), (0,))
        matrix, theta = symmetric_noise(size, 1.0, generator), generator.normal(size=(1, size))
        equations = Equations.of_matrix(matrix, 1.5, kernel, sums=True)
        inside = equations.inward(theta, np.array([0]))
        whole = equations.at(inside).covariance(np.eye(size)[np.newaxis])[0]
        expected = dense_sets.Equations(matrix, 1.5, kernel).covariance(theta)[0]
        assert np.allclose(equations.vectors @ whole @ equations.vectors.T, expected, rtol=1e-10)
