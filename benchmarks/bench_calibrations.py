"""How much noise a promise takes: ours beside what is published, a trusted curator's and that of each client alone.

    python benchmarks/bench_calibrations.py                    # lines that take a second or less
    python benchmarks/bench_calibrations.py --full [--write]   # all of them, a minute and a half

A line is one client's noise per entry of its row, at epsilon 1, delta 1e-6, rows of norm at most 1, replacing one row,
nobody corrupt.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from showing import Shown, write

from lintra_analysis.kinds.planned import planned_mechanism
from lintra_analysis.kinds.wording import number
from lintra_analysis.plan.baselines import baselines, mu_of, sensitivity
from lintra_analysis.plan.flags import PlanFlags

Line = dict[str, object]

GRID = (
    *((1_000, 64, s) for s in (1, 8)),
    *((10_000, 64, s) for s in (1, 8)),
    *((100_000, 256, s) for s in (1, 4, 8)),
    *((1_000_000, 1024, s) for s in (1, 4, 8)),
    *((1_000_000, 4096, s) for s in (1, 4, 8)),
)
"""Clients, rows and sparsities."""
QUICK = tuple(point for point in GRID if point[2] == 1 or point[0] <= 10_000)
"""What takes less than a second of CPU each: balanced rows, or few clients."""


def grid_line(clients: int, rows: int, sparsity: int) -> Line:
    """Return one line of the comparison, replacing one row; the published noise for 10 and for 50 columns.

    The theory is Delta sqrt(tau) / mu*; what is above it pays for the lattice and for a whole number of steps.
    """
    flags = PlanFlags(
        noise="clients",
        clients=clients,
        delta="0.000001",
        corrupt=0,
        rows=rows,
        sparsity=sparsity,
        clip_count_weight="0",  # the others count nothing either
    )
    ten, fifty = (replace(flags, columns=d).context("osnap") for d in (10, 50))
    planned, others = planned_mechanism("osnap", ten), baselines(ten, rows, sparsity)
    return {
        "n": clients,
        "m": rows,
        "s": sparsity,
        "leverage n/m": planned.leverage * clients / rows,
        "published, d=10": others.published,
        "published, d=50": baselines(fifty, rows, sparsity).published,
        "ours": planned.sigma,
        "central": others.central,
        "local": others.local,
        "above theory": planned.sigma / (sensitivity(ten) * math.sqrt(planned.leverage) / mu_of(ten.claim)) - 1,
    }


def calibrations(points: Sequence[tuple[int, int, int]] = GRID) -> Shown:
    """Return the comparison for some numbers of clients, rows and sparsities."""
    lines = [grid_line(*point) for point in points]
    rows = tuple(tuple(_cell(value) for value in line.values()) for line in lines)
    return Shown("calibrations", "Noise of one client by four calibrations", tuple(lines[0]), rows, note(lines))


def _cell(value: object) -> str:
    return number(value) if isinstance(value, float) else "undefined" if value is None else str(value)


def ratios(lines: Sequence[Line], over: str, under: str, asked: Callable[[Line], bool] = bool) -> list[float]:
    """Return one column over another, least first, in the lines where both are defined."""
    return sorted(
        one / other
        for line in lines
        if isinstance(one := line[over], float) and isinstance(other := line[under], float) and asked(line)
    )


def note(lines: Sequence[Line]) -> str:
    """Return what the lines come to."""
    single = [100 * (one - 1) for one in ratios(lines, "ours", "central", lambda line: line["s"] == 1)]
    several = [100 * (one - 1) for one in ratios(lines, "ours", "central", lambda line: line["s"] != 1)]
    local = ratios(lines, "local", "ours")
    published = [one for head in ("published, d=10", "published, d=50") for one in ratios(lines, head, "ours")]
    above = [float(str(line["above theory"])) for line in lines]
    return (
        f"Ours above a trusted curator's: {single[0]:.2g} to {single[-1]:.2g} % with s = 1, {several[0]:.2g} to "
        f"{several[-1]:.2g} % with more. Local over ours: {local[0]:.2g} to {local[-1]:.2g} times. Published over "
        f"ours, where it is defined: {min(published):.2g} to {max(published):.3g} times. Ours above the theory: at "
        f"most about {max(above):.2g} of it, and {'never' if min(above) >= 0 else 'sometimes'} below."
    )


def main() -> None:
    """Show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all lines")
    parser.add_argument("--write", action="store_true", help="put the table into the page that shows it")
    asked = parser.parse_args()
    shown = calibrations(GRID if asked.full else QUICK)
    print(f"{shown.markdown()}\n\n{shown.note}")
    if asked.write:
        write(shown)


if __name__ == "__main__":
    main()
