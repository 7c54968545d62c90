"""How well does a linear score rank, beside a logistic regression that has the rows?

For every table at hand the target is cut in two ways that are fixed beforehand: above its median, and above its 90 %
point (a cut that leaves fewer than 2 % in a class is left out, and one that is the same as the other counts once).
Features are clipped to their .1 % and 99.9 % points and standardised. The linear score is that of `linear_score` on
the second moments of these rows without noise, so that what is lost is lost by the method; the AUC of both is counted
on the same rows. Then what `linear_score` says about its AUC without having seen a row.

    python benchmarks/bench_linear_score.py                      # a minute
    python benchmarks/bench_linear_score.py --data FOLDER
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

sys.path.insert(0, str(Path(__file__).resolve().parent))

from coverage_grid.tables import FOLDERS, all_tables

from lintra_analysis import linear_score
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.ring import FloatArray

CUTS = (0.5, 0.9)
LEAST_SHARE = 0.02
STEPS = 60
NOISE = 1.0
"""The noise that a release states, of which it has none: small beside the thousands of rows."""


def auc(scores: FloatArray, ones: FloatArray) -> float:
    """Return the chance that a row with 1 has the larger score; equal scores count half (Mann and Whitney 1947)."""
    positives = ones.sum()
    ranks = rankdata(scores)[ones == 1].sum()
    return float((ranks - positives * (positives + 1) / 2) / (positives * (len(ones) - positives)))


def logistic(rows: FloatArray, ones: FloatArray) -> FloatArray:
    """Return the scores of a logistic regression by Newton's method, with a penalty of 1e-8 for separable classes."""
    held = np.column_stack([np.ones(len(rows)), rows])
    weights = np.zeros(held.shape[1])
    for _ in range(STEPS):
        chances = 1 / (1 + np.exp(-np.clip(held @ weights, -30, 30)))
        curvature = held.T @ (held * np.maximum(chances * (1 - chances), 1e-12)[:, np.newaxis])
        step = np.linalg.solve(curvature + 1e-8 * np.eye(len(weights)), held.T @ (ones - chances))
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return np.asarray(held @ weights)


def binary_targets(table: FloatArray) -> Iterator[tuple[float, FloatArray]]:
    """Yield the cuts of a table's target that are to be looked at."""
    seen: list[FloatArray] = []
    for cut in CUTS:
        ones = (table[:, -1] > np.quantile(table[:, -1], cut)).astype(np.float64)
        if min(ones.mean(), 1 - ones.mean()) >= LEAST_SHARE and not any(np.array_equal(ones, one) for one in seen):
            seen.append(ones)
            yield cut, ones


def standardised(features: FloatArray) -> FloatArray:
    """Return clipped and standardised features without those that do not vary."""
    low, high = np.quantile(features, [0.001, 0.999], axis=0)
    clipped = np.clip(features, low, high)[:, high > low]
    return np.asarray((clipped - clipped.mean(axis=0)) / clipped.std(axis=0))


def noiseless(rows: FloatArray, ones: FloatArray) -> SecondMomentSum:
    """Return a release of these rows, without noise but as if there were a little: features may be dependent."""
    held = np.column_stack([np.ones(len(rows)), rows, ones])
    names = [ScaledColumn(f"x{i}", 0, 1, -1e6, 1e6) for i in range(rows.shape[1])]
    columns = (ScaledColumn("(intercept)", 0, 1, 1, 1), *names, ScaledColumn("y", 0, 1, 0, 1, kind="boolean"))
    bound = float(np.linalg.norm(held, axis=1).max())
    return SecondMomentSum(columns, held.T @ held, NOISE, len(rows), bound, exact="(intercept)")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .npz tables with X and y")
    asked = parser.parse_args()
    print("table              rows   cut  share   logit  linear  lost    stated  off     at least")
    print("-" * 88)
    lost, off = [], []
    for name, table in all_tables([asked.data] if asked.data else list(FOLDERS)).items():
        if name == "flight_wide":  # the same rows as flights
            continue
        rows = standardised(table[:, :-1].astype(np.float64))
        for cut, ones in binary_targets(table):
            found = linear_score(noiseless(rows, ones), "y")
            exact, linear = auc(logistic(rows, ones), ones), auc(found.score(rows), ones)
            stated = found.auc_if_normal
            lost.append(exact - linear)
            off.append(float("nan") if stated is None else stated - linear)
            least = "-" if found.auc_at_least is None else f"{found.auc_at_least:.3f}"
            print(
                f"{name:16} {len(rows):7d}  {cut:.1f}  {ones.mean():.3f}   {exact:.3f}  {linear:.3f}  {lost[-1]:+.3f}"
                f"  {stated or float('nan'):.3f}   {off[-1]:+.3f}  {least}",
                flush=True,
            )
    spread = np.abs(off)
    print(
        f"\n{len(lost)} targets. Lost: median {np.median(lost):+.3f}, most {max(lost):+.3f}. "
        f"Stated AUC off by {np.nanmean(spread):.3f} on average, {np.nanmax(spread):.3f} at most."
    )


if __name__ == "__main__":
    main()
