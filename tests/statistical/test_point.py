"""The printed point on tables: it keeps most of the fit that is there, and seldom fits worse than the mean."""

import bz2
import importlib
import io
from collections.abc import Callable

import numpy as np
import pytest

from lintra_analysis.estimators.point import drawn_to_zero, released_means, with_intercept
from lintra_analysis.trial.row_weights import chosen_on, row_weighting, turning_of
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.gaussian import gaussian_mu
from support.pages import ROOT

MOST_ROWS, DRAWS = 16_384, 40


def stored(name: str) -> FloatArray:
    with np.load(ROOT / "benchmarks" / "data" / f"{name}.npz", allow_pickle=False) as arrays:
        return np.column_stack([arrays["X"], arrays["y"]]).astype(np.float64)


def flights() -> FloatArray:
    packed = (ROOT / "deploy" / "data" / "flights.npy.bz2").read_bytes()
    return np.asarray(np.load(io.BytesIO(bz2.decompress(packed)), allow_pickle=False), np.float64)


def randhie() -> FloatArray:
    held = importlib.import_module("statsmodels.datasets.randhie").load_pandas()
    return np.asarray(held.exog.assign(target=held.endog), np.float64)


TABLES: dict[str, Callable[[], FloatArray]] = {
    "uci_concrete": lambda: stored("uci_concrete"),
    "uci_energy": lambda: stored("uci_energy"),
    "power_19k": lambda: stored("real/power_19k"),
    "elevation_5k": lambda: stored("real/elevation_5k"),
    "flights": flights,
    "randhie": randhie,
}


def normalised(table: FloatArray) -> FloatArray:
    """Rows by the rule of bounds: .1 % and 99.9 % points, means, and widths as scales."""
    rows = table[np.random.default_rng(0).permutation(len(table))[:MOST_ROWS]]
    low, high = np.quantile(rows, [0.001, 0.999], axis=0)
    rows, varies = np.clip(rows, low, high), high > low
    tenth, ninetieth = np.quantile(rows, [0.1, 0.9], axis=0)
    scale = np.maximum((ninetieth - tenth) / 2, (high - low) / 4)
    return np.asarray(((rows - rows.mean(axis=0)) / np.where(varies, scale, 1.0))[:, varies])


def fits(rows: FloatArray, epsilon: float, *, raw: bool = False) -> tuple[FloatArray, float]:
    """R2 on the rows of the point, or of the unbiased solution, of many releases; and that of least squares."""
    mu = gaussian_mu(epsilon, 1e-6)
    rule = row_weighting(rows, len(rows), mu)
    vectors, root = rule.vectors(rows)
    gram = (vectors * np.square(root)[:, np.newaxis]).T @ vectors
    sigma, size, generator = rule.row_bound**2 / mu, len(gram), np.random.default_rng(1)
    spread, found = rows[:, -1].var(), []
    for _ in range(DRAWS):
        noise = generator.normal(size=(size, size)) * sigma
        noise = (noise + noise.T) / np.sqrt(2)
        noise -= np.trace(noise) / size * (1 - 1 / np.sqrt(size + 1)) * np.eye(size)
        matrix = gram + noise
        means = released_means(matrix, sigma)
        point = with_intercept(drawn_to_zero(matrix, sigma, means, np.zeros(1))[0], means)[0]
        solution = np.linalg.solve(matrix[:-1, :-1], matrix[:-1, -1]) if raw else point
        theirs = np.column_stack([vectors[:, :1], rows[:, :-1]]) @ solution / rule.target_factor
        found.append(1 - float(np.mean((rows[:, -1] - theirs) ** 2)) / spread)
    design = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
    left = rows[:, -1] - design @ np.linalg.lstsq(design, rows[:, -1], rcond=None)[0]
    return np.array(found), 1 - float(np.mean(left**2)) / spread


def slope_error(rows: FloatArray, epsilon: float) -> float:
    """Median over slopes of the printed point's distance to least squares, standardised; the median of many draws."""
    rule, generator = row_weighting(rows, len(rows), gaussian_mu(epsilon, 1e-6)), np.random.default_rng(2)
    vectors, root = rule.vectors(rows)
    gram = (vectors * np.square(root)[:, np.newaxis]).T @ vectors
    sigma, size = rule.row_bound**2 / gaussian_mu(epsilon, 1e-6), len(gram)
    own = np.linalg.lstsq(np.column_stack([np.ones(len(rows)), rows[:, :-1]]), rows[:, -1], rcond=None)[0][1:]
    errors = []
    for _ in range(DRAWS):
        noise = generator.normal(size=(size, size)) * sigma / np.sqrt(2)
        matrix = gram + noise + noise.T
        slopes = drawn_to_zero(matrix, sigma, released_means(matrix, sigma), np.zeros(1))[0][0] / rule.target_factor
        errors.append(np.median(np.abs(slopes - own) * rows[:, :-1].std(axis=0)) / rows[:, -1].std())
    return float(np.median(errors))


@pytest.mark.parametrize(
    ("name", "epsilon", "most"), [("power_19k", 0.3, 0.05), ("power_19k", 1.0, 0.035), ("uci_concrete", 3.0, 0.21)]
)
def test_the_printed_slopes_of_two_tables_are_as_near_the_truth_as_was_asked(
    name: str, epsilon: float, most: float
) -> None:
    assert slope_error(normalised(TABLES[name]()), epsilon) <= most


@pytest.mark.parametrize(
    ("name", "epsilon", "least"),
    [("power_19k", 0.3, 25), ("power_19k", 1.0, 40), ("uci_concrete", 1.0, 10), ("uci_concrete", 3.0, 30)],
)
def test_features_turned_by_half_of_a_table_stand_out_of_the_noise_and_others_do_not(
    name: str, epsilon: float, least: float
) -> None:
    """The least eigenvalue of the features' products in units of sigma."""
    rows, mu, found = normalised(TABLES[name]()), gaussian_mu(epsilon, 1e-6), []
    turn = turning_of(rows[: len(rows) // 2, :-1])
    for features, matrix in ((rows[:, :-1] @ turn.T, turn), (rows[:, :-1], None)):
        target = rows[:, -1] / (rows[:, -1].std() if matrix is not None else 1)
        both = np.column_stack([features, target])
        rule = chosen_on(both, len(rows), mu, turn=matrix)
        vectors, root = rule.vectors(both)
        gram = (vectors * np.square(root)[:, np.newaxis]).T @ vectors
        found.append(float(np.linalg.eigvalsh(gram[:-1, :-1])[0]) / (rule.row_bound**2 / mu))
    assert found[0] >= least > 5 * found[1]


def check(name: str, epsilon: float) -> None:
    found, best = fits(normalised(TABLES[name]()), epsilon)
    assert np.median(found) >= 0.6 * best, (name, epsilon, np.median(found) / best)
    assert np.mean(found < 0) <= 0.5


def test_the_point_keeps_most_of_the_fit_of_a_small_table_and_the_unbiased_solution_does_not() -> None:
    check("uci_concrete", 1.0)
    found, best = fits(normalised(TABLES["uci_concrete"]()), 0.3, raw=True)
    assert np.median(found) < 0 < best


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("name", TABLES)
def test_the_point_keeps_six_tenths_of_the_fit_of_every_table(name: str, epsilon: float) -> None:
    check(name, epsilon)
