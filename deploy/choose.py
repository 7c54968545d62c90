"""The demonstration's settings: rules stated before any result was looked at, and nothing tuned.

200,000 of the 327,346 flights are the clients, by a public permutation: as many as report twice in well under four
minutes on two cores. The 127,346 others are public knowledge beforehand, as an earlier collection would be; of them
only means and deviations are used, never a regression.

1. Columns: all twelve of the file; `arr_delay` is explained by all eleven others.
2. Bounds: what the calendar, the clock and the range of aircraft allow.
3. Centre and scale: mean and one deviation of the earlier flights, to two digits.
4. Row bound: the rule of `lintra plan --propose` and `lintra trial`, B^2 = sum m + 2 sum s with mean and deviation of
   the squared normalised columns of the earlier flights (lintra_analysis.trial.files.bounds).
5. Rows of the sketch: left open, so that the task takes as many as its claim supports (lintra_analysis.kinds.osnap).
6. Epsilon 1 at delta 1e-6 for each task; 95 % of the clients must report; ridge 1, three directions.

An earlier version had chosen scales, row bound, sketch rows and features by the accuracy of simulated answers. Here no
target enters. The command prints what `study.py` holds (tests/unit/deploy/test_study.py runs it again).

    python deploy/choose.py
"""

import math

import numpy as np
from flights import NAMES, load_flights
from study import BOUNDS, DELTA, EPSILON, QUORUM, ROWS

from lintra_analysis.plan.flags import PlanFlags
from lintra_analysis.trial.files.bounds import ColumnSpread, row_bound_of
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import real
from lintra_protocol.fields.schema import Column

FLIGHTS = 327_346


def earlier_flights() -> FloatArray:
    """Return the flights that the demonstration does not show, shape `(127346, 12)`."""
    return load_flights(FLIGHTS)[0][ROWS:]


def units(rows: FloatArray) -> dict[str, tuple[float, float]]:
    """Return centre and scale of every column: mean and deviation of earlier flights, to two digits."""
    return {
        name: (float(f"{rows[:, index].mean():.2g}"), float(f"{rows[:, index].std():.2g}"))
        for index, name in enumerate(NAMES)
    }


def row_bound(rows: FloatArray) -> float:
    """Return the row bound that the rule gives for earlier flights in these units."""
    found = units(rows)
    columns = [
        Column(
            name=name, lower=real(BOUNDS[name][0]), upper=real(BOUNDS[name][1]), center=real(center), scale=real(scale)
        )
        for name, (center, scale) in found.items()
    ]
    center, scale = np.array(list(found.values())).T
    squares = np.square((rows - center) / scale)
    means, deviations = squares.mean(axis=0).tolist(), squares.std(axis=0).tolist()
    return float(row_bound_of(columns, [ColumnSpread(*pair) for pair in zip(means, deviations, strict=True)]).row_bound)


def planned_noise(kind: str, bound: float, num_rows: int, sketch_rows: int | None = None) -> float:
    """Return the deviation of the noise in an entry of a release, as the task will have it, coalitions included."""
    fewest = math.floor(QUORUM * num_rows)
    flags = PlanFlags(
        columns=len(NAMES),
        clients=fewest,
        epsilon=real(EPSILON),
        delta=real(DELTA),
        max_clients=num_rows,
        rows=sketch_rows,
        row_bound=real(bound),
    )
    return float(flags.planned(kind).deviations["entry" if kind == "osnap" else "product"])


def main() -> None:
    """Print the units and the row bound."""
    rows = earlier_flights()
    for name, unit in units(rows).items():
        print(name, *unit)
    print("row bound", row_bound(rows))


if __name__ == "__main__":
    main()
