"""The audits of `newton_step`: the start, a later round, and null rows; and mistakes in what hides the Hessian."""

from functools import partial
from math import isqrt, sqrt
from typing import cast

import numpy as np

from lintra_audit.kinds.kind_audit import KindAudit, OrganisationAudit, Planted
from lintra_audit.kinds.organisations import organisation_audit
from lintra_audit.trials.audit_case import Case, make_case_task
from lintra_audit.trials.neighbours import HOSTILE, Pair
from lintra_audit.trials.neighbours import farthest as farthest_of
from lintra_audit.trials.planted_faults import only_for, without_noise_in, without_room_for_the_count
from lintra_audit.trials.scaled_task import MAX_CLIENTS, twin_of
from lintra_audit.trials.simulated_release import exact_reports
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.newton_step import NewtonStep
from lintra_protocol.task import Task

_START = NewtonStep(
    row_bound="1",
    fraction_bits=0,
    sigma=4,
    target=1,
    # With it the cosine of two rows of full length is 1/4, as far apart as rows at the parameter 0 may be.
    intercept="0.6124",
    residual_bits=8,
    parameter=("0", "0"),
)
# What `_divided` says of it.
_LATER = _START.model_copy(update={"parameter": ("-970000", "774600"), "after": "A" * 43})

START_CASE, LATER_CASE, NULL_CASE = "newton-step-start", "newton-step", "newton-step-null"


def cases() -> list[Case]:
    """Return the start with a clip counter, a later round, a round against null rows, and noise of servers."""
    made = partial(make_case_task, num_columns=2, min_clients=10, max_corrupt_clients=1)
    counted = _START.model_copy(update={"clip_count_weight": "1"})
    null = _LATER.model_copy(update={"neighbours": "zero-out"})
    servers = partial(make_case_task, _LATER, num_columns=2, min_clients=10, max_corrupt_clients=9, noise="servers")
    return [
        Case(START_CASE, "at the parameter 0, with a clip counter, n = 10, t = 1", partial(made, counted), 10),
        Case(LATER_CASE, "a later round, n = 10, t = 1", partial(made, _LATER), 10),
        Case(NULL_CASE, "a row against the null row, n = 10, t = 1", partial(made, null, neighbours="zero-out"), 10),
        Case("newton-step-servers", "a later round, t = 9, noise of one honest server", servers, 10),
    ]


def farthest(task: Task) -> Pair:
    """Return the two rows of a grid, of both targets, whose reports lie farthest apart.

    One target lies outside its bounds, which a clip counter counts.
    """
    mechanism = cast("NewtonStep", task.mechanism)
    rest = _longest_feature(mechanism)
    values = np.linspace(-rest, rest, 201) if task.num_columns > 1 else np.zeros(1)
    rows = np.zeros((3 * len(values), task.num_columns))
    rows[:, int(mechanism.target == 0) % task.num_columns] = np.tile(values, 3)
    rows[:, mechanism.target] = np.repeat([-1.0, 1.0, HOSTILE], len(values))
    return farthest_of(task, rows)


def _longest_feature(mechanism: NewtonStep) -> float:
    """Return the largest value of a feature with which a row of one feature keeps its weight."""
    square = float(mechanism.row_bound) ** 2 - float(mechanism.intercept) ** 2
    return sqrt(max(square, 0.0))


def _divided(mechanism: NewtonStep) -> tuple[str, str]:
    """Return a parameter that is so large that residuals are 0 or 1, and divides rows at the end of a feature.

    Rows on both sides of it are nearly alike, and their residuals 1 and -1: as far apart as reports may be.
    """
    rest, constant = 0.97 * _longest_feature(mechanism), float(mechanism.intercept)
    slope = 1e6 * min(1.0, constant / rest)
    return f"{-slope * rest / constant:.0f}", f"{slope:.0f}"


def nearest(task: Task) -> Pair:
    """Return the same row twice, but for a value of the target on the same side of its centre."""
    pair = np.zeros((2, task.num_columns))
    pair[:, cast("NewtonStep", task.mechanism).target] = 0.5, 1.0
    return pair[0], pair[1]


def hostile(mechanism: Mechanism, num_columns: int) -> FloatArray:
    """Return rows that try to leave the ball: huge in every column, both targets, and at the centre; `(k, d)`."""
    lengths = np.array([1.0, 1.04, 1e3, 1e150, 1e300, 0.0])
    rows = float(mechanism.row_bound) * lengths[:, np.newaxis] * np.ones(num_columns)
    return np.concatenate([rows, -rows])


def twin(task: Task) -> Task:
    """Return a task of one feature and the target, with the task's mu; far from 0 if the round is not the first."""
    first = cast("NewtonStep", task.mechanism)
    parameter = ("0", "0") if first.is_start else _divided(first)
    columns = (task.encoded_columns[int(first.target == 0) % task.num_columns], task.encoded_columns[first.target])
    small = first.model_copy(update={"target": 1, "parameter": parameter})
    return twin_of(task, small, min(task.claim.min_clients, MAX_CLIENTS), columns)


# --- mistakes ---------------------------------------------------------------------------------------------------


def _bare_weight(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with a Hessian whose weight is 1, whatever the residual is."""
    runs, clients, columns = rows.shape
    exact = exact_reports(measurement, rows.reshape(-1, columns), random_bytes)
    mechanism, layout = cast("NewtonStep", measurement.mechanism), measurement.layout
    place = layout.sent("hessian")
    for report, row in zip(exact, rows.reshape(-1, columns), strict=True):
        steps = mechanism.clip(row[np.newaxis], measurement.setting, bytes)[0, :-2]
        report[place] = 2**mechanism.residual_bits * np.outer(steps, steps)[np.triu_indices(len(steps))]
    return (exact + measurement.noise(len(exact), random_bytes)).reshape(runs, clients, -1)


def _start_elsewhere(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode a later round with the noise of the round at 0."""
    zeros = ("0",) * rows.shape[2]
    start = measurement.mechanism.model_copy(update={"parameter": zeros})
    ratio = start.squared_distance("replace-one", rows.shape[2], measurement.setting)
    ratio /= measurement.mechanism.squared_distance("replace-one", rows.shape[2], measurement.setting)
    less = measurement.changed(sigma=max(isqrt(int(measurement.mechanism.sigma**2 * ratio)), 4))
    runs, clients, columns = rows.shape
    exact = exact_reports(measurement, rows.reshape(-1, columns), random_bytes)
    return (exact + less.noise(len(exact), random_bytes)).reshape(runs, clients, -1)


_OF_STEPS = organisation_audit(
    "newton-steps",
    _START,
    faults={
        "dropped-rows": ("one-row", frozenset({"encoder"})),
        "bare-count": ("added", frozenset({"black box", "noise law"})),
    },
)

AUDIT = KindAudit(
    cases=cases,
    faults={
        "free-clip-count-of-newton-steps": Planted(
            "clipped rows are counted, but the noise is that of a task without a count",
            only_for("newton_step", without_room_for_the_count),
            START_CASE,
            frozenset({"optimal test", "noise law"}),
        ),
        "noise-of-the-start": Planted(
            "a later round has the noise of the round at the parameter 0",
            only_for("newton_step", _start_elsewhere),
            LATER_CASE,
            frozenset({"optimal test", "noise law"}),
        ),
        "weight-of-one": Planted(
            "the Hessian's weight does not depend on the residual",
            only_for("newton_step", _bare_weight),
            LATER_CASE,
            frozenset({"encoder", "noise law"}),
        ),
        "bare-hessian": Planted(
            "the Hessian carries no noise",
            without_noise_in("newton_step", lambda layout: layout.sent("hessian")),
            START_CASE,
            frozenset({"optimal test", "black box", "noise law", "lattice"}),
        ),
    },
    farthest=farthest,
    nearest=nearest,
    hostile=hostile,
    twin=twin,
    organisations=OrganisationAudit(_OF_STEPS.cases, _OF_STEPS.faults),
)
