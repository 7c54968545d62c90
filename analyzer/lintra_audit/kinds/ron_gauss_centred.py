"""The audits of `ron_gauss_centred`: rows about released centres, in one block or in that of their class."""

from typing import cast

import numpy as np

from lintra_audit.kinds.kind_audit import KindAudit, Planted
from lintra_audit.kinds.projected import (
    columns_of,
    farthest_rows,
    hostile_features,
    one_feature_step,
    small_fields,
)
from lintra_audit.trials.case import Case, make_case_task
from lintra_audit.trials.faults import only_for
from lintra_audit.trials.twins import MAX_CLIENTS, twin_of
from lintra_audit.trials.worlds import Pair
from lintra_protocol.canonical import base64url
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.joint import clip_exactly, map_rows
from lintra_protocol.mechanisms.ron_gauss_centred import RonGaussCentred
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.ring import FloatArray, IntArray
from lintra_protocol.task import Task

_LEVELS = (0, 0, 2)
_CENTRE = 1 << 13
"""A quarter of a feature unit."""


def cases() -> list[Case]:
    """Return two classes with products of their own."""
    mechanism = RonGaussCentred(
        row_bound="0.5",
        fraction_bits=0,
        sigma=64,
        dimension=2,
        levels=_LEVELS,
        label=2,
        covariance="per_class",
        after=base64url(bytes(32)),
        centers=((_CENTRE, 0), (0, -_CENTRE)),
    )
    task = make_case_task(mechanism, num_columns=3, min_clients=8, max_corrupt_clients=1, columns=columns_of(_LEVELS))
    return [Case("ron-gauss-centred", "products about centres, two classes, n = 8, t = 1", task, 8)]


def farthest(task: Task) -> Pair:
    """Return the farthest pair of rows between their bounds."""
    return farthest_rows(task, cast("RonGaussCentred", task.mechanism))


def twin(task: Task) -> Task:
    """Return two or three small features with the task's options and its kind of label, about small centres."""
    mechanism = cast("RonGaussCentred", task.mechanism)
    fields = small_fields(mechanism)
    levels = cast("tuple[int, ...]", fields["levels"])
    classes = max(1, levels[-1]) if fields["label"] != -1 else 1
    size = 2 + mechanism.has_numeric_label
    centres = {"row_bound": "0.5", "centers": ((_CENTRE,) + (0,) * (size - 1),) * classes}
    small = mechanism.model_copy(update=fields | centres)
    return twin_of(task, small, min(task.claim.min_clients, MAX_CLIENTS), columns_of(levels))


def _clipped_first(mechanism: Mechanism, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode rows that are clipped to the bound before, and not after, their centre is taken off."""
    centred = cast("RonGaussCentred", mechanism)
    runs, clients, columns = rows.shape
    flat = rows.reshape(-1, columns)
    mapped = map_rows(flat, centred.levels, (0,) * columns, centred.label)
    # A grid shift instead of the projection: this mistake is planted in cases without a frame.
    steps = mapped.features >> (15 - centred.fraction_bits)
    vectors = clip_exactly(steps, centred.bound) - centred.steps_of_centers()[mapped.classes]
    exact = centred.encode_exactly(np.column_stack([mapped.classes, vectors]))
    return (exact + centred.noise(len(flat), columns, random_bytes)).reshape(runs, clients, -1)


AUDIT = KindAudit(
    cases=cases,
    faults={
        "clipped-before-centring": Planted(
            "rows are clipped before their centre is taken off, and not after",
            only_for("ron_gauss_centred", _clipped_first),
            "ron-gauss-centred",
            frozenset({"encoder"}),
        ),
    },
    farthest=farthest,
    nearest=one_feature_step,
    hostile=hostile_features,
    twin=twin,
)
