"""What do row weights win, and what do they cost?

The rule in force before them stands beside that of trial/row_weights.py. Every table is cut into halves at random. One
is the public sample: columns' bounds, centres, scales and both rules follow from it. The other is collected. A release
is drawn as its law has it, some times. The error of a draw is the median over slopes of the distance to the ordinary
least squares of the collected half, unclipped, in deviations of target over feature; that of a table is the median over
draws. Gain is the geometric mean over tables of the old rule's error over the new one's, for the unbiased solution and
for the point that is printed, which stands beside that of AdaSSP (Wang 2018). The rules were stated before these tables
were tried. "x10" has each row of the collected half ten times.

    python benchmarks/bench_row_weights.py --write
"""

import argparse
import importlib
import importlib.util
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from coverage_grid.batches import Batch
from coverage_grid.tables import FOLDERS, packaged_tables, stored_tables
from showing import Shown, show

from lintra_analysis.estimators.ordinary_slopes import allowances
from lintra_analysis.estimators.point import drawn_to_zero, released_means
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_analysis.trial.row_weights import row_weighting
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.gaussian import gaussian_mu

DELTA, MOST_ROWS = 1e-6, 16_384
CELLS = ((0.3, 1), (1.0, 1), (3.0, 1), (1.0, 10), (3.0, 10))
"""Epsilons, and how often each row of the collected half stands."""

OF_STATSMODELS = ("anes96", "engel", "fair", "grunfeld", "modechoice", "star98")
OF_SCIKIT_LEARN = ("breast_cancer", "diabetes", "digits", "iris", "wine")


@dataclass(frozen=True)
class Half:
    """A collected half: rows in normalised units, the target last, within their bounds and as they are."""

    bounded: FloatArray
    plain: FloatArray


@dataclass(frozen=True)
class Outcome:
    """Errors and coverage of one rule on one table.

    Attributes:
        raw: error of the unbiased solution; `point` and `adassp` are those of the others.
        kept: R2 of the point on the collected half over that of ordinary least squares; the median draw.
        covered: share of intervals that hold the ordinary slope, unbounded ones included.
        allowed: the same, widened by the allowance of the sample.
        bounded: share of draws with bounded intervals.
        worse: whether the point fits worse than 0 in over half of the draws.
    """

    raw: float
    point: float
    adassp: float
    kept: float
    covered: float
    allowed: float
    bounded: float
    worse: bool
    by: str


def public_tables(folders: list[Path]) -> Iterator[tuple[str, FloatArray]]:
    """Yield tables that are stored or that packages ship, the target last."""
    yield from stored_tables(folders)
    yield from packaged_tables()
    if importlib.util.find_spec("statsmodels"):
        pandas = importlib.import_module("pandas")
        for name in OF_STATSMODELS:
            held = importlib.import_module(f"statsmodels.datasets.{name}").load_pandas()
            joined = pandas.concat([pandas.DataFrame(held.exog), pandas.DataFrame(held.endog)], axis=1)
            numbers = joined.apply(pandas.to_numeric, errors="coerce").dropna(axis=1, how="all").dropna()
            yield name, numbers.to_numpy(np.float64)
    if importlib.util.find_spec("sklearn"):
        datasets = importlib.import_module("sklearn.datasets")
        for name in OF_SCIKIT_LEARN:
            yield name, np.column_stack(getattr(datasets, f"load_{name}")(return_X_y=True))


def halves(name: str, table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a table's sample and collected half, at most `MOST_ROWS` together, without columns that do not vary."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    rows = table[np.isfinite(table).all(axis=1)]
    rows = rows[generator.permutation(len(rows))[:MOST_ROWS]]
    sample, collected = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    low, high = np.quantile(sample, [0.001, 0.999], axis=0)
    varies = (high > low) & (collected.std(axis=0) > 0)
    return sample[:, varies], collected[:, varies]


def normalised(sample: FloatArray, rows: FloatArray) -> Half:
    """Return rows in units of the sample, by the rule of trial/files/bounds.py."""
    low, high = np.quantile(sample, [0.001, 0.999], axis=0)
    tenth, ninetieth = np.quantile(sample, [0.1, 0.9], axis=0)
    scale = np.maximum((ninetieth - tenth) / 2, (high - low) / 4)
    two_valued = np.array([len(np.unique(column)) == 2 for column in sample.T])
    scale = np.where(two_valued, high - low, scale)
    center = np.clip(sample, low, high).mean(axis=0)
    return Half((np.clip(rows, low, high) - center) / scale, (rows - center) / scale)


def old_rule(sample: FloatArray, rows: Half) -> tuple[FloatArray, float, float, FloatArray]:
    """Return vectors by the rule before: B^2 = sum m_j + 2 sum s_j, a constant of B/2 that is not shrunk."""
    squares = np.square(sample)
    bound = float(np.sqrt((squares.mean(axis=0) + 2 * squares.std(axis=0)).sum()))
    root = np.minimum(1, bound / np.maximum(np.linalg.norm(rows.bounded, axis=1), 1e-300))
    vectors = np.column_stack([np.full(len(root), bound / 2), rows.bounded * root[:, np.newaxis]])
    return vectors, bound**2 * 1.25, 1.0, np.ones(len(root))


def solutions(matrix: FloatArray, sigma: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the unbiased solution, the point, and that of AdaSSP, each with the constant first."""
    means = released_means(matrix, sigma)
    slopes = drawn_to_zero(matrix, sigma, means, np.zeros(1))[0][0]
    point = np.append(means[-1] - means[:-1] @ slopes, slopes)
    features, size = matrix[:-1, :-1], len(matrix)
    most = sigma * np.sqrt(size * np.log(2 * size**2 / 0.05))
    penalty = max(0.0, most - max(0.0, float(np.linalg.eigvalsh(features)[0])))
    return (
        np.linalg.solve(features, matrix[:-1, -1]),
        point,
        np.linalg.solve(features + penalty * np.eye(size - 1), matrix[:-1, -1]),
    )


def measure(
    sample: FloatArray, collected: FloatArray, epsilon: float, times: int, draws: int, seed: int, *, old: bool
) -> Outcome:
    """Release the collected half `draws` times by one of the rules."""
    public, rows = normalised(sample, sample), normalised(sample, collected)
    mu, count = gaussian_mu(epsilon, DELTA), len(collected) * times
    two_valued = len(np.unique(sample[:, -1])) == 2
    if old:
        vectors, square, factor, _ = old_rule(public.bounded, rows)
        gram, by, allowed = vectors.T @ vectors * times, "old", None
    else:
        weighting = row_weighting(public.bounded, count, mu, two_valued=two_valued)
        vectors, root = weighting.vectors(rows.bounded)
        gram = (vectors * np.square(root)[:, np.newaxis]).T @ vectors * times
        square, factor, by = weighting.row_bound**2, weighting.target_factor, weighting.by
        theirs, weight = weighting.vectors(public.bounded)
        plain = np.column_stack([theirs[:, 0], public.plain])
        theirs[:, -1] /= factor
        allowed = allowances(plain, theirs, np.square(weight), count)[0]
    sigma, size = square / mu, len(gram)
    plain = np.column_stack([np.ones(len(collected)), rows.plain])
    own = np.linalg.lstsq(plain[:, :-1], plain[:, -1], rcond=1e-10)[0]
    deviations = rows.plain.std(axis=0)
    unit, spread = deviations[:-1] / deviations[-1], rows.plain[:, -1].var()
    generator = np.random.default_rng([seed, int(10 * epsilon), times, old])
    noise = generator.normal(size=(draws, size, size)) * sigma
    noise = (noise + np.swapaxes(noise, 1, 2)) / np.sqrt(2)
    if old:
        noise[:, 0, 0] = 0.0
    noised = size - old
    shift = np.trace(noise, axis1=1, axis2=2) / noised * (1 - 1 / np.sqrt(noised + 1))
    noise[:, range(int(old), size), range(int(old), size)] -= shift[:, np.newaxis]
    matrices, constant = gram + noise, float(vectors[0, 0])
    errors, fits = [], []
    for matrix in matrices:
        found = [np.append(each[0] * constant, each[1:]) / factor for each in solutions(matrix, sigma)]
        errors.append([float(np.median(np.abs(each - own)[1:] * unit)) for each in found])
        fits.append(1 - float(np.mean((plain[:, -1] - plain[:, :-1] @ found[1]) ** 2)) / spread)
    raw, point, adassp = np.median(errors, axis=0).tolist()
    law = SymmetricNoise(sigma, trace_tight=True, num_columns=noised, exact=0 if old else None)
    batch = Batch(matrices[: max(draws // 2, 10)], law)
    told = batch.bounded()
    covered, widened = _coverage(batch, own, constant, factor, allowed)
    best = 1 - float(np.mean((plain[:, -1] - plain[:, :-1] @ own) ** 2)) / spread
    return Outcome(
        raw=raw,
        point=point,
        adassp=adassp,
        kept=float(np.median(fits)) / best,
        covered=float(np.where(told[:, np.newaxis], covered, True).mean()),
        allowed=float(np.where(told[:, np.newaxis], widened, True).mean()),
        bounded=float(told.mean()),
        worse=float(np.mean(np.array(fits) < 0)) > 0.5,
        by=by,
    )


def _coverage(
    batch: Batch, own: FloatArray, constant: float, factor: float, allowed: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return which intervals hold the slopes `own`, shape `(B, p)`, and which do if they are widened."""

    def in_vectors(slopes: FloatArray) -> FloatArray:
        return np.append(own[0] / constant, slopes) * factor

    covered = batch.accepts(in_vectors(own[1:]))[:, 1:]
    if allowed is None:
        return covered, covered
    ends = [batch.accepts(in_vectors(own[1:] + side * allowed))[:, 1:] for side in (-1, 1)]
    raw = np.linalg.solve(batch.matrices[:, :-1, :-1], batch.matrices[:, :-1, -1:])[:, 1:, 0] / factor
    return covered, covered | ends[0] | ends[1] | (np.abs(raw - own[1:]) <= allowed)


def gain(tables: dict[str, FloatArray], draws: int, seed: int) -> Shown:
    """Return a line for each epsilon."""
    lines = []
    for epsilon, times in CELLS:
        pairs = [
            tuple(measure(*halves(name, table), epsilon, times, draws, seed, old=old) for old in (True, False))
            for name, table in tables.items()
        ]
        old, new = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        ratios = np.array([before.raw / after.raw for before, after in pairs])
        points = np.array([before.point / after.point for before, after in pairs])
        kept = np.array([each.kept for each in new])
        lines.append(
            (
                f"{epsilon:g}" + (f" x{times}" if times > 1 else ""),
                float(np.exp(np.log(ratios).mean())),
                float(ratios.min()),
                float(np.exp(np.log(points).mean())),
                *(float(np.median([getattr(each, field) for each in new])) for field in ("raw", "adassp", "point")),
                f"{sum(each.worse for each in old)}, {sum(each.worse for each in new)}",
                float(np.quantile(kept, 0.1)),
                f"{np.mean([each.bounded for each in old]):.2f}, {np.mean([each.bounded for each in new]):.2f}",
                float(np.mean([each.covered for each in new])),
                float(np.mean([each.allowed for each in new])),
                float(np.quantile([each.allowed for each in new], 0.05)),
            )
        )
    heads = ("epsilon", "gain, raw", "worst table", "gain, point", "error raw", "AdaSSP", "point", "worse than 0")
    heads = (*heads, "fit kept, 10 %", "bounded", "covers ordinary", "with allowance", "5 % of tables")
    shapes = [f"`{name}` {len(table)} x {table.shape[1] - 1}" for name, table in tables.items()]
    listed = ". ".join(", ".join(shapes[at : at + 8]) for at in range(0, len(shapes), 8))
    note = (
        f"{draws} draws on each of {len(tables)} tables, of which at most {MOST_ROWS} rows are used. Errors are those "
        "of the new rule, medians over tables. Two numbers are those of the old and the new rule: tables whose point "
        "fits worse than 0 in over half of the draws, and the share of draws with bounded "
        'intervals. "Fit kept" is R2 of the point over that of ordinary least squares, the tenth percentile of '
        "tables. The last three columns are shares of intervals that hold the ordinary slope of the collected rows, "
        "unbounded ones included. They are given as they are, widened by the allowance of the sample, and the 5 % "
        f"point over tables of these. Rows and features of each table follow. {listed}."
    )
    return Shown("row-weights", "Row weights beside the row bound before them", heads, tuple(lines), note)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .npz tables with X and y")
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=30)
    parser.add_argument("--write", action="store_true", help="put the table into the page that shows it")
    parser.set_defaults(json=False, output=None, only=None)
    asked = parser.parse_args()
    found = dict(public_tables([asked.data] if asked.data else list(FOLDERS)))
    tables = {name: found[name] for name in asked.tables or found}
    show({"row-weights": lambda: gain(tables, asked.runs, asked.seed)}, asked)


if __name__ == "__main__":
    main()
