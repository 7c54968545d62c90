"""The norm of noise, and matrices that are clipped at zero."""

import numpy as np
import pytest

from lintra_analysis.estimators.spectral import floor_eigenvalues, noise_norm_quantile
from support.made_releases import regression_rows

ROWS = regression_rows(600, np.random.default_rng(1)) * np.array([3.0, 2.0, 1.0, 0.5, 1.0])


def test_clipping_at_zero_never_moves_a_matrix_away_from_a_second_moment() -> None:
    generator = np.random.default_rng(4)
    for _ in range(50):
        true = 0.05 * ROWS[:20].T @ ROWS[:20]
        released = true + generator.normal(size=(5, 5))
        released = (released + released.T) / 2
        clipped = floor_eigenvalues(released, 0.0)
        assert np.linalg.eigvalsh(clipped)[0] >= -1e-9
        assert np.linalg.norm(clipped - true) <= np.linalg.norm(released - true) + 1e-12


def test_the_noise_norm_never_exceeds_the_proved_bound_and_grows_with_everything() -> None:
    for size in (1, 2, 10, 1000):
        for confidence in (0.5, 0.95, 1 - 1e-9):
            quantile = noise_norm_quantile(size, 1.0, confidence)
            assert quantile <= 2 * np.sqrt(size) + 2 * np.sqrt(np.log(2 / (1 - confidence)))
            assert noise_norm_quantile(size, 3.0, confidence) == pytest.approx(3 * quantile)
            assert noise_norm_quantile(size + 1, 1.0, confidence) > quantile
    assert noise_norm_quantile(5, 1.0, 0.99) > noise_norm_quantile(5, 1.0, 0.9)
