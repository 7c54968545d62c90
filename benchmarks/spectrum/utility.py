"""The utility of Tables I to IV of version 3, in the measures of its authors' program.

The printed measures are not explained in the text at hand; the authors' program (github.com/stoneboat/NDIS, MIT)
computes them, and its notebooks keep what it printed for the flights:

* PDR, of a projection P, columns d: the mean over pairs of columns of |P_i - P_j| / (sqrt(r) |D_i - D_j|);
* DPR: the correlation of the entries of P^T P and of D^T D, a covariance over n - 1 divided by deviations over n,
  hence 9/8 of a correlation for three columns;
* of least squares |x~ - x| / |x| and |x| / |x~|.

Theirs are the bounds of a 95 % bootstrap interval of the mean of 100 runs, where a notebook has them.
"""

import itertools
import math

import numpy as np
from bench_ndis_survey import least_singular_value
from papers.least_squares_corner import corner_sigma
from showing import Cell, FloatArray, Shown, spread

from lintra_analysis.releases.sampling import gaussians
from lintra_curator.least_squares.private_least_squares import ols_sigma, solved
from lintra_curator.projection.random_projection import project, rp_sigma
from lintra_protocol.crypto.randomness import expand
from spectrum.flights import FLIGHT_SKETCH_ROWS, flights, longest

EPSILON = 1.0


def information_sigma(rows: FloatArray, epsilon: float, delta: float, sketch_rows: int) -> float:
    """Return the noise of Showkatbakhsh, Karakus, Diggavi (ISIT 2018) as the authors' program converts the claim.

    A (0, delta')-claim from (epsilon, delta), then delta'^2 / (2 ln 2) bits of mutual information; the program scales
    the variance for r rows and takes off the least squared column norm without its largest entry.
    """
    bits = (2 * (1 - delta) / (math.exp(epsilon) + 1)) ** 2 / (2 * math.log(2))
    squares = rows**2
    kept = float((squares.sum(axis=0) - squares.max(axis=0)).min())
    return math.sqrt(max(sketch_rows / (2 ** (2 * bits) - 1) - kept, 0))


def distance_ratio(values: FloatArray, rows: FloatArray, ridge: float = 0.0) -> float:
    """Return the PDR of a sketch, shape `(r, d)`; a ridge is subtracted from its squared distances."""
    ratios = []
    for i, j in itertools.combinations(range(rows.shape[1]), 2):
        square = float(np.sum((values[:, i] - values[:, j]) ** 2)) / len(values) - 2 * ridge
        ratios.append(math.sqrt(max(square, 0)) / float(np.linalg.norm(rows[:, i] - rows[:, j])))
    return float(np.mean(ratios))


def correlation(values: FloatArray, rows: FloatArray) -> float:
    """Return the correlation of the entries of the sketch's Gram matrix with those of the table's."""
    return float(np.corrcoef((values.T @ values).ravel(), (rows.T @ rows).ravel())[0, 1])


def flights_distances(runs: int) -> Shown:
    """Return PDR and DPR of projections of the flights."""
    rows, r = flights(), FLIGHT_SKETCH_ROWS
    size, bound = rows.shape[1], longest(rows)
    delta, mixed = 1 / len(rows), rows.shape[1] ** 2 / (rows.shape[1] ** 2 - 1)
    tight = rp_sigma(EPSILON, delta, r, bound)
    mechanisms: dict[str, tuple[float, str | None]] = {
        "relative to this table: no noise (an analysis)": (0.0, "0.996 to 1.002"),
        "published, l / sqrt(p*)": (math.hypot(tight, bound), None),
        "exact, a row left out, ours": (tight, None),
        "exact, a row replaced, ours": (rp_sigma(EPSILON, delta, r, bound, "replace-one"), None),
        "least singular value (Blocki et al. 2012)": (least_singular_value(EPSILON, delta, r, bound), "3.98 to 4.02"),
        "mutual information (Showkatbakhsh et al. 2018)": (
            information_sigma(rows, EPSILON, delta, r), "110.6 to 111.5",
        ),
    }  # fmt: skip
    lines: list[tuple[Cell, ...]] = []
    # Rows with the same second moments have sketches of the same law.
    short: FloatArray = np.asarray(np.linalg.cholesky(rows.T @ rows).T, np.float64)
    for name, (sigma, printed) in mechanisms.items():
        source = expand(bytes(32), f"ndis distances {name}")
        sketches = [project(short, sigma**2, r, source) for _ in range(runs)]
        related = [correlation(values, rows) for values in sketches]
        lines.append(
            (
                name, sigma, printed, spread(distance_ratio(values, short) for values in sketches),
                spread(distance_ratio(values, short, sigma**2) for values in sketches),
                spread(related), spread(mixed * each for each in related),
            )
        )  # fmt: skip
    return Shown(
        "ndis-flights-distances",
        f"NDIS, version 3, projection of the flights, r = {r}, epsilon 1, delta 1/n: PDR and DPR",
        (
            "mechanism", "sigma", "PDR, theirs", "PDR", "PDR, ridge subtracted", "correlation of the Gram matrices",
            "DPR as their program has it",
        ),
        tuple(lines),
        "PDR: mean quotient of distances between columns in the sketch and in the table. Theirs: 95 % interval of the "
        "mean as the notebooks of their program printed it in 2024 and 2025, widened to hold both; the printed DPR is "
        f"1.123, which is {mixed:.3f} times a correlation (errata.md). The ridge is public, so that anybody can "
        "subtract it; then the private distances of the first four lines are as long as the true ones. "
        f"{size} columns; median and 10 % and 90 % points of {runs} runs.",
    )  # fmt: skip


def flights_least_squares(runs: int) -> Shown:
    """Return the utility of private least squares on the flights."""
    rows, r = flights(), FLIGHT_SKETCH_ROWS
    delta, bound, features = 1 / len(rows), longest(rows), rows.shape[1] - 1
    b, target = rows[:, :-1], rows[:, -1]
    best = np.linalg.lstsq(b, target)[0]
    gram, least = b.T @ b, float(np.sum((target - b @ best) ** 2))
    sketch = ols_sigma(EPSILON, delta, r, features, bound, "sketch")
    mechanisms: dict[str, tuple[float, bool, str | None, str | None]] = {
        "no ridge, Gaussian law (promises nothing)": (1e-9, False, None, None),
        "published corner, Gaussian law": (
            corner_sigma(EPSILON, delta, r, features, bound), False, "0.460 to 0.475", "1.82 to 1.86",
        ),
        "triangle, Gaussian law, ours": (
            ols_sigma(EPSILON, delta, r, features, bound, "gaussian"), False, None, None,
        ),
        "triangle, exact law of a sketch, ours": (
            ols_sigma(EPSILON, delta, r, features, bound, "t"), True, None, None,
        ),
        "published projection, then solved": (math.hypot(sketch, bound), True, "0.393 to 0.402", "1.62 to 1.64"),
        "exact projection, then solved, ours": (sketch, True, None, None),
        "least singular value, then solved": (
            least_singular_value(EPSILON, delta, r, bound), True, "0.824 to 0.833", "5.49 to 5.73",
        ),
    }  # fmt: skip
    lines: list[tuple[Cell, ...]] = []
    for name, (sigma, sketched, error, length) in mechanisms.items():
        solution, factor, residual = solved(rows, sigma**2)
        source = expand(bytes(32), f"ndis figures {name}")
        squares = np.full(runs, float(r))
        if sketched:
            squares = np.sum(gaussians((runs, r - features + 1), source) ** 2, axis=1)
        scatter = np.linalg.solve(factor, gaussians((features, runs), source)) * np.sqrt(residual / squares)
        found = solution[:, np.newaxis] + scatter
        miss = found - best[:, np.newaxis]
        excess = np.sqrt(1 + np.sum(miss * (gram @ miss), axis=0) / least)
        relative = np.linalg.norm(miss, axis=0) / np.linalg.norm(best)
        lengths = np.linalg.norm(best) / np.linalg.norm(found, axis=0)
        lines.append((name, sigma, error, spread(relative), length, spread(lengths), spread(excess)))
    return Shown(
        "ndis-flights-least-squares",
        f"NDIS, version 3, least squares on the flights, r = {r}, epsilon 1, delta 1/n: noise and utility",
        (
            "mechanism", "ridge deviation", "error, theirs", "relative error of the coefficients", "length, theirs",
            "true over released length", "residual norm, quotient to the least",
        ),
        tuple(lines),
        "Arrival delay by departure delay and a constant, columns divided by their norms. Theirs: as for the "
        "projection. Look: most of the error is the ridge's, which is as large as the columns, and it shortens the "
        f"coefficients. Median and 10 % and 90 % points of {runs} runs.",
    )  # fmt: skip
