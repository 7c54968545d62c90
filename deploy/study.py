"""What the demonstration asks: the columns with their public bounds, the two tasks, and the analyses.

Everything here follows from rules that were stated beforehand and from public knowledge: `choose.py` has the rules,
and prints centres, scales and row bound from flights that the demonstration does not show. No answer was looked at.
"""

import math
from typing import Any

from lintra_analysis.releases.columns import ScaledColumn

EPSILON, DELTA = 1.0, 1e-6
ROWS = 200_000
"""Flights that take part, each as a client of its own; the other 127,346 are the earlier collection."""

ROW_BOUND = 7.83
RANK, REGULARIZATION = 3, 1.0
TARGET = "arr_delay"
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
    "month": (6.6, 3.4, ""),
    "day": (16.0, 8.8, ""),
    "dep_time": (1400.0, 490.0, "hhmm"),
    "sched_dep_time": (1300.0, 470.0, "hhmm"),
    "dep_delay": (13.0, 40.0, "min"),
    "arr_time": (1500.0, 530.0, "hhmm"),
    "sched_arr_time": (1500.0, 500.0, "hhmm"),
    "air_time": (150.0, 94.0, "min"),
    "distance": (1000.0, 740.0, "miles"),
    "hour": (13.0, 4.7, "h"),
    "minute": (26.0, 19.0, "min"),
    "arr_delay": (6.9, 45.0, "min"),
}
"""Centre, scale and unit of every column: mean and one deviation of earlier flights, to two digits."""

FEATURES = tuple(name for name in BOUNDS if name != TARGET)
"""All eleven others. Some say a thing twice: hour and minute spell the scheduled departure."""


def columns() -> tuple[ScaledColumn, ...]:
    """Return the columns as the estimators know them."""
    return tuple(
        ScaledColumn(name=name, center=center, scale=scale, lower=float(lower), upper=float(upper), unit=unit)
        for (name, (lower, upper)), (center, scale, unit) in zip(BOUNDS.items(), UNITS.values(), strict=True)
    )


def specifications(num_rows: int) -> list[dict[str, Any]]:
    """Return the two tasks, ready for `POST /v1/tasks`: the sketch, and the second moments at the same price."""
    mechanisms = [{"kind": "osnap"}, {"kind": "second_moment"}]
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
            # Reports are verified; as many as may be rejected may also just be missing.
            "max_rejected": round(1 - QUORUM, 4),
        }
        for mechanism in mechanisms
    ]


def analyses() -> list[dict[str, Any]]:
    """Return what is asked of either release, ready for `POST /v1/releases/{id}/analyses`."""
    return [
        {"kind": "regression", "target": TARGET, "features": list(FEATURES), "regularization": REGULARIZATION},
        {"kind": "pca", "components": RANK, "about": "centers"},
    ]
