"""Three things to do with missing numbers, by how far they move the slopes of a regression.

    python benchmarks/bench_missing.py [--write]

A fifth of the numbers of the first feature, or of every feature, is missing at random in 2^14 rows drawn from a table.
Null rows under a noisy count, or zero at the centre under an exact one, are what tasks do; `pairwise` is what they do
not: zero, beside a column that says whether the number was observed, and covariances divided by counts of pairs. Each
has the norm bound of the rule of docs/how-to/trying.md for its own columns, an intercept of half of it and the noise of
second moments; the error of a draw is the median over the slopes, in deviations, against those of the whole table.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from coverage_grid.tables import FOLDERS, all_tables
from showing import Cell, Shown, Spread, spread, write

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.gaussian import gaussian_mu

TABLES = ("randhie", "uci_concrete", "power_19k", "uci_protein")
CLIENTS, DRAWS, MISSING, DELTA, MOST_COLUMNS = 1 << 14, 24, 0.2, 1e-6, 10
Way = Callable[[FloatArray, Sequence[int], float | None, np.random.Generator], FloatArray]


def normalised(rows: FloatArray) -> FloatArray:
    """Return rows by the rule: about the mean, over the larger of half the 10 to 90 % width and a quarter range."""
    low, high = np.quantile(rows, [0.001, 0.999], axis=0)
    rows = np.clip(rows, low, np.where(high > low, high, low + 1))
    tenth, ninetieth = np.quantile(rows, [0.1, 0.9], axis=0)
    scale = np.maximum((ninetieth - tenth) / 2, (rows.max(axis=0) - rows.min(axis=0)) / 4)
    return np.asarray((rows - rows.mean(axis=0)) / np.where(scale > 0, scale, 1.0))


def released(rows: FloatArray, there: FloatArray, mu: float | None, generator: np.random.Generator) -> FloatArray:
    """Return (c, z)^T (c, z) with the noise of mu and the constant taken out; rows that are not `there` are null."""
    squares = np.square(rows[there > 0])
    bound = float(np.sqrt((squares.mean(axis=0) + 2 * squares.std(axis=0)).sum()))
    shrunk = rows * np.minimum(1, bound / np.maximum(np.linalg.norm(rows, axis=1), 1e-12))[:, np.newaxis]
    held = np.column_stack([there * bound / 2, shrunk * there[:, np.newaxis]])
    matrix = held.T @ held
    if mu is not None:
        noise = generator.normal(size=matrix.shape) * 1.25 * bound**2 / mu
        noise = (noise + noise.T) / np.sqrt(2)
        if there.all():
            noise[0, 0] = 0.0  # an exact count
        matrix = matrix + noise
    units = np.ones(len(matrix))
    units[0] = 2 / bound
    return np.asarray(matrix * np.outer(units, units))


def about_means(sums: FloatArray) -> FloatArray:
    """Return covariances from (1, z)^T (1, z)."""
    means = sums[0, 1:] / sums[0, 0]
    return np.asarray(sums[1:, 1:] / sums[0, 0] - np.outer(means, means))


def null_rows(
    rows: FloatArray, _columns: Sequence[int], mu: float | None, generator: np.random.Generator
) -> FloatArray:
    """Leave out rows in which a number is missing; the count is noisy."""
    there: FloatArray = np.where(np.isnan(rows).any(axis=1), 0.0, 1.0)
    return about_means(released(np.nan_to_num(rows), there, mu, generator))


def centres(rows: FloatArray, _of: Sequence[int], mu: float | None, generator: np.random.Generator) -> FloatArray:
    """Put what is missing at its centre."""
    return about_means(released(np.nan_to_num(rows), np.ones(len(rows)), mu, generator))


def pairwise(rows: FloatArray, columns: Sequence[int], mu: float | None, generator: np.random.Generator) -> FloatArray:
    """Divide the covariance of two columns by the number of rows that have both."""
    size, share = rows.shape[1], 1 - MISSING
    observed = ~np.isnan(rows[:, list(columns)]) - share
    wide = np.column_stack([np.nan_to_num(rows), observed])
    sums = released(wide, np.ones(len(rows)), mu, generator)
    change = np.eye(len(sums))
    change[1 + size :, 0] = share
    sums = change @ sums @ change.T
    of = np.zeros(size, np.int64)
    of[list(columns)] = 1 + size + np.arange(len(columns))
    counts = sums[np.ix_(of, of)]
    firsts = sums[1 : 1 + size][:, of] / counts
    return np.asarray(sums[1 : 1 + size, 1 : 1 + size] / counts - firsts * firsts.T)


ONE, EVERY = "one feature", "every feature"
EPSILONS = (1.0, 4.0, None)
WAYS: dict[str, Way] = {"null rows": null_rows, "centres": centres, "pairwise": pairwise}


def slopes(covariance: FloatArray) -> FloatArray:
    """Return the slopes of the last column on the others."""
    return np.asarray(np.linalg.lstsq(covariance[:-1, :-1], covariance[:-1, -1], rcond=None)[0])


def errors(table: FloatArray, missing_in: str, epsilon: float | None, draws: int = DRAWS) -> list[Spread]:
    """Return the spread over draws of the median error of a slope, for each way."""
    whole = normalised(table[:, -MOST_COLUMNS:].astype(np.float64))
    truth = slopes(np.cov(whole.T))
    columns = [0] if missing_in == ONE else list(range(whole.shape[1] - 1))
    mu = None if epsilon is None else gaussian_mu(epsilon, DELTA)
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for draw in range(draws):
        generator = np.random.default_rng(draw)
        rows = whole[generator.integers(0, len(whole), CLIENTS)]
        for column in columns:
            rows[generator.random(CLIENTS) < MISSING, column] = np.nan
        for way, released_by in WAYS.items():
            off = np.abs(slopes(released_by(rows, columns, mu, generator)) - truth)
            found[way].append(float(np.median(off)))
    return [spread(each) for each in found.values()]


def comparison(tables: dict[str, FloatArray], draws: int = DRAWS) -> Shown:
    """Return a line for each table, what is missing, and epsilon."""
    rows: list[tuple[Cell, ...]] = []
    best = dict.fromkeys([(words, way) for words in (ONE, EVERY) for way in WAYS], 0)
    for name, table in tables.items():
        for words in (ONE, EVERY):
            for epsilon in EPSILONS:
                found = errors(table, words, epsilon, draws)
                least = min(range(len(WAYS)), key=lambda at: found[at].median)
                best[words, tuple(WAYS)[least]] += 1
                rows.append((name, words, "no noise" if epsilon is None else f"{epsilon:g}", *found))
    counts = ". ".join(
        f"Where {words} has gaps " + ", ".join(f"{way} on {best[words, way]}" for way in WAYS) for words in (ONE, EVERY)
    )
    note = (
        f"Median error of a slope, in deviations of the columns: the median of {draws} draws, with the 10 % and 90 % "
        f"points. The least error of a line. {counts}."
    )
    return Shown(
        "missing", "A fifth of the numbers is missing", ("table", "missing in", "epsilon", *WAYS), tuple(rows), note
    )


def main() -> None:
    """Print the median errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .npz tables with X and y")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--write", action="store_true", help="put the table into the page that shows it")
    asked = parser.parse_args()
    tables = all_tables([asked.data] if asked.data else list(FOLDERS))
    shown = comparison({name: tables[name] for name in TABLES if name in tables}, asked.draws)
    print(f"{shown.markdown()}\n\n{shown.note}")
    if asked.write:
        write(shown)


if __name__ == "__main__":
    main()
