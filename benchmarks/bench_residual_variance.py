"""Why intervals about the population may cover too little: residuals whose variance changes, and tails.

    python benchmarks/bench_residual_variance.py [--write]

Without any privacy: the table is the population, every draw takes 2^14 clients from it, and three intervals for each
coefficient of least squares are compared: with one residual variance, with a variance of each row's own (White 1980),
and with the most that second moments allow, R^2 RSS I in the place of sum e^2 x x^T. Beside them, how many times the
variance of a correlation is that of normal rows, over all pairs of columns.
"""

import argparse
from pathlib import Path

import numpy as np
from coverage_grid.population import TWO_SIDED, Population
from coverage_grid.tables import FOLDERS, GRID, all_tables
from showing import Shown, write

from lintra_protocol.crypto.ring import FloatArray

CLIENTS, DRAWS = 1 << 14, 200


def covered(
    population: Population, generator: np.random.Generator, draws: int = DRAWS
) -> dict[str, tuple[float, FloatArray]]:
    """Return for each kind of interval the least coverage of a coefficient, and the mean deviations it states."""
    rows = population.rows
    features, target = rows[:, :-1], rows[:, -1]
    whole = population.whole
    most = whole.row_bound**2 + whole.constant**2
    truth = np.linalg.pinv(features.T @ features) @ features.T @ target
    held: dict[str, list[FloatArray]] = {"one": [], "own": [], "most": []}
    stated: dict[str, list[FloatArray]] = {name: [] for name in held}
    for _ in range(draws):
        weights = generator.multinomial(CLIENTS, np.full(len(rows), 1 / len(rows))).astype(np.float64)
        inverse = np.linalg.pinv((features * weights[:, np.newaxis]).T @ features)
        found = inverse @ (features.T @ (weights * target))
        squares = weights * np.square(target - features @ found)
        freedom = CLIENTS - features.shape[1]
        middles = {
            "one": squares.sum() / freedom * inverse,
            "own": inverse @ (features.T * squares) @ features @ inverse * (CLIENTS / freedom),
            "most": squares.sum() * CLIENTS / freedom * most * inverse @ inverse,
        }
        for name, covariance in middles.items():
            deviation = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
            held[name].append(np.abs(found - truth) <= TWO_SIDED * deviation)
            stated[name].append(deviation)
    return {name: (float(np.mean(held[name], axis=0).min()), np.mean(stated[name], axis=0)) for name in held}


def times_normal(rows: FloatArray) -> float:
    """Return how many times the asymptotic variance of a correlation is that of normal rows, at most."""
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    found = []
    for i in range(standard.shape[1]):
        for j in range(i):
            product = standard[:, i] * standard[:, j]
            r = float(product.mean())
            influence = product - r / 2 * (standard[:, i] ** 2 + standard[:, j] ** 2)
            if 1 - r * r > 1e-6:
                found.append(float(influence.var()) / (1 - r * r) ** 2)
    return max(found)


def causes(tables: dict[str, FloatArray], draws: int = DRAWS) -> Shown:
    """Return a line for each table."""
    rows = []
    for name, table in tables.items():
        population = Population.of(table, CLIENTS, True)
        found = covered(population, np.random.default_rng(7), draws)
        ratio = found["most"][1] / found["one"][1]
        shares = (f"{coverage:.3f}" for coverage, _ in found.values())
        times = times_normal(population.rows[:, 1:])
        rows.append((name, *shares, f"{ratio.min():,.3g} to {ratio.max():,.3g}", f"{times:.2g}"))
    heads = ("table", "one variance", "own", "most", "most over one", "correlation")
    note = (
        f"{draws} draws of {CLIENTS:,} clients, no noise. Least coverage of a coefficient of ordinary least squares, "
        "an intercept among them. It is given with one residual variance, with one of each row's own (White 1980), "
        "and with the most that second moments allow. That is R^2 RSS in the place of sum e^2 x x^T for rows of norm "
        "at most R. Then how many times as wide that is (least and most over the coefficients), and how many times the "
        "variance of a correlation is that of normal rows (most over the pairs)."
    )
    return Shown("residual-variance", "Least squares without privacy", heads, tuple(rows), note)


def main() -> None:
    """Print a line for each table of the grid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .npz tables with X and y")
    parser.add_argument("--write", action="store_true", help="put the table into the page that shows it")
    asked = parser.parse_args()
    tables = all_tables([asked.data] if asked.data else list(FOLDERS))
    shown = causes({name: tables[name] for name in GRID if name in tables})
    print(f"{shown.markdown()}\n\n{shown.note}")
    if asked.write:
        write(shown)


if __name__ == "__main__":
    main()
