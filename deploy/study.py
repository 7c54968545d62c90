"""What the demonstration asks: the columns with their public bounds, the two tasks, and the analyses.

Centres, scales, row bound and sketch rows were chosen by the rule of `choose.py`, on 100,000 flights that the
demonstration does not show; bounds and features come from what the columns mean. In earnest such numbers come from
an earlier collection, from public figures or from a pilot.
"""

import math
from typing import Any

from lintra_analysis.releases.columns import ScaledColumn

EPSILON, DELTA = 1.0, 1e-6
ROW_BOUND = 2.0
SKETCH_ROWS = 75
RANK, REGULARIZATION = 3, 1.0
TARGET = "arr_delay"
# The other columns say these things once more: hour and minute spell the scheduled departure, and both actual times
# are the scheduled ones plus a delay.
FEATURES = ("month", "day", "sched_dep_time", "dep_delay", "sched_arr_time", "air_time", "distance")
# The smallest part of the clients that the claim must hold for: some may fail to report.
QUORUM = 0.95

BOUNDS = {
    "month": (1, 12),
    "day": (1, 31),
    "dep_time": (0, 2400),
    "sched_dep_time": (0, 2400),
    "dep_delay": (-120, 1440),
    "arr_time": (0, 2400),
    "sched_arr_time": (0, 2400),
    "air_time": (0, 900),
    "distance": (0, 6000),
    "hour": (0, 24),
    "minute": (0, 59),
    "arr_delay": (-120, 1440),
}
"""Of every column, known beforehand: what the calendar, the clock and the range of aircraft allow."""

UNITS = {
    "month": (6.6, 6.8, ""),
    "day": (16.0, 18.0, ""),
    "dep_time": (1300.0, 980.0, "hhmm"),
    "sched_dep_time": (1300.0, 940.0, "hhmm"),
    "dep_delay": (13.0, 40.0, "min"),
    "arr_time": (1500.0, 1100.0, "hhmm"),
    "sched_arr_time": (1500.0, 1000.0, "hhmm"),
    "air_time": (150.0, 190.0, "min"),
    "distance": (1000.0, 1500.0, "miles"),
    "hour": (13.0, 9.3, "h"),
    "minute": (26.0, 39.0, "min"),
    "arr_delay": (6.9, 44.0, "min"),
}
"""Centre, scale and unit of every column: mean and twice the deviation of other flights, to two digits.

The delays, which the question is about, have the finer units, one deviation: a row's norm is what its privacy costs,
so units say what the budget is spent on.
"""


def columns() -> tuple[ScaledColumn, ...]:
    """Return the columns as the estimators know them."""
    return tuple(
        ScaledColumn(name=name, center=center, scale=scale, lower=float(lower), upper=float(upper), unit=unit)
        for (name, (lower, upper)), (center, scale, unit) in zip(BOUNDS.items(), UNITS.values(), strict=True)
    )


def specifications(num_rows: int) -> list[dict[str, Any]]:
    """Return the two tasks, ready for `POST /v1/tasks`: the sketch, and the second moments at the same price."""
    mechanisms = [{"kind": "osnap", "rows": SKETCH_ROWS}, {"kind": "second_moment"}]
    return [
        {
            "purpose": f"Demonstration: what explains the arrival delay of a flight ({mechanism['kind']})",
            "columns": [
                {"name": name, "lower": lower, "upper": upper, "center": center, "scale": scale, "unit": unit}
                for (name, (lower, upper)), (center, scale, unit) in zip(BOUNDS.items(), UNITS.values(), strict=True)
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
