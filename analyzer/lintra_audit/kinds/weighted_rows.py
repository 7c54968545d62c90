"""The audits of rows with weights, for `second_moment`: cases, the farthest rows, and mistakes to plant."""

from functools import partial
from math import isqrt
from typing import cast

import numpy as np

from lintra_audit.kinds.kind_audit import Planted
from lintra_audit.trials.audit_case import Case, make_case_task
from lintra_audit.trials.neighbours import HOSTILE, Pair, hostile_rows, step_below
from lintra_audit.trials.planted_faults import only_for
from lintra_audit.trials.scaled_task import MAX_CLIENTS, twin_of
from lintra_audit.trials.simulated_release import exact_reports
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.layout import CLIPPED
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.second_moment import SecondMoment
from lintra_protocol.noise.clipping import column_norms, dither, shrink_factors
from lintra_protocol.task import Task

FEATURES_CASE, ALL_CASE, NULL_CASE = (f"second-moment-weights-{name}" for name in ("features", "all", "null"))

# The constant is a whole number of steps on every grid in use, so that a row at the centre is never rounded.
_BY_FEATURES = SecondMoment(
    row_bound="1",
    fraction_bits=0,
    sigma=4,
    intercept="0.6875",
    trace=True,
    clip_count_weight="0.5",
    rounding="dithered",
    row_weights="features",
    target=1,
    target_bound="1",
)
_BY_ALL = SecondMoment(
    row_bound="1", fraction_bits=0, sigma=4, intercept="0.6875", trace=True, rounding="dithered", row_weights="all"
)
_NULL = _BY_ALL.model_copy(update={"trace": False, "count": "noisy"})


def cases() -> list[Case]:
    """Return weights by the features, with a clip counter, and by all, also against a row that is left out."""
    given = partial(make_case_task, num_columns=2, min_clients=10, max_corrupt_clients=1)
    features, everything = partial(given, _BY_FEATURES), partial(given, _BY_ALL)
    null = partial(given, _NULL, neighbours="zero-out")
    return [
        Case(FEATURES_CASE, "weights by features, trace and clip counter, n = 10, d = 2, t = 1", features, 10),
        Case(ALL_CASE, "weights by all and trace, n = 10, d = 2, t = 1", everything, 10),
        Case(NULL_CASE, "weights by all, a row against one that is left out, n = 10, d = 2, t = 1", null, 10),
    ]


def farthest(task: Task) -> Pair:
    """Return rows whose vectors are as long as may be and at a right angle, one of them with an unclipped target.

    Under "features" both have features as far out as they may be without counting less, since the target would shrink
    with them, and targets of opposite signs at and beyond their bound. Under "all" each is far out along a column of
    its own, and of one column to either side.
    """
    mechanism = cast("SecondMoment", task.mechanism)
    bound, pair = float(mechanism.row_bound), np.zeros((2, task.num_columns))
    far = bound * HOSTILE
    if mechanism.row_weights == "features" and mechanism.target is not None:
        feature = int(mechanism.target == 0) % task.num_columns
        pair[:, feature] = max(bound**2 / 2 - float(mechanism.intercept) ** 2, 0.0) ** 0.5
        pair[:, mechanism.target] = float(mechanism.target_bound), -far
    else:
        pair[0, 0], pair[1, -1] = -far, far
    return pair[0], pair[1]


def nearest(task: Task) -> Pair:
    """Return rows that differ by one step, and of which neither is so long that it counts less."""
    return step_below(task, isqrt(task.mechanism.squared_bound) // 8)


def hostile(mechanism: SecondMoment, num_columns: int) -> FloatArray:
    """Return rows that try to leave the ball, and one at the centre, which is nothing but its constant; `(k, d)`."""
    return np.concatenate([hostile_rows(mechanism, num_columns), np.zeros((1, num_columns))])


def twin(task: Task) -> Task:
    """Return a task of two columns, the second of them the target if there is one, with the task's mu."""
    first = cast("SecondMoment", task.mechanism)
    columns = task.encoded_columns[: min(task.num_columns, 2)]
    target = None if first.target is None else len(columns) - 1
    clients = min(task.claim.min_clients, MAX_CLIENTS)
    return twin_of(task, first.model_copy(update={"target": target}), clients, columns)


# --- mistakes ---------------------------------------------------------------------------------------------------


def _constant_outside(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with the trace of the columns alone, as it is where a constant stands outside the ball."""
    runs, clients, columns = rows.shape
    exact = exact_reports(measurement, rows.reshape(-1, columns), random_bytes)
    exact[:, measurement.layout.sent("trace")] -= exact[:, :1]
    return (exact + measurement.noise(len(exact), random_bytes)).reshape(runs, clients, -1)


def _dithered_late(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode vectors that are shrunk to the bound itself, and dithered after the check."""
    runs, clients, columns = rows.shape
    mechanism, flat = cast("SecondMoment", measurement.mechanism), rows.reshape(-1, columns)
    # What hostile rows make of infinite squares is no part of this mistake.
    vectors = mechanism.weights(columns).vectors(np.clip(flat, -1e100, 1e100))
    factors = shrink_factors(column_norms(vectors), mechanism.squared_bound**0.5)
    steps = dither(vectors * factors[:, np.newaxis], random_bytes)
    words = dict(mechanism.fill(steps, measurement.setting))
    if CLIPPED in measurement.layout:
        words[CLIPPED] = np.zeros((len(flat), 1), np.int64)
    exact = measurement.layout.reports(words)
    return (exact + measurement.noise(len(exact), random_bytes)).reshape(runs, clients, -1)


FAULTS = {
    "constant-outside-the-trace": Planted(
        "the trace of a weighted row leaves its constant out",
        only_for("second_moment", _constant_outside),
        ALL_CASE,
        frozenset({"encoder"}),
    ),
    "dithered-after-the-clip": Planted(
        "weighted rows are dithered after they were shrunk to the bound",
        only_for("second_moment", _dithered_late),
        NULL_CASE,
        frozenset({"encoder"}),
    ),
}
"""What clients do wrong, by name."""
