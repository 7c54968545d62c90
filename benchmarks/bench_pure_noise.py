"""Pure epsilon against Gaussian noise: what a word of a sum, and a cell of a histogram, carries by the columns.

    python benchmarks/bench_pure_noise.py [--write]

Both are calibrated by the services' own plans for the same claim; the deviations follow from the noise, and are not
measured. Nothing is drawn.
"""

from showing import Cell, Shown, parser, show

from lintra_analysis.plan.flags import PlanFlags

CLIENTS, COLUMNS = 10_000, (1, 2, 3, 5, 10, 20, 50)
DELTAS = ("0.000001", "0.000000001")


def deviations(kind: str, columns: int, epsilon: str, delta: str) -> dict[str, float]:
    """Return what a plan predicts of a kind, by part."""
    flags = PlanFlags(columns=columns, clients=CLIENTS, epsilon=epsilon, delta=delta, bins=20, noise="clients")
    return flags.planned(kind).deviations


def table(epsilon: str) -> Shown:
    """Return the ratio of the deviations of Laplace noise and of Gaussian noise, by the number of columns."""
    rows: list[tuple[Cell, ...]] = []
    for columns in COLUMNS:
        ratios = []
        for kind, part in (("sum", "sum"), ("histogram", "cell")):
            pure = deviations(f"{kind}_laplace", columns, epsilon, DELTAS[0])[part]
            ratios += [pure / deviations(kind, columns, epsilon, delta)[part] for delta in DELTAS]
        rows.append((str(columns), *(f"{ratio:.2f}" for ratio in ratios)))
    return Shown(
        "pure-noise" if epsilon == "1" else f"pure-noise-{epsilon}",
        f"Deviation of Laplace noise over that of Gaussian noise at epsilon {epsilon}, {CLIENTS:,} clients",
        ("columns", "sum, delta 1e-6", "sum, delta 1e-9", "cell, delta 1e-6", "cell, delta 1e-9"),
        tuple(rows),
        "Mathematics: nothing is drawn. Below 1 pure epsilon has the less noise, although it promises more. Sums of "
        "several columns are clipped to a ball, whose L1 distance grows with the root of the columns. Cells move two "
        "words of each column, so that their noise grows with the columns, and Gaussian noise with the root of them.",
    )


def main() -> None:
    """Show both tables."""
    shown = {f"pure-noise{name}": lambda e=epsilon: table(e) for name, epsilon in (("", "1"), ("-0.1", "0.1"))}
    show(shown, parser(__doc__, 1, 1).parse_args())


if __name__ == "__main__":
    main()
