"""The experiments of "Distributed differentially private data analytics via secure sketching" (2025), run again.

    python benchmarks/bench_secure_sketching.py                    # small: a minute
    python benchmarks/bench_secure_sketching.py --full --output DIR
    python benchmarks/bench_secure_sketching.py --only table-2 --json

Figures 2 to 5 and Tables 2, 3, 4, 6 and 7 on the paper's axes; as its authors ran them, and as the mechanisms would be:
equation (4), our sketch, second moments, the wide mechanism, a curator, every client alone. `described-...` are the
experiments as the text describes them, with its baselines MOD-SULQ and SSP. Which caption belongs to
which of them is inferred from the text. Everything statistical has its spread over runs.
"""

from collections.abc import Callable

from secure_sketching import cost, described, end_to_end, figures, tables
from showing import Shown, parser, runs_of, show


def main() -> None:
    """Show what is asked for."""
    asked = parser(__doc__, 20, 20).parse_args()
    show(parts(asked.full, runs_of(asked)), asked)


def parts(full: bool, runs: int) -> dict[str, Callable[[], Shown]]:
    """Return every table and figure by name."""
    return {
        "noise-as-run": tables.constants,
        "lemma-4-1": lambda: tables.lemma_4_1(runs),
        "theorems-4": lambda: tables.theorems(runs, full),
        **figures.parts(full, runs),
        **described.parts(full, runs),
        "table-2": lambda: tables.real_rows("table-2", runs, low_rank=True),
        "table-3": lambda: tables.real_rows("table-3", runs, low_rank=False),
        "table-4": lambda: cost.by_clients("table-4", 3, full, min(runs, 5)),
        "table-6": lambda: cost.by_sparsity(full, min(runs, 5)),
        **({"end-to-end": lambda: end_to_end.table_of_services(max(runs, 20))} if full else {}),
        "table-7": lambda: cost.by_clients("table-7", 2, full, min(runs, 5)),
    }


if __name__ == "__main__":
    main()
