"""Every line of the figures in Sheffet's papers on second moments, by n and by epsilon, with the spread over runs.

    python benchmarks/bench_second_moment_figures.py [--full] [--only single-by-n ...]

Tables and algorithms are those of bench_second_moment_regression.py; here stand also the lines that promise nothing or
less: the projection without its ridge, the posterior without one, Algorithm 3 as it is drawn, both ways to debias it,
Algorithm 1 with the rows of Algorithm 2, and published Gaussian noise shifted until it is surely positive.
`second_moments/redundant.py` has the line "scaled", which shifts only a matrix that is not positive, varies the
redundant columns, and says which coefficients the Lasso sets to 0. Which of Figures 1 to 6 holds which panel is not in
the text at hand.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from bench_second_moment_regression import (
    CALIBRATION_HEADS,
    FEATURES,
    MULTI,
    SINGLE,
    SQUARED_BOUND,
    Design,
    SummedTable,
    calibrations,
    drawn,
    exact_look,
    floored,
    gaussian,
    published_gaussian,
    raw,
    sketch_rows,
    solutions,
    surely,
)
from papers.second_moment import PublishedProjection, PublishedWishartNoise
from second_moments.redundant import by_redundant, lasso_zeroes
from showing import Cell, FloatArray, Plot, Shown, parser, runs_of, show, spread

from lintra_curator.claims.claim import curator_claim
from lintra_curator.second_moment import calibration
from lintra_curator.second_moment.wishart_noise import WishartNoise
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.privacy.statement import Claim
from papers import published

DELTA = math.exp(-9)
EPSILONS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.5)
AT_EPSILON, AT_SIZE = 0.1, 16


def other_lines(
    table: SummedTable, source: RandomBytes, generator: np.random.Generator, claim: Claim
) -> dict[str, FloatArray]:
    """Return the lines that `solutions` has not."""
    size, count = len(table.columns), table.rows.shape[0]
    wishart = PublishedWishartNoise().release(table, claim, source)
    rows = sketch_rows(table, lambda r: SQUARED_BOUND * published.theorem_3_1_ridge(claim, r))
    reach = 2 * math.sqrt(size) * published.gaussian_sigma(claim) * SQUARED_BOUND
    shifted = published_gaussian(table, generator, claim) + reach * np.eye(size)
    return {
        "projection of Algorithm 1, r of Algorithm 2": raw(
            PublishedProjection(sketch_rows=rows).release(table, claim, source).raw
        ),
        "projection without ridge (promises nothing)": raw(drawn(table.gram, rows, False, source)),
        "posterior without ridge (promises nothing)": raw(drawn(table.gram, count + size, True, source)),
        "wishart published, as drawn": raw(wishart.raw),
        "wishart published, second way to debias": raw(wishart.raw - surely(size, claim) * np.eye(size)),
        "gaussian published, shifted": raw(shifted),
    }


def errors(design: Design, log2n: int, epsilon: float, runs: int) -> dict[str, Cell]:
    """Return the spread of |b_hat - b| of every line, over fresh tables of 2^log2n rows."""
    claim = curator_claim(epsilon, DELTA)
    generator = np.random.default_rng([1507, log2n, design.redundant, round(1000 * epsilon)])
    source = expand(bytes(32), f"figures {design.name} {log2n} {epsilon}")
    found: dict[str, list[float]] = {}
    for _ in range(runs):
        table, truth = design.draw(2**log2n, generator)
        lines = solutions(table, source, generator, claim) | other_lines(table, source, generator, claim)
        for name, solution in lines.items():
            found.setdefault(name, []).append(float(np.linalg.norm(solution[:FEATURES] - truth)))
    return {name: spread(values) for name, values in found.items()}


def figure(name: str, design: Design, points: list[tuple[int, float]], runs: int, *, by_size: bool) -> Shown:
    """Return a figure: a row for every n, or for every epsilon."""
    found = [errors(design, log2n, epsilon, runs) for log2n, epsilon in points]
    first = [2**log2n if by_size else epsilon for log2n, epsilon in points]
    rows = tuple((at, *cells.values()) for at, cells in zip(first, found, strict=True))
    where = f"epsilon {AT_EPSILON:g}" if by_size else f"n = 2^{points[0][0]}"
    return Shown(
        name,
        f"Second moments, {design.name} regression, {where}, delta e^-9: error of the coefficients",
        ("n" if by_size else "epsilon", *found[0]),
        rows,
        f"|b_hat - b| over {FEATURES} features; median and 10 % and 90 % points of {runs} runs. Look: Algorithm 2 or "
        "5. Published noise is calibrated by the papers' inequalities, exact noise by the exact curve of the same "
        "promise, for a replaced row.",
        Plot("n" if by_size else "epsilon", "error", log_x=True, log_y=True),
    )


SPARSE = Design("sparse", 2.5, 0.5, 0, (), kept=4)


def lasso(matrix: FloatArray, penalty: float) -> FloatArray:
    """Return argmin b'Ab / 2 - c'b + penalty |b but the intercept|_1, A and c the products, by coordinate descent.

    Negative eigenvalues, which only noise makes, count as 0, so that there is a minimum. The intercept, which stands
    behind the features, carries no penalty.
    """
    values, vectors = np.linalg.eigh(matrix)
    products = (vectors * np.maximum(values, 1e-9 * values[-1])) @ vectors.T
    gram, cross = products[:-1, :-1], products[:-1, -1]
    found, thresholds = np.zeros(len(cross)), np.where(np.arange(len(cross)) == FEATURES, 0.0, penalty)
    for _ in range(10_000):
        before = found.copy()
        for i, threshold in enumerate(thresholds):
            rest = cross[i] - gram[i] @ found + gram[i, i] * found[i]
            found[i] = math.copysign(max(abs(rest) - threshold, 0.0), rest) / gram[i, i]
        if np.abs(found - before).max() <= 1e-9 * max(np.abs(found).max(), 1e-300):
            break
    return found


def lasso_by_size(log2ns: Sequence[int], runs: int) -> Shown:
    """Return the error with and without a penalty by n, where 4 of 20 features matter."""
    claim = curator_claim(AT_EPSILON, DELTA)
    rows: list[tuple[Cell, ...]] = []
    heads: list[str] = []
    for log2n in log2ns:
        generator, source = np.random.default_rng([1996, log2n]), expand(bytes(32), f"figures sparse {log2n}")
        found: dict[str, list[float]] = {}
        for _ in range(runs):
            table, truth = SPARSE.draw(2**log2n, generator)
            noised = calibration.gaussian_sigma(claim) * SQUARED_BOUND * math.sqrt(1 + SPARSE.norm**2)
            wishart = WishartNoise().release(table, claim, source)
            releases = {
                "no privacy": (raw(table.gram), table.gram, 0.0),
                "gaussian exact": (floored(exact := gaussian(table, source, claim)), exact.values, noised),
                "wishart exact": (floored(wishart), wishart.values, noised),
                "projection + look, joint exact": (raw(seen := exact_look(table, False, source, claim)), seen, noised),
            }
            for name, (plain, matrix, deviation) in releases.items():
                penalty = math.sqrt(2 * math.log(FEATURES) * (2**log2n * SPARSE.residual + deviation**2))
                for how, solution in (("", plain), (", Lasso", lasso(matrix, penalty))):
                    error = float(np.linalg.norm(solution[:FEATURES] - truth))
                    found.setdefault(name + how, []).append(error)
        heads = list(found)
        rows.append((2**log2n, *(spread(values) for values in found.values())))
    return Shown(
        "lasso-by-n",
        f"Second moments, the Lasso on a release, {SPARSE.kept} of {FEATURES} features matter, epsilon 0.1, delta e^-9",
        ("n", *heads),
        tuple(rows),
        "|b_hat - b| as in the single regression. A release is a second moment, so that the Lasso runs on it as on the "
        "data. The penalty is sqrt(2 ln 20) deviations of an entry of X^T e, the residual's and the noise's together, "
        "from public numbers (Gaussian noise stands for all), not searched for. Without a penalty Gaussian and Wishart "
        f"noise have the eigenvalue floor. Median and 10 % and 90 % points of {runs} runs.",
        Plot("n", "error", log_x=True, log_y=True),
    )


def noise_levels() -> Shown:
    """Return published against exact noise, and what the published noise really gives."""
    return Shown(
        "second-moment-calibrations",
        "Second moments: published against exact noise, 22 columns, a row replaced",
        CALIBRATION_HEADS,
        tuple(calibrations()),
        "Theorem 3.1 and the Wishart noise give a delta so far below the claim that their noise is many times what is "
        "needed; published Gaussian noise holds for small epsilon and fails at 1. Mathematics.",
    )


def parts(full: bool, runs: int, log2n: Sequence[int] = ()) -> dict[str, Callable[[], Shown]]:
    """Return the noise levels and the panels by name; `log2n` overrides the sizes of panels by n."""
    sizes = log2n or (range(12, 23) if full else (12, 14, 16))
    epsilons = EPSILONS if full else (0.05, 0.1, 0.5)
    by_size = [(size, AT_EPSILON) for size in sizes]
    by_epsilon = [(AT_SIZE if full else 14, epsilon) for epsilon in epsilons]
    return {
        "second-moment-calibrations": noise_levels,
        "lasso-by-n": lambda: lasso_by_size(log2n or (range(12, 23) if full else (12, 14, 16)), runs),
        "single-by-n": lambda: figure("single-by-n", SINGLE, by_size, runs, by_size=True),
        "single-by-epsilon": lambda: figure("single-by-epsilon", SINGLE, by_epsilon, runs, by_size=False),
        "multi-by-n": lambda: figure("multi-by-n", MULTI, by_size, runs, by_size=True),
        "redundant-by-n": lambda: by_redundant(log2n or ((12, 14, 16, 18, 20) if full else (12, 14)), runs),
        "lasso-zeroes": lambda: lasso_zeroes(log2n or ((14, 16, 18, 20) if full else (12, 14)), runs, lasso),
        "multi-by-epsilon": lambda: figure("multi-by-epsilon", MULTI, by_epsilon, runs, by_size=False),
    }


def main() -> None:
    """Show what is asked for."""
    options = parser(__doc__, 20, 20)
    options.add_argument("--log2n", nargs="+", type=int, default=[], help="sizes of the panels by n instead")
    asked = options.parse_args()
    show(parts(asked.full, runs_of(asked), asked.log2n), asked)


if __name__ == "__main__":
    main()
