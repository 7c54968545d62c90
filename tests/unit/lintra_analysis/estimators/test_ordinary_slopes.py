"""The allowance between weighted and ordinary slopes: by its formula, and by draws of samples and cohorts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.ordinary_slopes import allowances
from lintra_protocol.crypto.ring import FloatArray


def population(count: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows with a curved law, so that weights change slopes: plain, as collected, and weights."""
    x = generator.normal(size=(count, 2))
    y = x[:, 0] - 0.5 * x[:, 1] + 0.5 * x[:, 0] * np.abs(x[:, 0]) + generator.normal(size=count)
    plain = np.column_stack([np.ones(count), x, y])
    moved = np.column_stack([np.ones(count), x, np.clip(y, -2.5, 2.5)])
    weights = np.minimum(1, 2 / (1 + np.sum(x**2, axis=1)))
    return plain, moved, weights


def least_squares(rows: FloatArray, weights: FloatArray) -> FloatArray:
    root = np.sqrt(weights)[:, np.newaxis]
    return np.asarray(np.linalg.lstsq((rows * root)[:, :-1], (rows * root)[:, -1], rcond=None)[0][1:])


def test_of_the_collected_rows_themselves_the_allowance_is_the_difference() -> None:
    plain, moved, weights = population(500, np.random.default_rng(1))
    allowed, difference = allowances(plain, moved, weights)
    assert_allclose(difference, least_squares(moved, weights) - least_squares(plain, np.ones(500)), rtol=1e-9)
    assert_allclose(allowed, np.abs(difference))


def test_rows_of_weight_one_within_their_bounds_need_no_allowance() -> None:
    plain, _, _ = population(500, np.random.default_rng(2))
    allowed, difference = allowances(plain, plain, np.ones(500), 1000)
    assert_allclose(allowed, 0.0, atol=1e-12)
    assert_allclose(difference, 0.0, atol=1e-12)


@pytest.mark.parametrize("num_rows", [300, 3000])
def test_the_allowance_holds_for_nearly_every_cohort_and_its_difference_alone_does_not(num_rows: int) -> None:
    generator, held, bare = np.random.default_rng(3), [], []
    for _ in range(300):
        allowed, difference = allowances(*population(600, generator), num_rows)
        plain, moved, weights = population(num_rows, generator)
        apart = np.abs(least_squares(moved, weights) - least_squares(plain, np.ones(num_rows)))
        held.append(apart <= allowed)
        bare.append(apart <= np.abs(difference))
    assert np.mean(held, axis=0).min() > 0.92
    assert np.mean(bare, axis=0).max() < 0.7
