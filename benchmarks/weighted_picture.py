"""Draws what a weighted regression is: rows, their weights, and the lines of three regressions.

    python benchmarks/weighted_picture.py     # writes docs/pictures/weighted-regression.png

Rows are simulated: one feature, a law that bends, and some rows far out. Weights are those of the rule of
trial/row_weights.py at epsilon 1 for as many rows as are drawn, without noise.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np

from lintra_analysis.trial.row_weights import row_weighting
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.gaussian import gaussian_mu

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "weighted-regression.png"
COUNT, SHOWN, DELTA = 400, 400, 1e-6


def simulated_rows(generator: np.random.Generator) -> FloatArray:
    """Return rows of one feature and a target, shape `(n, 2)`: a law that bends, with heavy tails."""
    x = np.clip(generator.standard_t(6, size=COUNT), -5, 5)
    return np.column_stack([x, 0.8 * x + 0.12 * x * np.abs(x) + 0.7 * generator.normal(size=COUNT)])


def slope_and_intercept(rows: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return weighted least squares of the second column on the first."""
    slope, intercept = np.polyfit(rows[:, 0], rows[:, 1], 1, w=np.sqrt(weights))
    return float(slope), float(intercept)


def draw(path: Path) -> None:
    """Draw the rows once for each kind of weights, with the ordinary line beside the weighted one."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = simulated_rows(np.random.default_rng(4))
    mu, ordinary = gaussian_mu(1.0, DELTA), slope_and_intercept(rows, np.ones(COUNT))
    figure, panels = plt.subplots(1, 2, figsize=(9.5, 4.2), sharey=True)
    ends = np.array([rows[:, 0].min(), rows[:, 0].max()])
    for axes, by in zip(panels, ("features", "all"), strict=True):
        rule = row_weighting(rows, COUNT * 4, mu, by="features" if by == "features" else "all")
        vectors, root = rule.vectors(rows)
        weights, moved = np.square(root), np.column_stack([rows[:, 0], vectors[:, -1] / rule.target_factor])
        slope, intercept = slope_and_intercept(moved, weights)
        marks = axes.scatter(*rows.T, c=weights, s=14, cmap="viridis", vmin=0, vmax=1, linewidths=0)
        axes.plot(ends, ordinary[0] * ends + ordinary[1], color="#222222", linewidth=1.2, label="ordinary")
        axes.plot(ends, slope * ends + intercept, color="#b5413f", linewidth=1.6, label="weighted")
        axes.set_title(f'weights by "{by}": average {weights.mean():.2f}, slope {slope:.2f} beside {ordinary[0]:.2f}')
        axes.title.set_fontsize(9)
        axes.set_xlabel("feature, in scales from the centre")
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    panels[0].set_ylabel("target")
    figure.colorbar(marks, ax=panels, label="how much a row counts", fraction=0.04, pad=0.02)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=PICTURE)
    draw(parser.parse_args().output)


if __name__ == "__main__":
    main()
