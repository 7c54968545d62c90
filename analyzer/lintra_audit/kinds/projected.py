"""Shared by the audits of the two mechanisms on projected rows: rows between public bounds, classes, small twins."""

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np

from lintra_audit.trials.neighbours import Pair, farthest, hostile_rows
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import AnyMechanism
from lintra_protocol.mechanisms.projected import ProjectedRows
from lintra_protocol.task import Task
from lintra_protocol.transforms.orthonormal import frame, frame_digest

DIRECTIONS = 64
"""Rows that are tried for the farthest pair, of each class."""


def columns_of(levels: Sequence[int]) -> tuple[Column, ...]:
    """Return columns with so many levels each, 0 for a number between -1 and 1."""
    return tuple(
        Column(name=f"x{number}", lower="-1", upper="1")
        if not count
        else Column(
            name=f"x{number}",
            lower="0",
            upper=str(count - 1),
            kind="category",
            levels=tuple(str(level) for level in range(count)),
        )
        for number, count in enumerate(levels)
    )


def rows_between_bounds(mechanism: ProjectedRows) -> list[FloatArray]:
    """Return rows of shape `(d,)` in many directions, of every class or with both ends of a numeric label."""
    count = len(mechanism.levels)
    angles = np.linspace(0, 2 * np.pi, DIRECTIONS, endpoint=False)
    # With two features the circle is searched; with more, corners of the box are tried, which are the longest rows.
    random = np.frombuffer(expand(bytes(32), "directions")(8 * DIRECTIONS * count), np.int64).reshape(DIRECTIONS, count)
    found = [np.where(row > 0, 1.0, -1.0) for row in random]
    features = [number for number in range(count) if number != mechanism.label]
    for angle, (one, two) in product(angles, pairwise(features)):
        row = np.zeros(count)
        row[one], row[two] = np.cos(angle), np.sin(angle)
        found.append(row)
    found += [scale * row for row in np.eye(count) for scale in (1.0, -1.0)]
    values: list[float] = [0.0]
    if mechanism.label >= 0:
        levels = mechanism.levels[mechanism.label]
        values = [0.0, 1.0, float(levels - 1)] if levels else [-1.0, 1.0]
    rows = []
    for row, value in product(found, dict.fromkeys(values)):
        own = row.copy()
        if mechanism.label >= 0:
            own[mechanism.label] = value
        rows.append(own)
    return rows


def farthest_rows(task: Task, mechanism: ProjectedRows) -> Pair:
    """Return the farthest pair of `rows_between_bounds`."""
    return farthest(task, rows_between_bounds(mechanism))


def one_feature_step(task: Task) -> Pair:
    """Return rows of which the first feature differs by one step of the grid."""
    number = next(column for column, count in enumerate(task.columns) if not count.levels)
    first, second = np.zeros((2, task.num_columns))
    step = 2.0**-task.mechanism.fraction_bits
    first[number], second[number] = 0.5, 0.5 + step
    return first, second


def hostile_features(mechanism: AnyMechanism, num_columns: int) -> FloatArray:
    """Return rows far outside all bounds, and rows in the corners of all bounds; shape `(k, d)`."""
    far = hostile_rows(mechanism, num_columns)
    signs = np.array(list(product((-1.0, 1.0), repeat=min(num_columns, 6))))
    corners = np.tile(signs, (1, -(-num_columns // signs.shape[1])))[:, :num_columns]
    return np.concatenate([far, corners, 0.9 * corners])


def small_fields(mechanism: ProjectedRows) -> dict[str, object]:
    """Return the fields of a twin: two numbers where nothing is projected, three that become two where something is.

    A label stays a label of its kind, with two classes; where there is a category, one of two levels is added.
    """
    projects = bool(mechanism.frame_seed)
    features = [0, 0, 0] if projects else [0, 0]
    if any(mechanism.feature_levels):
        features[-1] = 2
    label = [min(mechanism.num_classes, 2) if mechanism.num_classes > 1 else 0] if mechanism.label >= 0 else []
    seed = bytes(32)
    return {
        "row_bound": "1",
        "levels": tuple(features + label),
        "label": len(features) if label else -1,
        "dimension": 2,
        "frame_seed": base64url(seed) if projects else "",
        "frame_digest": frame_digest(frame(seed, len(features), 2)) if projects else "",
    }
