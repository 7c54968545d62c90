"""The race against what people would use instead: regression, components, exact noise, proofs.

    make bench-peers                                                       # sets the peers' environment up, and runs
    python benchmarks/bench_peers.py --only race-noise race-proofs         # without it
    python benchmarks/bench_peers.py --peers peers/bin/python --runs 20    # with it
    python benchmarks/bench_peers.py --only race-counts --peers peers/bin/python --race boston wage1

The race of regressions (docs/explanation/race.md) takes half an hour: `--race` runs the cells of some tables, or of
all, that are not kept in benchmarks/data/race.jsonl; its tables are made of what is kept.
Synthetic rows against MST and AIM have a program of their own, `bench_synthetic_race.py`. A table of a service's
throughput beside that of Janus is missing: its makers publish no figure with a machine beside it that we could find,
neither in its documents nor in its issues (divviup/janus 224 and 2868).
"""

from collections.abc import Callable
from pathlib import Path

from peers import components, costs, race
from showing import Shown, parser, runs_of, show


def main() -> None:
    """Show what is asked for."""
    options = parser(__doc__, 5, 20)
    options.add_argument("--peers", help="the Python of an environment with diffprivlib and opendp[scikit-learn]")
    options.add_argument("--race", nargs="*", choices=race.ALL, help="tables to race on; all if none is named")
    options.add_argument("--tables", type=Path, default=race.PREPARED, help="where public_tables.py wrote them")
    asked = options.parse_args()
    if asked.race is not None:
        if asked.peers is None:
            options.error("--race needs --peers, so that nobody is left out")
        race.run(asked.peers, asked.tables, asked.race or race.ALL, race.RUNS)
    show(parts(runs_of(asked), asked.peers), asked)


def parts(runs: int, python: str | None) -> dict[str, Callable[[], Shown]]:
    """Return every table by name; without the peers' Python their columns of components stay empty."""
    return {
        **race.shown(),
        "race-components": lambda: components.race(runs, python),
        "race-noise": lambda: costs.noise(runs),
        "race-proofs": costs.proofs,
    }


if __name__ == "__main__":
    main()
