"""R2 of arrival delays from releases of 1,000 Fourier features of each flight, for one draw of everything random."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from flights import load_flights

from lintra_analysis.estimators.wide import wide_ridge
from lintra_analysis.kinds.range_finder import usual_projected_bound
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.range_sums import RangeSums, TargetProducts
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.gaussian import gaussian_mu
from wide.moments import DELTA, Moments, noise_sd

PAIRS, WIDTH, BLOCK = 500, 0.25, 10_000
SIZE, LENGTH = 2 * PAIRS + 1, math.sqrt(1.25)
RANKS, CLIPPED_RANK = (20, 32, 64), 32
FEATURES = ("month", "day", "sched_dep_time", "dep_delay", "air_time", "distance")
DESIGN = {
    "r = 20, projections not clipped": 0.788,
    "r = 32, projections not clipped": 0.799,
    "r = 64, projections not clipped": 0.808,
    "r = 32": 0.812,
    "r = 32, two rounds": 0.810,
}
"""The design's medians."""


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
    def of(cls, rng: np.random.Generator) -> "FourierFlights":
        """Read the flights and draw frequencies."""
        held, names = load_flights()
        table = held[:, [names.index(name) for name in FEATURES]]
        table, delay = (table - table.mean(axis=0)) / table.std(axis=0), held[:, names.index("arr_delay")]
        # Four deviations are the bound of a target that weighs half as much as all features together.
        target = np.clip((delay - delay.mean()) / delay.std(), -4, 4) / 8
        return cls(table, rng.normal(0, WIDTH, (len(FEATURES), PAIRS)), target)

    def blocks(self) -> Iterator[FloatArray]:
        """Yield rows of features and target, as many as are small beside everything else."""
        for start in range(0, len(self.target), BLOCK):
            part = slice(start, start + BLOCK)
            # Single precision takes a fraction of the time, and its rounding is nothing beside the noise.
            turned = (self.angles[part] @ self.frequencies).astype(np.float32)
            features = np.hstack([np.cos(turned), np.sin(turned)]) / math.sqrt(PAIRS)
            yield np.column_stack([features.astype(np.float64), self.target[part]])


def signs(rank: int, rng: np.random.Generator) -> FloatArray:
    """Return a projection."""
    return rng.choice([-1.0, 1.0], (SIZE, rank)) / math.sqrt(rank)


def bound_of(rank: int) -> float:
    """Return where projections are clipped."""
    return float(usual_projected_bound(f"{LENGTH:.9f}", SIZE, rank))


def draws_of(run: int) -> dict[str, float]:
    """Return R2 of every release of one draw of frequencies, signs and noise, and of least squares without privacy."""
    rng = np.random.default_rng([2, run])
    flights, clipped = FourierFlights.of(rng), signs(CLIPPED_RANK, rng)
    held = Moments.of(flights.blocks(), clipped, CLIPPED_RANK, bound_of(CLIPPED_RANK))
    found = {}
    for rank in RANKS:
        projection = signs(rank, rng)
        values = held.products[1:, 1:] @ projection
        found[f"r = {rank}, projections not clipped"] = in_one_round(held, values, projection, rng)
    found["r = 32"] = in_one_round(held, held.clipped, clipped, rng)
    found["r = 32, two rounds"] = in_two_rounds(held, rng)
    return {**found, "rows, no privacy": held.least_squares()}


def in_one_round(held: Moments, values: FloatArray, projection: FloatArray, rng: np.random.Generator) -> float:
    """Return R2 of `wide_ridge` on a release of such sums."""
    bound = bound_of(projection.shape[1])
    # The anchor of the target is C/2 long, and makes q longer by the root of 1.25.
    own = noise_sd(1.0, bound, LENGTH) * math.sqrt(1.25)
    with_target = held.products[1:, -1]
    release = RangeSums(
        columns=tuple(ScaledColumn(f"c{i}", 0.0, 1.0, -1.0, 1.0) for i in range(SIZE)),
        values=values + own * rng.normal(size=values.shape),
        projection=projection,
        noise_sd=own,
        num_clients=held.rows,
        row_bound=LENGTH,
        projected_bound=bound,
        targets=(TargetProducts(SIZE - 1, 0.5, with_target + own / bound * rng.normal(size=SIZE), own / bound),),
    )
    fit = wide_ridge(Release(range_sums=release), f"c{SIZE - 1}", about="centers")
    return held.r2(fit.intercept, fit.coefficients)


def in_two_rounds(held: Moments, rng: np.random.Generator) -> float:
    """Return R2 of a ridge along all directions of a first round, from a second round of products, clip included.

    Each round has half of mu squared.
    """
    rank, squared = CLIPPED_RANK, LENGTH**2
    # The anchor of the target is in the first round's q as well.
    own = math.sqrt(2) * noise_sd(1.0, bound_of(rank), LENGTH) * math.sqrt(1.25)
    values = held.clipped + own * rng.normal(size=held.clipped.shape)
    values[-1] = 0
    along = np.pad(np.linalg.svd(values, full_matrices=False)[0], ((0, 0), (0, 1)))
    along[-1, -1] = 1
    products = along.T @ held.products[1:, 1:] @ along
    # Products of two numbers; those of one with itself have sqrt(2) times the deviation (Theorem J6).
    sigma = math.sqrt(2) * squared / gaussian_mu(1.0, DELTA)
    noise = sigma * rng.normal(size=products.shape)
    noisy = products + np.triu(noise, 1) + np.triu(noise, 1).T + math.sqrt(2) * np.diag(np.diag(noise))
    penalty = sigma * (2 * math.sqrt(rank) + 4)
    slopes = np.linalg.solve(noisy[:-1, :-1] + penalty * np.eye(rank), noisy[:-1, -1])
    return held.r2(0.0, along[:-1, :-1] @ slopes)
