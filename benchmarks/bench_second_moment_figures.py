"""Every line of the figures in Sheffet's papers on second moments, by n and by epsilon, with the spread over runs.

    python benchmarks/bench_second_moment_figures.py [--full] [--only single-by-n ...]

Tables and algorithms are those of bench_second_moment_regression.py; here stand also the lines that promise nothing or
less: the projection without its ridge, the posterior without one, Algorithm 3 as it is drawn, both ways to debias it,
Algorithm 1 with the rows of Algorithm 2, and published Gaussian noise shifted until it is surely positive, which is how
we read "scaled". Which of Figures 1 to 6 holds which panel is not in the text at hand.
"""

import math
from collections.abc import Callable

import numpy as np
from bench_second_moment_regression import (
    FEATURES,
    MULTI,
    SINGLE,
    SQUARED_BOUND,
    Design,
    SummedTable,
    drawn,
    published_gaussian,
    raw,
    sketch_rows,
    solutions,
    surely,
)
from showing import Cell, FloatArray, Plot, Shown, parser, runs_of, show, spread

from lintra_curator.papers import published
from lintra_curator.papers.second_moment import PublishedProjection, PublishedWishartNoise
from lintra_curator.promise.claim import curator_claim
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.randomness import RandomBytes, expand

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


def parts(full: bool, runs: int) -> dict[str, Callable[[], Shown]]:
    """Return the four panels by name."""
    sizes = range(12, 23) if full else (12, 14, 16)
    epsilons = EPSILONS if full else (0.05, 0.1, 0.5)
    by_size = [(log2n, AT_EPSILON) for log2n in sizes]
    by_epsilon = [(AT_SIZE if full else 14, epsilon) for epsilon in epsilons]
    return {
        "single-by-n": lambda: figure("single-by-n", SINGLE, by_size, runs, by_size=True),
        "single-by-epsilon": lambda: figure("single-by-epsilon", SINGLE, by_epsilon, runs, by_size=False),
        "multi-by-n": lambda: figure("multi-by-n", MULTI, by_size, runs, by_size=True),
        "multi-by-epsilon": lambda: figure("multi-by-epsilon", MULTI, by_epsilon, runs, by_size=False),
    }


def main() -> None:
    """Show what is asked for."""
    asked = parser(__doc__, 7, 20).parse_args()
    show(parts(asked.full, runs_of(asked)), asked)


if __name__ == "__main__":
    main()
