"""The audits of `ron_gauss_centred`: rows about released centres, in one block or in that of their class."""

from functools import partial
from itertools import product
from typing import cast

import numpy as np

from lintra_audit.kinds.kind_audit import KindAudit, Planted
from lintra_audit.kinds.organisations import organisation_audit
from lintra_audit.kinds.projected import (
    columns_of,
    hostile_features,
    one_feature_step,
    rows_between_bounds,
    small_fields,
)
from lintra_audit.trials.audit_case import Case, make_case_task
from lintra_audit.trials.neighbours import Pair
from lintra_audit.trials.neighbours import farthest as farthest_among
from lintra_audit.trials.planted_faults import only_for, without_room_for_the_count
from lintra_audit.trials.scaled_task import MAX_CLIENTS, twin_of
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.mechanisms.joint_rows import map_rows
from lintra_protocol.mechanisms.layout import Layout
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.ron_gauss_centred import RonGaussCentred
from lintra_protocol.noise.clipping import clip_exactly
from lintra_protocol.task import Task

_LEVELS = (0, 0, 2)
_CENTRE = 1 << 13
"""A quarter of a feature unit."""


_PLAIN = RonGaussCentred(
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


def cases() -> list[Case]:
    """Return two classes with products of their own, and the same with a clip counter as large as these."""
    task = partial(
        make_case_task, _PLAIN, num_columns=3, min_clients=8, max_corrupt_clients=1, columns=columns_of(_LEVELS)
    )
    counted = _PLAIN.model_copy(update={"clip_count_weight": "1"})
    counts = partial(
        make_case_task, counted, num_columns=3, min_clients=8, max_corrupt_clients=1, columns=columns_of(_LEVELS)
    )
    return [
        Case("ron-gauss-centred", "products about centres, two classes, n = 8, t = 1", task, 8),
        Case("ron-gauss-centred-count", "the same with a clip counter", counts, 8),
    ]


def farthest(task: Task) -> Pair:
    """Return the farthest pair of rows between their bounds, and of rows on the sphere about a centre.

    Those are not clipped, so that a clip counter tells them from others.
    """
    mechanism = cast("RonGaussCentred", task.mechanism)
    return farthest_among(task, [*rows_between_bounds(mechanism), *_about_centres(mechanism)])


def _about_centres(mechanism: RonGaussCentred) -> list[FloatArray]:
    """Return rows about each class's centre, along every feature, where features are not projected."""
    length = mechanism.bound * 2.0**-mechanism.fraction_bits
    features = [column for column in range(len(mechanism.levels)) if column != mechanism.label]
    found = []
    for number, centre in enumerate(mechanism.centers):
        for place, sign in product(range(min(len(features), mechanism.dimension)), (1.0, -1.0)):
            row = np.zeros(len(mechanism.levels))
            row[features[: mechanism.dimension]] = np.array(centre[: mechanism.dimension]) * 2.0**-15
            row[features[place]] += sign * length
            if mechanism.label >= 0:
                row[mechanism.label] = centre[-1] * 2.0**-15 if mechanism.has_numeric_label else number
            found.append(row)
    return found


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


def _clipped_first(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode rows that are clipped to the bound before, and not after, their centre is taken off."""
    centred = cast("RonGaussCentred", measurement.mechanism)
    runs, clients, columns = rows.shape
    flat = rows.reshape(-1, columns)
    mapped = map_rows(flat, centred.levels, (0,) * columns, centred.label)
    # A grid shift instead of the projection: this mistake is planted in cases without a frame.
    steps = mapped.features >> (15 - centred.fraction_bits)
    vectors = clip_exactly(steps, centred.bound) - centred.steps_of_centers()[mapped.classes]
    exact, layout = measurement.exact_reports(flat), measurement.layout
    filled = centred.fill(np.column_stack([mapped.classes, vectors]), measurement.setting)
    exact[:, layout.sent("products")] = Layout(layout.blocks[:1]).reports(filled)
    return (exact + measurement.noise(len(flat), random_bytes)).reshape(runs, clients, -1)


AUDIT = KindAudit(
    cases=cases,
    faults={
        "clipped-before-centring": Planted(
            "rows are clipped before their centre is taken off, and not after",
            only_for("ron_gauss_centred", _clipped_first),
            "ron-gauss-centred",
            frozenset({"encoder"}),
        ),
        "free-clip-count-of-centred-products": Planted(
            "clipped rows are counted, but the noise is that of a task without a count",
            only_for("ron_gauss_centred", without_room_for_the_count),
            "ron-gauss-centred-count",
            frozenset({"optimal test", "noise law"}),
        ),
    },
    farthest=farthest,
    nearest=one_feature_step,
    hostile=hostile_features,
    twin=twin,
    organisations=organisation_audit(
        "centred products", _PLAIN, columns=lambda: columns_of(_LEVELS), counts_noisily=False
    ),
)
