"""Which penalty does `regression_path` choose, and how far is that from the best one?

Cohorts and releases are those of bench_coverage.py. Every draw solves under the default penalties; the table shows the
mean R2 on the cohort's own rows of the fit that is chosen by the path's costs, by costs read on the repaired matrix
(Mallows 1973), without a penalty, and of the best penalty in each draw, the oracle, which nobody can know.

    python benchmarks/bench_path.py --draws 20 --sizes 14
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from coverage_grid.cohorts import Cohort, cohort, seeded
from coverage_grid.tables import FOLDERS, all_tables

from lintra_analysis.estimators.design import design
from lintra_analysis.estimators.path import regression_path
from lintra_analysis.estimators.solve import solve
from lintra_protocol.errors import InvalidAnalysisError


@dataclass(frozen=True)
class Choice:
    """Mean r2 on the cohort's own rows of the fit that a path chooses, over the draws of one cell.

    Attributes:
        chosen: by the costs that `regression_path` reports.
        error: simulation error of `chosen` less `oracle`.
        residuals: by the costs read on the repaired matrix (Mallows 1973).
        none: without a penalty, eigenvalues raised.
        oracle: of the best penalty in each draw.
        refused: draws in which noise had swallowed the features.
    """

    table: str
    log2_clients: int
    intercept: bool
    epsilon: float
    draws: int
    chosen: float
    error: float
    residuals: float
    none: float
    oracle: float
    refused: int


def measure_choice(name: str, held: Cohort, epsilon: float, draws: int, generator: np.random.Generator) -> Choice:
    """Release `draws` times, and compare what paths choose."""
    gram = held.gram
    about = gram[-1, -1] - (gram[0, -1] ** 2 / gram[0, 0] if held.constant else 0.0)
    found = []
    for _ in range(draws):
        chosen = design(held.release(epsilon, generator), "y")
        try:
            path = regression_path(chosen.gram, "y")
        except InvalidAnalysisError:
            continue
        fits = [solve(chosen, penalty) for penalty in (0.0, *path.regularizations.tolist())]
        theta = np.array([np.append(-fit.solution, 1.0) for fit in fits])
        shares = 1 - np.sum(theta @ gram * theta, axis=1) / about
        residuals = int(np.argmin([fit.cost for fit in fits[1:]]))
        found.append((shares[1 + path.best], shares[1 + residuals], shares[0], shares[1:].max()))
    table = np.array(found) if found else np.full((1, 4), np.nan)
    means, apart = table.mean(axis=0).tolist(), float((table[:, 0] - table[:, 3]).std() / np.sqrt(len(table)))
    size = int(np.log2(held.num_clients))
    return Choice(
        name, size, bool(held.constant), epsilon, len(found), means[0], apart, *means[1:], refused=draws - len(found)
    )


def line(cell: Choice) -> str:
    """Return one line of the table, with a mark where the choice is further than .02 from the best or below today's."""
    far = cell.chosen < cell.oracle - 0.02
    below = cell.chosen < cell.residuals - 0.005
    return (
        f"{cell.table:16} 2^{cell.log2_clients:<3} {'yes' if cell.intercept else 'no ':3} {cell.epsilon:4g}   "
        f"{cell.chosen:7.3f} +-{cell.error:.3f}  {cell.residuals:7.3f}  {cell.none:8.3f}  {cell.oracle:7.3f} "
        f"{cell.draws:4d} {'far ' if far else ''}{'below ' if below else ''}"
        f"{f'{cell.refused} refused' if cell.refused else ''}"
    )


HEADER = "table            n    icpt  eps    chosen         residuals    none    oracle draws\n" + "-" * 85


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .npz tables with X and y")
    parser.add_argument("--tables", nargs="*", help="only these")
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.1, 0.5, 1.0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[12, 14, 16], help="log2 of the numbers of clients")
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    print(HEADER)
    for name, table in all_tables([asked.data] if asked.data else list(FOLDERS)).items():
        if asked.tables and name not in asked.tables:
            continue
        for size in asked.sizes:
            for intercept in (True, False):
                held = cohort(table, 2**size, intercept, seeded(asked.seed, name, size, intercept))
                for epsilon in asked.epsilons:
                    generator = seeded(asked.seed, "path", name, size, intercept, epsilon)
                    print(line(measure_choice(name, held, epsilon, asked.draws, generator)), flush=True)


if __name__ == "__main__":
    main()
