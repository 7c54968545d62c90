"""The race against what people would use instead: regression, components, exact noise, proofs.

    make bench-peers                                                       # sets the peers' environment up, and runs
    python benchmarks/bench_peers.py --only race-noise race-proofs         # without it
    python benchmarks/bench_peers.py --peers peers/bin/python --runs 20    # with it

Synthetic rows against MST and AIM have a program of their own, `bench_synthetic_race.py`. A table of a service's
throughput beside that of Janus is missing: its makers publish no figure with a machine beside it that we could find,
neither in its documents nor in its issues (divviup/janus 224 and 2868).
"""

from collections.abc import Callable

from peers import costs, statistics
from showing import Shown, parser, runs_of, show


def main() -> None:
    """Show what is asked for."""
    options = parser(__doc__, 5, 20)
    options.add_argument("--peers", help="the Python of an environment with diffprivlib and opendp[scikit-learn]")
    asked = options.parse_args()
    show(parts(runs_of(asked), asked.peers), asked)


def parts(runs: int, python: str | None) -> dict[str, Callable[[], Shown]]:
    """Return every table by name; without the peers' Python their columns stay empty."""
    raced: list[tuple[Shown, Shown]] = []

    def race(which: int) -> Shown:
        if not raced:
            raced.append(statistics.race(runs, python))
        return raced[0][which]

    return {
        "race-regression": lambda: race(0),
        "race-components": lambda: race(1),
        "race-noise": lambda: costs.noise(runs),
        "race-proofs": costs.proofs,
    }


if __name__ == "__main__":
    main()
