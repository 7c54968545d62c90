"""Regressions on a curator's second moments: every algorithm of Sheffet (2019), published and exact noise side by side.

After that paper's experiments: normal features, rows shrunk to B^2 = 50, epsilon 0.1, delta e^-9. "Single" regresses
y = x.b + e, |b| = 2.5, Var e = 1/2, on 20 features and an intercept (d = 22). "Multi" has |b| = 1, Var e = 1/4 and nine
more features, each a mixture (norm 1) of the 20 with residual variance 0.16 (d = 31). Printed is the median of
|b_hat - b| over the 20 features, and beside it what earlier code, written apart from this library, has found.

Run: `python benchmarks/bench_second_moment_regression.py [--runs 12] [--max-log2n 18]`. Rows are really drawn and
shrunk, block by block: shrinking changes the law of their products, so a Wishart matrix could not stand in for them.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from papers.second_moment import PublishedInverseWishartDraw, PublishedProjection, PublishedWishartNoise

from lintra_analysis.estimators.regression import regression
from lintra_curator.claims.claim import curator_claim
from lintra_curator.second_moment import calibration
from lintra_curator.second_moment.bounded_table import BoundedTable, plain_columns
from lintra_curator.second_moment.central_second_moment import CentralSecondMoment, NoiseRecord
from lintra_curator.second_moment.gaussian_noise import weighted_noise
from lintra_curator.second_moment.inverse_wishart import InverseWishartDraw
from lintra_curator.second_moment.projection import GaussianProjection
from lintra_curator.second_moment.wishart_noise import WishartNoise, wishart_factor
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim
from papers import published

FloatArray = NDArray[np.float64]

SQUARED_BOUND = 50.0
FEATURES = 20
REDUNDANT, REDUNDANT_RESIDUAL = 9, 0.16
CLAIM = curator_claim(0.1, math.exp(-9))
BLOCK = 1 << 13
SMALLEST_EIGENVALUE = 0.05
"""A public guess of the smallest eigenvalue per row, from which the rows of a projection are chosen beforehand."""

SINGLE_SIZES, MULTI_SIZES = (14, 16, 18, 20, 22), (16, 17, 18, 20)
EARLIER = {
    "no privacy": ((0.025, 0.016, 0.012, 0.0100, 0.0097), (0.017, 0.012, 0.0098, 0.0047)),
    "gaussian published, raw": ((10.3, 0.448, 0.105, 0.028, 0.0114), (3.38, 1.13, 0.327, 0.072)),
    "gaussian exact, raw": ((1.41, 0.227, 0.059, 0.017, 0.0100), (1.53, 0.387, 0.176, 0.043)),
    "gaussian exact, floor": ((0.791, 0.216, 0.059, 0.017, 0.0100), (0.392, 0.383, 0.176, 0.043)),
    "wishart published, debiased": ((2.28, 1.78, 0.406, 0.102, 0.027), (0.800, 0.674, 0.550, 0.311)),
    "wishart exact, floor": ((0.776, 0.228, 0.060, 0.018, 0.0099), (0.414, 0.339, 0.176, 0.041)),
    "projection + look, published": ((2.51, 2.09, 1.37, 0.775, 0.130), (1.11, 1.05, 1.03, 0.839)),
    "projection + look, joint exact": ((1.72, 1.07, 0.748, 0.088, 0.020), (0.888, 0.895, 0.872, 0.105)),
    "inverse Wishart + look, published": ((2.34, 1.73, 1.15, 0.581, 0.138), (0.949, 0.881, 0.824, 0.581)),
    "inverse Wishart + look, joint exact": ((1.33, 0.797, 0.527, 0.086, 0.020), (0.683, 0.653, 0.556, 0.102)),
    "posterior of n + d, published": ((2.47, 2.44, 2.38, 2.26, 2.07), (0.973, 0.965, 0.951, 0.908)),
}


@dataclass(frozen=True, eq=False)
class SummedTable(BoundedTable):
    """A table of which only the products are kept; its rows have a shape and nothing else."""

    gram: FloatArray

    def products(self) -> FloatArray:
        """Return the products of the rows that were drawn."""
        return self.gram


@dataclass(frozen=True)
class Design:
    """One of the two experiments; columns are features, intercept, redundant ones, and the target."""

    name: str
    norm: float
    residual: float
    redundant: int
    sizes: tuple[int, ...]
    kept: int = FEATURES
    """Features on which the target depends."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, the target last."""
        width = FEATURES + 1 + self.redundant
        return (*(f"c{i}" for i in range(width)), "y")

    def draw(self, count: int, generator: np.random.Generator) -> tuple[SummedTable, FloatArray]:
        """Return the products of `count` shrunk rows, and b of shape `(FEATURES,)`."""
        directions = generator.normal(size=(FEATURES, self.redundant + 1))
        directions[self.kept :, -1] = 0
        directions /= np.linalg.norm(directions, axis=0)
        directions[:, -1] *= self.norm
        deviations = np.sqrt([REDUNDANT_RESIDUAL] * self.redundant + [self.residual])
        gram = np.zeros((len(self.names), len(self.names)))
        for start in range(0, count, BLOCK):
            size = min(BLOCK, count - start)
            features = generator.normal(size=(size, FEATURES))
            others = features @ directions + deviations * generator.normal(size=(size, self.redundant + 1))
            rows = np.column_stack([features, np.ones(size), others])
            lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows) / SQUARED_BOUND)
            rows /= np.maximum(lengths, 1.0)[:, np.newaxis]
            gram += rows.T @ rows
        bound = math.sqrt(SQUARED_BOUND)
        shape = np.broadcast_to(np.zeros(1), (count, len(self.names)))
        return SummedTable(plain_columns(self.names, bound), shape, bound, gram), directions[:, -1]


SINGLE = Design("single", 2.5, 0.5, 0, SINGLE_SIZES)
MULTI = Design("multi", 1.0, 0.25, REDUNDANT, MULTI_SIZES)


def raw(matrix: FloatArray) -> FloatArray:
    """Return the plain solution of the last column on the others."""
    solution: FloatArray = np.asarray(np.linalg.solve(matrix[:-1, :-1], matrix[:-1, -1]), np.float64)
    return solution


def floored(release: CentralSecondMoment) -> FloatArray:
    """Return the solution with the eigenvalue floor, as the library predicts with."""
    return regression(release, "y").coef_


def gaussian(table: SummedTable, source: RandomBytes, claim: Claim = CLAIM) -> CentralSecondMoment:
    """Release with exact weighted noise; in floating point, since the rows themselves were not kept."""
    sigma = calibration.gaussian_sigma(claim) * SQUARED_BOUND
    size = len(table.columns)
    values = table.gram + sigma * weighted_noise(size, source)
    noise = NoiseRecord("gaussian", claim, "exact", "continuous, floating point", sigma, size, mu=SQUARED_BOUND / sigma)
    return CentralSecondMoment(table.columns, values, values, noise, table.rows.shape[0], table.row_bound)


def published_gaussian(table: SummedTable, generator: np.random.Generator, claim: Claim = CLAIM) -> FloatArray:
    """Return the products with noise of one deviation everywhere."""
    noise = np.triu(generator.normal(size=table.gram.shape))
    return table.gram + published.gaussian_sigma(claim) * SQUARED_BOUND * (noise + np.triu(noise, 1).T)


def sketch_rows(table: SummedTable, ridge_of: Callable[[int], float]) -> int:
    """Return the largest r = 2 d 2^j whose full ridge is below the public guess of the smallest eigenvalue."""
    rows = 2 * len(table.columns)
    while ridge_of(2 * rows) <= SMALLEST_EIGENVALUE * table.rows.shape[0] and rows < 1 << 20:
        rows *= 2
    return rows


def published_wishart(table: SummedTable, source: RandomBytes, claim: Claim = CLAIM) -> FloatArray:
    """Return Algorithm 3: debiased fully where that leaves it positive, otherwise by what surely does."""
    release = PublishedWishartNoise().release(table, claim, source)
    if np.linalg.eigvalsh(release.values)[0] > 0:
        return release.values
    return release.raw - surely(len(table.columns), claim) * np.eye(len(table.columns))


def surely(size: int, claim: Claim) -> float:
    """Return by how much the published Wishart noise of Algorithm 3 surely raises every eigenvalue."""
    sure = math.sqrt(published.wishart_degrees(claim, size)) - math.sqrt(size)
    return max(sure - math.sqrt(2 * math.log(4 / claim.float_delta)), 0.0) ** 2 * SQUARED_BOUND


def half_claim(claim: Claim = CLAIM) -> Claim:
    """Return what the published algorithms spend on each of look and draw."""
    return curator_claim(claim.float_epsilon / 2, claim.float_delta / 2)


def published_look(
    table: SummedTable, inverse: bool, source: RandomBytes, generator: np.random.Generator, claim: Claim = CLAIM
) -> FloatArray:
    """Return Algorithm 2 or 5: half of the claim for a Laplace look, half for the ridge of Theorem 3.1."""
    half, size = half_claim(claim), len(table.columns)

    def full(rows: int) -> float:
        return SQUARED_BOUND * published.theorem_3_1_ridge(half, rows)

    rows = sketch_rows(table, full)
    scale = SQUARED_BOUND / half.float_epsilon
    known = np.linalg.eigvalsh(table.gram)[0] + generator.laplace(0, scale) - scale * math.log(1 / half.float_delta)
    added = max(0.0, full(rows) - max(known, 0.0))
    return drawn(table.gram + added * np.eye(size), rows, inverse, source)


def drawn(matrix: FloatArray, rows: int, inverse: bool, source: RandomBytes) -> FloatArray:
    """Return a Wishart matrix of so many degrees about a matrix, or an inverse Wishart matrix."""
    root, factor = np.linalg.cholesky(matrix), wishart_factor(len(matrix), rows, source)
    half_root = np.linalg.solve(factor, root.T).T if inverse else root @ factor
    return np.asarray(half_root @ half_root.T)


def exact_look(table: SummedTable, inverse: bool, source: RandomBytes, claim: Claim = CLAIM) -> FloatArray:
    """Return Algorithm 2 or 5 with the joint exact curve."""
    look = gaussian_mu(claim.float_epsilon, claim.float_delta) / 2
    rows = sketch_rows(table, lambda count: SQUARED_BOUND / calibration.adaptive_weight(claim, count, look))
    if inverse:
        return InverseWishartDraw(degrees=rows, adaptive=True).release(table, claim, source).raw
    return GaussianProjection(sketch_rows=rows, adaptive=True).release(table, claim, source).raw


def solutions(
    table: SummedTable, source: RandomBytes, generator: np.random.Generator, claim: Claim = CLAIM
) -> dict[str, FloatArray]:
    """Return every algorithm's coefficients on one table."""
    exact = gaussian(table, source, claim)
    posterior = table.rows.shape[0] + len(table.columns)
    return {
        "no privacy": raw(table.gram),
        "gaussian published, raw": raw(published_gaussian(table, generator, claim)),
        "gaussian exact, raw": raw(exact.values),
        "gaussian exact, floor": floored(exact),
        "wishart published, debiased": raw(published_wishart(table, source, claim)),
        "wishart exact, floor": floored(WishartNoise().release(table, claim, source)),
        "projection + look, published": raw(published_look(table, False, source, generator, claim)),
        "projection + look, joint exact": raw(exact_look(table, False, source, claim)),
        "inverse Wishart + look, published": raw(published_look(table, True, source, generator, claim)),
        "inverse Wishart + look, joint exact": raw(exact_look(table, True, source, claim)),
        "posterior of n + d, published": raw(
            PublishedInverseWishartDraw(degrees=posterior).release(table, claim, source).raw
        ),
    }


def run(design: Design, log2n: int, runs: int) -> dict[str, float]:
    """Return every algorithm's median error over fresh tables of 2^log2n rows."""
    generator = np.random.default_rng([2019, log2n, design.redundant])
    source = expand(bytes(32), f"{design.name} {log2n}")
    errors: dict[str, list[float]] = {name: [] for name in EARLIER}
    for _ in range(runs):
        table, truth = design.draw(2**log2n, generator)
        for name, found in solutions(table, source, generator).items():
            errors[name].append(float(np.linalg.norm(found[:FEATURES] - truth)))
    return {name: float(np.median(values)) for name, values in errors.items()}


CALIBRATION_HEADS = (
    "epsilon, delta",
    "w2/B^2, r = 44: exact, Theorem 3.1, ICML 2017",
    "k at c = 1: exact, published",
    "sd/B^2: exact, published",
    "delta that the published ones give: Theorem 3.1, Wishart, Gaussian",
)


def calibrations() -> list[tuple[str, ...]]:
    """Return published against exact noise levels, d = 22, "replace-one"."""
    lines: list[tuple[str, ...]] = []
    tiny = BoundedTable.of(np.zeros((22, 22)), plain_columns(map(str, range(22)), 1.0), 1.0)
    for epsilon, delta in ((0.05, math.exp(-9)), (0.1, math.exp(-9)), (0.5, math.exp(-9)), (1.0, 1e-6)):
        claim, source = curator_claim(epsilon, delta), expand(bytes(32), "calibrations")
        ridges = (
            1 / calibration.projection_weight(claim, 44),
            published.theorem_3_1_ridge(claim, 44),
            published.least_squares_ridge(claim, 44),
        )
        degrees = calibration.wishart_degrees(claim, 22, 1.0), published.wishart_degrees(claim, 22)
        deviations = calibration.gaussian_sigma(claim), published.gaussian_sigma(claim)
        given = (
            PublishedProjection(sketch_rows=44).release(tiny, claim, source).noise.delta_at(epsilon),
            PublishedWishartNoise().release(tiny, claim, source).noise.delta_at(epsilon),
            replace(gaussian(_summed(tiny), source).noise, mu=math.sqrt(2) / deviations[1]).delta_at(epsilon),
        )
        lines.append(
            (
                f"{epsilon:g}, {delta:.3g}",
                ", ".join(f"{ridge:.1f}" for ridge in ridges),
                ", ".join(map(str, degrees)),
                ", ".join(f"{sd:.2f}" for sd in deviations),
                ", ".join(f"{value:.1e}" for value in given),
            )
        )
    return lines


def print_calibrations() -> None:
    """Print them."""
    for line in (CALIBRATION_HEADS, ("---",) * len(CALIBRATION_HEADS), *calibrations()):
        print("| " + " | ".join(line) + " |")


def _summed(table: BoundedTable) -> SummedTable:
    return SummedTable(table.columns, table.rows, table.row_bound, table.products())


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--max-log2n", type=int, default=18)
    options = parser.parse_args()
    print_calibrations()
    for index, design in enumerate((SINGLE, MULTI)):
        sizes = [size for size in design.sizes if size <= options.max_log2n]
        found = {size: run(design, size, options.runs) for size in sizes}
        print(f"\n{design.name}, {options.runs} runs: median error, ours / earlier\n")
        print("| log2 n | " + " | ".join(map(str, sizes)) + " |")
        print("| --- |" + " --- |" * len(sizes))
        for name, earlier in EARLIER.items():
            cells = [f"{found[size][name]:.3g} / {earlier[index][design.sizes.index(size)]:.3g}" for size in sizes]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
