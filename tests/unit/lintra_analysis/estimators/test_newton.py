"""Newton steps from noisy sums: without noise they are those of the logistic fit, and T has its law."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from lintra_analysis.estimators.newton import (
    LONGEST_STEP,
    agreement,
    floored_hessian,
    next_parameter,
    noise_of_score,
    start,
    step,
    stops,
)
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.newton_sums import NewtonSums
from lintra_protocol.crypto.ring import FloatArray
from support.newton import chain, exact_fit, logistic_rows, specification, sums

SLOPES, INTERCEPT = [1.0, -0.5], 0.3
COLUMNS = tuple(ScaledColumn(name, 0.0, 1.0, -1.0, 1.0) for name in ("(intercept)", "x1", "x2"))
TARGET = ScaledColumn("y", 0.0, 1.0, 0.0, 1.0)


def sums_at(rows: FloatArray, parameter: FloatArray, sd: float = 0.0, seed: int = 0, rounds: int = 3) -> NewtonSums:
    """Return the sums of rows at a parameter, without rounding, with noise of this deviation in both."""
    generator, design = np.random.default_rng(seed), np.column_stack([np.ones(len(rows)), rows[:, :-1]])
    chances = 1 / (1 + np.exp(-(design @ parameter)))
    noise = generator.normal(0, sd, (3, 3)) if sd else np.zeros((3, 3))
    symmetric = np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(np.diagonal(noise)) * 2**0.5
    return NewtonSums(
        columns=COLUMNS,
        target=TARGET,
        parameter=parameter,
        gradient=design.T @ (rows[:, -1] - chances) + (generator.normal(0, sd, 3) if sd else 0.0),
        hessian=design.T @ (design * (chances * (1 - chances))[:, np.newaxis]) + symmetric,
        gradient_sd=sd,
        hessian_sd=sd,
        num_clients=len(rows),
        row_bound=2.0,
        constant=1.0,
        rounds=rounds,
    )


ROWS = logistic_rows(4000, SLOPES, INTERCEPT, seed=3)


def test_without_noise_the_start_is_near_and_steps_reach_the_fit() -> None:
    exact = exact_fit(ROWS[:, :-1], ROWS[:, -1])
    first = sums_at(ROWS, np.zeros(3))
    begun = start(first)
    assert begun.average_weight == pytest.approx(1)
    assert begun.prevalence == pytest.approx(ROWS[:, -1].mean())
    parameter = next_parameter(first)
    assert np.abs(parameter - exact).max() < 0.05
    for _ in range(3):
        parameter = next_parameter(sums_at(ROWS, parameter))
    np.testing.assert_allclose(parameter, exact, atol=1e-9)


def test_a_step_that_noise_makes_huge_is_damped_to_the_longest_along_the_same_gradient() -> None:
    weak = replace(sums_at(ROWS, np.ones(3)), hessian=np.diag([1e-3, 1.0, 1.0]), gradient=np.array([5.0, 3.0, 0.0]))
    moved = step(weak)
    assert np.linalg.norm(moved) == pytest.approx(LONGEST_STEP / weak.row_bound)
    damping = weak.gradient[:2] / moved[:2] - np.array([1e-3, 1.0])
    assert damping[0] == pytest.approx(damping[1])
    noisy = replace(weak, hessian=np.zeros((3, 3)), hessian_sd=2.0)
    assert np.linalg.eigvalsh(floored_hessian(noisy)) == pytest.approx([2 * 2.0 * 3**0.5] * 3)


def test_extreme_shares_of_ones_and_pure_noise_give_a_finite_parameter() -> None:
    for target in (np.zeros(len(ROWS)), np.ones(len(ROWS))):
        rows = np.column_stack([ROWS[:, :-1], target])
        assert np.isfinite(next_parameter(sums_at(rows, np.zeros(3)))).all()
    drowned = sums_at(ROWS[:10], np.zeros(3), sd=1e6)
    assert np.isfinite(next_parameter(drowned)).all()


def test_t_is_chi_square_where_the_model_is_quadratic_and_notices_one_rounds_noise() -> None:
    # 400 pairs of rounds whose exact gradients agree with the quadratic model. Kolmogorov's test at 1e-4.
    fitted = exact_fit(ROWS[:, :-1], ROWS[:, -1])
    moved = np.array([0.02, -0.01, 0.015])
    exact = sums_at(ROWS, fitted)
    generator, found, wrong = np.random.default_rng(5), [], []
    for _ in range(400):
        shaken = [generator.normal(0, 30.0, 3) for _ in range(2)]
        square = generator.normal(0, 30.0, (3, 3))
        noise = np.triu(square, 1) + np.triu(square, 1).T + np.diag(np.diagonal(square)) * 2**0.5
        before = replace(
            exact, gradient=exact.gradient + shaken[0], hessian=exact.hessian + noise, gradient_sd=30.0, hessian_sd=30.0
        )
        after = replace(
            before,
            parameter=fitted + moved,
            gradient=exact.gradient - exact.hessian @ moved + shaken[1],
        )
        found.append(agreement(before, after).statistic)
        gap = after.gradient - (before.gradient - before.hessian @ moved)
        wrong.append(float(gap @ np.linalg.solve(noise_of_score(before, moved), gap)))
    assert stats.kstest(found, stats.chi2(3).cdf).pvalue > 1e-4
    assert stats.kstest(wrong, stats.chi2(3).cdf).pvalue < 1e-8


def test_t_fails_where_the_start_is_far_and_passes_near_the_fit() -> None:
    far, near = np.array([4.0, 6.0, -6.0]), exact_fit(ROWS[:, :-1], ROWS[:, -1])
    before = sums_at(ROWS, far, sd=5.0)
    assert not agreement(before, sums_at(ROWS, near, sd=5.0, seed=1)).passes
    close = sums_at(ROWS, near + 0.001, sd=5.0, seed=2)
    assert agreement(close, sums_at(ROWS, near, sd=5.0, seed=3)).statistic < 20


def test_a_chain_stops_by_t_from_the_third_round_on_and_at_the_last() -> None:
    near = exact_fit(ROWS[:, :-1], ROWS[:, -1])
    agreeing = [sums_at(ROWS, near + 1e-3 * number, sd=5.0, seed=10 + number, rounds=5) for number in range(4)]
    assert agreement(agreeing[1], agreeing[2]).passes
    assert not stops(agreeing[:2])
    assert stops(agreeing[:3])
    far = [sums_at(ROWS, near + 2.0 * (number % 2), sd=5.0, seed=number, rounds=5) for number in range(5)]
    assert [stops(far[:number]) for number in (3, 4, 5)] == [False, False, True]


def test_rounds_of_real_reports_end_near_the_fit() -> None:
    rows = logistic_rows(20_000, SLOPES, INTERCEPT, seed=8)
    found = sums(chain(specification(2, 20_000), rows, 3, 3))
    point, exact = next_parameter(found[-1]), exact_fit(rows[:, :-1], rows[:, -1])
    # The last round's noise: some three of its deviations.
    inverse = np.linalg.inv(found[-1].hessian)
    moved = step(found[-1])
    sds = np.sqrt(np.diagonal(inverse @ noise_of_score(found[-1], moved) @ inverse))
    assert np.abs((point - exact) / sds).max() < 4
    assert sds.max() < 0.3
