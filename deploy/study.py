"""What the demonstration asks: the columns with their public bounds, the two tasks, and the analyses.

The settings were chosen with the flights at hand, which are public: centres and scales are rounded from their means and
deviations, and scales, row bound, sketch rows, features and the number of flights were picked from well over a
hundred combinations simulated on these very rows (docs/benchmarks.md#the-demonstration). So the epsilon of the
releases is true, but it does not cover this choice, and the accuracy is that of a well-tuned collection. In earnest
all of it must come from elsewhere.

The delays, which the question is about, have the finer units: a row's norm is what its privacy costs, so units say
what the budget is spent on.
"""

import math
from typing import Any

from lintra_analysis.releases.columns import ScaledColumn

EPSILON, DELTA = 1.0, 1e-6
ROW_BOUND = 2.0
SKETCH_ROWS = 150
RANK, REGULARIZATION = 3, 1.0
TARGET = "arr_delay"
# The other columns say these things once more: hour and minute spell the scheduled departure, and both actual times
# are the scheduled ones plus a delay.
FEATURES = ("month", "day", "sched_dep_time", "dep_delay", "sched_arr_time", "air_time", "distance")
# The smallest part of the clients that the claim must hold for: some may fail to report.
QUORUM = 0.95

# name, lower bound, upper bound, centre, scale, unit
_COLUMNS = [
    ("month", 1, 12, 6.5, 6, ""),
    ("day", 1, 31, 16, 15, ""),
    ("dep_time", 0, 2400, 1350, 900, "hhmm"),
    ("sched_dep_time", 0, 2400, 1350, 900, "hhmm"),
    ("dep_delay", -120, 1440, 10, 40, "min"),
    ("arr_time", 0, 2400, 1500, 900, "hhmm"),
    ("sched_arr_time", 0, 2400, 1500, 900, "hhmm"),
    ("air_time", 0, 900, 150, 180, "min"),
    ("distance", 0, 6000, 1000, 1300, "miles"),
    ("hour", 0, 24, 13, 9, "h"),
    ("minute", 0, 59, 30, 35, "min"),
    ("arr_delay", -120, 1440, 5, 40, "min"),
]


def columns() -> tuple[ScaledColumn, ...]:
    """Return the columns as the estimators know them."""
    return tuple(
        ScaledColumn(
            name=name, center=float(center), scale=float(scale), lower=float(lower), upper=float(upper), unit=unit
        )
        for name, lower, upper, center, scale, unit in _COLUMNS
    )


def specifications(num_rows: int) -> list[dict[str, Any]]:
    """Return the two tasks, ready for `POST /v1/tasks`: the sketch, and the second moments at the same price."""
    mechanisms = [{"kind": "osnap", "rows": SKETCH_ROWS}, {"kind": "second_moment"}]
    return [
        {
            "purpose": f"Demonstration: what explains the arrival delay of a flight ({mechanism['kind']})",
            "columns": [
                {"name": name, "lower": lower, "upper": upper, "center": center, "scale": scale, "unit": unit}
                for name, lower, upper, center, scale, unit in _COLUMNS
            ],
            "mechanism": mechanism,
            "row_bound": ROW_BOUND,
            "epsilon": EPSILON,
            "delta": DELTA,
            "min_clients": math.floor(QUORUM * num_rows),
            "max_clients": num_rows,
        }
        for mechanism in mechanisms
    ]


def analyses() -> list[dict[str, Any]]:
    """Return what is asked of either release, ready for `POST /v1/releases/{id}/analyses`."""
    return [
        {"kind": "ridge", "target": TARGET, "features": list(FEATURES), "regularization": REGULARIZATION},
        {"kind": "low-rank", "rank": RANK},
    ]
