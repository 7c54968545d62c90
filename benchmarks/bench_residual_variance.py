"""Why intervals about the population may cover too little: residuals whose variance changes, and tails.

    python benchmarks/bench_residual_variance.py --data ../shared/data

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

from lintra_protocol.ring import FloatArray

CLIENTS, DRAWS = 1 << 14, 200


def covered(population: Population, generator: np.random.Generator) -> dict[str, tuple[float, FloatArray]]:
    """Return for each kind of interval the least coverage of a coefficient, and the mean deviations it states."""
    rows = population.rows
    features, target = rows[:, :-1], rows[:, -1]
    whole = population.whole
    most = whole.row_bound**2 + whole.constant**2
    truth = np.linalg.pinv(features.T @ features) @ features.T @ target
    held: dict[str, list[FloatArray]] = {"one": [], "own": [], "most": []}
    stated: dict[str, list[FloatArray]] = {name: [] for name in held}
    for _ in range(DRAWS):
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


def main() -> None:
    """Print a line for each table of the grid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .npz tables with X and y")
    asked = parser.parse_args()
    tables = all_tables([asked.data] if asked.data else list(FOLDERS))
    print("table          one   own  most    most / one (least, largest)   correlation over normal")
    for name in (name for name in GRID if name in tables):
        population = Population.of(tables[name], CLIENTS, True)
        found = covered(population, np.random.default_rng(7))
        least = {kind: coverage for kind, (coverage, _) in found.items()}
        ratio = found["most"][1] / found["one"][1]
        times = times_normal(population.rows[:, 1:])
        print(
            f"{name:13} {least['one']:.3f} {least['own']:.3f} {least['most']:.3f}    "
            f"{ratio.min():7.1f} {ratio.max():7.1f}                {times:6.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
