"""Simulated chains: exact sums, noise of the stated deviations, and fits where rows determine one."""

from dataclasses import replace

import numpy as np
import pytest

from lintra_analysis.trial.chains import LogisticRows, simulated_chains
from support.newton import chain, exact_fit, logistic_rows, specification, sums

SLOPES, INTERCEPT = [1.0, -0.5], 0.3
TABLE = logistic_rows(3000, SLOPES, INTERCEPT, seed=8)
DESIGN = np.column_stack([np.ones(len(TABLE)), TABLE[:, :-1]])
ROWS = LogisticRows(DESIGN, TABLE[:, -1], np.random.default_rng(3).uniform(0.2, 1, len(TABLE)))


def test_sums_are_those_of_row_after_row() -> None:
    parameters = np.array([[0.2, -1.0, 3.0], [0.0, 0.0, 0.0]])
    gradients, hessians = ROWS.sums(parameters)
    for place, parameter in enumerate(parameters):
        gradient, hessian = np.zeros(3), np.zeros((3, 3))
        for row, one, weight in zip(DESIGN, ROWS.ones, ROWS.weights, strict=True):
            chance = 1 / (1 + np.exp(-row @ parameter))
            gradient += weight * (one - chance) * row
            hessian += weight * chance * (1 - chance) * np.outer(row, row)
        np.testing.assert_allclose(gradients[place], gradient)
        np.testing.assert_allclose(hessians[place], hessian)


def test_a_fit_is_newtons_and_none_where_rows_are_separable_or_features_depend_on_each_other() -> None:
    unweighted = replace(ROWS, weights=np.ones(len(TABLE)))
    np.testing.assert_allclose(unweighted.fit(), exact_fit(TABLE[:, :-1], TABLE[:, -1]), rtol=1e-5)
    weighted = ROWS.fit()
    np.testing.assert_allclose(ROWS.sums(weighted[np.newaxis])[0], np.zeros((1, 3)), atol=1e-2)
    steep = LogisticRows(DESIGN, (TABLE[:, 0] > 0.1).astype(float), np.ones(len(TABLE)))
    assert steep.fit() is None
    twice = LogisticRows(np.column_stack([DESIGN, DESIGN[:, 1]]), ROWS.ones, ROWS.weights)
    assert twice.fit() is None
    nearly = logistic_rows(3000, [60.0, 0.0], -6.0, seed=1)
    far = LogisticRows(np.column_stack([np.ones(3000), nearly[:, :-1]]), nearly[:, -1], np.ones(3000))
    np.testing.assert_allclose(far.sums(far.fit()[np.newaxis])[0], np.zeros((1, 3)), atol=1e-3)


def test_the_deviance_that_is_explained_is_one_less_the_ratio_of_likelihoods() -> None:
    parameter = np.array([[0.3, 1.0, -0.5], [0.0, 0.0, 0.0]])
    share = np.average(ROWS.ones, weights=ROWS.weights)
    for place, found in enumerate(ROWS.explained(parameter)):
        chances = 1 / (1 + np.exp(-DESIGN @ parameter[place]))
        likely = np.where(ROWS.ones == 1, chances, 1 - chances)
        constant = np.where(ROWS.ones == 1, share, 1 - share)
        assert found == pytest.approx(1 - ROWS.weights @ np.log(likely) / (ROWS.weights @ np.log(constant)))


def test_chains_have_noise_of_the_deviations_that_ran_and_the_next_parameter_follows_from_it() -> None:
    ran = sums(chain(specification(2, 3000, row_bound=2), TABLE, 5, 2))
    count = 400
    found = simulated_chains(ROWS, ran, count)
    assert len(found) == count
    assert {len(each.chain) for each in found} == {3}
    first = [each.chain[0] for each in found]
    (gradient,), (hessian,) = ROWS.sums(np.zeros((1, 3)))
    errors = np.array([each.gradient - gradient for each in first]) / ran[0].gradient_sd
    # 1,200 squares of standard Gaussians: five deviations of their mean.
    assert abs(np.mean(errors**2) - 1) < 5 * (2 / errors.size) ** 0.5
    squares = np.mean([(each.hessian - hessian) ** 2 for each in first], axis=0) / ran[0].hessian_sd ** 2
    assert np.abs(squares / (1 + np.eye(3)) - 1).max() < 5 * (2 / count) ** 0.5
    assert {each.hessian_sd for each in found} == {ran[1].hessian_sd}
    second = found[0].chain[1]
    np.testing.assert_allclose(
        found[0].gradient - ROWS.sums(found[0].parameter[np.newaxis])[0][0], 0, atol=6 * ran[1].gradient_sd
    )
    assert np.abs(second.parameter).max() > 0


def test_louder_chains_have_so_many_times_the_noise_and_say_so() -> None:
    ran = sums(chain(specification(2, 3000, row_bound=2), TABLE, 5, 2))
    usual, louder = (simulated_chains(ROWS, ran, 30, times) for times in (1.0, 3.0))
    (gradient,), _ = ROWS.sums(np.zeros((1, 3)))
    for one, other in zip(usual, louder, strict=True):
        assert other.gradient_sd == pytest.approx(3 * one.gradient_sd)
        np.testing.assert_allclose(
            other.chain[0].gradient - gradient, 3 * (one.chain[0].gradient - gradient), rtol=1e-6, atol=1e-6
        )
