"""Coverage of the bootstrap's intervals, in a setting that played no part in choosing their construction.

    python benchmarks/bench_bootstrap.py [--runs 300]

A trusted curator's releases of 3,000 people with 8 columns and a numeric label, epsilon 2, delta 1e-6. Prints how often
the 95 % interval of a slope covers the truth, for the bootstrap and for a regression that takes rows for data.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from lintra_analysis.planning.ron_gauss import JointQuestion
from lintra_analysis.synthetic.bootstrap import bootstrap
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import fit
from lintra_analysis.synthetic.rows import SyntheticRows
from lintra_curator.promise.claim import curator_claim
from lintra_curator.ron_gauss.ron_gauss import mapped_column, release_ron_gauss
from lintra_protocol.randomness import expand
from lintra_protocol.ring import FloatArray

PEOPLE, COLUMNS = 3000, 8
SLOPES = np.array([0.3, -0.2, 0.0, 0.15, 0.1, -0.1, 0.05, 0.0])
SEED = 2077


def people(run: int) -> FloatArray:
    """Return rows of 8 correlated columns and a label; all stay far inside [-1, 1]."""
    rng = np.random.default_rng([SEED, run])
    shared = rng.normal(0, 0.15, (PEOPLE, 1))
    features = shared + rng.normal(0, 0.25, (PEOPLE, COLUMNS))
    label = features @ SLOPES + rng.normal(0, 0.2, PEOPLE)
    return np.clip(np.column_stack([features, label]), -1, 1)


def regression(rows: SyntheticRows) -> tuple[float, float]:
    """Return the first slope, and its standard error if the rows were data."""
    design = np.stack([rows.columns[f"h{i + 1}"] for i in range(COLUMNS)] + [np.ones(len(rows))], axis=1)
    label = np.asarray(rows.columns["label"], np.float64)
    coef = np.linalg.lstsq(design, label, rcond=None)[0]
    variance = np.square(label - design @ coef).sum() / (len(rows) - COLUMNS - 1)
    return float(coef[0]), float(np.sqrt(variance * np.linalg.inv(design.T @ design)[0, 0]))


def slope(rows: SyntheticRows) -> float:
    """Return the first slope."""
    return regression(rows)[0]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the two coverages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=300)
    runs = parser.parse_args(arguments).runs
    columns = [mapped_column(f"x{number}", -1, 1) for number in range(COLUMNS)] + [mapped_column("label", -1, 1)]
    question = JointQuestion(label="label", dimension=COLUMNS, bins=0)
    covered, naive, width = [], [], []
    for run in range(runs):
        words = expand(bytes([7]) * 32, f"coverage {SEED} {run}")
        release = release_ron_gauss(people(run), columns, curator_claim(2.0, 1e-6), words, question=question)
        model = fit(release)
        low, high = bootstrap(model, slope, num_rows=300, seed=run, runs=100, space="projected").interval[0]
        covered.append(low <= SLOPES[0] <= high)
        found, error = regression(synthesize(model, PEOPLE, run, "projected"))
        naive.append(abs(found - SLOPES[0]) <= 1.96 * error)
        width.append((high - low) / 2)
    chance = float(np.sqrt(0.95 * 0.05 / runs))
    print(f"{runs} releases, epsilon 2, {PEOPLE} people, p = {COLUMNS}: 95 % intervals of a slope cover")
    print(f"bootstrap {np.mean(covered):.3f} (chance alone: .950 +- {chance:.3f}), half width {np.median(width):.3f}")
    print(f"rows taken for data {np.mean(naive):.3f}")


if __name__ == "__main__":
    main()
