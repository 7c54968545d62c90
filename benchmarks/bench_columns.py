"""How long do regressions, correlations and paths of many columns take, and how much memory?

The rows are drawn: neighbouring columns are correlated, and every column acts on the target a little. A release told
well has noise of 20, one told badly noise so large that no coefficient is bounded, so that penalised ones are computed
besides. Each is computed in a process of its own, so that its memory is known.

    python benchmarks/bench_columns.py [--columns 25 100 400] [--write]
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from showing import Shown, write

from lintra_analysis import correlation, regression
from lintra_analysis.estimators.path import regression_path
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise

ROWS, LITTLE, MUCH = 20_000, 20.0, 2000.0

MOST_OF_A_PATH = 100
"""Columns up to which a path is timed: each of its 25 penalties is solved with all its errors."""

WHAT = {
    "regression, cohort": lambda release: regression(release, "target", of="cohort"),
    "regression, population": lambda release: regression(release, "target"),
    "path": lambda release: regression_path(release, "target"),
    "correlations": correlation,
}


def release(size: int, sigma: float) -> GramEstimate:
    """Release `size` columns, the target among them, beside a constant."""
    generator = np.random.default_rng(1)
    rows = 0.5 * generator.normal(size=(ROWS, size))
    rows[:, 1:] += 0.5 * rows[:, :-1]
    rows[:, -1] = rows[:, :-1] @ (0.1 * generator.normal(size=size - 1)) + 0.3 * generator.normal(size=ROWS)
    rows = np.column_stack([np.ones(ROWS), rows])
    noise = sigma * generator.normal(size=(size + 1, size + 1)) / np.sqrt(2)
    noise += noise.T
    noise[0, 0] = 0.0
    names = [*(f"x{number}" for number in range(size - 1)), "target"]
    columns = (ScaledColumn("(intercept)", 0, 1, 1, 1), *(ScaledColumn(name, 0, 1, -9, 9) for name in names))
    return GramEstimate(columns, rows.T @ rows + noise, SymmetricNoise(sigma, exact=0), ROWS, float(np.sqrt(size)))


def measured(what: str, size: int, sigma: float) -> tuple[float, float]:
    """Return CPU seconds and MiB of one answer in a process of its own."""
    command = [sys.executable, __file__, "--one", what, str(size), str(sigma)]
    seconds, memory = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(memory)


def one(what: str, size: int, sigma: float) -> None:
    """Print the CPU seconds of one answer, and the process's memory in MiB."""
    given = release(size, sigma)
    started = time.process_time()
    WHAT[what](given)
    print(time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, nargs="*", default=[25, 100, 400])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help="put the table into the page that shows it")
    asked = parser.parse_args()
    if asked.one:
        one(asked.one[0], int(asked.one[1]), float(asked.one[2]))
        return
    rows = []
    for what in WHAT:
        for told, sigma in (("well", LITTLE), ("badly", MUCH)):
            most = MOST_OF_A_PATH if what == "path" else max(asked.columns)
            cells = [measured(what, size, sigma) if size <= most else None for size in asked.columns]
            shown = (None if cell is None else f"{cell[0]:.2f} s, {cell[1]:.0f} MiB" for cell in cells)
            rows.append((what, told, *shown))
    heads = ("answer", "told", *(f"{size} columns" for size in asked.columns))
    table = Shown("columns", "CPU seconds and memory of one answer, intervals included", heads, tuple(rows))
    print(table.markdown())
    if asked.write:
        write(table)


if __name__ == "__main__":
    main()
