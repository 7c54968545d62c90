"""Three eigenvalue floors for ridge on a sketch, which differ in how noise meets the data.

The data come from a factor model with a strong spectrum: a few factors explain nearly all of the rows, as in real
tables, and the target is one more column of it. Run: `python benchmarks/bench_ridge_floor.py`; it prints the table of
docs/decisions/0010-ridge-floor.md.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lintra_analysis.estimators.spectral import floor_eigenvalues
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.sketch import Sketch
from lintra_protocol.privacy.gaussian import gaussian_mu

FloatArray = NDArray[np.float64]

EPSILON, DELTA = 1.0, 1e-6
ROW_BOUND = 3.0
FEATURES = 10
DRAWS = 40
FLOORS = ("with f1", "f0 alone", "own cross")
CASES = ((100_000, 100), (200_000, 100), (200_000, 200), (327_000, 200))


@dataclass(frozen=True)
class Design:
    """Standard deviations of the features' principal directions, and the target's weights on them."""

    name: str
    deviations: list[float]
    weights: list[float]


DESIGNS = (
    Design("one strong, signal below it", [2.4, *[0.6] * 9], [0.0, *[0.5] * 9]),
    Design("one strong, signal in few", [2.4, 0.9, 0.9, *[0.3] * 7], [0.0, 0.8, -0.8, *[0.0] * 7]),
    Design("four factors", [2.0, 1.2, 0.8, *[0.4] * 7], [0.25] * 10),
    Design("steep", [2.5, 0.8, 0.4, 0.25, 0.2, 0.15, 0.15, 0.1, 0.1, 0.1], [0.25] * 10),
    Design("flat", [0.8] * 10, [0.25] * 10),
)


def clipped_rows(count: int, design: Design, generator: np.random.Generator) -> FloatArray:
    """Return rows of features and target, clipped to the row bound, shape `(count, FEATURES + 1)`."""
    directions = np.linalg.qr(generator.normal(size=(FEATURES, FEATURES)))[0]
    factors = generator.normal(size=(count, FEATURES)) * design.deviations
    features = factors @ directions.T
    target = factors @ design.weights + 0.3 * generator.normal(size=count)
    rows = np.column_stack([features, target])
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, ROW_BOUND / norms))


def sketch(rows: FloatArray, size: int, variance: float, generator: np.random.Generator) -> Sketch:
    """Release a balanced sketch of the rows."""
    count = rows.shape[0] // size * size
    signs = generator.choice([-1.0, 1.0], size=(count, 1))
    groups = (rows[generator.permutation(count)] * signs).reshape(size, count // size, rows.shape[1])
    values = groups.sum(axis=1) + math.sqrt(variance) * generator.normal(size=(size, rows.shape[1]))
    columns = tuple(ScaledColumn(f"c{i}", 0.0, 1.0, -ROW_BOUND, ROW_BOUND) for i in range(rows.shape[1]))
    counts = np.full(size, count // size)
    return Sketch(columns, values, counts, np.full(size, variance), count, ROW_BOUND)


def floors(release: Sketch) -> dict[str, float]:
    """Return the candidate floors for the block of features."""
    gram = release.second_moment()
    variance = float(release.noise_variance.mean())
    alone = variance * (2 * math.sqrt(release.values.shape[0] * FEATURES) + FEATURES)
    largest = max(float(np.linalg.eigvalsh(gram.matrix[:-1, :-1])[-1]), 0.0)
    return {
        "with f1": math.sqrt(alone**2 + 4 * variance * FEATURES * largest),
        "f0 alone": alone,
        "own cross": gram.errors.floor(FEATURES),
    }


def explained(rows: FloatArray, gram: FloatArray, floor: float) -> float:
    """Return the R2 on the rows of the ridge solution (regularization 1) of a floored Gram matrix."""
    features = floor_eigenvalues(gram[:-1, :-1], floor) + np.eye(FEATURES)
    residual = rows[:, -1] - rows[:, :-1] @ np.linalg.solve(features, gram[:-1, -1])
    return float(1 - residual @ residual / (rows[:, -1] @ rows[:, -1]))


def main() -> None:
    """Print one line for each spectrum and size: median and worst R2 under both floors, and without noise."""
    variance = (2 * ROW_BOUND / gaussian_mu(EPSILON, DELTA)) ** 2
    print(f"epsilon {EPSILON:g}, delta {DELTA:g}, row bound {ROW_BOUND:g}, {DRAWS} draws; R2 median / worst")
    print(f"{'design':29}{'n':>7}{'m':>5}{'no noise':>10}" + "".join(f"{name:>16}" for name in FLOORS))
    for design in DESIGNS:
        for count, size in CASES:
            generator = np.random.default_rng(2024)
            rows = clipped_rows(count, design, generator)
            found: dict[str, list[float]] = {name: [] for name in FLOORS}
            for _ in range(DRAWS):
                release = sketch(rows, size, variance, generator)
                gram = release.second_moment().matrix
                for name, value in floors(release).items():
                    found[name].append(explained(rows, gram, value))
            best = explained(rows, rows.T @ rows, 0.0)
            cells = "".join(f"{np.median(r2):8.2f} / {min(r2):5.2f}" for r2 in found.values())
            print(f"{design.name:29}{count:7}{size:5}{best:10.2f}{cells}", flush=True)


if __name__ == "__main__":
    main()
