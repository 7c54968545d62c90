"""The noise of the NDIS papers' mechanisms at their parameters, and what data hide by themselves.

The first two tables are mathematics: Wei et al. 2023, v3, print a noise deviation for each of three data sets; the same
formula, and what is really needed, stand beside it. The other two report privacy relative to the data and their
neighbours on public tables, in the manner of v3: an analysis, not a guarantee, since the noise is chosen from the data.
Run: `python benchmarks/bench_ndis_survey.py [--data FOLDER]`.
"""

import argparse
import bz2
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from papers.inherent_least_squares import inherent_least_squares
from papers.inherent_privacy import inherent_privacy
from papers.least_squares_corner import corner_sigma

from lintra_curator.least_squares.private_least_squares import ols_sigma
from lintra_curator.projection.random_projection import rp_sigma
from lintra_protocol.noise.clipping import clip_norms

FloatArray = NDArray[np.float64]
HERE = Path(__file__).resolve().parent
FLIGHTS = HERE.parent / "deploy/data/flights.npy.bz2"
EPSILON = 1.0
SKETCH_ROWS = (100, 1000)
QUANTILE = 0.999


@dataclass(frozen=True)
class Published:
    """One column of the tables of v3: its parameters, and the two deviations that are printed, where they are."""

    name: str
    rows: int
    sketch_rows: int
    features: int | None
    row_bound: float
    projection: float | None
    corner: float | None


PUBLISHED = (
    Published("Cancer", 2809, 300, 12, 1.107512718, 6.8504818, 7.9174164),
    Published("Flight", 327346, 1200, 2, 0.07320812693, 0.7452001525, 0.86413852),
    Published("Song, least squares", 515345, 3000, 91, 0.224128987, None, 3.3742885),
    Published("Song, projection", 515345, 20000, None, 0.224128987, 0.224, None),
)


def least_singular_value(epsilon: float, delta: float, sketch_rows: int, row_bound: float) -> float:
    """Return the ridge deviation that Blocki et al. 2012 ask for."""
    log = math.log(4 / delta)
    return 2 * row_bound * math.sqrt((math.sqrt(2 * sketch_rows * log) + log) / epsilon)


def projection_table() -> None:
    print("\nrandom projection, epsilon 1, delta 1/n: deviation of the noise")
    print(f"{'':21}{'printed':>14}{'l/sqrt(p*)':>14}{'tight':>12}{'replace':>12}{'LSV':>12}")
    for case in PUBLISHED:
        delta, bound = 1 / case.rows, case.row_bound
        tight = rp_sigma(EPSILON, delta, case.sketch_rows, bound)
        replaced = rp_sigma(EPSILON, delta, case.sketch_rows, bound, "replace-one")
        singular = least_singular_value(EPSILON, delta, case.sketch_rows, bound)
        printed = "" if case.projection is None else f"{case.projection:.10g}"
        formula = math.hypot(tight, bound)
        print(f"{case.name:21}{printed:>14}{formula:14.10g}{tight:12.7g}{replaced:12.7g}{singular:12.7g}")


def least_squares_table() -> None:
    print("\nleast squares, epsilon 1, delta 1/n: deviation of the ridge")
    print(f"{'':21}{'printed':>14}{'corner':>14}{'triangle':>12}{'exact law':>12}{'sketch':>12}")
    for case in PUBLISHED:
        if case.features is None:
            continue

        size = (EPSILON, 1 / case.rows, case.sketch_rows, case.features, case.row_bound)
        corner = corner_sigma(*size)
        others = "".join(f"{ols_sigma(*size, law):12.7g}" for law in ("gaussian", "t", "sketch"))
        print(f"{case.name:21}{case.corner:14.10g}{corner:14.10g}{others}")


def load_table(path: Path) -> FloatArray:
    """Return features and target of one `.npz`, target last."""
    with np.load(path, allow_pickle=False) as data:
        return np.column_stack([data["X"], data["y"]]).astype(np.float64)


def tables(folder: Path) -> dict[str, FloatArray]:
    """Return the two delays of every flight and the tables of a folder, standardised, and clipped to a bound."""
    with bz2.open(FLIGHTS) as stream:
        found = {"flights": np.load(stream, allow_pickle=False)[:, [4, 11]].astype(np.float64)}
    found |= {path.stem: load_table(path) for path in sorted(folder.glob("*.npz"))}
    return {name: prepared(rows) for name, rows in found.items()}


def prepared(rows: FloatArray) -> FloatArray:
    """Standardise, and clip to a quantile of the norms, all of which would have to be public."""
    scale = rows.std(axis=0)
    standard = (rows - rows.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    bound = float(np.quantile(np.linalg.norm(standard, axis=1), QUANTILE))
    return clip_norms(standard, bound) / bound * (1 - 1e-12)


def error_factor(gram: FloatArray, sigma: float) -> float:
    """Return the root mean square error of the estimate of D^T D, in units of that of the projection without noise.

    A projection's estimate has E |error|_F^2 = (tr(A)^2 + tr(A^2)) / r with A = D^T D + sigma^2 I.
    """

    def size(matrix: FloatArray) -> float:
        return float(np.trace(matrix)) ** 2 + float(np.sum(matrix**2))

    return math.sqrt(size(gram + sigma**2 * np.eye(len(gram))) / size(gram))


def relative_table(folder: Path) -> None:
    print("\nrelative to the table and its neighbours, rows of norm at most 1, epsilon 1, delta 1/n (an analysis)")
    heads = ("bare delta", "none or all", "least", "for all data", "error x", "error x")
    print(f"{'':20}{'n':>8}{'d':>4}{'r':>6}{'max leverage':>14}" + "".join(f"{head:>14}" for head in heads))
    for name, rows in tables(folder).items():
        gram, count = rows.T @ rows, len(rows)
        for sketch_rows in SKETCH_ROWS:
            found = inherent_privacy([rows], EPSILON, 1 / count, sketch_rows, 1.0)
            line = f"{name:20}{count:8}{rows.shape[1]:4}{sketch_rows:6}{found.largest_leverage:14.3e}"
            line += f"{found.delta_without_noise:14.3e}{found.published_sigma:14.4f}{found.sigma:14.4f}"
            line += f"{found.worst_case_sigma:14.4f}{error_factor(gram, found.sigma):14.3f}"
            print(line + f"{error_factor(gram, found.worst_case_sigma):14.3f}", flush=True)


def relative_least_squares_table(folder: Path) -> None:
    print("\nleast squares of the last column relative to the same: deviation of the ridge")
    print(f"{'':20}{'r':>6}{'bare delta':>14}{'least':>14}{'for all data':>14}")
    for name, rows in tables(folder).items():
        for sketch_rows in SKETCH_ROWS:
            found = inherent_least_squares([rows], EPSILON, 1 / len(rows), sketch_rows, 1.0)
            line = f"{name:20}{sketch_rows:6}{found.delta_without_ridge:14.3e}"
            print(line + f"{found.sigma:14.4f}{found.worst_case_sigma:14.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=HERE / "data", help="a folder of .npz tables with X and y")
    options = parser.parse_args()
    projection_table()
    least_squares_table()
    relative_table(options.data)
    relative_least_squares_table(options.data)


if __name__ == "__main__":
    main()
