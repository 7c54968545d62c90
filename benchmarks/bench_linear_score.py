"""How well does a linear score rank, beside a logistic regression that has the rows?

For every table at hand the target is cut in two ways that are fixed beforehand: above its median, and above its 90 %
point (a cut that leaves fewer than 2 % in a class is left out, and one that is the same as the other counts once).
Features are clipped to their .1 % and 99.9 % points and standardised. The linear score is that of `linear_score` on
the second moments of these rows without noise, so that what is lost is lost by the method; the AUC of both is counted
on the same rows. Then what `linear_score` says about its AUC without having seen a row. One target more is flights that
arrive later than 15 minutes, without the column of the departure's delay.

Beside it, by how much the slopes of a logistic regression's quadratic approximation are off (Huggins, Adams, Broderick
2017, degree 2, for scores within 1, 2, 4 or 8): they are a multiple of least squares.

    python benchmarks/bench_linear_score.py [--write]            # a minute
    python benchmarks/bench_linear_score.py --data FOLDER
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

sys.path.insert(0, str(Path(__file__).resolve().parent))

from coverage_grid.tables import FOLDERS, all_tables
from showing import Shown, write

from lintra_analysis import linear_score
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.crypto.ring import FloatArray

CUTS = (0.5, 0.9)
LEAST_SHARE = 0.02
STEPS = 60
LATE, LATE_MINUTES, DEPARTURE = "flights late", 15.0, 4
"""A target more: the arrival's delay above so many minutes, without one column."""

RANGES = (1.0, 2.0, 4.0, 8.0)
SAME_ROWS = "flight_wide"
"""A table with the rows of flights."""

NOISE = 1.0
"""The noise that a release states, of which it has none: small beside the thousands of rows."""


def auc(scores: FloatArray, ones: FloatArray) -> float:
    """Return the chance that a row with 1 has the larger score; equal scores count half (Mann and Whitney 1947)."""
    positives = ones.sum()
    ranks = rankdata(scores)[ones == 1].sum()
    return float((ranks - positives * (positives + 1) / 2) / (positives * (len(ones) - positives)))


def logistic(rows: FloatArray, ones: FloatArray) -> FloatArray:
    """Return intercept and slopes of a logistic regression by Newton's method, penalty 1e-8 for separable classes."""
    held = np.column_stack([np.ones(len(rows)), rows])
    weights = np.zeros(held.shape[1])
    for _ in range(STEPS):
        chances = 1 / (1 + np.exp(-np.clip(held @ weights, -30, 30)))
        curvature = held.T @ (held * np.maximum(chances * (1 - chances), 1e-12)[:, np.newaxis])
        step = np.linalg.solve(curvature + 1e-8 * np.eye(len(weights)), held.T @ (ones - chances))
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return weights


def quadratic(rows: FloatArray, ones: FloatArray, reach: float) -> FloatArray:
    """Return the slopes that maximise the quadratic approximation of the likelihood for scores within +-`reach`."""

    def log_likelihood(score: FloatArray) -> FloatArray:
        return np.asarray(-np.logaddexp(0.0, -score))

    terms = np.polynomial.Chebyshev.interpolate(log_likelihood, 200, [-reach, reach]).truncate(3)
    _, linear, square = map(float, terms.convert(kind=np.polynomial.Polynomial).coef.tolist())
    held = np.column_stack([np.ones(len(rows)), rows])
    solved = np.linalg.solve(held.T @ held, held.T @ (2 * ones - 1))
    return np.asarray(-linear / (2 * square) * solved[1:])


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


@dataclass(frozen=True)
class Target:
    """What is found of one binary target.

    Attributes:
        logistic: AUC of the logistic regression.
        linear: AUC of the linear score.
        stated: the AUC that the score states, if it does.
        slopes: by how much the approximation's slopes are off, of their length, for each of `RANGES`; None where the
            features are dependent.
    """

    name: str
    logistic: float
    linear: float
    stated: float | None
    slopes: list[float] | None


def target(name: str, features: FloatArray, ones: FloatArray) -> Target:
    """Compare on one target."""
    rows = standardised(features)
    found = linear_score(noiseless(rows, ones), "y")
    weights = logistic(rows, ones)
    slopes = None
    if found.auc_if_normal is not None:
        off = [quadratic(rows, ones, reach) - weights[1:] for reach in RANGES]
        slopes = [float(np.linalg.norm(one) / np.linalg.norm(weights[1:])) for one in off]
    exact, linear = (auc(scores, ones) for scores in (rows @ weights[1:], found.score(rows)))
    return Target(name, exact, linear, found.auc_if_normal, slopes)


def targets(tables: dict[str, FloatArray]) -> Iterator[Target]:
    """Yield all targets of all tables, and the late flights last."""
    for name, table in tables.items():
        if name != SAME_ROWS:
            for cut, ones in binary_targets(table):
                yield target(f"{name} {cut:g}", table[:, :-1].astype(np.float64), ones)
    if "flights" in tables:
        late = (tables["flights"][:, -1] > LATE_MINUTES).astype(np.float64)
        yield target(LATE, np.delete(tables["flights"][:, :-1], DEPARTURE, axis=1), late)


def row(one: Target) -> tuple[str | None, ...]:
    """Return the line of a target."""
    return (
        one.name,
        f"{one.logistic:.3f}",
        f"{one.linear:.3f}",
        f"{one.logistic - one.linear:.3f}".replace("-0.000", "0.000"),
        "not told" if one.stated is None else f"{one.stated:.3f}",
        None if one.slopes is None else f"{min(one.slopes):.2g} to {max(one.slopes):.2g}",
    )


def comparison(found: list[Target]) -> Shown:
    """Return a line for each target."""
    heads = ("target", "logistic", "linear", "lost", "stated", "slopes off")
    cut = [one for one in found if one.name != LATE]
    late = [one.logistic - one.linear for one in found if one.name == LATE]
    lost = sorted((one.logistic - one.linear for one in cut), reverse=True)
    told = [one for one in cut if one.stated is not None and one.slopes is not None]
    note = (
        f"Lost against the logistic regression on the {len(cut)} cut targets: {np.median(lost):.3f} in the median, and "
        f"in the worst {', '.join(f'{one:.3f}' for one in lost[:3])}. "
    )
    if late:
        note += f"It can be more: flights later than {LATE_MINUTES:g} minutes without the column of the departure's "
        note += f"delay lose {late[0]:.3f}. "
    if told:
        off = [abs((one.stated or 0.0) - one.linear) for one in told]
        slopes = [one.slopes or [] for one in told]
        note += (
            f"The stated AUC is off by {np.mean(off):.3f} on average and {max(off):.3f} at most, on {len(off)} targets."
            f" Slopes of the quadratic approximation of a logistic regression (scores within 1, 2, 4 or 8) are off by "
            f"{min(map(min, slopes)):.2g} to {max(map(max, slopes)):.2g} of their length. They are off by "
            f"{np.median([min(one) for one in slopes]):.2g} in the median even where the best of the four is taken."
        )
    return Shown(
        "linear-score", "AUC of a linear score beside a logistic regression's", heads, tuple(map(row, found)), note
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .npz tables with X and y")
    parser.add_argument("--tables", nargs="*", help="only these")
    parser.add_argument("--write", action="store_true", help="put the table into the page that shows it")
    asked = parser.parse_args()
    tables = all_tables([asked.data] if asked.data else list(FOLDERS))
    shown = comparison(list(targets({name: tables[name] for name in asked.tables or tables})))
    print(f"{shown.markdown()}\n\n{shown.note}")
    if asked.write:
        write(shown)


if __name__ == "__main__":
    main()
