"""The audits of `ron_gauss`: rows that differ in class, mean, products and cells at once."""

from functools import partial
from math import sqrt
from typing import cast

import numpy as np

from lintra_audit.kinds.kind_audit import KindAudit, Planted
from lintra_audit.kinds.organisations import organisation_audit
from lintra_audit.kinds.projected import columns_of, farthest_rows, hostile_features, one_feature_step, small_fields
from lintra_audit.trials.audit_case import Case, make_case_task
from lintra_audit.trials.neighbours import Pair
from lintra_audit.trials.planted_faults import noiseless, only_for, without_noise_in, without_room_for_the_count
from lintra_audit.trials.scaled_task import MAX_CLIENTS, twin_of
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Real
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.privacy.statement import Neighbours
from lintra_protocol.task import Task

_LEVELS = {"classes": (0, 0, 2), "number": (0, 0, 0)}


def cases() -> list[Case]:
    """Return two classes with a histogram, against a row and the null row; a numeric label; and a clip counter."""
    return [
        Case("ron-gauss", "class, mean, products, cells, n = 8, t = 1", partial(_task, "classes", "replace-one"), 8),
        Case("ron-gauss-null-row", "the same, row or null row", partial(_task, "classes", "zero-out"), 8),
        Case("ron-gauss-number", "numeric label, n = 8, t = 1", partial(_task, "number", "replace-one"), 8),
        Case("ron-gauss-count", "the same with a clip counter", partial(_task, "number", "replace-one", weight="1"), 8),
        Case(
            "ron-gauss-pairs",
            "classes with three pair tables",
            partial(_task, "classes", "replace-one", paired=True),
            8,
        ),
    ]


def _plain(label: str) -> RonGauss:
    """Return the mechanism of these cases without further options, not yet calibrated."""
    return RonGauss(
        row_bound="1",
        fraction_bits=0,
        sigma=64,
        dimension=2,
        levels=_LEVELS[label],
        bins=(2, 0, 0) if label == "classes" else (0, 0, 0),
        label=2,
        mean_weight="1" if label == "classes" else "0.6",
    )


def _task(label: str, neighbours: Neighbours, weight: Real = "0", *, paired: bool = False) -> Task:
    levels = _LEVELS[label]
    mechanism = _plain(label).model_copy(update={"clip_count_weight": weight})
    if paired:
        mechanism = mechanism.model_copy(update={"count_weight": "1.5"} | _pairs(levels, "2"))
    return make_case_task(
        mechanism,
        num_columns=3,
        min_clients=8,
        max_corrupt_clients=1,
        neighbours=neighbours,
        columns=columns_of(levels),
    )


def _pairs(levels: tuple[int, ...], weight: Real) -> dict[str, object]:
    """Return the fields of three pair tables of two by two cells: two numbers, and each with the label."""
    bins = tuple(4 * (not number) for number in levels[:2]) + (0,) * (len(levels) - 2)
    return {"bins": bins, "pairs": ((0, 1), (0, 2), (1, 2)), "pair_bins": (2, 2, 2), "pair_weight": weight}


def farthest(task: Task) -> Pair:
    """Return the farthest pair of rows between their bounds."""
    return farthest_rows(task, cast("RonGauss", task.mechanism))


def twin(task: Task) -> Task:
    """Return two or three small features with the task's options, its kind of label, and a histogram if it has one."""
    mechanism = cast("RonGauss", task.mechanism)
    fields = small_fields(mechanism)
    levels = cast("tuple[int, ...]", fields["levels"])
    bins = np.zeros(len(levels), np.int64)
    bins[0] = 2 if mechanism.counted.histogram_columns else 0
    if mechanism.pairs:
        bins[:2] = 2
    pairs = ((0, 1),) if mechanism.pairs else ()
    own = tuple(2 * (column < 2) for column in range(len(levels))) if pairs else ()
    fields |= {"bins": tuple(bins.tolist()), "edges": (), "pairs": pairs, "pair_bins": own}
    small = mechanism.model_copy(update=fields)
    return twin_of(task, small, min(task.claim.min_clients, MAX_CLIENTS), columns_of(levels))


def _without_room_for_pairs(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with pair tables and the noise that would do without them."""
    joint = cast("RonGauss", measurement.mechanism)
    bare = joint.model_copy(update={"pairs": (), "pair_bins": (), "pair_weight": "1"})
    ratio = float(
        bare.joint_noise.squared_row_distance("replace-one") / joint.joint_noise.squared_row_distance("replace-one")
    )
    quiet = measurement.changed(sigma=round(joint.sigma * sqrt(ratio)))
    runs, clients, _ = rows.shape
    noise = quiet.noise(runs * clients, random_bytes).reshape(runs, clients, -1)
    return noiseless(measurement, rows) + noise


AUDIT = KindAudit(
    cases=cases,
    faults={
        "bare-counts": Planted(
            "class counts are released without noise, as if they were public",
            without_noise_in("ron_gauss", lambda layout: layout.sent("counts")),
            "ron-gauss",
            frozenset({"noise law"}),
        ),
        "free-clip-count-of-joint-sums": Planted(
            "clipped rows are counted, but the noise is that of a task without a count",
            only_for("ron_gauss", without_room_for_the_count),
            "ron-gauss-count",
            frozenset({"optimal test", "noise law"}),
        ),
        "free-pair-tables": Planted(
            "pairs of columns are counted together, but the noise is that of a task without pair tables",
            only_for("ron_gauss", _without_room_for_pairs),
            "ron-gauss-pairs",
            frozenset({"optimal test", "noise law"}),
        ),
    },
    farthest=farthest,
    nearest=one_feature_step,
    hostile=hostile_features,
    twin=twin,
    organisations=organisation_audit("joint sums", _plain("classes"), columns=lambda: columns_of(_LEVELS["classes"])),
)
