"""What the demonstration's answers are worth, simulated at its settings outside the services, with their spread.

    python benchmarks/bench_demo.py [--write]

`make demo` runs the same settings through real servers once; what one run shows is one draw of these. Settings are
those of deploy/study.py, which follow from rules stated beforehand (deploy/choose.py).
"""

import sys
from collections.abc import Callable
from pathlib import Path

from showing import Shown, Spread, parser, runs_of, show

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "deploy"))

import yardsticks
from choose import planned_noise
from flights import load_flights
from study import DELTA, EPSILON, FEATURES, QUORUM, RANK, REGULARIZATION, ROW_BOUND, ROWS, TARGET, columns

from lintra_analysis.kinds.coalition import usual_claim
from lintra_analysis.kinds.osnap import default_rows
from lintra_protocol.encoding.documents import real


def demonstration(draws: int) -> Shown:
    """Return R2 of every answer, over simulated runs."""
    problem = yardsticks.Problem(columns(), TARGET, FEATURES, REGULARIZATION, RANK)
    truth = yardsticks.Truth(load_flights(ROWS)[0], problem)
    claim = usual_claim(epsilon=real(EPSILON), delta=real(DELTA), min_clients=int(QUORUM * ROWS), is_sketch=True)
    rows = default_rows(claim, len(columns()))
    setting = yardsticks.Setting(ROW_BOUND, EPSILON, DELTA, rows)

    def nobody(kind: str) -> Spread:
        return _cell(yardsticks.simulated(truth, kind, setting, planned_noise(kind, ROW_BOUND, ROWS, rows), draws))

    return Shown(
        "demonstration",
        f"R2 of {ROWS:,} flights, simulated at the demonstration's settings",
        ("what the analyst gets", "a curator sees rows", "nobody does"),
        (
            ("rows, no privacy", yardsticks.non_private(truth)[0], None),
            (
                "second moments",
                _cell(yardsticks.trusted_curator(truth, "second_moment", setting, draws)),
                nobody("second_moment"),
            ),
            (
                f"sketch of {rows} rows",
                _cell(yardsticks.trusted_curator(truth, "osnap", setting, draws)),
                nobody("osnap"),
            ),
            ("products, each client for itself", None, _cell(yardsticks.local_products(truth, setting, draws))),
            ("rows, each client for itself", None, _cell(yardsticks.local_rows(truth, setting))),
        ),
        f"Epsilon {EPSILON:g}, delta {DELTA:g}, row bound {ROW_BOUND}: medians of {draws} runs (last line "
        f"{yardsticks.LONG_DRAWS}) with their 10 % and 90 % points, on the raw rows.",
    )


def _cell(found: yardsticks.Spread) -> Spread:
    return Spread(found.median, found.low, found.high, found.draws)


def parts(draws: int) -> dict[str, Callable[[], Shown]]:
    """Return the only table."""
    return {"demonstration": lambda: demonstration(draws)}


def main() -> None:
    """Show it."""
    asked = parser(__doc__, 100, 400).parse_args()
    show(parts(runs_of(asked)), asked)


if __name__ == "__main__":
    main()
