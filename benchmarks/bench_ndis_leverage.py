"""How much larger a leverage the exact profile of random projection allows: Wei et al. 2023, v4, Figure 2.

p* is the largest leverage at which D^T G is (epsilon, delta)-private; p_LSV = epsilon / (4 (sqrt(2 r L) + L)) with
L = ln(4 / delta) is that of Blocki et al. 2012 (least singular value), to which the figure compares. The figure gives
neither delta nor its grid; 1e-6 and the grid below are inferred from it, and the reference numbers were computed from
the formulas by other code. Run: `python benchmarks/bench_ndis_leverage.py [--plot FILE]`.
"""

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lintra_curator.ndis.bounds import renyi_bound
from lintra_curator.ndis.closed_form import rp_pair, rp_pstar
from lintra_curator.projection.random_projection import rp_sigma

DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 10.0)
REFERENCE = {
    1: (11.186, 9.054, 8.106, 7.038, 5.798, 3.968),
    10: (10.150, 8.640, 7.951, 7.154, 6.183, 4.609),
    100: (9.304, 8.195, 7.700, 7.133, 6.437, 5.244),
    1000: (8.851, 7.914, 7.508, 7.055, 6.510, 5.576),
}


def published_leverage(epsilon: float, delta: float, sketch_rows: int) -> float:
    """Return p_LSV, the leverage that the earlier analysis allows."""
    log = math.log(4 / delta)
    return epsilon / (4 * (math.sqrt(2 * sketch_rows * log) + log))


def renyi_leverage(epsilon: float, delta: float, sketch_rows: int) -> float:
    """Return the largest leverage that the best Renyi conversion of the same pair allows."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if renyi_bound(rp_pair(middle, sketch_rows), epsilon) <= delta else (low, middle)
    return low


def improvement(epsilon: float, sketch_rows: int) -> float:
    """Return p* / p_LSV."""
    return rp_pstar(epsilon, DELTA, sketch_rows) / published_leverage(epsilon, DELTA, sketch_rows)


def table(title: str, cell: Callable[[float, int], str]) -> None:
    """Print one line for each r."""
    print(f"\n{title}\n{'r':>6}" + "".join(f"{epsilon:>18g}" for epsilon in EPSILONS))
    for sketch_rows in REFERENCE:
        print(f"{sketch_rows:6}" + "".join(f"{cell(epsilon, sketch_rows):>18}" for epsilon in EPSILONS))


def plot(path: Path) -> None:
    """Draw the improvement against epsilon, as the figure does."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    grid = np.geomspace(0.1, 10, 25)
    for sketch_rows in REFERENCE:
        axes.plot(grid, [improvement(float(epsilon), sketch_rows) for epsilon in grid], label=f"r = {sketch_rows}")
    axes.set(xscale="log", xlabel="epsilon", ylabel="p* / p_LSV", title=f"delta = {DELTA:g}")
    axes.legend()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="where to draw the figure")
    options = parser.parse_args()
    print(f"delta {DELTA:g}")
    reference = {(e, r): value for r, values in REFERENCE.items() for e, value in zip(EPSILONS, values, strict=True)}
    table("p* / p_LSV, ours / reference", lambda e, r: f"{improvement(e, r):.3f} / {reference[e, r]:.3f}")
    table(
        "p* over the best Renyi conversion", lambda e, r: f"{rp_pstar(e, DELTA, r) / renyi_leverage(e, DELTA, r):.3f}"
    )
    table(
        "noise for rows of norm 1: published l / sqrt(p*), tight",
        lambda e, r: f"{rp_pstar(e, DELTA, r) ** -0.5:.4f}, {rp_sigma(e, DELTA, r, 1.0):.4f}",
    )
    if options.plot:
        plot(options.plot)


if __name__ == "__main__":
    main()
