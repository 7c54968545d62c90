"""Which penalty does `regression_path` choose, and how far is that from the best one?

Cohorts and releases are those of bench_coverage.py. Every draw solves under the default penalties; the table shows the
mean R2 on the cohort's own rows of the fit that is chosen by the path's costs, by costs read on the repaired matrix
(Mallows 1973), without a penalty, and of the best penalty in each draw, the oracle, which nobody can know.

    python benchmarks/bench_path.py --tables uci_concrete --sizes 14
    python benchmarks/bench_path.py --write           # some minutes: the tables that the rule was not chosen on
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from coverage_grid.cohorts import Cohort, cohort, seeded
from coverage_grid.tables import FOLDERS, all_tables
from showing import Shown, write

from lintra_analysis.estimators.design import design
from lintra_analysis.estimators.path import regression_path
from lintra_analysis.estimators.point import Point
from lintra_analysis.estimators.solve import solve
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

APART = ("flights", "nyc_weather", "power_19k", "randhie", "elevation_5k", "uci_keggundirected", "uci_protein")
"""The tables that the rule of choice was not chosen on."""

FAR, BELOW = 0.02, 0.005
"""What a choice may lose to the oracle, and to the choice by the repaired matrix."""


@dataclass(frozen=True)
class Choice:
    """Mean r2 on the cohort's own rows of the fit that a path chooses, over the draws of one cell.

    Attributes:
        chosen: by the costs that `regression_path` reports.
        error: simulation error of `chosen` less `oracle`.
        residuals: by the costs read on the repaired matrix (Mallows 1973).
        none: without a penalty, the point of a regression.
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

    @property
    def far(self) -> bool:
        """Whether it loses more than `FAR` to the oracle."""
        return self.chosen < self.oracle - FAR

    @property
    def below(self) -> bool:
        """Whether it is worse than the choice by the repaired matrix by more than `BELOW`."""
        return self.chosen < self.residuals - BELOW


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
        penalties = (0.0, *path.regularizations.tolist())
        fits = [solve(chosen, penalty) for penalty in penalties]
        points = [Point.of(chosen, penalty, fit).solution for penalty, fit in zip(penalties, fits, strict=True)]
        theta = np.array([np.append(-point, 1.0) for point in points])
        shares = 1 - np.sum(theta @ gram * theta, axis=1) / about
        residuals = int(np.argmin([fit.cost for fit in fits[1:]]))
        found.append((shares[1 + path.best], shares[1 + residuals], shares[0], shares[1:].max()))
    shares_of = np.array(found) if found else np.full((1, 4), np.nan)
    chosen_r2, residuals_r2, none, oracle = shares_of.mean(axis=0).tolist()
    apart = float((shares_of[:, 0] - shares_of[:, 3]).std() / np.sqrt(len(shares_of)))
    return Choice(
        table=name,
        log2_clients=int(np.log2(held.num_clients)),
        intercept=bool(held.constant),
        epsilon=epsilon,
        draws=len(found),
        chosen=chosen_r2,
        error=apart,
        residuals=residuals_r2,
        none=none,
        oracle=oracle,
        refused=draws - len(found),
    )


def line(cell: Choice) -> str:
    """Return one line of the table, with a mark where the choice is further than .02 from the best or below today's."""
    return (
        f"{cell.table:16} 2^{cell.log2_clients:<3} {'yes' if cell.intercept else 'no ':3} {cell.epsilon:4g}   "
        f"{cell.chosen:7.3f} +-{cell.error:.3f}  {cell.residuals:7.3f}  {cell.none:8.3f}  {cell.oracle:7.3f} "
        f"{cell.draws:4d} {'far ' if cell.far else ''}{'below ' if cell.below else ''}"
        f"{f'{cell.refused} refused' if cell.refused else ''}"
    )


HEADER = "table            n    icpt  eps    chosen         residuals    none    oracle draws\n" + "-" * 85


def summary(found: list[Choice]) -> Shown:
    """Return a line for each table with and without an intercept, and whether what was demanded is kept."""
    columns = sorted({(cell.epsilon, cell.log2_clients) for cell in found})
    lines: dict[tuple[str, str], dict[tuple[float, int], str]] = {}
    for cell in found:
        at = cell.table, "yes" if cell.intercept else "no"
        words = f"{cell.oracle - cell.chosen:.3f} ± {cell.error:.3f} ({cell.chosen - cell.residuals:+.3f})"
        lines.setdefault(at, {})[cell.epsilon, cell.log2_clients] = words
    rows = tuple((*at, *(cells.get(column, "—") for column in columns)) for at, cells in lines.items())
    heads = tuple(f"epsilon {epsilon:g}, 2^{size}" for epsilon, size in columns)
    title = "R2 that the chosen penalty loses to the best one, and gains on Mallows'"
    return Shown("path", title, ("table", "intercept", *heads), rows, _note(found))


def _note(found: list[Choice]) -> str:
    far, below = [cell for cell in found if cell.far], [cell for cell in found if cell.below]
    draws = min(cell.draws for cell in found)
    gained = [cell.chosen - cell.residuals for cell in found]
    where = "; ".join(f"{_of(cell)} loses {cell.oracle - cell.chosen:.3f}" for cell in far)
    under = "; ".join(f"{_of(cell)} is {cell.residuals - cell.chosen:.3f} below" for cell in below)
    return (
        f"At least {draws} draws a cell, means with their simulation errors. Demanded: to lose at most {FAR} to the "
        f"best penalty of each draw, and never to be below the choice by the repaired matrix (Mallows 1973). "
        f"{len(found) - len(far)} of {len(found)} cells keep the first"
        f"{f'. These do not: {where}' if far else ''}. {len(found) - len(below)} keep the second within {BELOW}"
        f"{f'. These do not: {under}' if below else ''}. The most that "
        f"a choice gains on Mallows' is {max(gained):.2g}."
    )


def _of(cell: Choice) -> str:
    intercept = "with" if cell.intercept else "without"
    return f"{cell.table}, 2^{cell.log2_clients}, epsilon {cell.epsilon:g}, {intercept} intercept,"


def choice(table: FloatArray, name: str, size: int, intercept: bool, epsilon: float, draws: int, seed: int) -> Choice:
    """Return one cell."""
    held = cohort(table, 2**size, intercept, seeded(seed, name, size, intercept))
    return measure_choice(name, held, epsilon, draws, seeded(seed, "path", name, size, intercept, epsilon))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .npz tables with X and y")
    parser.add_argument("--tables", nargs="*", default=list(APART), help="by default those kept apart")
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.1, 0.5])
    parser.add_argument("--sizes", type=int, nargs="*", default=[12, 14, 16], help="log2 of the numbers of clients")
    parser.add_argument("--draws", type=int, default=25)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="put a summary into the page that shows it")
    asked = parser.parse_args()
    print(HEADER)
    tables = all_tables([asked.data] if asked.data else list(FOLDERS))
    found = []
    for name in (name for name in asked.tables if name in tables):
        for intercept in (True, False):
            for size in asked.sizes:
                for epsilon in asked.epsilons:
                    cell = choice(tables[name], name, size, intercept, epsilon, asked.draws, asked.seed)
                    found.append(cell)
                    print(line(cell), flush=True)
    if asked.write:
        write(summary(found))


if __name__ == "__main__":
    main()
