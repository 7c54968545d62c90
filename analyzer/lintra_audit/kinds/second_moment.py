"""The audits of `second_moment`, with its intercept and its trace."""

from functools import partial
from math import sqrt
from typing import cast

import numpy as np

from lintra_audit.kinds import directions, weighted_rows
from lintra_audit.kinds.kind_audit import KindAudit, OrganisationAudit, Planted
from lintra_audit.kinds.organisations import CLIPPED_TOGETHER, organisation_audit
from lintra_audit.trials.audit_case import Case, make_case_task
from lintra_audit.trials.neighbours import HOSTILE, Pair, hostile_rows, one_step, one_unclipped
from lintra_audit.trials.planted_faults import (
    FAULTS,
    noiseless,
    only_for,
    without_noise_in,
    without_room_for_the_count,
)
from lintra_audit.trials.scaled_task import twin_with_mu
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.second_moment import SecondMoment
from lintra_protocol.noise.discrete_gaussian import discrete_gaussian
from lintra_protocol.task import Task


def cases() -> list[Case]:
    """Return products alone, with both options, with a clip counter as large as everything else, and with null rows."""
    plain = SecondMoment(row_bound="1", fraction_bits=0, sigma=4)
    both = SecondMoment(row_bound="1", fraction_bits=0, sigma=4, intercept="0.7", trace=True)
    moments = partial(make_case_task, plain, num_columns=2, min_clients=10, max_corrupt_clients=1)
    options = partial(make_case_task, both, num_columns=2, min_clients=10, max_corrupt_clients=1)
    counted = both.model_copy(update={"clip_count_weight": "1"})
    counts = partial(make_case_task, counted, num_columns=2, min_clients=10, max_corrupt_clients=1)
    left_out = plain.model_copy(update={"intercept": "0.7", "count": "noisy"})
    null = partial(
        make_case_task, left_out, num_columns=2, min_clients=10, max_corrupt_clients=1, neighbours="zero-out"
    )
    servers = partial(make_case_task, counted, num_columns=2, min_clients=10, max_corrupt_clients=9, noise="servers")
    layers = partial(
        make_case_task, counted, num_columns=2, min_clients=10, max_corrupt_clients=1, noise="both", epsilon_alone="8"
    )
    return [
        Case("second-moment", "products, n = 10, d = 2, t = 1", moments, 10),
        Case("second-moment-options", "products, intercept 0.7 and trace, n = 10, d = 2, t = 1", options, 10),
        Case("second-moment-count", "the same with a clip counter, n = 10, d = 2, t = 1", counts, 10),
        Case("second-moment-servers", "the same, t = 9, noise of one honest server", servers, 10),
        Case("second-moment-both", "the same, t = 1, two layers", layers, 10),
        Case("second-moment-alone", "the same, two layers, all others invented", layers, 10, alone=True),
        Case("second-moment-missing", "a row against one that is left out, n = 10, d = 2, t = 1", null, 10),
        *directions.cases(),
        *weighted_rows.cases(),
    ]


def farthest(task: Task) -> Pair:
    """Return far too long rows along the first axis, and in the direction whose products lie farthest from it.

    With R = B^2 and the intercept c its cosine is -c^2 / R (docs/proofs/moments.md#trace-and-intercept); in one
    dimension there is only the opposite row or none at all. With r rows of a person it is -r c^2 / T (Theorem O1).
    """
    mechanism = cast("SecondMoment", task.mechanism)
    if mechanism.row_weights is not None:
        return weighted_rows.farthest(task)
    square = task.setting.rows_per_person * mechanism.intercept_steps**2 / mechanism.person_bound(task.setting)
    if mechanism.basis is not None:
        return directions.farthest(task, -min(square, 1.0))
    direction, axis = np.zeros((2, task.num_columns))
    if task.num_columns == 1:
        direction[0] = -1.0 if 6 * square > 1 else 0.0
    else:
        direction[0] = -min(square, 1.0)
        direction[1] = sqrt(1 - direction[0] ** 2)
    axis[0] = 1.0
    far = float(mechanism.row_bound) * HOSTILE
    return one_unclipped(task, (direction * far, axis * far))


def nearest(task: Task) -> Pair:
    """Return rows that differ by one step; long ones, unless these would count less."""
    weights = cast("SecondMoment", task.mechanism).row_weights
    return one_step(task) if weights is None else weighted_rows.nearest(task)


def hostile(mechanism: Mechanism, num_columns: int) -> FloatArray:
    """Return rows that try to leave the bound, or either of a second round's two; shape `(k, d)`."""
    if cast("SecondMoment", mechanism).row_weights is not None:
        return weighted_rows.hostile(cast("SecondMoment", mechanism), num_columns)
    second = cast("SecondMoment", mechanism).basis is not None
    return (directions.hostile if second else hostile_rows)(mechanism, num_columns)


def twin(task: Task) -> Task:
    """Return two columns, or two directions and a target."""
    if cast("SecondMoment", task.mechanism).row_weights is not None:
        return weighted_rows.twin(task)
    second = cast("SecondMoment", task.mechanism).basis is not None
    return (directions.twin if second else twin_with_mu)(task)


def _plain_diagonal(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with `sigma` in every word, also in squares, which need sqrt(2) times as much."""
    exact = noiseless(measurement, rows)
    return exact + discrete_gaussian(exact.shape, measurement.mechanism.sigma, random_bytes)


_OF_PRODUCTS = organisation_audit(
    "products",
    SecondMoment(row_bound="1", fraction_bits=0, sigma=4, intercept="0.5"),
    person_bound="1",
    faults=CLIPPED_TOGETHER,
)

AUDIT = KindAudit(
    cases=cases,
    faults={
        "plain-diagonal": Planted(
            "squares carry no more noise than other products",
            only_for("second_moment", _plain_diagonal),
            "second-moment",
            frozenset({"optimal test", "noise law"}),
        ),
        "floor-of-one-word": Planted(
            "servers draw the floor of all words by that of the word with the least noise",
            FAULTS["floor-of-one-word"],
            "second-moment-both",
            frozenset({"noise law"}),
        ),
        "bare-intercept": Planted(
            "products with the intercept carry no noise",
            without_noise_in("second_moment", lambda layout: layout.sent("intercept")),
            "second-moment-options",
            frozenset({"optimal test", "black box", "noise law", "lattice"}),
        ),
        "bare-row-count-of-products": Planted(
            "rows with a missing number are left out of an exact count",
            without_noise_in("second_moment", lambda layout: layout.sent("count")),
            "second-moment-missing",
            frozenset({"black box", "noise law"}),
        ),
        "free-clip-count-of-products": Planted(
            "clipped rows are counted, but the noise is that of a task without a count",
            only_for("second_moment", without_room_for_the_count),
            "second-moment-count",
            frozenset({"optimal test", "noise law"}),
        ),
        **directions.FAULTS,
        **weighted_rows.FAULTS,
    },
    farthest=farthest,
    nearest=nearest,
    hostile=hostile,
    twin=twin,
    organisations=OrganisationAudit(
        lambda: _OF_PRODUCTS.cases() + directions.organisation_cases(),
        {**_OF_PRODUCTS.faults, "clipped-once-of-directions": directions.ORGANISATION_FAULT},
    ),
)
