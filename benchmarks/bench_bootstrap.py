"""Coverage of the bootstrap's intervals, in a setting that played no part in choosing their construction.

    python benchmarks/bench_bootstrap.py [--runs 300] [--json] [--write]

A trusted curator's releases of 3,000 people with 8 columns and a numeric label, epsilon 2, delta 1e-6. Shows how often
the 95 % interval of a slope covers the truth, for the bootstrap and for a regression that takes rows for data; the
second also for other numbers of people at epsilon 1, with a third of the runs. The table stands on
docs/how-to/synthetic.md.
"""

import numpy as np
from showing import Cell, Shown, parser, runs_of, show

from lintra_analysis.kinds.joint_question import JointQuestion
from lintra_analysis.synthetic.bootstrap import bootstrap
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import GaussianModel, fit
from lintra_analysis.synthetic.rows import SyntheticRows
from lintra_curator.claims.claim import curator_claim
from lintra_curator.ron_gauss.ron_gauss import mapped_column, release_ron_gauss
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray

PEOPLE, COLUMNS = 3000, 8
COHORTS = (1000, 10_000, 100_000)
"""People at epsilon 1, whose rows are taken for data."""
SLOPES = np.array([0.3, -0.2, 0.0, 0.15, 0.1, -0.1, 0.05, 0.0])
SEED = 2077


def people(run: int, count: int = PEOPLE) -> FloatArray:
    """Return rows of 8 correlated columns and a label; all stay far inside [-1, 1]."""
    rng = np.random.default_rng([SEED, run])
    shared = rng.normal(0, 0.15, (count, 1))
    features = shared + rng.normal(0, 0.25, (count, COLUMNS))
    label = features @ SLOPES + rng.normal(0, 0.2, count)
    rows: FloatArray = np.clip(np.column_stack([features, label]), -1, 1)
    return rows


def regression(rows: SyntheticRows) -> tuple[float, float]:
    """Return the first slope, and its standard error if the rows were data."""
    held = [np.asarray(rows.columns[f"h{i + 1}"], np.float64) for i in range(COLUMNS)]
    design = np.stack([*held, np.ones(len(rows))], axis=1)
    label = np.asarray(rows.columns["label"], np.float64)
    coef = np.linalg.lstsq(design, label, rcond=None)[0]
    variance = np.square(label - design @ coef).sum() / (len(rows) - COLUMNS - 1)
    return float(coef[0]), float(np.sqrt(variance * np.linalg.inv(design.T @ design)[0, 0]))


def slope(rows: SyntheticRows) -> float:
    """Return the first slope."""
    return regression(rows)[0]


def model_of(run: int, epsilon: float, count: int) -> GaussianModel:
    """Return the model of a release."""
    columns = [mapped_column(f"x{number}", -1, 1) for number in range(COLUMNS)] + [mapped_column("label", -1, 1)]
    question = JointQuestion(label="label", dimension=COLUMNS, bins=0)
    words = expand(bytes([7]) * 32, f"coverage {SEED} {run}")
    return fit(release_ron_gauss(people(run, count), columns, curator_claim(epsilon, 1e-6), words, question=question))


def taken_for_data(model: GaussianModel, run: int, count: int) -> bool:
    """Return whether the interval of a regression covers that takes rows for data."""
    found, error = regression(synthesize(model, count, run, "projected"))
    return bool(abs(found - SLOPES[0]) <= 1.96 * error)


def table(runs: int) -> Shown:
    """Return coverages."""
    covered, naive, width = [], [], []
    for run in range(runs):
        model = model_of(run, 2.0, PEOPLE)
        low, high = bootstrap(model, slope, num_rows=300, seed=run, runs=100, space="projected").interval[0]
        covered.append(low <= SLOPES[0] <= high)
        naive.append(taken_for_data(model, run, PEOPLE))
        width.append((high - low) / 2)
    lines: list[tuple[Cell, ...]] = [
        ("bootstrap", f"{PEOPLE:,}", "2", runs, f"{np.mean(covered):.3f}"),
        ("rows taken for data", f"{PEOPLE:,}", "2", runs, f"{np.mean(naive):.3f}"),
    ]
    fewer = max(runs // 3, 1)
    for count in COHORTS:
        held = [taken_for_data(model_of(run, 1.0, count), run, count) for run in range(fewer)]
        lines.append(("rows taken for data", f"{count:,}", "1", fewer, f"{np.mean(held):.2f}"))
    chance = float(np.sqrt(0.95 * 0.05 / runs))
    return Shown(
        "bootstrap",
        "How many 95 % intervals of a slope cover the truth",
        ("intervals", "people", "epsilon", "releases", "covering"),
        tuple(lines),
        f"p = {COLUMNS}. In {runs} releases chance alone gives .950 +- {chance:.3f}. The bootstrap's intervals have a "
        f"half width of {np.median(width):.3f} in the median.",
    )


def main() -> None:
    """Show them."""
    asked = parser(__doc__, 300, 1000).parse_args()
    show({"bootstrap": lambda: table(runs_of(asked))}, asked)


if __name__ == "__main__":
    main()
